//! What changed in a directory while an agent worked, for people.
//!
//! It looks at names, sizes and times, and starts no program: an agent may have changed what `git` would run.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cede_wire::path::escape;

use super::limits::{CHANGES_BYTES, CHANGES_FILES, CHANGES_NAMED};

/// What a directory looked like.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Looked {
    files: BTreeMap<PathBuf, Seen>,
    whole: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    bytes: u64,
    changed: (i64, i64),
    inode: u64,
    mode: u32,
}

/// Looks at every file below a directory, the repository's own left out. Blocks.
pub fn look(directory: &Path) -> Looked {
    let mut looked = Looked { files: BTreeMap::new(), whole: true };
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&next) else { continue };
        for entry in entries.flatten() {
            if looked.files.len() + open.len() >= CHANGES_FILES {
                looked.whole = false;
                return looked;
            }
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                if entry.file_name() != OsStr::new(".git") {
                    open.push(entry.path());
                }
                continue;
            }
            let seen = Seen {
                bytes: meta.len(),
                changed: (meta.mtime(), meta.mtime_nsec()),
                inode: meta.ino(),
                mode: meta.mode(),
            };
            let path = entry.path();
            looked.files.insert(path.strip_prefix(directory).unwrap_or(&path).to_owned(), seen);
        }
    }
    looked
}

/// What is other now, one line a file, names escaped; empty: nothing. Blocks.
pub fn since(before: &Looked, directory: &Path) -> String {
    let after = look(directory);
    if !before.whole || !after.whole {
        return format!("more than {CHANGES_FILES} files: what changed was not looked for\n");
    }
    let mut lines = Vec::new();
    for (path, now) in &after.files {
        match before.files.get(path) {
            None => lines.push(format!("new      {} ({} bytes)", shown(path), now.bytes)),
            Some(then) if then == now => {}
            Some(then) => lines.push(format!("changed  {} ({} to {} bytes)", shown(path), then.bytes, now.bytes)),
        }
    }
    let gone = before.files.keys().filter(|path| !after.files.contains_key(*path));
    lines.extend(gone.map(|path| format!("gone     {}", shown(path))));
    list(&lines)
}

fn list(lines: &[String]) -> String {
    let mut text = String::new();
    let mut named = 0;
    for line in lines.iter().take(CHANGES_NAMED) {
        if text.len() + line.len() + 64 > CHANGES_BYTES {
            break;
        }
        text.push_str(line);
        text.push('\n');
        named += 1;
    }
    let more = lines.len() - named;
    if more > 0 {
        // A text takes what is written to it.
        let _ = writeln!(text, "and {more} more files");
    }
    text
}

fn shown(path: &Path) -> String {
    escape(path.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows: E-7
    #[test]
    fn what_is_new_changed_and_gone_is_named() {
        let place = tempfile::tempdir().unwrap();
        let file = |name: &str| place.path().join(name);
        std::fs::create_dir_all(file("src/.git")).unwrap();
        for name in ["same", "src/old", "gone"] {
            std::fs::write(file(name), "one").unwrap();
        }
        let before = look(place.path());
        assert_eq!(since(&before, place.path()), "");
        std::fs::write(file("src/old"), "longer").unwrap();
        std::fs::write(file("src/.git/index"), "not listed").unwrap();
        std::fs::write(file("a\u{1b}[2Jb"), "x").unwrap();
        std::fs::remove_file(file("gone")).unwrap();
        let text = since(&before, place.path());
        assert!(!text.contains('\u{1b}'), "{text}");
        let lines: Vec<&str> = text.lines().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(lines, ["new", "changed", "gone"], "{text}");
        assert!(text.contains("src/old (3 to 6 bytes)"), "{text}");
    }

    /// Shows: E-7
    #[test]
    fn many_changes_are_counted() {
        let lines: Vec<String> = (0..1_000).map(|n| format!("new {n}")).collect();
        let text = list(&lines);
        assert!(text.ends_with("and 900 more files\n") && text.len() <= CHANGES_BYTES, "{text}");
        assert!(list(&["x".repeat(CHANGES_BYTES)]).ends_with("and 1 more files\n"));
    }
}
