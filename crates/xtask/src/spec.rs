//! `SPEC.md`, the tests and `docs/THREATS.md` speak of each other.
//!
//! - A rule stands in `SPEC.md` as a line that begins `**H-3 MUST.**` (or `SHOULD`, `MAY`, `PLANNED`).
//! - Code cites it as `SPEC H-3`.
//! - A test names what it shows in a comment line directly above its function: `/// Shows: H-3, H-5`.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::{self, Source};
use crate::rust;
use crate::shell::{Failure, Repository};

/// A rule's line in the specification.
#[derive(Debug, PartialEq)]
struct Rule {
    id: String,
    level: Level,
}

#[derive(Debug, PartialEq, Clone, Copy)]
enum Level {
    Must,
    Should,
    May,
    Planned,
}

/// What the tests say.
#[derive(Default)]
struct Tests {
    names: BTreeSet<String>,
    shown: BTreeMap<String, Vec<String>>,
    stray: Vec<String>,
}

/// Every broken reference.
pub(crate) fn run(repository: &Repository) -> Result<Vec<String>, Failure> {
    let rules = rules(&repository.read("SPEC.md")?);
    let sources = files::sources(repository, &["crates/", "tests/", "examples/"])?;
    let tests = tests(&sources);
    let mut broken = twice(&rules);
    broken.extend(unknown_citations(&rules, &sources));
    broken.extend(unshown(&rules, &tests));
    broken.extend(tests.stray.iter().cloned());
    broken.extend(threats(&repository.read("docs/THREATS.md")?, &tests.names));
    Ok(broken)
}

fn rules(spec: &str) -> Vec<Rule> {
    spec.lines().filter_map(rule).collect()
}

fn rule(line: &str) -> Option<Rule> {
    let (id, level) = line.strip_prefix("**")?.split_once(".**")?.0.split_once(' ')?;
    let level = match level {
        "MUST" => Level::Must,
        "SHOULD" => Level::Should,
        "MAY" => Level::May,
        "PLANNED" => Level::Planned,
        _ => return None,
    };
    (ids(id) == [id]).then(|| Rule { id: id.to_owned(), level })
}

fn twice(rules: &[Rule]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let again = rules.iter().filter(|rule| !seen.insert(rule.id.as_str()));
    again.map(|rule| format!("SPEC.md: {} stands there twice", rule.id)).collect()
}

/// The rule ids in a text: a capital letter of the specification's sections, a hyphen, digits.
fn ids(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    words.filter(|word| is_id(word)).collect()
}

fn is_id(word: &str) -> bool {
    let digits =
        |number: &str| !number.is_empty() && number.len() <= 3 && number.bytes().all(|byte| byte.is_ascii_digit());
    word.split_once('-').is_some_and(|(section, number)| {
        matches!(section, "H" | "P" | "T" | "S" | "J" | "C" | "A" | "R" | "L" | "U" | "M") && digits(number)
    })
}

fn unknown_citations(rules: &[Rule], sources: &[Source]) -> Vec<String> {
    let known: BTreeSet<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
    let mut broken = Vec::new();
    for source in sources.iter().filter(|source| !source.path.starts_with("crates/xtask/")) {
        for comment in &source.masked.comments {
            let unknown = cited(&comment.text).into_iter().filter(|id| !known.contains(id));
            broken.extend(unknown.map(|id| format!("{}:{}: {id} is not in SPEC.md", source.path, comment.line)));
        }
    }
    broken
}

/// The ids behind the first mark of a comment line.
fn cited(comment: &str) -> Vec<&str> {
    let rest = ["SPEC ", "Shows: "].iter().find_map(|mark| comment.split_once(mark)).map(|(_, rest)| rest);
    rest.map(ids).unwrap_or_default()
}

fn tests(sources: &[Source]) -> Tests {
    let mut tests = Tests::default();
    for source in sources.iter().filter(|source| !source.path.starts_with("crates/xtask/")) {
        collect(source, &mut tests);
    }
    tests
}

