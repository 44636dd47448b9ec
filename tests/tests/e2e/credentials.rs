//! Credentials of providers, planted wherever agents, git and people keep them, and looked for in everything that arrives.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;

use super::*;

/// Part of every planted secret; nothing else has it.
const PLANTED: &str = "pLaNtEd-0c9f";

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let before = std::fs::read_to_string(path).unwrap_or_default();
    std::fs::write(path, before + &text.replace("SECRET", PLANTED)).unwrap();
}

fn plant_secrets(device: &mut Device, tree: &Path) {
    let home = device.home.clone();
    for (file, text) in [
        (
            ".codex/auth.json",
            r#"{"OPENAI_API_KEY":"sk-SECRET","tokens":{"access_token":"SECRET","refresh_token":"SECRET"}}"#,
        ),
        (".codex/config.toml", "\n[model_providers.own]\nname = \"own\"\nexperimental_bearer_token = \"SECRET\"\n"),
        (".codex/.env", "OPENAI_API_KEY=SECRET\n"),
        (".claude/.credentials.json", r#"{"claudeAiOauth":{"accessToken":"SECRET","refreshToken":"SECRET"}}"#),
        (".claude/settings.json", r#"{"env":{"ANTHROPIC_API_KEY":"SECRET"},"apiKeyHelper":"echo SECRET"}"#),
        (".claude.json", r#"{"primaryApiKey":"SECRET","mcpServers":{"x":{"env":{"TOKEN":"SECRET"}}}}"#),
        (".local/share/opencode/auth.json", r#"{"anthropic":{"type":"api","key":"SECRET"}}"#),
        (".config/opencode/opencode.json", r#"{"provider":{"x":{"options":{"apiKey":"SECRET"}}}}"#),
        (".git-credentials", "https://ada:SECRET@example.org\n"),
        (".netrc", "machine example.org login ada password SECRET\n"),
        (".ssh/id_ed25519", "SECRET\n"),
    ] {
        write(&home.join(file), text);
    }
    trees::git(tree, &["remote", "add", "origin", &format!("https://ada:{PLANTED}@example.org/x.git")]);
    trees::git(tree, &["config", "http.extraheader", &format!("Authorization: Bearer {PLANTED}")]);
    // Ignored: it stays, whatever it is called.
    write(&tree.join("build/.env"), "TOKEN=SECRET\n");
    for name in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENCODE_API_KEY"] {
        device.variables.push((name.into(), PLANTED.into()));
    }
}

/// Files below a directory that hold a text.
fn files_with(directory: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        // What a capture made may just be on its way out.
        for entry in std::fs::read_dir(next).into_iter().flatten().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                waiting.push(entry.path());
            } else if kind.is_file() && holds(&std::fs::read(entry.path()).unwrap_or_default(), text) {
                found.push(entry.path());
            }
        }
    }
    found
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// The search path with the demo's stand-in for OpenCode at its end: its sessions go in and out through its own program.
fn with_stand_in(root: &Path) -> OsString {
    let directory = root.join("stand-ins");
    std::fs::create_dir(&directory).unwrap();
    std::os::unix::fs::symlink(CEDE, directory.join("cede")).unwrap();
    let script = directory.join("opencode");
    std::fs::write(&script, "#!/bin/sh\nexec \"${0%/*}/cede\" demo opencode \"${0%/*}\" \"$@\"\n").unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    std::env::join_paths(std::env::split_paths(&path).chain([directory])).unwrap()
}

fn no_secret_travels(agent: AgentKind) {
    let mut devices = Devices::strangers(CEDE);
    let tree = project(&devices.a);
    let path = with_stand_in(devices.root.path());
    for device in [&mut devices.a, &mut devices.b] {
        device.path.clone_from(&path);
    }
    let around = Surroundings::plain(&devices.a.home, &devices.a.state().join("agents"), path);
    let native = plant(agent, &around, &tree, [7; 16], &Story::example("mock", "mock-model")).unwrap();
    plant_secrets(&mut devices.a, &tree);
    for device in [&mut devices.a, &mut devices.b] {
        device.kill();
        device.start();
    }
    let devices = devices.joined();
    let (a, b) = (&devices.a, &devices.b);
    let id = SessionKey { agent, native }.id();
    let carried = MoveRequest { carry_only: true, ..request("server", id) };
    let place = b.cede_home.parent().unwrap();

    // A last round that is refused leaves the chunks of the first ones where they are kept, whole and unsealed.
    let asked = a.open(Command::To(carried.clone())).unwrap();
    let waiting = question(b);
    write(&tree.join(".late"), "a name that nobody approved\n");
    decide(b, &waiting, true);
    refused(asked.end(&mut |_| {}).unwrap());
    let stages = b.state().join("stages");
    for part in ["read_line", "hello, everybody"] {
        assert!(!files_with(&stages, part).is_empty(), "{part} can be read among the chunks");
    }
    assert_eq!(files_with(place, PLANTED), [""; 0].map(PathBuf::from), "among the chunks");

    b.say_yes_to("laptop");
    a.move_with(carried).unwrap();
    for part in ["read_line", "hello, everybody"] {
        assert!(!files_with(&b.home, part).is_empty(), "{part} arrived");
    }
    assert_eq!(files_with(place, PLANTED), [""; 0].map(PathBuf::from), "in what arrived, or the destination's log");
    assert!(!a.log().contains(PLANTED), "in the source's log");
    assert!(files_with(&a.state(), PLANTED).is_empty(), "in what the source keeps");
}

/// Shows: T-10, T-6, S-9
#[test]
fn no_planted_credential_travels_with_a_session_of_codex() {
    no_secret_travels(AgentKind::Codex);
}

/// Shows: T-10, T-6, S-9
#[test]
fn no_planted_credential_travels_with_a_session_of_claude_code() {
    no_secret_travels(AgentKind::ClaudeCode);
}

/// Shows: T-10, T-6, S-9
#[test]
fn no_planted_credential_travels_with_a_session_of_opencode() {
    no_secret_travels(AgentKind::OpenCode);
}

/// The state of the daemon, with the key of the device, is no session and in none.
#[test]
fn state_of_the_daemon_is_no_session() {
    let devices = Devices::friends(CEDE);
    let a = &devices.a;
    let around = a.cede_home.parent().unwrap();
    for place in [a.state(), a.state().join("secrets"), a.cede_home.clone(), around.to_owned()] {
        let failed = refused(a.ask(Command::Adopt { directory: place.display().to_string() }));
        let own = failed.why.starts_with("the state of cede itself lies in");
        assert!(own || failed.why.contains("cede.sock"), "{}", failed.why);
    }
    // What a session's directory became is not what was adopted.
    let (tree, id) = adopted(a);
    std::fs::remove_dir_all(&tree).unwrap();
    std::os::unix::fs::symlink(devices.b.state(), &tree).unwrap();
    let failed = refused(a.to("server", id));
    assert!(failed.why.contains("is a link now"), "{}", failed.why);
}
