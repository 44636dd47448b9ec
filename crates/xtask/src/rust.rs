//! As much of Rust as the checks need: where comments and literals are, and where functions begin and end.

/// A string literal.
pub(crate) struct Literal {
    /// Counted from 1.
    pub(crate) line: usize,
    /// As written, escapes included.
    pub(crate) text: String,
}

/// A function with a body.
#[derive(Debug, PartialEq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// The line of `fn`, counted from 1.
    pub(crate) line: usize,
    /// From `fn` to the closing brace.
    pub(crate) lines: usize,
}

/// Blanks comments and literals; every other byte and every line stays where it was.
pub(crate) fn mask(text: &str) -> (String, Vec<Literal>) {
    let bytes = text.as_bytes();
    let mut code = String::with_capacity(bytes.len());
    let mut literals = Vec::new();
    let mut at = 0;
    let mut line = 1;
    while at < bytes.len() {
        let (end, is_text) = token(bytes, at);
        let piece = text.get(at..end).unwrap_or_default();
        if is_text {
            literals.push(Literal { line, text: piece.to_owned() });
        }
        if end - at > 1 {
            code.extend(piece.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        } else {
            code.push(bytes.get(at).filter(|byte| byte.is_ascii()).map_or(' ', |byte| char::from(*byte)));
        }
        line += piece.bytes().filter(|byte| *byte == b'\n').count();
        at = end;
    }
    (code, literals)
}

/// The end of the comment or literal that begins here, or of this one byte; and whether it is a text.
fn token(bytes: &[u8], at: usize) -> (usize, bool) {
    let rest = bytes.get(at..).unwrap_or_default();
    let within_word = at > 0 && bytes.get(at - 1).is_some_and(|byte| is_word(*byte));
    match rest {
        [b'/', b'/', ..] => (at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()), false),
        [b'/', b'*', ..] => (at + block_comment(rest), false),
        [b'"', ..] => (at + text_literal(rest), true),
        [b'\'', ..] => (at + char_literal(rest), false),
        [b'r', b'"' | b'#', ..] if !within_word => raw(rest, 1).map_or((at + 1, false), |n| (at + n, true)),
        [b'b', b'r', ..] if !within_word => raw(rest, 2).map_or((at + 1, false), |n| (at + n, true)),
        _ => (at + 1, false),
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn block_comment(rest: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        match rest.get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn text_literal(rest: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = rest.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// A lifetime is one byte long here: its name stays in the code.
fn char_literal(rest: &[u8]) -> usize {
    match rest {
        [_, b'\\', _, tail @ ..] => 3 + tail.iter().position(|byte| *byte == b'\'').map_or(0, |n| n + 1),
        [_, tail @ ..] => {
            let width =
                tail.utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next()).map_or(1, char::len_utf8);
            if tail.get(width) == Some(&b'\'') { width + 2 } else { 1 }
        }
        [] => 1,
    }
}

fn raw(rest: &[u8], prefix: usize) -> Option<usize> {
    let hashes = rest.get(prefix..)?.iter().take_while(|byte| **byte == b'#').count();
    let open = prefix + hashes;
    (rest.get(open) == Some(&b'"')).then_some(())?;
    let mut close = vec![b'#'; hashes + 1];
    if let Some(first) = close.first_mut() {
        *first = b'"';
    }
    let body = rest.get(open + 1..)?;
    let length = body.windows(close.len()).position(|window| window == close).map(|at| open + 1 + at + close.len());
    length.or(Some(rest.len()))
}

/// The functions with a body in masked code.
pub(crate) fn functions(code: &str) -> Vec<Function> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if at > 0 && bytes.get(at - 1).is_some_and(|byte| is_word(*byte)) {
            continue;
        }
        let name: String =
            code.get(at + 3..).unwrap_or_default().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if let (false, Some(end)) = (name.is_empty(), body_end(bytes, at)) {
            let line = 1 + newlines(bytes, 0, at);
            found.push(Function { name, line, lines: 1 + newlines(bytes, at, end) });
        }
    }
    found
}

fn newlines(bytes: &[u8], from: usize, to: usize) -> usize {
    bytes.get(from..to).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count()
}

/// The closing brace of the body of what begins here; none for a declaration that ends with `;`.
fn body_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, byte) in bytes.iter().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b';' if depth == 0 => return None,
            b'{' if depth == 0 => return matching_brace(bytes, at),
            _ => {}
        }
    }
    None
}

