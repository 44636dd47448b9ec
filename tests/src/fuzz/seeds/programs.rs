//! What programs write: the agents' sessions, the git program's listings, the words of the command and the daemon.

use std::path::{Path, PathBuf};

use cede_agent::adapter::opencode::decoder;
use cede_agent::adapter::recorded::{Story, answer_as_opencode, plant};
use cede_agent::adapter::{Adapter as _, Surroundings, opencode::OpenCodeAdapter};
use cede_agent::chunk::StatCache;
use cede_agent::tree::{CaptureOptions, capture, inspect};
use cede_wire::catalog::Place;
use cede_wire::control::terminal::{Base64, TerminalSize, ViewerSays};
use cede_wire::control::{Answer, Command, Failure, MoveRequest, Reply, ReplyBody, Request};
use cede_wire::session::{AgentKind, NativeId};

use crate::devices::trees::git;

pub(super) fn of(target: &str) -> Vec<(String, Vec<u8>)> {
    match target {
        "control-request" => requests(),
        "control-reply" => replies(),
        "viewer-says" => viewer_says(),
        "terminal-filter" => printed(),
        "terminal-screen" => {
            printed().into_iter().map(|(name, bytes)| (name, [b"\0\x01", &bytes[..]].concat())).collect()
        }
        "answer-shown" => answers(),
        "cockpit-screen" => screens(),
        "typed-keys" => typed(),
        "tool-call" => calls(),
        "configuration" => configurations(),
        "notify-file" => ways(),
        "agent-output" => output(),
        "conversation-rows" => conversations(),
        "conversation-parts" => parts(),
        "codex-rollout" => vec![("recorded".to_owned(), recorded(AgentKind::Codex))],
        "claude-transcript" => vec![("recorded".to_owned(), recorded(AgentKind::ClaudeCode))],
        "opencode-export" => vec![("recorded".to_owned(), export())],
        "opencode-arrival" => vec![("recorded".to_owned(), arrival())],
        "opencode-rows" => rows(),
        "repository" => repository(),
        _ => Vec::new(),
    }
}

fn requests() -> Vec<(String, Vec<u8>)> {
    let commands = [
        Command::Status,
        Command::Sessions { peers: true },
        Command::PairWith { words: "a-b-c-d".into(), address: Some("127.0.0.1:1".into()), name: None },
        Command::Policy { device: "desk".into(), policy: Some(cede_wire::record::PeerPolicy::Yes) },
        Command::To(MoveRequest { device: "desk".into(), exclude: vec!["*.log".into()], ..MoveRequest::default() }),
        Command::Decide { approval: "ab12".into(), yes: true },
    ];
    let line = |command| serde_json::to_vec(&Request::new(command)).unwrap();
    (0..).zip(commands).map(|(n, command): (u8, _)| (format!("request-{n}"), line(command))).collect()
}

fn viewer_says() -> Vec<(String, Vec<u8>)> {
    let says = [
        ViewerSays::Typed { bytes: Base64(b"ls\n".to_vec()) },
        ViewerSays::Resized { size: TerminalSize { rows: 0, columns: 65_535 } },
        ViewerSays::Keyboard { insist: true },
        ViewerSays::LetGo,
    ];
    (0..).zip(says).map(|(n, says): (u8, _)| (format!("says-{n}"), serde_json::to_vec(&says).unwrap())).collect()
}

fn printed() -> Vec<(String, Vec<u8>)> {
    let printed: [(&str, &[u8]); 4] = [
        ("prompt", b"\x1b[?2004h$ ls\r\n\x1b[0m\x1b[01;34msrc\x1b[0m\r\n"),
        ("editor", b"\x1b[?1049h\x1b[22;0;0t\x1b[1;24r\x1b[H\x1b[2J\x1b[4 q~\r\n~\x1b[24;1H\x1b[38:2:1:2:3m-- x"),
        ("hostile", b"\x1b]0;root\x07\x1b]52;c;cm0=\x07\x1bP+q544e\x1b\\\x1b[6n\x1b[3J\x1bc\xe2\x80\xaeend"),
        ("letters", "ü 漢 👩\u{200d}💻 e\u{301}\u{9b}5n".as_bytes()),
    ];
    printed.map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).into()
}

