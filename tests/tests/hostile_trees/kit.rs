//! The kit, kind by kind.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cede_wire::catalog::{ChunkRef, Mtime};
use cede_wire::id::ChunkId;

use super::{Body, Hostile, LooseEntry, NOON, Place, Store, directory, entry, link, numbers};

/// All of them.
pub(super) fn all(outside: &Path) -> Vec<Hostile> {
    let mut kit = paths(outside);
    kit.extend(git_directories());
    kit.extend(impossible());
    kit.extend(lies());
    kit.extend(repositories());
    kit.extend(names_that_are_legal_here());
    kit.extend(structural(outside));
    kit.extend(by_chance(outside));
    kit
}

fn of(kind: &'static str, refused: bool, entries: Vec<LooseEntry>, store: Store) -> Hostile {
    Hostile { kind, entries, store, refused }
}

/// A path as a file, as a link and as a directory.
fn in_all_forms(kind: &'static str, path: &[u8], refused: bool) -> Vec<Hostile> {
    let mut store = Store::default();
    let file = store.file(path, "x");
    let forms = [file, link(path, "victim"), directory(path, 0o755)];
    forms.into_iter().map(|form| of(kind, refused, vec![form], store.clone())).collect()
}

fn paths(outside: &Path) -> Vec<Hostile> {
    let mut kit = Vec::new();
    let mut victim = outside.as_os_str().as_bytes().to_vec();
    victim.extend_from_slice(b"/victim");
    let leaving: [&[u8]; 24] = [
        b"..",
        b"../victim",
        b"../outside/victim",
        b"a/../../victim",
        b"a/../victim",
        b"a/b/../../../victim",
        b".",
        b"./victim",
        b"a/.",
        b"a/./b",
        b"a/..",
        b"../",
        b"/",
        b"//",
        b"/etc/passwd",
        b"//etc/passwd",
        b"a//b",
        b"a/",
        b"/..",
        b"../../../../../../tmp/victim",
        b"a/b/../..",
        b"..//victim",
        b"/./x",
        b"../there/../victim",
    ];
    leaving.iter().for_each(|path| kit.extend(in_all_forms("path that leaves its root", path, true)));
    kit.extend(in_all_forms("absolute path to a victim", &victim, true));
    kit.extend(in_all_forms("path of no length", b"", true));
    for path in [&b"\0"[..], b"a\0", b"\0a", b"a/b\0c/d", b"victim\0.txt"] {
        kit.extend(in_all_forms("path with a NUL", path, true));
    }
    let long = |n: usize| vec![b'n'; n];
    let deep = |n: usize| ["d"; 2_049][..n].join("/").into_bytes();
    for path in [long(256), long(4_096), long(4_097), long(70_000), deep(65), deep(100), deep(2_048), deep(2_049)] {
        kit.extend(in_all_forms("path that is too long or too deep", &path, true));
    }
    for path in [long(255), deep(64)] {
        kit.extend(in_all_forms("path at the limit", &path, false));
    }
    kit
}

/// Every spelling that a file system may read as `.git`.
fn git_directories() -> Vec<Hostile> {
    let mut names: Vec<String> = (0..8_u8)
        .map(|bits| {
            (0..3).map(|at| if bits >> at & 1 == 1 { ['G', 'I', 'T'][at] } else { ['g', 'i', 't'][at] }).collect()
        })
        .map(|word: String| format!(".{word}"))
        .collect();
    let ntfs =
        [".git.", ".git ", ".git. .", ".git...", ".GIT ", "git~1", "GIT~1", "Git~1.", "git~1 ", ".git:", ".git:x"];
    let streams = [
        ".git::$INDEX_ALLOCATION",
        ".git:stream:$DATA",
        "git~1:x",
        ".git\\config",
        "a\\.git",
        "a\\GIT~1\\x",
        ".git.\\hooks",
    ];
    names.extend(ntfs.into_iter().chain(streams).map(str::to_owned));
    let ignored = "\u{200c}\u{200d}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{206a}\u{206b}\u{206c}\u{206d}\u{206e}\u{206f}\u{feff}";
    for (number, c) in ignored.chars().enumerate() {
        for at in [number % 5, (number + 2) % 5] {
            let mut name = ".git".to_owned();
            name.insert(at, c);
            names.push(name);
        }
    }
    let below = |name: &String| [name.clone(), format!("{name}/config"), format!("src/{name}/hooks/post-checkout")];
    let one = |path: String| {
        let mut store = Store::default();
        let file = store.file(&path, "[core]\n\tfsmonitor = touch victim\n");
        of("a git directory by another spelling", true, vec![file], store)
    };
    names.iter().flat_map(below).map(one).collect()
}

