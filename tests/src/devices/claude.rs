//! A session of Claude Code in the files that it would have written, and what its store says of it.

use std::io::Write;
use std::path::{Path, PathBuf};

use cede_wire::id::SessionId;
use cede_wire::session::{AgentKind, NativeId, SessionKey};

/// A planted session.
#[derive(Debug, Clone)]
pub struct Planted {
    /// The agent's id.
    pub native: String,
    /// Ours.
    pub id: SessionId,
}

/// Plants a session with `turns` turns about `tree` in the store of this home.
pub fn plant(home: &Path, tree: &Path, turns: usize) -> Planted {
    let native = "0b5e3a52-3c1d-4a2e-9f43-6f1d2c7a9e10".to_owned();
    let slug: String =
        tree.display().to_string().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let store = home.join(".claude/projects").join(slug);
    std::fs::create_dir_all(&store).unwrap();
    let rows: String = (0..turns).map(|turn| rows(&native, tree, turn)).collect();
    std::fs::write(store.join(format!("{native}.jsonl")), rows).unwrap();
    let key = SessionKey { agent: AgentKind::ClaudeCode, native: NativeId::parse(&native).unwrap() };
    Planted { native, id: key.id() }
}

/// Adds a turn to the transcript, wherever it lies in this home.
pub fn add_turn(home: &Path, planted: &Planted, tree: &Path, turn: usize) {
    let file = place(home, planted).expect("a transcript here");
    let mut file = std::fs::File::options().append(true).open(file).unwrap();
    file.write_all(rows(&planted.native, tree, turn).as_bytes()).unwrap();
}

fn rows(native: &str, tree: &Path, turn: usize) -> String {
    let cwd = tree.display();
    let user = format!("{native}-u{turn}");
    let parent = if turn == 0 { "null".to_owned() } else { format!("\"{native}-a{}\"", turn - 1) };
    format!(
        concat!(
            r#"{{"parentUuid":{},"isSidechain":false,"cwd":"{}","sessionId":"{}","version":"2.1.332","type":"user","#,
            r#""message":{{"role":"user","content":"turn {}: look at the tests"}},"uuid":"{}"}}"#,
            "\n",
            r#"{{"parentUuid":"{}","isSidechain":false,"cwd":"{}","sessionId":"{}","version":"2.1.332","type":"assistant","#,
            r#""message":{{"role":"assistant","content":[{{"type":"text","text":"answer {}"}}],"stop_reason":"end_turn"}},"#,
            r#""uuid":"{}-a{}"}}"#,
            "\n",
        ),
        parent, cwd, native, turn, user, user, cwd, native, turn, native, turn
    )
}

/// The file that the agent would resume, real or tombstone.
pub fn place(home: &Path, planted: &Planted) -> Option<PathBuf> {
    let projects = std::fs::read_dir(home.join(".claude/projects")).ok()?;
    let name = format!("{}.jsonl", planted.native);
    projects.flatten().map(|entry| entry.path().join(&name)).find(|path| path.exists())
}

/// The transcript's bytes, where the agent could go on with it: none where it is absent or fenced.
pub fn resumable(home: &Path, planted: &Planted) -> Option<Vec<u8>> {
    let bytes = std::fs::read(place(home, planted)?).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    (!text.contains("cedeTombstone")).then_some(bytes)
}

/// Says to the agent's registry of processes that this live process works in the session.
pub fn register(home: &Path, planted: &Planted, pid: u32, status: &str) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let ticks = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().to_owned();
    let entry = serde_json::json!({
        "pid": pid, "sessionId": planted.native, "procStart": ticks, "status": status, "cwd": home,
    });
    std::fs::create_dir_all(home.join(".claude/sessions")).unwrap();
    std::fs::write(home.join(format!(".claude/sessions/{pid}.json")), entry.to_string()).unwrap();
}
