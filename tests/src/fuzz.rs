//! Everything that reads what others wrote, fed with nonsense. A target takes bytes and panics where something is wrong:
//! not only where the reader itself panics, but where it accepts what it should not.
//!
//! `tests/tests/fuzz.rs` replays the corpus of every target and changes it by chance; `tests/fuzz` is the same under
//! libFuzzer.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;

use crate::devices::trees::Numbers;

mod agents;
mod conversations;
mod journal;
mod kept;
mod local;
mod mutate;
mod peers;
mod people;
mod repositories;
mod sealed;
pub mod seeds;
mod terminals;
mod words;

/// A reader, with what must hold whatever it is given.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, and the directory of its corpus.
    pub name: &'static str,
    /// Reads; panics where something is wrong.
    pub run: fn(&[u8]),
    /// What the input is made of, for the changes by chance.
    pub tokens: &'static [&'static str],
}

const JSON: &[&str] =
    &["{", "}", "[", "]", ":", ",", "\"", "null", "true", "1e999", "\\u0000", "\\ud800", "\n", "[[[[[[[["];
/// JSON whose texts would act on a terminal.
const SHOWN: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "null",
    "\\u0000",
    "\\u001b[2J",
    "\\u202e",
    "\\n",
    "\\r",
    "\u{9b}",
    "\u{200b}",
    "\n",
    "\0",
    "\t",
    "y",
    "\x1b[B",
];
const PATHS: &[&str] = &["/", "..", ".", ".git", "\0", "git~1", "\u{200c}", "\\", ":", " ", "\u{202e}", "a/"];
const SEQUENCES: &[&str] = &[
    "\x1b[",
    "\x1b]",
    "\x1bP",
    "\x1b\\",
    "\x07",
    ";",
    "?",
    "65535",
    "m",
    "H",
    "J",
    "n",
    "c",
    "t",
    "\u{9b}",
    "\u{202e}",
    "52;c;",
    "漢",
    "\x18",
    "\x1b[?1049h",
    "\x1b[3J",
];
const NONE: &[&str] = &[];

/// Every reader of the product.
pub const TARGETS: [Target; 43] = [
    Target { name: "frame", run: peers::frame, tokens: NONE },
    Target { name: "peer-message", run: peers::peer_message, tokens: PATHS },
    Target { name: "posed-question", run: peers::posed, tokens: PATHS },
    Target { name: "pair-message", run: peers::pair_message, tokens: NONE },
    Target { name: "record", run: peers::record, tokens: NONE },
    Target { name: "custody", run: peers::custody, tokens: NONE },
    Target { name: "handoff", run: peers::handoff, tokens: PATHS },
    Target { name: "member-entry", run: peers::member_entry, tokens: NONE },
    Target { name: "membership-log", run: peers::membership_log, tokens: NONE },
    Target { name: "catalog", run: peers::catalog, tokens: PATHS },
    Target { name: "file-catalog", run: kept::file_catalog, tokens: PATHS },
    Target { name: "letter", run: kept::letter, tokens: NONE },
    Target { name: "task-part", run: kept::task_part, tokens: &["default", "..", "~", "\0", "-", ","] },
    Target { name: "audit-file", run: kept::audit, tokens: &["cedeaudt"] },
    Target { name: "path", run: words::path, tokens: PATHS },
    Target { name: "names", run: words::names, tokens: &["-", ".", "/", "..", "\0", "ses_", "é", "a7"] },
    Target { name: "pairing-words", run: words::pairing_words, tokens: &["-", " ", "\u{2010}", "abandon", "zero"] },
    Target { name: "discovery", run: words::discovery, tokens: &["m=", ".", "\0", "02020202", "09090909"] },
    Target { name: "sealed-stream", run: sealed::stream, tokens: &["cede"] },
    Target { name: "chunk-stream", run: sealed::chunks, tokens: NONE },
    Target { name: "signed", run: sealed::signed, tokens: NONE },
    Target { name: "journal-file", run: journal::file, tokens: &["cedejrnl", "cjgr"] },
    Target { name: "journal-records", run: journal::records, tokens: NONE },
    Target { name: "control-request", run: local::request, tokens: JSON },
    Target { name: "control-reply", run: local::reply, tokens: JSON },
    Target { name: "viewer-says", run: local::viewer_says, tokens: JSON },
    Target { name: "answer-shown", run: people::answer_shown, tokens: SHOWN },
    Target { name: "cockpit-screen", run: people::cockpit_screen, tokens: SHOWN },
    Target { name: "typed-keys", run: people::typed_keys, tokens: SEQUENCES },
    Target { name: "tool-call", run: people::tool_call, tokens: SHOWN },
    Target {
        name: "configuration",
        run: people::configuration,
        tokens: &["\"", "=", "\n", "[", "]", "{", "'", "#", "-1s"],
    },
    Target {
        name: "notify-file",
        run: people::ways,
        tokens: &["://", "@", "/", "?", "#", ":", "\\u0000", "\"", "[", "%"],
    },
    Target { name: "conversation-rows", run: conversations::rows, tokens: SHOWN },
    Target { name: "conversation-parts", run: conversations::parts, tokens: SHOWN },
    Target { name: "agent-output", run: conversations::output, tokens: SHOWN },
    Target { name: "terminal-filter", run: terminals::filter, tokens: SEQUENCES },
    Target { name: "terminal-screen", run: terminals::screen, tokens: SEQUENCES },
    Target { name: "codex-rollout", run: agents::codex, tokens: JSON },
    Target { name: "claude-transcript", run: agents::claude, tokens: JSON },
    Target { name: "opencode-export", run: agents::opencode_export, tokens: JSON },
    Target { name: "opencode-arrival", run: agents::opencode_arrival, tokens: JSON },
    Target { name: "opencode-rows", run: agents::opencode_rows, tokens: JSON },
    Target {
        name: "repository",
        run: repositories::repository,
        tokens: &["refs/heads/", "..", "ext::", "-", "\t", "\0", "size: ", "\tflags: "],
    },
];

impl Target {
    /// The inputs that are kept, by name.
    pub fn corpus(&self) -> Vec<(String, Vec<u8>)> {
        let entries = std::fs::read_dir(self.directory()).into_iter().flatten().flatten();
        let mut inputs: Vec<_> = entries
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap()))
            .collect();
        inputs.sort();
        inputs
    }

    /// Where they are kept.
    pub fn directory(&self) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(self.name)
    }

    /// Runs one input; the text of the panic where something is wrong.
    pub fn holds(&self, input: &[u8]) -> Result<(), String> {
        let ran = std::panic::catch_unwind(AssertUnwindSafe(|| (self.run)(input)));
        ran.map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
        })
    }

    /// The input number `at` of a seed: one of the corpus, changed. The same for the same seed, number and corpus.
    pub fn changed(&self, corpus: &[Vec<u8>], seed: u64, at: u64) -> Vec<u8> {
        let mut numbers = Numbers(seed ^ at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mutate::changed(corpus, self.tokens, &mut numbers)
    }
}

/// The names of all targets, each once.
pub fn names() -> BTreeSet<&'static str> {
    TARGETS.iter().map(|target| target.name).collect()
}