/// What no tree holds: kinds of entries, modes and times that do not exist.
fn impossible() -> Vec<Hostile> {
    let mut kit = Vec::new();
    let mut add = |kind, body: Body| kit.push(of(kind, true, vec![entry("a", body)], Store::default()));
    for to in ["../victim", "/etc/passwd", "b"] {
        add("a hard link", Body::HardLink { to: to.into() });
    }
    for (major, minor) in [(1, 3), (8, 0), (0, 0)] {
        add("a device", Body::Device { major, minor });
    }
    add("a pipe", Body::Pipe { mode: 0o644 });
    for mode in [0o4755, 0o2755, 0o1777, 0o7777, 0o100_644, 0o120_777, u32::MAX] {
        add("a mode with more than permissions", Body::File { mode, mtime: NOON, size: 0, chunks: Vec::new() });
        add("a mode with more than permissions", Body::GitBlob { mode, mtime: NOON, size: 0, oid: vec![7; 20] });
        add("a mode with more than permissions", Body::Directory { mode });
    }
    for nanos in [1_000_000_000, u32::MAX] {
        let mtime = Mtime { seconds: 0, nanos };
        add("a time that is none", Body::File { mode: 0o644, mtime, size: 0, chunks: Vec::new() });
    }
    for oid in [0, 1, 19, 21, 31, 33, 64] {
        add("an object id of another length", Body::GitBlob { mode: 0o644, mtime: NOON, size: 1, oid: vec![7; oid] });
    }
    for target in [&b""[..], b"a\0b", &[b'x'; 4_097]] {
        add("a link to nothing", Body::Symlink { target: target.to_vec() });
    }
    for name in ["victim", "../victim"] {
        let mut store = Store::default();
        let mut file = store.file(name, "x");
        file.place = Place::Home;
        kit.push(of("a place that does not exist", true, vec![file], store));
    }
    kit
}

/// Sizes, chunks and counts that lie.
fn lies() -> Vec<Hostile> {
    let mut kit = Vec::new();
    let mut store = Store::default();
    let Body::File { chunks, .. } = store.body(b"content") else { return kit };
    let file = |size, chunks: Vec<ChunkRef>| entry("a", Body::File { mode: 0o644, mtime: NOON, size, chunks });
    let mut add =
        |kind, refused, entries: Vec<LooseEntry>, store: &Store| kit.push(of(kind, refused, entries, store.clone()));
    for size in [0, 1, 6, 8, 1 << 40, u64::MAX] {
        add("a size that lies", true, vec![file(size, chunks.clone())], &store);
    }
    for length in [0, 6, 8, (256 << 10) + 1, u32::MAX] {
        let lying = vec![ChunkRef { length, ..chunks[0] }];
        add("a chunk's length that lies", true, vec![file(u64::from(length), lying)], &store);
    }
    let doubled = vec![chunks[0], chunks[0]];
    add("a size that lies", true, vec![file(7, doubled.clone())], &store);
    add("the same chunk twice", false, vec![file(14, doubled)], &store);
    for byte in 0..7 {
        let mut damaged = store.clone();
        damaged.0.values_mut().for_each(|bytes| bytes[byte] ^= 1);
        add("a chunk with other bytes", true, vec![file(7, chunks.clone())], &damaged);
    }
    add("a chunk that never came", true, vec![file(7, chunks.clone())], &Store::default());
    let other = ChunkRef { id: ChunkId::new([0; 32]), length: 7 };
    add("a chunk that never came", true, vec![file(7, vec![other])], &store);
    for size in [1, 1 << 50, u64::MAX] {
        let blob = entry("a", Body::GitBlob { mode: 0o644, mtime: NOON, size, oid: vec![7; 20] });
        add("a blob of no repository", true, vec![blob], &store);
    }
    for seconds in [i64::MIN, i64::MAX, -1, 1 << 40] {
        let mtime = Mtime { seconds, nanos: 999_999_999 };
        let body = Body::File { mode: 0o644, mtime, size: 7, chunks: chunks.clone() };
        add("a time long ago or far away", false, vec![entry("a", body)], &store);
    }
    kit
}

