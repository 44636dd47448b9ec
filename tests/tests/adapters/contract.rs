//! The contract of the port, with recorded sessions and no program. OpenCode cannot take part: its sessions live
//! behind its own program, and `moves` shows it with that.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cede_agent::adapter::recorded::{Story, plant};
use cede_agent::adapter::{Adapter, AgentError, CannotResume, Installed, Surroundings, adapters};
use cede_wire::session::{Activity, AgentKind, NativeId, Requirement};

use crate::driver::{install, stage, tombstone};

const KINDS: [AgentKind; 3] = [AgentKind::Files, AgentKind::Codex, AgentKind::ClaudeCode];

/// A home without programs.
struct Place {
    _dir: tempfile::TempDir,
    home: PathBuf,
    workdir: PathBuf,
    around: Surroundings,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        let workdir = home.join("demo");
        std::fs::create_dir(&workdir).unwrap();
        let around = Surroundings::plain(&home, &home.join("state"), "/nowhere".into());
        Self { _dir: dir, home, workdir, around }
    }

    fn adapter(&self, kind: AgentKind) -> Box<dyn Adapter> {
        adapters(&self.around).into_iter().find(|adapter| adapter.agent() == kind).unwrap()
    }

    fn plant(&self, kind: AgentKind, story: &Story) -> NativeId {
        plant(kind, &self.around, &self.workdir, [9; 16], story).unwrap()
    }

    /// Every file of the agents and its bytes.
    fn agents_files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        collect(&self.home.join(".codex"), &mut found);
        collect(&self.home.join(".claude"), &mut found);
        found
    }
}

fn collect(directory: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, found);
        } else {
            found.insert(path.clone(), std::fs::read(path).unwrap());
        }
    }
}

fn story() -> Story {
    Story::example("openai", "m")
}

/// Shows: A-1
#[test]
fn planted_session_is_discovered_and_described_alike() {
    for kind in KINDS {
        let place = Place::new();
        let native = place.plant(kind, &story());
        let adapter = place.adapter(kind);
        let listed = adapter.discover().unwrap();
        assert_eq!(listed, [adapter.describe(&native).unwrap()], "{kind:?}");
        assert_eq!(listed[0].directory, place.workdir.to_str().unwrap());
        assert!(matches!(listed[0].activity, Activity::Idle { .. }));
        assert_eq!(adapter.requirement(&native).unwrap().agent, kind);
    }
}

#[test]
fn unknown_session_is_named_as_such() {
    let unknown = NativeId::parse("00000000-0000-7000-8000-000000000000").unwrap();
    let place = Place::new();
    // A terminal has no files of an agent: the daemon itself hosts it.
    for kind in AgentKind::ALL.into_iter().filter(|kind| *kind != AgentKind::Terminal) {
        let adapter = place.adapter(kind);
        let said = AgentError::Unknown { agent: kind, native: unknown.clone() };
        assert_eq!(adapter.discover(), Ok(Vec::new()));
        assert_eq!(adapter.describe(&unknown), Err(said.clone()));
        assert_eq!(adapter.requirement(&unknown), Err(said.clone()));
        assert_eq!(adapter.capture(&unknown, &place.home), Err(said.clone()));
        assert_eq!(adapter.fence(&unknown, &tombstone("x")), Err(said));
        assert_eq!(adapter.lift(&unknown), Ok(()));
        assert_eq!(adapter.is_fenced(&unknown), Ok(false));
        assert!(adapter.leftovers(&unknown).is_empty());
    }
    assert!(place.agents_files().is_empty(), "nothing was written");
}

