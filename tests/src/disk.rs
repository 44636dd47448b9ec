//! A disk of a test's own: a file system in a file, mounted. Takes root and loop devices.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::fcntl::{FallocateFlags, fallocate};

/// It is unmounted when it is dropped.
#[derive(Debug)]
pub struct Disk {
    image: PathBuf,
    at: PathBuf,
    place: tempfile::TempDir,
}

impl Disk {
    /// Makes one of so many bytes and mounts it.
    ///
    /// # Errors
    /// Why there is none: whoever asks is not root, or there are no loop devices.
    pub fn new(bytes: u64) -> Result<Self, String> {
        let place = tempfile::Builder::new().prefix("cede-disk-").tempdir().map_err(|e| e.to_string())?;
        let (image, at) = (place.path().join("image"), place.path().join("at"));
        std::fs::create_dir(&at).map_err(|e| e.to_string())?;
        File::create(&image).and_then(|file| file.set_len(bytes)).map_err(|e| e.to_string())?;
        // Nothing is kept back for root, who these tests are.
        run("mkfs.ext4", &["-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", text(&image)])?;
        let disk = Self { image, at, place };
        disk.mount()?;
        Ok(disk)
    }

    /// The same, or the reason is printed.
    pub fn of(bytes: u64) -> Option<Self> {
        Self::new(bytes).map_err(|why| println!("skipped: no disk of one's own: {why}")).ok()
    }

    /// Mounts the image.
    ///
    /// # Errors
    /// What `mount` says.
    pub fn mount(&self) -> Result<(), String> {
        run("mount", &["-o", "loop", text(&self.image), text(&self.at)])
    }

    /// Where it is.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// The file that holds it.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// A path beside the image, not on the disk.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Fills it until no more than `left` bytes are free, and gives the file that does. Nothing is written for it.
    pub fn fill(&self, left: u64) -> PathBuf {
        let path = self.at.join("filler");
        let file = File::create(&path).unwrap();
        let mut length = 0;
        while let Some(more) = self.free().checked_sub(left).filter(|more| *more >= 4_096) {
            // A piece that does not fit, for what the file system needs to remember it, is tried again half as large.
            let mut piece = more & !4_095;
            while fallocate(&file, FallocateFlags::empty(), length as i64, piece as i64).is_err() {
                piece = (piece / 2) & !4_095;
                if piece == 0 {
                    return path;
                }
            }
            length += piece;
        }
        path
    }

    /// Bytes that are free.
    pub fn free(&self) -> u64 {
        let stat = nix::sys::statvfs::statvfs(&self.at).unwrap();
        stat.blocks_available() * stat.fragment_size()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _gone = run("umount", &["-l", text(&self.at)]);
    }
}

/// A path of a test as text.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("a path of ours")
}

/// Runs a program.
///
/// # Errors
/// What it says.
pub fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let ended = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    let said = String::from_utf8_lossy(&ended.stderr);
    if ended.status.success() { Ok(()) } else { Err(format!("{program}: {}", said.trim())) }
}
