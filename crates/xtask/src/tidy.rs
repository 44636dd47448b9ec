//! The house style, as far as a program can see it. Source: `docs/STYLE.md`.

use crate::files::{self, Source};
use crate::rust;
use crate::shell::{Failure, Repository};
use crate::vectors;

/// Longest function that needs no reason.
const FUNCTION_LINES: usize = 70;
/// Longest file.
const FILE_LINES: usize = 800;

/// Functions that are one honest table, with the length they may not outgrow and the reason.
const LONG: [(&str, &str, usize, &str); 0] = [];

/// Module names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 9] = ["utils", "util", "common", "helpers", "helper", "types", "manager", "prelude", "misc"];

/// The crates whose texts reach a person.
const SPEAKING: [&str; 4] = ["crates/cli/src/", "crates/daemon/src/", "crates/mesh/src/", "crates/core/src/"];

/// What stands at the top, besides dotted tool files.
const TOP: [&str; 11] = [
    "Cargo.lock",
    "Cargo.toml",
    "CHANGELOG.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SPEC.md",
    "crates",
    "docs",
    "examples",
    "proto",
];
const TOP_TESTS: &str = "tests";

/// Every breach found.
pub(crate) fn run(repository: &Repository) -> Result<Vec<String>, Failure> {
    let paths = files::paths(repository)?;
    let sources = files::sources(repository, &["crates/", "tests/", "examples/"])?;
    let words = banned_words(&repository.read("docs/GLOSSARY.md")?);
    let mut found: Vec<String> = paths.iter().flat_map(|path| path_breaches(path)).collect();
    found.extend(sources.iter().flat_map(source_breaches));
    found.extend(
        sources
            .iter()
            .filter(|source| SPEAKING.iter().any(|folder| source.path.starts_with(folder)))
            .flat_map(|source| word_breaches(source, &words)),
    );
    for lock in paths.iter().filter(|path| path.ends_with("Cargo.lock") || path.ends_with("package-lock.json")) {
        found.extend(lock_breaches(lock, &repository.read(lock)?));
    }
    found.extend(vectors::run(repository, &paths)?);
    Ok(found)
}

fn path_breaches(path: &str) -> Vec<String> {
    let top = path.split('/').next().unwrap_or_default();
    let mut found = Vec::new();
    if !top.starts_with('.') && !TOP.contains(&top) && top != TOP_TESTS {
        found.push(format!("{path}: {top} does not belong at the top of the repository"));
    }
    let Some(module) = path.strip_suffix(".rs") else { return found };
    let parts: Vec<&str> = module.split('/').collect();
    if parts.last() == Some(&"mod") {
        found.push(format!("{path}: a module is thing.rs beside thing/, never mod.rs"));
    }
    let empty = parts.iter().filter(|part| EMPTY_NAMES.contains(part));
    found.extend(empty.map(|part| format!("{path}: {part} says nothing about what is inside")));
    found
}

fn source_breaches(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let lines = source.text.lines().count();
    if lines > FILE_LINES {
        found.push(format!("{}: {lines} lines; split by {FILE_LINES}", source.path));
    }
    found.extend(function_breaches(source));
    let allowed = |line: &str| line.contains("#[allow(") || line.contains("#![allow(");
    let exceptions = source.code().lines().enumerate().filter(|(_, line)| allowed(line));
    found.extend(
        exceptions.map(|(n, _)| format!("{}:{}: an exception is #[expect(lint, reason = \"…\")]", source.path, n + 1)),
    );
    let open = source.masked.comments.iter().filter(|comment| open_end(&comment.text));
    found.extend(
        open.map(|comment| format!("{}:{}: an open end names its issue: TODO(#id)", source.path, comment.line)),
    );
    found
}

fn function_breaches(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for function in rust::functions(source.code()) {
        let at = format!("{}:{}: {}", source.path, function.line, function.name);
        let known = LONG.iter().find(|(path, name, _, _)| *path == source.path && *name == function.name);
        let limit = known.map_or(FUNCTION_LINES, |(_, _, lines, _)| *lines);
        if function.lines > limit {
            found.push(format!("{at} has {} lines, limit {limit}", function.lines));
        }
        if function.name.starts_with("test_") {
            found.push(format!("{at}: a test's name is a sentence about behaviour, without test_"));
        }
    }
    found
}