/// Shows
#[test]
fn lifted_fence_leaves_no_trace_among_the_agents_files() {
    for kind in KINDS {
        let place = Place::new();
        let native = place.plant(kind, &story());
        let adapter = place.adapter(kind);
        let before = place.agents_files();
        let captured = stage(&*adapter, &native, &place.home.join("a"));
        adapter.fence(&native, &tombstone("laptop")).unwrap();
        adapter.fence(&native, &tombstone("server")).unwrap();
        assert!(adapter.is_fenced(&native).unwrap());
        assert_eq!(stage(&*adapter, &native, &place.home.join("b")).head, captured.head, "{kind:?}");
        assert_eq!(adapter.describe(&native).unwrap().turns, captured.turns);
        adapter.lift(&native).unwrap();
        adapter.lift(&native).unwrap();
        assert!(!adapter.is_fenced(&native).unwrap());
        assert_eq!(place.agents_files(), before, "{kind:?}");
    }
}

/// Shows: A-3
#[test]
fn fence_survives_the_daemon() {
    for kind in KINDS {
        let place = Place::new();
        let native = place.plant(kind, &story());
        place.adapter(kind).fence(&native, &tombstone("laptop")).unwrap();
        let restarted = place.adapter(kind);
        assert!(restarted.is_fenced(&native).unwrap());
        restarted.lift(&native).unwrap();
        assert!(!restarted.is_fenced(&native).unwrap());
    }
}

/// Shows: A-9
#[test]
fn arrival_is_installed_once_however_often_it_is_asked_for() {
    for kind in KINDS {
        let (here, there) = (Place::new(), Place::new());
        let native = here.plant(kind, &story());
        let staging = here.home.join("staging");
        std::fs::create_dir_all(staging.join("files")).unwrap();
        let left = stage(&*here.adapter(kind), &native, &staging);
        let adapter = there.adapter(kind);
        assert_eq!(install(&*adapter, &native, &staging, there.workdir.clone()), Installed::New);
        assert_eq!(install(&*adapter, &native, &staging, there.workdir.clone()), Installed::Unchanged);
        let arrived = stage(&*adapter, &native, &there.home.join("again"));
        assert_eq!((arrived.head, arrived.turns), (left.head, left.turns), "{kind:?}");
        assert_eq!(adapter.discover().unwrap().len(), 1);
    }
}

/// Shows: A-3, H-25
#[test]
fn returning_session_extends_what_is_here_and_takes_the_fence_down() {
    for kind in [AgentKind::Codex, AgentKind::ClaudeCode] {
        let (here, there) = (Place::new(), Place::new());
        let mut longer = story();
        let last = longer.turns.pop().unwrap();
        let native = here.plant(kind, &longer);
        longer.turns.push(last);
        assert_eq!(there.plant(kind, &longer), native);
        let adapter = here.adapter(kind);
        adapter.fence(&native, &tombstone("laptop")).unwrap();
        let staging = there.home.join("staging");
        let returned = there.adapter(kind);
        // The recorded directory differs, so the bytes do: bring the same directory about.
        let transcript = stage(&*returned, &native, &staging);
        for file in &transcript.files {
            let staged = staging.join("files").join(std::str::from_utf8(file.path.as_bytes()).unwrap());
            let text = std::fs::read_to_string(&staged).unwrap();
            let (from, to) = (there.workdir.to_str().unwrap(), here.workdir.to_str().unwrap());
            std::fs::write(&staged, text.replace(from, to)).unwrap();
        }
        assert_eq!(install(&*adapter, &native, &staging, here.workdir.clone()), Installed::Extended, "{kind:?}");
        assert!(!adapter.is_fenced(&native).unwrap());
        assert_eq!(adapter.describe(&native).unwrap().turns, 2);
        assert!(!here.agents_files().keys().any(|file| file.to_string_lossy().contains("cede")), "{kind:?}");
    }
}

