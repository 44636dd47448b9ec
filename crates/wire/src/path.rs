//! Relative paths inside a payload. A path that parses cannot leave its root.

use serde::{Deserialize, Serialize};

use crate::limits::{COMPONENT_BYTES, PATH_BYTES, PATH_DEPTH};
use crate::shown::{is_invisible, push_plain};

/// A relative path of plain components, as bytes: file systems know bytes, not text. Shape: 1 to
/// [`PATH_DEPTH`] components of 1 to [`COMPONENT_BYTES`] bytes, none `.`, `..` or a spelling of `.git`, joined by
/// `/`. Source: SPEC T-4.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct RelPath(Vec<u8>);

/// Why a path was refused. The payload that names it is refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Empty, absolute, or with an empty component.
    #[error("empty or absolute path: {0}")]
    NotRelative(String),
    /// A component `.` or `..`.
    #[error("path leaves its place: {0}")]
    Dots(String),
    /// A component that some file system reads as `.git`.
    #[error("path enters a git directory: {0}")]
    GitDirectory(String),
    /// Longer or deeper than the limits, or with a NUL byte.
    #[error("path too long, too deep or with a NUL byte: {0}")]
    Limits(String),
}

impl RelPath {
    /// Parses.
    ///
    /// # Errors
    /// [`PathError`], with the path escaped for a terminal.
    pub fn parse(bytes: &[u8]) -> Result<Self, PathError> {
        let shown = || escape(&bytes[..bytes.len().min(200)]);
        if bytes.len() > PATH_BYTES || bytes.contains(&0) {
            return Err(PathError::Limits(shown()));
        }
        let mut depth = 0;
        for component in bytes.split(|b| *b == b'/') {
            depth += 1;
            match component {
                b"" => return Err(PathError::NotRelative(shown())),
                b"." | b".." => return Err(PathError::Dots(shown())),
                _ if component.len() > COMPONENT_BYTES || depth > PATH_DEPTH => return Err(PathError::Limits(shown())),
                _ if folds_to_git(component) => return Err(PathError::GitDirectory(shown())),
                _ => {}
            }
        }
        Ok(Self(bytes.to_vec()))
    }

    /// The bytes, components joined by `/`.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The components.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|b| *b == b'/')
    }

    /// The path for a terminal: what is not plain text is escaped.
    pub fn shown(&self) -> String {
        escape(&self.0)
    }
}

impl core::fmt::Debug for RelPath {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.shown())
    }
}

impl TryFrom<Vec<u8>> for RelPath {
    type Error = PathError;

    fn try_from(bytes: Vec<u8>) -> Result<Self, PathError> {
        Self::parse(&bytes)
    }
}

impl From<RelPath> for Vec<u8> {
    fn from(path: RelPath) -> Self {
        path.0
    }
}

/// Makes bytes safe to print: control, format and bidirectional characters and bytes that are not UTF-8 are
/// escaped, everything else is kept.
pub fn escape(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for piece in bytes.utf8_chunks() {
        piece.valid().chars().for_each(|c| push_plain(&mut shown, c));
        piece.invalid().iter().for_each(|b| shown.push_str(&format!("\\x{b:02x}")));
    }
    shown
}

/// The same for a text of which a part may be escaped already: a backslash stays what it is, so that nothing is escaped twice.
/// Two texts may look the same; where that matters use [`escape`].
pub fn escape_rest(text: &str) -> String {
    let pieces: Vec<String> = text.split('\\').map(|piece| escape(piece.as_bytes())).collect();
    pieces.join("\\")
}