/// A comment that says that something is left to do, without the issue where it is known.
fn open_end(comment: &str) -> bool {
    let left = ["TODO", "FIXME", "XXX"].iter().find_map(|mark| comment.split_once(mark));
    left.is_some_and(|(_, rest)| !rest.starts_with("(#"))
}

/// The first column of the table below "Words not to use".
fn banned_words(glossary: &str) -> Vec<String> {
    let section = glossary.split("\n## ").find(|section| section.starts_with("Words not to use")).unwrap_or_default();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| ")).filter_map(|line| line.split(" |").next());
    cells
        .filter(|cell| *cell != "not" && !cell.starts_with('-'))
        .map(|cell| cell.trim_matches('`').to_lowercase())
        .collect()
}

fn word_breaches(source: &Source, words: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for literal in &source.masked.literals {
        let text = literal.text.to_lowercase();
        let said: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '-').collect();
        let used = words.iter().filter(|word| said.contains(&word.as_str()));
        found.extend(
            used.map(|word| format!("{}:{}: the glossary has another word for \"{word}\"", source.path, literal.line)),
        );
    }
    found
}

/// A lock file names versions and hashes; where they are downloaded from is the machine's own setting.
fn lock_breaches(path: &str, text: &str) -> Vec<String> {
    let address = |line: &&str| {
        let registry = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
        line.contains("\"resolved\":") || (line.starts_with("source = ") && *line != registry)
    };
    let found = text.lines().enumerate().filter(|(_, line)| address(line)).take(3);
    found.map(|(n, line)| format!("{path}:{}: a download address in a lock file: {}", n + 1, line.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::new("crates/cli/src/a.rs".to_owned(), text.to_owned())
    }

    #[test]
    fn long_function_is_found_and_a_short_one_is_not() {
        let body = "    a();\n".repeat(FUNCTION_LINES - 2);
        assert!(function_breaches(&source(&format!("fn fits() {{\n{body}}}\n"))).is_empty());
        assert_eq!(function_breaches(&source(&format!("fn long() {{\n{body}    a();\n}}\n"))).len(), 1);
    }

    #[test]
    fn bare_allow_is_found_in_code_and_not_in_text() {
        assert_eq!(source_breaches(&source("#[allow(dead_code)]\nfn a() {}")).len(), 1);
        assert!(source_breaches(&source("const A: &str = \"#[allow(x)]\"; // #[allow(x)]")).is_empty());
    }

    #[test]
    fn open_end_needs_its_issue() {
        assert_eq!(source_breaches(&source("fn a() {} // TODO later")).len(), 1);
        assert!(source_breaches(&source("fn a() {} // TODO(#4) later\nconst B: &str = \"TODO\";")).is_empty());
    }

    #[test]
    fn empty_names_and_strangers_at_the_top_are_found() {
        assert_eq!(path_breaches("crates/core/src/utils.rs").len(), 1);
        assert_eq!(path_breaches("crates/core/src/thing/mod.rs").len(), 1);
        assert_eq!(path_breaches("notes.txt").len(), 1);
        assert!(path_breaches(".config/nextest.toml").is_empty());
        assert!(path_breaches("crates/core/src/thing.rs").is_empty());
    }

    #[test]
    fn word_of_the_glossary_list_is_found_in_a_text() {
        let words = banned_words("# G\n\n## Words not to use\n\n| not | say |\n|---|---|\n| teleport | hand over |\n");
        assert_eq!(words, ["teleport"]);
        assert_eq!(word_breaches(&source("const A: &str = \"Teleport it\"; // teleport"), &words).len(), 1);
    }

    #[test]
    fn download_address_in_a_lock_file_is_found() {
        assert_eq!(lock_breaches("package-lock.json", "  \"resolved\": \"https://mirror/x.tgz\",").len(), 1);
        assert_eq!(lock_breaches("Cargo.lock", "source = \"git+https://x\"").len(), 1);
        assert!(
            lock_breaches("Cargo.lock", "source = \"registry+https://github.com/rust-lang/crates.io-index\"")
                .is_empty()
        );
    }
}
