//! As much of Rust as the checks need: where comments and literals are, and where functions begin and end.

/// A source text, taken apart.
#[derive(Default)]
pub(crate) struct Masked {
    /// Without comments and literals; every other byte and every line where it was.
    pub(crate) code: String,
    pub(crate) literals: Vec<Piece>,
    pub(crate) comments: Vec<Piece>,
}

/// A string literal or a comment.
pub(crate) struct Piece {
    /// Where it begins, counted from 1.
    pub(crate) line: usize,
    /// As written, escapes included.
    pub(crate) text: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Token {
    Code,
    Text,
    Character,
    Comment,
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

/// Takes a source text apart.
pub(crate) fn mask(text: &str) -> Masked {
    let bytes = text.as_bytes();
    let mut masked = Masked::default();
    let mut at = 0;
    let mut line = 1;
    while at < bytes.len() {
        let (end, token) = token(bytes, at);
        let piece = text.get(at..end).unwrap_or_default();
        match token {
            Token::Text => masked.literals.push(Piece { line, text: piece.to_owned() }),
            Token::Comment => masked.comments.push(Piece { line, text: piece.to_owned() }),
            Token::Code | Token::Character => {}
        }
        let shown = bytes.get(at..end).unwrap_or_default().iter();
        let is_code = token == Token::Code;
        masked.code.extend(shown.map(|byte| match byte {
            b'\n' => '\n',
            _ if is_code && byte.is_ascii() => char::from(*byte),
            _ => ' ',
        }));
        line += newlines(bytes, at, end);
        at = end;
    }
    masked
}

/// The end of the comment or literal that begins here, or of this one byte; and what it is.
fn token(bytes: &[u8], at: usize) -> (usize, Token) {
    let rest = bytes.get(at..).unwrap_or_default();
    let within_word = at > 0 && bytes.get(at - 1).is_some_and(|byte| is_word(*byte));
    let code = (1, Token::Code);
    let (length, token) = match rest {
        [b'/', b'/', ..] => (rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()), Token::Comment),
        [b'/', b'*', ..] => (block_comment(rest), Token::Comment),
        [b'"', ..] => (text_literal(rest), Token::Text),
        [b'\'', ..] => char_literal(rest).map_or(code, |length| (length, Token::Character)),
        [b'r', b'"' | b'#', ..] if !within_word => raw(rest, 1).map_or(code, |length| (length, Token::Text)),
        [b'b', b'r', ..] if !within_word => raw(rest, 2).map_or(code, |length| (length, Token::Text)),
        _ => code,
    };
    ((at + length).min(bytes.len()), token)
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

/// None for a lifetime, whose name stays in the code.
fn char_literal(rest: &[u8]) -> Option<usize> {
    match rest {
        [_, b'\\', _, tail @ ..] => Some(4 + tail.iter().position(|byte| *byte == b'\'')?),
        [_, tail @ ..] => {
            let first = tail.utf8_chunks().next()?.valid().chars().next()?;
            (tail.get(first.len_utf8()) == Some(&b'\'')).then_some(first.len_utf8() + 2)
        }
        [] => None,
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
        let Masked { code, literals, comments } =
            mask("let a = \"x{\"; // {\n/* { /* */ } */ let c = '{'; let l: &'a str = r#\"}\"{\"#;\n");
        assert!(!code.contains(['{', '}']), "{code}");
        assert!(code.contains("&'a str"), "{code}");
        assert_eq!(code.lines().count(), 2);
        assert_eq!(
            literals.iter().map(|l| (l.line, l.text.as_str())).collect::<Vec<_>>(),
            [(1, "\"x{\""), (2, "r#\"}\"{\"#")]
        );
        let comments: Vec<_> = comments.iter().map(|comment| (comment.line, comment.text.as_str())).collect();
        assert_eq!(comments, [(1, "// {"), (2, "/* { /* */ } */")]);
    }

    #[test]
    fn text_over_several_lines_keeps_the_line_count() {
        let Masked { code, literals, .. } = mask("a\n\"one\ntwo\"\nfn b() {}\n\"late\"");
        assert_eq!(functions(&code), [Function { name: "b".to_owned(), line: 4, lines: 1 }]);
        assert_eq!(literals.last().map(|l| l.line), Some(5));
    }

    #[test]
    fn non_ascii_text_and_characters_are_blanked() {
        let code = mask("let c = 'é'; let s = \"…{\"; fn after() {}").code;
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
