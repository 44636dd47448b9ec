//! Golden vectors are added, never edited: a change needs a line in `proto/VERSIONS.md`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::shell::{Failure, Repository};

/// Every vector that changed or went since the last release (or the last commit, before the first), unexplained.
pub(crate) fn run(repository: &Repository, paths: &[String]) -> Result<Vec<String>, Failure> {
    let Some(base) = base(repository) else {
        println!("tidy: vectors were not compared (no earlier commit here)");
        return Ok(Vec::new());
    };
    let explained = before(repository, &base, "proto/VERSIONS.md")
        .is_some_and(|old| repository.read("proto/VERSIONS.md").is_ok_and(|new| new != old));
    let mut found = Vec::new();
    for path in paths.iter().filter(|path| path.starts_with("proto/vectors/") && path.ends_with(".json")) {
        let new =
            named(&repository.read(path)?).ok_or_else(|| Failure(format!("{path}: not a list of named vectors")))?;
        let old = before(repository, &base, path).and_then(|text| named(&text)).unwrap_or_default();
        found.extend(
            changed(&old, &new)
                .map(|name| format!("{path}: {name} differs from {base}: vectors are added, never edited")),
        );
    }
    Ok(if explained { Vec::new() } else { found })
}

fn base(repository: &Repository) -> Option<String> {
    let tag = repository.output("git", &["describe", "--tags", "--abbrev=0"]).ok();
    let parent = || repository.output("git", &["rev-parse", "--short", "--verify", "HEAD~1"]).ok();
    tag.or_else(parent).map(|text| text.trim().to_owned())
}

fn before(repository: &Repository, base: &str, path: &str) -> Option<String> {
    repository.output("git", &["show", &format!("{base}:{path}")]).ok()
}

/// The vectors by name. Shape: `[{"name": …}, …]`, or the same under `"vectors"`.
fn named(text: &str) -> Option<BTreeMap<String, Value>> {
    let file: Value = serde_json::from_str(text).ok()?;
    let vectors = file.get("vectors").unwrap_or(&file).as_array()?;
    vectors.iter().map(|vector| Some((vector.get("name")?.as_str()?.to_owned(), vector.clone()))).collect()
}

fn changed<'a>(old: &'a BTreeMap<String, Value>, new: &'a BTreeMap<String, Value>) -> impl Iterator<Item = &'a String> {
    old.iter().filter(|(name, vector)| new.get(*name) != Some(vector)).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_stand_alone_or_under_their_name() {
        assert_eq!(named(r#"[{"name":"a"}]"#), named(r#"{"about":"x","vectors":[{"name":"a"}]}"#));
        assert_eq!(named(r#"[{"hex":"00"}]"#), None);
    }

    #[test]
    fn edited_and_lost_vectors_are_found_and_new_ones_are_welcome() {
        let old =
            named(r#"{"vectors":[{"name":"a","hex":"00"},{"name":"b","hex":"01"},{"name":"c","hex":"02"}]}"#).unwrap();
        let new =
            named(r#"{"vectors":[{"name":"a","hex":"00"},{"name":"b","hex":"ff"},{"name":"d","hex":"03"}]}"#).unwrap();
        assert_eq!(changed(&old, &new).collect::<Vec<_>>(), ["b", "c"]);
    }
}