/// Records of a repository under names that are none, or of a repository that is not whole.
fn repositories() -> Vec<Hostile> {
    let names = [
        "config",
        "hooks/post-checkout",
        "info/attributes",
        "objects/info/alternates",
        "pack-17",
        "pack--1",
        "pack-x",
        "packs",
        "state/x",
        "HEAD",
        "worktrees/w/gitdir",
        "modules/m/config",
        "state",
        "index",
        "pack",
        "pack-1",
    ];
    let one = |(name, form): (&str, u8)| {
        let mut store = Store::default();
        let mut record = match form {
            0 => store.file(name, "touch victim"),
            1 => link(name, "../../victim"),
            _ => directory(name, 0o755),
        };
        record.place = Place::Git;
        of("a record of a repository that is none", true, vec![record], store)
    };
    names.iter().flat_map(|name| (0..3).map(move |form| (*name, form))).map(one).collect()
}

/// Names that other systems read in another way: harmless here, and inside.
fn names_that_are_legal_here() -> Vec<Hostile> {
    let names = [
        "C:\\victim",
        "C:",
        "c:victim",
        "\\\\server\\share",
        "..\\victim",
        "a\\..\\..\\victim",
        "CON",
        "con.txt",
        "NUL",
        "AUX",
        "COM1",
        "LPT9.log",
        "victim.",
        "victim ",
        " victim",
        "-rf",
        "--help",
        "~",
        "~root",
        "$HOME",
        "`touch victim`",
        "$(x)",
        "a\nb",
        "a\tb",
        "\u{1b}[2J",
        "\u{202e}txt.exe",
        "\u{200b}",
        "..\u{200b}",
        "\u{ff0e}\u{ff0e}",
        "%2e%2e",
        "....",
        "...",
        ".bashrc",
        ".ssh/authorized_keys",
        ".envrc",
        "git~2",
        ".gitmodules",
        ".git2",
        "\u{130}.git",
    ];
    let mut kit: Vec<_> = names
        .iter()
        .flat_map(|name| in_all_forms("a name that is special elsewhere", name.as_bytes(), false))
        .collect();
    for bytes in [&b"\xff"[..], b"\xc0\xae\xc0\xae", b"\xed\xa0\x80", b"a\x80/b"] {
        kit.extend(in_all_forms("a name that is no text", bytes, false));
    }
    kit
}

/// Trees whose entries are in each other's way.
pub(super) fn structural(outside: &Path) -> Vec<Hostile> {
    let out = outside.as_os_str().as_bytes();
    let mut kit = Vec::new();
    let mut targets: Vec<Vec<u8>> =
        [".", "..", "../outside", "../..", "/", "/tmp", "/proc/self/root", "/proc/self/cwd", "b", "a", "there"]
            .map(|target| target.as_bytes().to_vec())
            .to_vec();
    targets.push(out.to_vec());
    for target in &targets {
        for below in ["a/victim", "a/deep/victim", "a/.ssh/authorized_keys"] {
            let mut store = Store::default();
            let file = store.file(below, "written through");
            kit.push(of("a file through a link", true, vec![link("a", target), file], store));
            kit.push(of("a link through a link", true, vec![link("a", target), link(below, "x")], Store::default()));
            kit.push(of(
                "a directory through a link",
                true,
                vec![link("a", target), directory(below, 0o777)],
                Store::default(),
            ));
        }
        let mut store = Store::default();
        let file = store.file("a/victim", "written through");
        let chain = vec![link("a", "b"), file.clone(), link("b", "c"), link("c", target)];
        kit.push(of("a chain of links", true, chain, store.clone()));
        let between = vec![link("a", target), store.file("a-b", "in between"), file];
        kit.push(of("a file through a link, others between", true, between, store));
        kit.push(of(
            "links alone",
            false,
            vec![link("a", target), link("b", "a/victim"), link("c", "b")],
            Store::default(),
        ));
    }
    let mut store = Store::default();
    let (a, b, below) = (store.file("a", "x"), store.file("b", "y"), store.file("a/b", "z"));
    let more = [
        ("an entry below a file", true, vec![a.clone(), below.clone()]),
        ("an entry below a file", true, vec![a.clone(), store.file("a-", "between"), below]),
        ("an entry below a file", true, vec![a.clone(), directory("a/b", 0o755)]),
        ("an entry twice", true, vec![a.clone(), a.clone()]),
        ("an entry twice", true, vec![a.clone(), directory("a", 0o755)]),
        ("an entry twice", true, vec![link("a", out), a.clone()]),
        ("an entry twice", true, vec![directory("a", 0o755), link("a", out)]),
        ("entries out of order", true, vec![b, a]),
        ("a directory that nobody may enter", false, vec![directory("a", 0), store.file("a/b", "z")]),
        (
            "a directory that nobody may enter",
            false,
            vec![directory("a", 0o111), directory("a/b", 0), store.file("a/b/c", "z")],
        ),
    ];
    kit.extend(more.into_iter().map(|(kind, refused, entries)| of(kind, refused, entries, store.clone())));
    kit.extend(collisions());
    kit
}