fn matching_brace(bytes: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, byte) in bytes.iter().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Blanks what stands only in test builds.
pub(crate) fn without_tests(code: &str) -> String {
    let mut kept = code.to_owned();
    while let Some(at) = kept.find("#[cfg(test)]") {
        let item = at + "#[cfg(test)]".len();
        let end = body_end(kept.as_bytes(), item).or_else(|| kept.get(item..)?.find(';').map(|n| item + n));
        let end = end.unwrap_or(kept.len() - 1);
        let blank: String =
            kept.get(at..=end).unwrap_or_default().chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        kept.replace_range(at..=end, &blank);
    }
    kept
}

/// The attributes and comments directly above a line (counted from 1), nearest first.
pub(crate) fn above<'a>(lines: &[&'a str], line: usize) -> Vec<&'a str> {
    let before = lines.get(..line.saturating_sub(1)).unwrap_or_default();
    let stands_above = |text: &&str| text.starts_with("#[") || text.starts_with("//") || text.ends_with(")]");
    before.iter().rev().map(|text| text.trim()).take_while(stands_above).collect()
}

/// True where one of the lines above a function makes it a test.
pub(crate) fn is_test(above: &[&str]) -> bool {
    above.iter().any(|line| line.starts_with("#[") && line.contains("test") && !line.contains("cfg(test)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_in_place() {
        let (code, literals) =
            mask("let a = \"x{\"; // {\n/* { /* */ } */ let c = '{'; let l: &'a str = r#\"}\"{\"#;\n");
        assert!(!code.contains(['{', '}']), "{code}");
        assert!(code.contains("&'a str"), "{code}");
        assert_eq!(code.lines().count(), 2);
        assert_eq!(
            literals.iter().map(|l| (l.line, l.text.as_str())).collect::<Vec<_>>(),
            [(1, "\"x{\""), (2, "r#\"}\"{\"#")]
        );
    }

    #[test]
    fn text_over_several_lines_keeps_the_line_count() {
        let (code, literals) = mask("a\n\"one\ntwo\"\nfn b() {}\n\"late\"");
        assert_eq!(functions(&code), [Function { name: "b".to_owned(), line: 4, lines: 1 }]);
        assert_eq!(literals.last().map(|l| l.line), Some(5));
    }

    #[test]
    fn non_ascii_text_and_characters_are_blanked() {
        let (code, _) = mask("let c = 'é'; let s = \"…{\"; fn after() {}");
        assert!(!code.contains('é') && code.ends_with("fn after() {}"), "{code}");
    }

    #[test]
    fn function_runs_from_its_name_to_its_closing_brace() {
        let code = "impl A {\n    fn short(&self, a: [u8; 2]) -> u8 {\n        if a { b }\n        c\n    }\n    fn declared(&self);\n}\n";
        assert_eq!(functions(code), [Function { name: "short".to_owned(), line: 2, lines: 4 }]);
    }

    #[test]
    fn module_of_tests_is_blanked_and_the_rest_kept() {
        let kept = without_tests(
            "use a;\n#[cfg(test)]\nmod tests {\n use std::fs;\n}\nfn b() {}\n#[cfg(test)]\nmod tests;\nfn c() {}",
        );
        assert!(!kept.contains("std::fs") && kept.contains("fn b()") && kept.contains("fn c()"), "{kept}");
    }

    #[test]
    fn attribute_of_a_test_is_found_above_comments() {
        let lines = ["}", "", "/// Shows: H-1", "#[tokio::test]", "async fn sends() {"];
        let above = above(&lines, 5);
        assert_eq!(above, ["#[tokio::test]", "/// Shows: H-1"]);
        assert!(is_test(&above));
        assert!(!is_test(&["#[cfg(test)]"]));
    }
}
