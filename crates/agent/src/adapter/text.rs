//! Text for people and for shells.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use cede_wire::session::SessionInfo;

use crate::adapter::limits::TITLE_CHARS;

/// A title: the first line that says something, without control characters, at most [`TITLE_CHARS`] characters.
pub(super) fn title(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let shown = cede_wire::path::escape(line.as_bytes());
    shown.chars().take(TITLE_CHARS).collect()
}

/// A path as a word of a shell command.
pub(super) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Milliseconds since 1970; 0 for what is not known.
pub(super) fn unix_ms(time: Option<SystemTime>) -> u64 {
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The newest sessions first, at most `most` of them.
pub(super) fn newest_first(mut found: Vec<SessionInfo>, most: usize) -> Vec<SessionInfo> {
    found.sort_by(|a, b| b.updated_unix_ms.cmp(&a.updated_unix_ms).then_with(|| a.key.cmp(&b.key)));
    found.truncate(most);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_is_one_plain_line() {
        assert_eq!(title("\n  fix the \u{1b}[31mbuild\nplease"), "fix the \\u{1b}[31mbuild");
        assert_eq!(title(&"x".repeat(500)).chars().count(), TITLE_CHARS);
    }

    #[test]
    fn shell_reads_back_a_quoted_path() {
        for path in ["/a/b", "/a b/c", "/it's/$HOME", "/new\nline"] {
            let script = format!("printf %s {}", quoted(Path::new(path)));
            let said = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap(), path);
        }
    }
}