fn collect(source: &Source, tests: &mut Tests) {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut claimed = 0;
    for function in rust::functions(source.code()) {
        let above = rust::above(&lines, function.line);
        let shown: Vec<&str> =
            above.iter().filter(|line| line.contains("Shows: ")).flat_map(|line| cited(line)).collect();
        claimed += above.iter().filter(|line| line.contains("Shows: ")).count();
        // A contract suite is a set of plain functions that every implementation's tests call.
        if rust::is_test(&above) || (files::is_test_file(&source.path) && !shown.is_empty()) {
            for id in shown {
                tests.shown.entry(id.to_owned()).or_default().push(function.name.clone());
            }
            tests.names.insert(function.name);
        }
    }
    let said = source.masked.comments.iter().filter(|comment| comment.text.contains("Shows: ")).count();
    if said != claimed {
        tests.stray.push(format!("{}: a `Shows:` line does not stand directly above a function", source.path));
    }
}

fn unshown(rules: &[Rule], tests: &Tests) -> Vec<String> {
    let must = rules.iter().filter(|rule| rule.level == Level::Must && !tests.shown.contains_key(&rule.id));
    must.map(|rule| format!("SPEC.md: {} is a MUST that no test shows (`/// Shows: {}`)", rule.id, rule.id)).collect()
}

/// Each `## ` section is a boundary; it names tests in backticks in the last column of its table, or says `Not built`.
fn threats(text: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let mut broken = Vec::new();
    for section in text.split("\n## ").skip(1) {
        let boundary = section.lines().next().unwrap_or_default();
        let named: Vec<&str> = section.lines().filter_map(last_column).flat_map(quoted).collect();
        let unknown = named.iter().filter(|name| !tests.contains(**name));
        broken.extend(unknown.map(|name| format!("docs/THREATS.md: {boundary}: no test is called {name}")));
        if named.is_empty() && !section.contains("\nNot built") {
            broken.push(format!("docs/THREATS.md: {boundary}: names no test"));
        }
    }
    broken
}

fn last_column(line: &str) -> Option<&str> {
    line.trim().strip_prefix('|')?.strip_suffix('|')?.rsplit('|').next()
}

fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::new("crates/core/src/a.rs".to_owned(), text.to_owned())
    }

    #[test]
    fn rule_line_is_read_with_its_level() {
        assert_eq!(rule("**H-3 MUST.** One owner."), Some(Rule { id: "H-3".to_owned(), level: Level::Must }));
        assert_eq!(rule("**H-3** MUST."), None);
        assert_eq!(rule("**X-3 MUST.**"), None);
    }

    #[test]
    fn citation_names_every_id_after_the_mark() {
        assert_eq!(cited("/// Source: SPEC H-3 to H-8, P-1."), ["H-3", "H-8", "P-1"]);
        assert!(cited("// H-3 alone").is_empty());
    }

    #[test]
    fn rules_are_shown_by_tests_and_by_nothing_else() {
        let told =
            tests(&[source("/// Shows: H-1, H-2\n#[test]\nfn shown() {}\n\n/// Shows: H-9\nfn not_a_test() {}\n")]);
        assert_eq!(told.shown.keys().collect::<Vec<_>>(), ["H-1", "H-2"]);
        assert_eq!(told.stray.len(), 0);
    }

    #[test]
    fn must_without_a_test_is_reported_and_planned_is_not() {
        let rules = rules("**H-1 MUST.** a\n**H-2 PLANNED.** b\n**H-3 SHOULD.** c\n**H-4 MAY.** d\n");
        let broken = unshown(&rules, &Tests::default());
        assert_eq!(broken.len(), 1, "{broken:?}");
    }

    #[test]
    fn boundary_without_an_existing_test_is_reported() {
        let names = BTreeSet::from(["stranger_is_refused".to_owned()]);
        let good = "# T\n\n## Wire\n| a | b | `stranger_is_refused` |\n\n## Web page\n\nNot built.\n";
        assert!(threats(good, &names).is_empty());
        assert_eq!(threats("# T\n\n## Wire\n| a | b | `gone` |\n", &names).len(), 1);
        assert_eq!(threats("# T\n\n## Disk\ntext\n", &names).len(), 1);
    }
}