/// `.git` in any case, with HFS+ ignorable characters, trailing dots, spaces or an NTFS stream; `git~1`; each of them
/// between backslashes, which NTFS reads as git reads `/`.
fn folds_to_git(component: &[u8]) -> bool {
    let text = String::from_utf8_lossy(component);
    let plain: String = text.chars().filter(|c| !is_invisible(*c)).collect::<String>().to_lowercase();
    plain.split('\\').any(|part| {
        let head = part.split(':').next().unwrap_or("").trim_end_matches(['.', ' ']);
        head == ".git" || head == "git~1"
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::{decode, encode};

    /// Shows: T-4
    #[test]
    fn path_that_leaves_its_root_is_refused() {
        for bad in ["", "/etc", "a//b", "a/", "..", "a/../b", "./a", "a\0b"] {
            assert!(RelPath::parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    /// Shows: T-4
    #[test]
    fn spelling_of_git_directory_is_refused() {
        for bad in [
            ".git",
            ".GIT/config",
            "a/.Git",
            ".g\u{200c}it",
            "git~1",
            ".git. .",
            ".git::$INDEX_ALLOCATION/x",
            "a\\.git\\x",
        ] {
            assert!(matches!(RelPath::parse(bad.as_bytes()), Err(PathError::GitDirectory(_))), "{bad:?}");
        }
        for good in [".gitignore", ".github/x", "git", "digit~1", "a.git"] {
            assert!(RelPath::parse(good.as_bytes()).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn legal_names_survive_as_bytes() {
        for good in [&b"a b"[..], b"-x", b" lead", b"new\nline", b"\xff\xfe", b"back\\slash", "e\u{301}".as_bytes()] {
            assert_eq!(RelPath::parse(good).unwrap().as_bytes(), good);
        }
    }

    /// Shows: L-6
    #[test]
    fn terminal_never_sees_control_or_bidi() {
        assert_eq!(escape("a\u{1b}[2Jb\u{202e}c\n".as_bytes()), "a\\u{1b}[2Jb\\u{202e}c\\n");
        assert_eq!(escape(b"\xff"), "\\xff");
    }

    /// Shows: L-6
    #[test]
    fn what_was_escaped_before_is_not_escaped_again() {
        let name = b"d\tx/l\xffz\\.txt";
        assert_eq!(escape(name), "d\\tx/l\\xffz\\\\.txt");
        assert_eq!(escape_rest(&escape(name)), escape(name));
        assert_eq!(escape_rest("a\\tb\u{1b}[2J\u{202e}\n"), "a\\tb\\u{1b}[2J\\u{202e}\\n");
    }

    /// Shows: T-4
    #[test]
    fn path_keeps_to_its_bounds() {
        let deep = |depth: usize| vec!["a"; depth].join("/");
        let widest = "x".repeat(COMPONENT_BYTES);
        let longest = format!("{}/{}/z", vec![widest.as_str(); 15].join("/"), "y".repeat(COMPONENT_BYTES - 1));
        assert_eq!(longest.len(), PATH_BYTES);
        for good in [deep(PATH_DEPTH), widest.clone(), longest.clone()] {
            assert!(RelPath::parse(good.as_bytes()).is_ok(), "{good}");
        }
        for bad in [deep(PATH_DEPTH + 1), format!("{widest}x"), format!("{longest}z")] {
            assert!(matches!(RelPath::parse(bad.as_bytes()), Err(PathError::Limits(_))), "{bad}");
        }
        assert_eq!(RelPath::parse(b"a\0\x1b"), Err(PathError::Limits("a\\u{0}\\u{1b}".to_owned())));
    }

    #[test]
    fn path_is_shown_and_travels_as_what_it_is() {
        let path = RelPath::parse(b"src/new\nline/\xff").unwrap();
        assert_eq!(path.components().collect::<Vec<_>>(), [&b"src"[..], b"new\nline", b"\xff"]);
        assert_eq!(path.shown(), "src/new\\nline/\\xff");
        assert_eq!(format!("{path:?}"), path.shown());
        assert_eq!(decode(&encode(&path)), Ok(path));
        assert!(decode::<RelPath>(&encode(&b"../x".to_vec())).is_err());
    }
}