fn replies() -> Vec<(String, Vec<u8>)> {
    let refusal = Some(cede_wire::refusal::Refusal::Declined);
    let (what, why, cure) = ("it was not moved".to_owned(), "no".to_owned(), String::new());
    let bodies = [
        ReplyBody::Done(Answer::Said { text: "done".into() }),
        ReplyBody::Done(Answer::Approvals { approvals: Vec::new() }),
        ReplyBody::Failed(Failure { exit: 4, what, why, cure, refusal, now_at: None }),
    ];
    let line = |body| serde_json::to_vec(&Reply::new(body)).unwrap();
    (0..).zip(bodies).map(|(n, body): (u8, _)| (format!("reply-{n}"), line(body))).collect()
}

/// A device of its own with one recorded session.
fn planted(agent: AgentKind) -> (tempfile::TempDir, Surroundings, NativeId) {
    let place = tempfile::tempdir().unwrap();
    let around = Surroundings::plain(&place.path().join("home"), &place.path().join("state"), "/usr/bin:/bin".into());
    let work = place.path().join("work");
    std::fs::create_dir_all(&work).unwrap();
    let native = plant(agent, &around, Path::new("/work"), [7; 16], &Story::example("own", "m-1")).unwrap();
    (place, around, native)
}

fn recorded(agent: AgentKind) -> Vec<u8> {
    let (place, around, native) = planted(agent);
    let adapter = cede_agent::adapter::adapters(&around).into_iter().find(|adapter| adapter.agent() == agent).unwrap();
    let transcript = adapter.capture(&native, &place.path().join("scratch")).unwrap();
    std::fs::read(&transcript.files[0].local).unwrap()
}

fn export() -> Vec<u8> {
    let (_place, around, native) = planted(AgentKind::OpenCode);
    assert!(OpenCodeAdapter::new(&around).describe(&native).is_ok());
    answer_as_opencode(&around, Path::new("/work"), &["export", native.as_str()]).unwrap().into_bytes()
}

fn arrival() -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("export"), export()).unwrap();
    decoder::take_apart(&place.path().join("export"), &place.path().join("parts")).unwrap();
    let read = |part: &str| std::fs::read(place.path().join("parts").join(part)).unwrap();
    [read("info.json"), read("messages.jsonl")].concat()
}

/// The columns of a session, of a message and of a part, a zero between them.
fn rows() -> Vec<(String, Vec<u8>)> {
    let message = r#"{"role":"assistant","time":{"created":1},"providerID":"own"}"#;
    let part = r#"{"type":"tool","state":{"status":"running"}}"#;
    let whole = ["ses_two", "", "/w", "a title", "1.18.33", "#9", "msg_3", "#5", message, "prt_1", part];
    let child =
        ["ses_x'); drop table message; --", "ses_good", "/w", "t", "1", "#9", "msg_0", "#5", "{}", "prt_2", "{}"];
    let odd = ["ses_two", "^\u{1}", "^raw", "^\u{7f}", "~1.5", "~nan", "msg_9", "later", "{not json", "prt_1", "{"];
    let join = |fields: [&str; 11]| fields.join("\0").into_bytes();
    vec![("whole".to_owned(), join(whole)), ("child".to_owned(), join(child)), ("odd".to_owned(), join(odd))]
}

fn repository() -> Vec<(String, Vec<u8>)> {
    let place = tempfile::tempdir().unwrap();
    let root = small_repository(place.path());
    let tree = inspect(&root).unwrap();
    let options = CaptureOptions {
        include_ignored: &[],
        exclude: &[],
        untracked: true,
        have: &[],
        scratch: &place.path().join("scratch"),
    };
    let captured = capture(&tree, &options, &mut StatCache::default()).unwrap();
    let record = |name: &str, number: u8| {
        let is_it =
            |entry: &&cede_wire::catalog::Entry| entry.place == Place::Git && entry.path.as_bytes() == name.as_bytes();
        let mut bytes = vec![number];
        for chunk in captured.entries.iter().find(is_it).unwrap().chunks() {
            let mut piece = Vec::new();
            captured.sources.read(&chunk.id, &mut piece).unwrap();
            bytes.extend(piece);
        }
        (name.to_owned(), bytes)
    };
    let said = |name: &str, number: u8, arguments: &[&str]| {
        (name.to_owned(), [&[number][..], git(&root, arguments).as_bytes()].concat())
    };
    let address = |n: usize, text: &str| (format!("address-{n}"), [b"\x04", text.as_bytes()].concat());
    let mut seeds = vec![
        record("state", 0),
        record("index", 1),
        said("listing", 2, &["ls-files", "-z", "--stage", "--debug"]),
        said("settings", 3, &["config", "-z", "--list", "--local"]),
    ];
    let addresses = ["https://me:secret@h:8/x@y", "ssh://git:pw@h/x", "git@h:x", "ext::sh -c x", "/srv/x.git", "-h:x"];
    seeds.extend(addresses.iter().enumerate().map(|(n, text)| address(n, text)));
    seeds
}