/// Names that some file systems take for one. Here they are two.
fn collisions() -> Vec<Hostile> {
    let pairs = [
        ("A", "a"),
        ("README", "readme"),
        ("\u{e9}", "e\u{301}"),
        ("\u{212b}", "\u{e5}"),
        ("stra\u{df}e", "strasse"),
        ("\u{fb01}", "fi"),
        ("a\u{200d}", "a"),
        ("a.", "a"),
        ("a ", "a"),
        ("K", "\u{212a}"),
        ("\u{3a3}", "\u{3c2}"),
    ];
    let mut kit = Vec::new();
    for (one, two) in pairs {
        let mut store = Store::default();
        let mut files = vec![store.file(one, "first"), store.file(two, "second")];
        files.sort();
        kit.push(of("two names that fold to one", false, files, store.clone()));
        let mut through = vec![link(one, "../outside"), store.file(format!("{two}/victim"), "through")];
        through.sort();
        kit.push(of("a link that folds to a directory", false, through, store));
    }
    kit
}

/// For a tree that holds `d/f`, `d/g/h`, `f`, the link `l` that leads outside, and the link `m` to `d`.
pub(super) fn below_what_is_there(outside: &Path) -> Vec<Hostile> {
    let out = outside.as_os_str().as_bytes();
    let mut kit = Vec::new();
    for path in ["l/victim", "l/deep/victim", "m/f", "m/new", "f/below", "d/f/below", "l/.ssh/authorized_keys"] {
        let mut store = Store::default();
        let file = store.file(path, "through");
        kit.push(of("over: through what was a link or a file", false, vec![file], store));
        kit.push(of("over: a link through what was a link", false, vec![link(path, out)], Store::default()));
        kit.push(of(
            "over: a directory through what was a link",
            false,
            vec![directory(path, 0o777)],
            Store::default(),
        ));
    }
    for path in ["d", "d/g", "f", "l", "m"] {
        kit.push(of("over: a directory or a file becomes a link", false, vec![link(path, out)], Store::default()));
        let mut store = Store::default();
        let file = store.file(path, "plain now");
        kit.push(of("over: a directory or a link becomes a file", false, vec![file], store));
        kit.push(of("over: it becomes a directory", false, vec![directory(path, 0o700)], Store::default()));
    }
    kit
}

/// Whatever chance makes of a few names that are in each other's way.
fn by_chance(outside: &Path) -> Vec<Hostile> {
    let names: [&[u8]; 14] = [
        b"a", b"a/b", b"a/b/c", b"a-b", b"b", b"b/a", b"c", b"c/d/e", b"A", b"a/B", b"..", b"a/../c", b"/c", b".git/x",
    ];
    let (mut numbers, mut kit) = (numbers(7), Vec::new());
    for round in 0..400 {
        let (mut store, mut entries) = (Store::default(), Vec::new());
        for _ in 0..1 + numbers.below(5) {
            // Names that are refused by themselves are rare, so that the others meet each other.
            let among = if numbers.below(12) == 0 { 14 } else { 10 };
            let name = names[numbers.below(among) as usize];
            entries.push(match numbers.below(4) {
                0 => store.file(name, &format!("text {round}")),
                1 => link(name, if numbers.below(2) == 0 { outside.as_os_str().as_bytes() } else { b"b" }),
                2 => directory(name, numbers.below(0o1000) as u32),
                _ => store.file(name, ""),
            });
        }
        if numbers.below(4) != 0 {
            entries.sort_by(|a, b| a.path.cmp(&b.path));
        }
        kit.push(of("made by chance", false, entries, store));
    }
    kit
}
