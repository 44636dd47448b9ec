//! A large tree is captured in bounded memory. A process of its own, so that the figure is its own.

#![expect(clippy::unwrap_used, reason = "a test: what fails is shown")]

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use cede_agent::chunk::StatCache;
use cede_agent::tree::{CaptureOptions, ReadChunk, StageRequest, activate, capture, discard, inspect, stage};

/// Files by default; `CEDE_FILES` sets another number.
const FILES: usize = 5_000;
/// Most bytes of memory for each file, and for everything else.
const BYTES_EACH: u64 = 900;
const BYTES_BESIDES: u64 = 12 << 20;

struct Sources(cede_agent::chunk::SourceFiles);

impl ReadChunk for Sources {
    fn read(&self, id: &cede_wire::id::ChunkId, into: &mut Vec<u8>) -> std::io::Result<()> {
        self.0.read(id, into).map_err(std::io::Error::other)
    }
}

/// Shows: T-11
#[test]
fn large_tree_is_captured_in_bounded_memory() {
    let count = std::env::var("CEDE_FILES").ok().and_then(|text| text.parse().ok()).unwrap_or(FILES);
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("tree");
    populate(&root, count);
    let (mut cache, scratch) = (StatCache::default(), directory.path().join("scratch"));
    let options = CaptureOptions { include_ignored: &[], exclude: &[], untracked: true, have: &[], scratch: &scratch };
    let before = peak_bytes();
    let timed = |what: &str, from: Instant| {
        println!("{what}: {} ms, peak {} KiB", from.elapsed().as_millis(), peak_bytes() >> 10)
    };

    let from = Instant::now();
    let tree = inspect(&root).unwrap();
    timed("inspect", from);
    let from = Instant::now();
    let first = capture(&tree, &options, &mut cache).unwrap();
    timed("capture", from);
    let used = peak_bytes() - before;
    let most = BYTES_BESIDES + BYTES_EACH * count as u64;
    assert!(used <= most, "{used} bytes for {count} files, {most} allowed");
    let from = Instant::now();
    let second = capture(&tree, &options, &mut cache).unwrap();
    timed("capture again", from);
    assert_eq!(first.entries, second.entries);

    let staging = directory.path().join("staging");
    let sources = Sources(first.sources);
    let request = StageRequest {
        entries: &first.entries,
        chunks: &sources,
        staging: &staging,
        target: &directory.path().join("there"),
        baseline: None,
        cache: &StatCache::default,
        local_clone: None,
    };
    let from = Instant::now();
    stage(&request).unwrap();
    timed("stage", from);
    let from = Instant::now();
    let there = activate(&staging).unwrap();
    timed("activate", from);
    discard(&staging).unwrap();
    let from = Instant::now();
    assert_eq!(git(&there.root, &["status", "--porcelain"]).lines().count(), 1);
    timed("git status", from);
}

fn populate(root: &Path, count: usize) {
    for number in 0..count {
        let path = root.join(format!("module{}/part{}/file_{number}.rs", number / 1_000, number / 100 % 10));
        if number % 100 == 0 {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        }
        let line = format!("// {} {number}\n", blake3::hash(&number.to_le_bytes()));
        std::fs::write(path, line.repeat(1 + number % 8)).unwrap();
    }
    git(root, &["init", "-q"]);
    git(root, &["add", "-A"]);
    git(root, &["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "all"]);
    std::fs::write(root.join("module0/part0/file_0.rs"), "changed").unwrap();
}

fn git(root: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").args(arguments).current_dir(root).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() << 10
}
