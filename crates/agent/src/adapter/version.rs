//! Dotted versions, compared number by number.

/// The first `major.minor.patch` in a text such as `codex-cli 0.171.0` or `2.1.332 (Claude Code)`.
pub(super) fn find(text: &str) -> Option<String> {
    text.split_whitespace().find_map(|word| {
        let word = word.trim_start_matches('v');
        let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
        let version = word.get(..end)?.trim_end_matches('.');
        (numbers(version)?.len() >= 2).then(|| version.to_owned())
    })
}

/// True where `here` is older than `needed`. What is not a version is older than everything; nothing is older
/// than an empty need.
pub(super) fn is_older(here: &str, needed: &str) -> bool {
    match (numbers(here), numbers(needed)) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(here), Some(needed)) => here < needed,
    }
}

fn numbers(version: &str) -> Option<Vec<u64>> {
    let plain = version.split(['-', '+']).next()?;
    let mut numbers: Vec<u64> = plain.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let significant = numbers.iter().rposition(|number| *number != 0).map_or(0, |last| last + 1);
    let shown = numbers.len();
    numbers.truncate(significant.max(shown.min(2)));
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_found_in_what_programs_print() {
        assert_eq!(find("codex-cli 0.171.0\n").as_deref(), Some("0.171.0"));
        assert_eq!(find("2.1.332 (Claude Code)").as_deref(), Some("2.1.332"));
        assert_eq!(find("v1.18.33").as_deref(), Some("1.18.33"));
        assert_eq!(find("error 7"), None);
    }

    #[test]
    fn versions_compare_by_number_not_by_letter() {
        assert!(is_older("0.120.0", "0.171.0"));
        assert!(is_older("0.99.9", "0.171.0"));
        assert!(!is_older("1.18.33", "1.18.33"));
        assert!(!is_older("1.18", "1.18.0"));
        assert!(!is_older("2.0.0-beta.1", "1.9"));
        assert!(is_older("nonsense", "1.0"));
        assert!(!is_older("0.1", ""));
    }
}