/// Shows: A-9
#[test]
fn crash_in_the_middle_of_a_return_loses_no_turn() {
    for kind in [AgentKind::Codex, AgentKind::ClaudeCode] {
        for lifts in [false, true] {
            let place = Place::new();
            let native = place.plant(kind, &story());
            let adapter = place.adapter(kind);
            let file = place.agents_files().into_keys().next().unwrap();
            let staging = place.home.join("staging");
            stage(&*adapter, &native, &staging);
            adapter.fence(&native, &tombstone("laptop")).unwrap();
            // The conversation stands in its place again and has grown; what was set aside is still there.
            let grown = [std::fs::read(staged(&staging)).unwrap(), b"{\"type\":\"more\"}\n".to_vec()].concat();
            std::fs::write(&file, &grown).unwrap();
            if lifts {
                adapter.lift(&native).unwrap();
            } else {
                assert_eq!(install(&*adapter, &native, &staging, place.workdir.clone()), Installed::Unchanged);
            }
            assert_eq!(place.agents_files(), [(file, grown)].into(), "{kind:?} {lifts}");
            assert!(!adapter.is_fenced(&native).unwrap());
        }
    }
}

/// The one file that was staged.
fn staged(staging: &Path) -> PathBuf {
    let mut found = BTreeMap::new();
    collect(&staging.join("files"), &mut found);
    found.into_keys().next().unwrap()
}

#[test]
fn cut_turn_without_a_process_is_interrupted() {
    for kind in [AgentKind::Codex, AgentKind::ClaudeCode] {
        let place = Place::new();
        let native = place.plant(kind, &Story { cut: true, ..story() });
        let info = place.adapter(kind).describe(&native).unwrap();
        assert!(
            matches!(&info.activity, Activity::Interrupted { evidence } if evidence.contains("result: 1")),
            "{info:?}"
        );
        place.adapter(kind).fence(&native, &tombstone("laptop")).unwrap();
    }
}

type Damage = fn(Vec<u8>) -> Vec<u8>;

#[test]
fn damaged_transcripts_are_described_or_refused_and_never_panic() {
    let damages: [(&str, Damage); 9] = [
        ("cut last line", |bytes| bytes[..bytes.len() - 20].to_vec()),
        ("no final line feed", |bytes| bytes[..bytes.len() - 1].to_vec()),
        ("nul run", |bytes| [bytes, vec![0; 4_096]].concat()),
        ("blank line", |bytes| [bytes, b"\n\n".to_vec()].concat()),
        ("carriage returns", |bytes| String::from_utf8(bytes).unwrap().replace('\n', "\r\n").into_bytes()),
        ("garbage at the end", |bytes| [bytes, b"}{ garbage \xff\xfe\n".to_vec()].concat()),
        ("first line lost", |bytes| bytes[bytes.iter().position(|b| *b == b'\n').unwrap() + 1..].to_vec()),
        ("empty", |_| Vec::new()),
        ("one endless line", |bytes| [bytes, vec![b'x'; 1 << 20]].concat()),
    ];
    for kind in [AgentKind::Codex, AgentKind::ClaudeCode] {
        for (what, damage) in damages {
            let place = Place::new();
            let native = place.plant(kind, &story());
            let file = place.agents_files().into_keys().next().unwrap();
            let damaged = damage(std::fs::read(&file).unwrap());
            std::fs::write(&file, &damaged).unwrap();
            let adapter = place.adapter(kind);
            adapter.discover().unwrap();
            let fatal = what == "empty" || (what == "first line lost" && kind == AgentKind::Codex);
            match adapter.describe(&native) {
                Ok(info) => assert!(!fatal && info.turns >= 1, "{what}: {info:?}"),
                Err(error) => assert!(fatal && matches!(error, AgentError::Damaged { .. }), "{what}: {error}"),
            }
            if !fatal {
                adapter.fence(&native, &tombstone("laptop")).unwrap();
                adapter.lift(&native).unwrap();
            }
            assert_eq!(std::fs::read(&file).unwrap(), damaged, "{what}: the bytes are the agent's");
        }
    }
}

