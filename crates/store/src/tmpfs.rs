//! A small file system of one's own, to see a full disk and a read-only one for real.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// A mounted tmpfs, unmounted when dropped.
pub(crate) struct Tmpfs {
    dir: TempDir,
}

impl Tmpfs {
    /// Mounts one, or says that the test is skipped.
    pub(crate) fn of_size(size: &str) -> Option<Self> {
        let tmpfs = Self { dir: tempfile::tempdir().unwrap() };
        if tmpfs.run("mount", &["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]) {
            return Some(tmpfs);
        }
        println!("skipped: needs root");
        None
    }

    /// Makes it read-only.
    pub(crate) fn freeze(&self) {
        assert!(self.run("mount", &["-o", "remount,ro"]));
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Fills what is left with one file, and gives its path.
    pub(crate) fn fill(&self) -> std::path::PathBuf {
        use std::io::Write;
        let path = self.path().join("filler");
        let mut file = std::fs::File::create(&path).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
        path
    }

    fn run(&self, program: &str, arguments: &[&str]) -> bool {
        let quiet = Command::new(program).args(arguments).arg(self.path()).stderr(std::process::Stdio::null()).status();
        quiet.is_ok_and(|status| status.success())
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        self.run("umount", &["-l"]);
    }
}
