//! Sessions of a chosen size: the same bytes each time, words that compress as source text does.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use cede_tests::devices::trees::{Numbers, git};
use cede_tests::devices::{Device, claude};
use cede_wire::id::SessionId;

/// What kind of session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A repository of a few files.
    Small,
    /// A repository with history and dirty files.
    Git,
    /// A directory that is no repository.
    Plain,
}

impl Kind {
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Small, Self::Git, Self::Plain].into_iter().find(|kind| kind.name() == text)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Git => "git",
            Self::Plain => "plain",
        }
    }
}

/// How large. Sizes in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub kind: Kind,
    pub files: u64,
    pub bytes: u64,
    pub transcript: u64,
}

/// A session that stands on a device.
#[derive(Debug)]
pub struct Session {
    pub shape: Shape,
    pub id: SessionId,
    pub tree: PathBuf,
    transcript: PathBuf,
}

impl Session {
    /// Makes it: a tree, and a conversation about it.
    pub fn make(device: &Device, shape: Shape) -> Self {
        let tree = device.home.join("work");
        let mut text = Text::new(7);
        let average = shape.bytes / shape.files.max(1);
        for number in 0..shape.files {
            let length = average / 2 + text.numbers.below(average + 1);
            let file = tree.join(name(number));
            if number < 6_000 {
                std::fs::create_dir_all(file.parent().expect("a directory")).unwrap();
            }
            std::fs::write(file, text.piece(number, length as usize)).unwrap();
        }
        if shape.kind != Kind::Plain {
            commit(&tree, shape.files, &mut text);
        }
        let planted = claude::plant(&device.home, &tree, 2);
        let transcript = claude::place(&device.home, &planted).expect("a conversation");
        lengthen(&transcript, shape.transcript, &mut text);
        Self { shape, id: planted.id, tree, transcript }
    }

    /// The agent need not be installed where it is measured.
    pub const fn is_carried(&self) -> bool {
        true
    }

    /// What another program would have to copy.
    pub fn parts(&self) -> Vec<(String, PathBuf)> {
        let parts = [("work", &self.tree), ("conversation", &self.transcript)];
        let there = parts.into_iter().filter(|(_, path)| path.exists());
        there.map(|(name, path)| (name.to_owned(), path.clone())).collect()
    }

    /// Rewrites every hundredth file, and says how many bytes that were.
    pub fn change(&self, tree: &Path, seed: u64) -> u64 {
        let mut text = Text::new(1_000 + seed);
        let mut changed = 0;
        for number in (0..self.shape.files).filter(|number| number % 100 == seed) {
            let file = tree.join(name(number));
            let length = std::fs::metadata(&file).map_or(1_000, |metadata| metadata.len());
            let piece = text.piece(number + seed, length as usize);
            changed += piece.len() as u64;
            std::fs::write(file, piece).unwrap();
        }
        changed
    }
}

fn name(number: u64) -> String {
    format!("d{:03}/s{:02}/f{number}.txt", number % 300, number / 300 % 20)
}

/// Two commits, and 40 files that differ from the last one: staged, unstaged, new.
fn commit(tree: &Path, files: u64, text: &mut Text) {
    git(tree, &["init", "--quiet", "--initial-branch=main", "."]);
    // Git would tidy up behind our back while the tree is copied.
    git(tree, &["config", "gc.auto", "0"]);
    for part in ["first", "second"] {
        for number in (0..files).step_by(20) {
            std::fs::write(tree.join(name(number)), text.piece(number, 4_000)).unwrap();
        }
        git(tree, &["add", "--all"]);
        git(tree, &["commit", "--quiet", "--message", part]);
    }
    let dirty = 40.min(files / 2);
    for number in 0..dirty {
        std::fs::write(tree.join(name(number)), text.piece(number, 3_000)).unwrap();
    }
    git(tree, &["add", &name(0), &name(1), &name(2)]);
    std::fs::write(tree.join("new.txt"), text.piece(0, 3_000)).unwrap();
}

/// Makes answers of 64 KiB until the conversation is long enough.
fn lengthen(transcript: &Path, bytes: u64, text: &mut Text) {
    use std::io::Write as _;
    let begun = std::fs::read_to_string(transcript).unwrap();
    let row = begun.lines().last().expect("a row").to_owned();
    let row: serde_json::Value = serde_json::from_str(&row).unwrap();
    let mut out = std::io::BufWriter::new(std::fs::File::options().append(true).open(transcript).unwrap());
    let mut parent = row["uuid"].clone();
    let (mut length, mut number) = (begun.len() as u64, 0_u64);
    while length < bytes {
        let mut row = row.clone();
        let own = serde_json::Value::from(format!("b{number}"));
        row["parentUuid"] = std::mem::replace(&mut parent, own.clone());
        row["uuid"] = own;
        row["message"]["content"][0]["text"] = String::from_utf8_lossy(&text.piece(number, 64 << 10)).into();
        let line = row.to_string();
        writeln!(out, "{line}").unwrap();
        length += line.len() as u64 + 1;
        number += 1;
    }
    out.flush().unwrap();
}

/// Words in a random order.
struct Text {
    numbers: Numbers,
    words: Vec<u8>,
}

impl Text {
    fn new(seed: u64) -> Self {
        let mut numbers = Numbers(seed);
        let mut dictionary = Vec::new();
        for _ in 0..4_000 {
            let length = 2 + numbers.below(8);
            dictionary.push((0..length).map(|_| b'a' + numbers.below(26) as u8).collect::<Vec<u8>>());
        }
        let mut words = Vec::new();
        while words.len() < 8 << 20 {
            let word = numbers.below(4_000) as usize;
            words.extend_from_slice(&dictionary[word]);
            words.push(b' ');
        }
        Self { numbers, words }
    }

    fn piece(&mut self, number: u64, length: usize) -> Vec<u8> {
        let mut first = String::new();
        let _ = writeln!(first, "{number} {}", self.numbers.next());
        let start = self.numbers.below((self.words.len() - length) as u64) as usize;
        let mut piece = first.into_bytes();
        piece.extend_from_slice(&self.words[start..start + length]);
        piece
    }
}