/// Shows: A-9
#[test]
fn foreign_or_hostile_arrivals_are_refused_and_nothing_is_written() {
    for kind in [AgentKind::Codex, AgentKind::ClaudeCode] {
        let (here, there) = (Place::new(), Place::new());
        let native = here.plant(kind, &story());
        let other = NativeId::parse("11111111-1111-7111-8111-111111111111").unwrap();
        let staging = here.home.join("staging");
        stage(&*here.adapter(kind), &native, &staging);
        let adapter = there.adapter(kind);
        let arrival = |native: &NativeId, files: PathBuf| cede_agent::adapter::Arrival {
            native: native.clone(),
            files,
            workdir: there.workdir.clone(),
        };
        let foreign = adapter.install(&arrival(&other, staging.join("files")));
        assert!(matches!(foreign, Err(AgentError::BadArrival(_))), "{kind:?}: {foreign:?}");
        let empty = there.home.join("empty");
        std::fs::create_dir(&empty).unwrap();
        let missing = adapter.install(&arrival(&native, empty));
        assert!(matches!(missing, Err(AgentError::BadArrival(_))), "{kind:?}: {missing:?}");
        assert!(there.agents_files().is_empty());
    }
}

/// Shows: A-10
#[test]
fn destination_without_the_agent_says_how_to_install_it() {
    let place = Place::new();
    for kind in [AgentKind::Codex, AgentKind::ClaudeCode, AgentKind::OpenCode] {
        let requirement = Requirement { agent: kind, version: "1.0.0".to_owned(), provider: None };
        let cannot = place.adapter(kind).check(&requirement).unwrap_err();
        assert!(matches!(cannot, CannotResume::NotInstalled { .. }));
        assert!(cannot.to_string().contains("npm install -g"), "{cannot}");
    }
}

/// Shows: A-10
#[test]
fn destination_with_an_older_agent_or_without_the_provider_says_what_helps() {
    let place = Place::new();
    let bin = place.home.join("bin");
    std::fs::create_dir(&bin).unwrap();
    for (program, prints) in [("codex", "codex-cli 0.120.0"), ("claude", "2.1.1 (Claude Code)"), ("opencode", "1.2.3")]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::write(bin.join(program), format!("#!/bin/sh\necho '{prints}'\n")).unwrap();
        std::fs::set_permissions(bin.join(program), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let around = Surroundings { path: bin.into_os_string(), ..place.around.clone() };
    for adapter in adapters(&around).into_iter().filter(|adapter| adapter.agent() != AgentKind::Files) {
        let need = |version: &str, provider: Option<&str>| {
            adapter.check(&Requirement {
                agent: adapter.agent(),
                version: version.to_owned(),
                provider: provider.map(str::to_owned),
            })
        };
        let older = need("99.0.0", None).unwrap_err();
        assert!(matches!(older, CannotResume::Older { .. }), "{older}");
        assert_eq!(need("0.1.0", None), Ok(()));
        if adapter.agent() != AgentKind::ClaudeCode {
            let missing = need("0.1.0", Some("corp")).unwrap_err();
            assert!(matches!(&missing, CannotResume::NoProvider { provider, .. } if provider == "corp"), "{missing}");
        }
    }
}

#[test]
fn directories_that_share_a_project_name_keep_their_sessions_apart() {
    let place = Place::new();
    let story = story();
    for (number, name) in
        ["a/b", "a-b", "a.b", "a_b", "quote'\"\\", "with space", "\u{65e5}\u{672c}"].iter().enumerate()
    {
        let workdir = place.home.join(name);
        std::fs::create_dir_all(&workdir).unwrap();
        let random = [u8::try_from(number).unwrap(); 16];
        let native = plant(AgentKind::ClaudeCode, &place.around, &workdir, random, &story).unwrap();
        let info = place.adapter(AgentKind::ClaudeCode).describe(&native).unwrap();
        assert_eq!(info.directory, workdir.to_str().unwrap());
    }
    assert_eq!(place.adapter(AgentKind::ClaudeCode).discover().unwrap().len(), 7);
}
