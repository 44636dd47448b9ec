//! Where a program lies.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// The file that a shell with this `PATH` would run, by its full name. What `PATH` names relative to a directory does not
/// count: it would be another file in each session's tree, and a tree is what others wrote.
pub(crate) fn find(path: &OsStr, name: &str) -> Option<PathBuf> {
    let directories = std::env::split_paths(path).filter(|directory| directory.is_absolute());
    directories
        .map(|directory| directory.join(name))
        .find(|file| std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_full_places_count_and_only_what_can_be_run() {
        let place = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| place.path().join(name));
        for directory in [&first, &second] {
            std::fs::create_dir(directory).unwrap();
            std::fs::write(directory.join("tool"), "#!/bin/sh\n").unwrap();
        }
        std::fs::set_permissions(second.join("tool"), PermissionsExt::from_mode(0o755)).unwrap();
        let path = std::env::join_paths([&first, &second]).unwrap();
        assert_eq!(find(&path, "tool"), Some(second.join("tool")));
        assert_eq!(find(&path, "other"), None);
        std::fs::set_permissions(first.join("tool"), PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(find(&path, "tool"), Some(first.join("tool")));
    }

    /// Shows: T-6
    #[test]
    fn nothing_is_found_relative_to_where_one_stands() {
        let depth = std::env::current_dir().unwrap().components().count();
        let up = "../".repeat(depth);
        assert!(std::path::Path::new(&format!("{up}bin/sh")).exists(), "a shell would find it");
        assert_eq!(find(OsStr::new(&format!("{up}bin")), "sh"), None);
        assert_eq!(find(OsStr::new(":."), "sh"), None);
        assert_eq!(find(OsStr::new(":.:/bin"), "sh"), Some(PathBuf::from("/bin/sh")));
    }
}
