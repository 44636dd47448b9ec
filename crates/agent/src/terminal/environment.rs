//! Which variables a hosted command gets: a list, so that no credential of the person's shell ends up in a terminal that
//! others may be allowed to drive.

use std::ffi::{OsStr, OsString};

use cede_wire::control::terminal::is_passed_on;

use crate::limits;

/// What a program draws for that finds no name of a terminal.
const TERM: &str = "xterm-256color";

fn allowed(name: &OsStr) -> bool {
    name.to_str().is_some_and(is_passed_on)
}

/// The environment of the command; none where it is too large.
pub(super) fn for_child(
    given: &[(OsString, OsString)],
    marks: &[(OsString, OsString)],
) -> Option<Vec<(OsString, OsString)>> {
    let mut all: Vec<_> = given.iter().filter(|(name, _)| allowed(name)).cloned().collect();
    if !all.iter().any(|(name, value)| name == "TERM" && !value.is_empty()) {
        all.retain(|(name, _)| name != "TERM");
        all.push(("TERM".into(), TERM.into()));
    }
    all.extend(marks.iter().cloned());
    let bytes: usize = all.iter().map(|(name, value)| name.len() + value.len()).sum();
    (all.len() <= limits::VARIABLES && bytes <= limits::VARIABLES_BYTES).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// Shows: D-2
    #[test]
    fn credentials_of_the_shell_do_not_get_in() {
        let shell = [("PATH", "/bin"), ("LC_ALL", "C.UTF-8"), ("AWS_SECRET_ACCESS_KEY", "x"), ("SSH_AUTH_SOCK", "/s")];
        let child = for_child(&given(&shell), &given(&[("CEDE_SESSION", "a1")])).unwrap();
        let names: Vec<_> = child.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        assert_eq!(names, ["PATH", "LC_ALL", "TERM", "CEDE_SESSION"]);
    }

    #[test]
    fn environment_without_bound_is_refused() {
        let large = "x".repeat(limits::VARIABLES_BYTES);
        assert_eq!(for_child(&given(&[("PATH", &large)]), &[]), None);
        assert_eq!(for_child(&vec![("PATH".into(), "a".into()); limits::VARIABLES + 1], &[]), None);
    }
}