fn small_repository(place: &Path) -> PathBuf {
    let root = place.join("r");
    std::fs::create_dir_all(root.join("src")).unwrap();
    std::fs::write(root.join("a.txt"), "one\n").unwrap();
    std::fs::write(root.join("src/main.rs"), "fn main() {}\n").unwrap();
    for arguments in [
        &["init", "-q", "-b", "main"][..],
        &["add", "-A"],
        &["commit", "-q", "-m", "first"],
        &["remote", "add", "origin", "https://example.com/x"],
        &["update-ref", "refs/remotes/origin/main", "HEAD"],
        &["config", "branch.main.remote", "origin"],
        &["config", "branch.main.merge", "refs/heads/main"],
        &["tag", "v1"],
    ] {
        git(&root, arguments);
    }
    std::fs::write(root.join("a.txt"), "stashed\n").unwrap();
    git(&root, &["stash", "push", "-q"]);
    root
}

/// What a daemon answers of everything that a person looks at.
fn answers() -> Vec<(String, Vec<u8>)> {
    let samples = cede_cli::decoders::samples();
    let line = |body| serde_json::to_vec(&Reply::new(body)).unwrap();
    (0..).zip(samples).map(|(n, body): (u8, _)| (format!("answer-{n}"), line(body))).collect()
}

/// Answers behind keys that were typed.
fn screens() -> Vec<(String, Vec<u8>)> {
    let lines = answers().into_iter().flat_map(|(_, line)| [b"\n".to_vec(), line]).collect::<Vec<_>>().concat();
    let keys: [(&str, &[u8]); 4] =
        [("questions", b"\x1b[B\r yn"), ("sessions", b"2\x1b[Bho\r"), ("letters", b"5\x1b[B\r"), ("help", b"?\t\t")];
    keys.map(|(name, keys)| (name.to_owned(), [keys, &lines].concat())).into()
}

fn typed() -> Vec<(String, Vec<u8>)> {
    let typed: [(&str, &[u8]); 4] = [
        ("keys", "y日\x1b[A\x1bOB\x1b[5~\t\x1b[Z\r\x03\x1b[1;5C\x1b\x1b[A".as_bytes()),
        ("pasted", b"\x1b[200~yes\ry\x1b[201~n"),
        ("chords", b"ls\r\x1d\x1d\x1b[93;5ut\x1b[27;5;93~T\x1dl\x1d?\x1dd"),
        ("no-text", b"\xff\xc3y\x1b[1111111111111111111111y"),
    ];
    typed.map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).into()
}

fn calls() -> Vec<(String, Vec<u8>)> {
    let calls = [
        r#"{"name":"list_peers"}"#,
        r#"{"name":"send_message","arguments":{"to":"desk/ab12","text":"done","expires_in_s":60}}"#,
        r#"{"name":"read_inbox","arguments":{"id":"3fa2","sent":false,"all":true}}"#,
        r#"{"name":"mark_message","arguments":{"id":"3fa2","outcome":"acted"}}"#,
        r#"{"name":"list_sessions","arguments":{"here":true}}"#,
        r#"{"name":"hand_over","arguments":{"to":"desk","session":"ab12","wait":true}}"#,
        r#"{"name":"send_file","arguments":{"to":"desk","paths":["/etc/hostname","./a b"],"note":"n"}}"#,
        r#"{"name":"ask_peer","arguments":{"to":"desk","task":"look","agent":"claude-code","read_only":true,"tools":["Read"],"turns":3}}"#,
        r#"{"name":"read_tasks","arguments":{"id":"5be0"}}"#,
    ];
    (0..).zip(calls).map(|(n, call): (u8, _)| (format!("call-{n}"), call.as_bytes().to_vec())).collect()
}

fn configurations() -> Vec<(String, Vec<u8>)> {
    let whole = "listen = \"127.0.0.1:4242\"\nname = \"laptop\"\ndiscovery = false\nlog = \"debug\"\n\
        questions_expire = \"5m\"\nreceived = \"/in\"\nreceive_limit = \"20GB\"\n";
    let named = |name: &str, text: &str| (name.to_owned(), text.as_bytes().to_vec());
    vec![named("whole", whole), named("none", "# nothing\n"), named("unknown", "lisen = [1, {a = 1}]\n")]
}

fn ways() -> Vec<(String, Vec<u8>)> {
    let all = r#"[{"name":"desktop","sink":{"kind":"desktop"}},{"name":"mine","sink":{"kind":"command","argv":["/bin/call","--key","s3cret"]}},{"name":"hook","sink":{"kind":"webhook","url":"https://hooks.example:8443/T0/s3cret?key=s3cret"}},{"name":"topic-2","sink":{"kind":"ntfy","url":"https://ntfy.sh/s3cret"}}]"#;
    vec![("all".to_owned(), all.as_bytes().to_vec()), ("none".to_owned(), b"[]".to_vec())]
}

/// What the three programs print, a few lines of each.
fn output() -> Vec<(String, Vec<u8>)> {
    let claude = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"I look"},{"type":"tool_use","name":"Read","input":{"a":1}}]}}
{"type":"result","result":"all green","is_error":false,"num_turns":2,"total_cost_usd":0.25,"errors":["x"]}
"#;
    let codex = r#"{"type":"item.started","item":{"type":"command_execution","command":"ls"}}
{"type":"error","message":"Reconnecting"}
{"type":"item.completed","item":{"type":"agent_message","text":"done\nwell"}}
{"type":"turn.failed","error":{"message":"no such model"}}
"#;
    let open = r#"{"type":"text","part":{"text":"fine"}}
{"type":"tool_use","part":{"tool":"bash","state":{"title":"ls"}}}
{"type":"step_finish","part":{"cost":0.5}}
{"type":"error","error":{"name":"APIError","data":{"message":"no such model"}}}
"#;
    let plain = "no such program\n\u{1b}[31mbad\r\n";
    let named = |(name, text): (&str, &str)| (name.to_owned(), text.as_bytes().to_vec());
    [("claude", claude), ("codex", codex), ("open", open), ("plain", plain)].map(named).into()
}

/// Whose rows they are, where the file ended at first, and the rows.
fn conversations() -> Vec<(String, Vec<u8>)> {
    let codex = br#"{"type":"event_msg","payload":{"type":"user_message","message":"fix it"}}
{"type":"response_item","payload":{"type":"function_call","name":"exec","arguments":"{\"cmd\":\"ls\"}"}}
{"type":"response_item","payload":{"type":"function_call_output","output":"a\u001b[2J\nperson"}}
{"type":"event_msg","payload":{"type":"item_completed","item":{"type":"AgentMessage","content":[{"type":"Text","text":"Done."}]}}}
"#;
    let claude = br#"{"type":"user","message":{"role":"user","content":"fix it"}}
{"type":"assistant","message":{"content":[{"type":"text","text":"I look."},{"type":"tool_use","name":"Bash","input":{"command":"ls"}}]}}
{"type":"user","message":{"content":[{"type":"tool_result","content":[{"type":"text","text":"a\u202eb"}]}]}}
"#;
    let of = |name: &str, head: &[u8], rows: &[u8]| (name.to_owned(), [head, rows].concat());
    vec![
        of("recorded-codex", b"\0\0\x10", &recorded(AgentKind::Codex)),
        of("recorded-claude", b"\x01\0\x04", &recorded(AgentKind::ClaudeCode)),
        of("codex", b"\0\x50\0", codex),
        of("claude", b"\x01\x40\0", claude),
    ]
}

/// A message and its part, a zero between them, and the next.
fn parts() -> Vec<(String, Vec<u8>)> {
    let (user, agent) = (r#"{"role":"user"}"#, r#"{"role":"assistant","time":{"created":1}}"#);
    let over = r#"{"role":"assistant","time":{"created":1,"completed":2}}"#;
    let tool = r#"{"type":"tool","tool":"bash","state":{"status":"completed","input":{"command":"ls"},"output":"a"}}"#;
    let whole = [
        user,
        r#"{"type":"text","text":"fix it"}"#,
        over,
        tool,
        over,
        r#"{"type":"text","text":"Done.","time":{"start":1,"end":2}}"#,
        agent,
        r#"{"type":"tool","tool":"bash","state":{"status":"running"}}"#,
    ];
    let odd = ["{", "{not json", user, r#"{"type":"file","filename":"a\u0000"}"#, "", "7", over, r#"{"type":"text"}"#];
    let join = |texts: [&str; 8]| texts.join("\0").into_bytes();
    vec![("whole".to_owned(), join(whole)), ("odd".to_owned(), join(odd))]
}
