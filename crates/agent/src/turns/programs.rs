//! The three programs: what each is called with. What the flags take away is shown with the real programs, see
//! `docs/TESTING.md`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cede_wire::session::AgentKind;
use cede_wire::task::TASK_VARIABLE;

use super::{CannotRun, Invocation, Turn};
use crate::adapter::Surroundings;

/// What an agent's program is called, and what installs it.
const fn program(agent: AgentKind) -> Option<(&'static str, &'static str)> {
    match agent {
        AgentKind::Files | AgentKind::Terminal => None,
        AgentKind::Codex => Some(("codex", "npm install -g @openai/codex")),
        AgentKind::ClaudeCode => Some(("claude", "npm install -g @anthropic-ai/claude-code")),
        AgentKind::OpenCode => Some(("opencode", "npm install -g opencode-ai")),
    }
}

pub(super) fn find(around: &Surroundings, agent: AgentKind) -> Option<PathBuf> {
    program(agent).and_then(|(name, _)| around.find(name))
}

/// The agent that does it: the one that is wanted, or the only one there is.
///
/// # Errors
/// [`CannotRun`].
pub fn choose(around: &Surroundings, wanted: Option<AgentKind>) -> Result<AgentKind, CannotRun> {
    let here = super::installed(around);
    match (wanted, here.as_slice()) {
        (Some(agent), here) if here.contains(&agent) => Ok(agent),
        (Some(agent), _) => Err(match program(agent) {
            Some((_, install)) => CannotRun::NotInstalled { agent, install },
            None => CannotRun::NoAgent,
        }),
        (None, [one]) => Ok(*one),
        (None, []) => Err(CannotRun::NoAgent),
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|agent| agent.name()).collect();
            Err(CannotRun::WhichAgent(names.join(", ")))
        }
    }
}

/// The command line of a turn.
///
/// # Errors
/// [`CannotRun`]: the program is missing, or cannot be held to what the turn may do.
pub fn invocation(around: &Surroundings, turn: &Turn) -> Result<Invocation, CannotRun> {
    let agent = turn.agent;
    let (_, install) = program(agent).ok_or(CannotRun::NoAgent)?;
    let program = find(around, agent).ok_or(CannotRun::NotInstalled { agent, install })?;
    let arguments = match agent {
        AgentKind::Files | AgentKind::Terminal => return Err(CannotRun::NoAgent),
        AgentKind::Codex => codex(around, turn)?,
        AgentKind::ClaudeCode => claude(turn),
        AgentKind::OpenCode => opencode(turn)?,
    };
    Ok(Invocation {
        agent,
        program,
        arguments: arguments.into_iter().map(OsString::from).collect(),
        environment: environment(around, turn),
        directory: turn.directory.clone(),
        input: turn.prompt.clone(),
        mark: turn.mark.clone(),
    })
}

/// Of the two, Claude Code alone can be held to a list of tools and a number of turns.
fn holds_neither(turn: &Turn) -> Result<(), CannotRun> {
    match turn {
        Turn { agent, tools, .. } if !tools.is_empty() => {
            Err(CannotRun::CannotHold { agent: *agent, what: "a list of tools" })
        }
        Turn { agent, turns: Some(_), .. } => Err(CannotRun::CannotHold { agent: *agent, what: "a number of turns" }),
        Turn { .. } => Ok(()),
    }
}

fn codex(around: &Surroundings, turn: &Turn) -> Result<Vec<String>, CannotRun> {
    holds_neither(turn)?;
    let mut words = vec!["exec".to_owned()];
    if turn.read_only {
        words.extend(["--sandbox", "read-only"].map(str::to_owned));
        // The sandbox holds its commands and its edits. What other programs do for it is outside, so there are none.
        words.extend(["-c", "features.apps=false", "-c", "features.plugins=false"].map(str::to_owned));
        for server in tool_servers(around, turn)? {
            words.extend(["-c".to_owned(), format!("mcp_servers.{server}.enabled=false")]);
        }
    }
    words.extend(["--json", "--skip-git-repo-check"].map(str::to_owned));
    if let Some(session) = &turn.session {
        words.extend(["resume".to_owned(), session.to_string()]);
    }
    words.push("-".to_owned());
    Ok(words)
}

/// The tool servers that Codex would start, by its settings; each is left out by its name.
fn tool_servers(around: &Surroundings, turn: &Turn) -> Result<Vec<String>, CannotRun> {
    let cannot =
        CannotRun::CannotHold { agent: turn.agent, what: "looking only with the tool servers of its settings" };
    let own = around.codex_home.join("config.toml");
    let of_projects = turn.directory.ancestors().map(|directory| directory.join(".codex/config.toml"));
    // Those of a project are read or not by rules of their own: no name can be left out safely.
    for file in of_projects.filter(|file| *file != own) {
        if settings(&file).is_none_or(|text| text.contains(SERVERS)) {
            return Err(cannot);
        }
    }
    let mut names = Vec::new();
    for file in [own, PathBuf::from("/etc/codex/config.toml")] {
        let text = settings(&file).ok_or_else(|| cannot.clone())?;
        let lines = text.lines().map(str::trim).filter(|line| line.contains(SERVERS) && !line.starts_with('#'));
        for line in lines {
            names.push(server_of_table(line).ok_or_else(|| cannot.clone())?);
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

const SERVERS: &str = "mcp_servers";

/// The name in `[mcp_servers.name]` or in a table below it. What is written otherwise is not understood.
fn server_of_table(line: &str) -> Option<String> {
    let path = line.strip_prefix('[')?.strip_suffix(']')?.trim().strip_prefix(SERVERS)?.strip_prefix('.')?;
    let name = path.split('.').next()?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (!name.is_empty() && name.bytes().all(plain)).then(|| name.to_owned())
}

/// What a file of settings says; nothing where there is none. None: it cannot be read.
fn settings(file: &Path) -> Option<String> {
    match std::fs::metadata(file) {
        Ok(meta) if meta.len() > crate::adapter::limits::CONFIG_BYTES => None,
        Ok(_) => std::fs::read_to_string(file).ok(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(String::new()),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Some(String::new()),
        Err(_) => None,
    }
}

/// The tools of Claude Code that change nothing.
const LOOKING: [&str; 3] = ["Read", "Grep", "Glob"];

fn claude(turn: &Turn) -> Vec<String> {
    let mut words = ["-p", "--output-format", "stream-json", "--verbose"].map(str::to_owned).to_vec();
    let looks = |tool: &&String| !turn.read_only || LOOKING.contains(&tool.as_str());
    let tools: Option<Vec<&str>> = match (turn.tools.is_empty(), turn.read_only) {
        (true, false) => None,
        (true, true) => Some(LOOKING.to_vec()),
        (false, _) => Some(turn.tools.iter().filter(looks).map(String::as_str).collect()),
    };
    if let Some(tools) = tools {
        // Tools of other servers are in no such list: there are none of those either.
        words.extend([format!("--tools={}", tools.join(",")), "--strict-mcp-config".to_owned()]);
    }
    if let Some(turns) = turn.turns {
        words.push(format!("--max-turns={turns}"));
    }
    if let Some(session) = &turn.session {
        words.push(format!("--resume={session}"));
    }
    words
}

fn opencode(turn: &Turn) -> Result<Vec<String>, CannotRun> {
    holds_neither(turn)?;
    if turn.read_only {
        // Its agent for plans edits no file and runs every command.
        return Err(CannotRun::CannotHold { agent: turn.agent, what: "looking only" });
    }
    let mut words = ["run", "--format", "json"].map(str::to_owned).to_vec();
    if let Some(session) = &turn.session {
        words.extend(["-s".to_owned(), session.to_string()]);
    }
    Ok(words)
}

/// Variables that every program needs.
const PLAIN: [&str; 14] = [
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "TMPDIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
];

/// Beginnings of names of variables that the agents read.
const OWN: [&str; 9] =
    ["LC_", "XDG_", "CODEX_", "OPENAI_", "CLAUDE_", "ANTHROPIC_", "OPENCODE_", "DISABLE_", "AZURE_OPENAI_"];

/// What the agent gets of the daemon's environment: what it needs to work and to log in, and no more.
fn environment(around: &Surroundings, turn: &Turn) -> Vec<(OsString, OsString)> {
    let keys = keys_named_in_settings(around, turn.agent);
    let given = |name: &OsStr| {
        let name = name.to_string_lossy();
        let upper = name.to_uppercase();
        PLAIN.contains(&&*upper) || OWN.iter().any(|own| name.starts_with(own)) || keys.iter().any(|key| *key == name)
    };
    let mut environment: Vec<(OsString, OsString)> =
        around.variables.iter().filter(|(name, _)| given(name)).cloned().collect();
    environment.push(("HOME".into(), around.home.clone().into_os_string()));
    environment.push(("PATH".into(), around.path.clone()));
    environment.push((TASK_VARIABLE.into(), turn.mark.clone().into()));
    environment
}

/// Names of variables that the person's settings of the agent say hold its key.
fn keys_named_in_settings(around: &Surroundings, agent: AgentKind) -> Vec<String> {
    let text = |file: PathBuf| settings(&file).unwrap_or_default();
    match agent {
        AgentKind::Codex => {
            let text = text(around.codex_home.join("config.toml"));
            let line = |line: &str| {
                let (name, value) = line.split_once('=')?;
                (name.trim() == "env_key").then(|| value.trim().trim_matches(['"', '\'']).to_owned())
            };
            text.lines().filter_map(line).collect()
        }
        AgentKind::OpenCode => {
            let text = text(around.opencode_config.join("opencode.json"));
            text.split("{env:").skip(1).filter_map(|rest| Some(rest.split_once('}')?.0.to_owned())).collect()
        }
        AgentKind::Files | AgentKind::Terminal | AgentKind::ClaudeCode => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use cede_wire::session::NativeId;

    use super::*;

    fn place(programs: &[&str]) -> (tempfile::TempDir, Surroundings) {
        let place = tempfile::tempdir().unwrap();
        for program in programs {
            let file = place.path().join(program);
            std::fs::write(&file, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let around = Surroundings::plain(place.path(), &place.path().join("state"), place.path().into());
        (place, around)
    }

    fn turn(agent: AgentKind) -> Turn {
        Turn {
            agent,
            session: None,
            directory: "/".into(),
            prompt: "do it; --dangerously-skip-permissions".into(),
            read_only: false,
            tools: Vec::new(),
            turns: None,
            mark: "t1".into(),
        }
    }

    fn words(around: &Surroundings, turn: &Turn) -> Vec<String> {
        let invocation = invocation(around, turn).unwrap();
        assert_eq!(invocation.input, turn.prompt);
        invocation.arguments.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    const AGENTS: [AgentKind; 3] = [AgentKind::Codex, AgentKind::ClaudeCode, AgentKind::OpenCode];

    /// Shows: E-6
    #[test]
    fn no_command_line_holds_the_words_or_a_flag_that_widens() {
        let (_place, around) = place(&["codex", "claude", "opencode"]);
        let session = NativeId::parse("0199-abc");
        for agent in AGENTS {
            for (read_only, session) in [(false, None), (true, None), (true, session.clone()), (false, session.clone())]
            {
                let read_only = read_only && agent != AgentKind::OpenCode;
                let words = words(&around, &Turn { read_only, session: session.clone(), ..turn(agent) });
                let text = words.join(" ");
                for widens in ["dangerous", "bypass", "yolo", "auto", "allow", "full-access", "acceptEdits", "do it"] {
                    assert!(!text.contains(widens), "{agent:?}: {text}");
                }
                assert_eq!(session.is_some(), text.contains("0199-abc"), "{text}");
            }
        }
    }

    /// Shows: E-6
    #[test]
    fn each_agent_is_told_to_change_nothing_in_its_own_words() {
        let (_place, around) = place(&["codex", "claude", "opencode"]);
        let words = |agent| words(&around, &Turn { read_only: true, ..turn(agent) }).join(" ");
        assert!(words(AgentKind::Codex).contains("exec --sandbox read-only"));
        assert!(words(AgentKind::ClaudeCode).contains("--tools=Read,Grep,Glob --strict-mcp-config"));
    }

    /// Shows: E-6
    #[test]
    fn looking_only_is_no_task_for_what_cannot_be_held_to_it() {
        let (place, around) = place(&["codex", "claude", "opencode"]);
        let looks = |agent| Turn { read_only: true, directory: place.path().join("db"), ..turn(agent) };
        assert!(matches!(invocation(&around, &looks(AgentKind::OpenCode)), Err(CannotRun::CannotHold { .. })));
        let config = place.path().join(".codex/config.toml");
        std::fs::create_dir_all(config.parent().unwrap()).unwrap();
        let says = |text: &str| {
            std::fs::write(&config, text).unwrap();
            invocation(&around, &looks(AgentKind::Codex)).map(|invocation| invocation.arguments)
        };
        let words =
            says("# mcp_servers\n[mcp_servers.cede]\ncommand = \"cede\"\n[mcp_servers.cede.env]\na = 1\n").unwrap();
        let left_out = words.iter().filter(|word| **word == "mcp_servers.cede.enabled=false").count();
        assert_eq!(left_out, 1, "{words:?}");
        for other in ["mcp_servers = { a = {} }", "[mcp_servers]\na.command = \"x\"", "[mcp_servers.\"a b\"]"] {
            assert!(matches!(says(other), Err(CannotRun::CannotHold { .. })), "{other}");
        }
        let large = "x".repeat(usize::try_from(crate::adapter::limits::CONFIG_BYTES).unwrap() + 1);
        assert!(matches!(says(&large), Err(CannotRun::CannotHold { .. })));
        says("").unwrap();
        let project = place.path().join("db/.codex");
        std::fs::create_dir_all(&project).unwrap();
        std::fs::write(project.join("config.toml"), "[mcp_servers.b]\n").unwrap();
        assert!(matches!(says(""), Err(CannotRun::CannotHold { .. })));
    }

    /// Shows: E-6
    #[test]
    fn what_an_agent_cannot_be_held_to_is_refused() {
        let (_place, around) = place(&["codex", "claude", "opencode"]);
        for agent in [AgentKind::Codex, AgentKind::OpenCode] {
            let tools = Turn { tools: vec!["Read".into()], ..turn(agent) };
            assert!(matches!(invocation(&around, &tools), Err(CannotRun::CannotHold { .. })));
            let turns = Turn { turns: Some(3), ..turn(agent) };
            assert!(matches!(invocation(&around, &turns), Err(CannotRun::CannotHold { .. })));
        }
        let both = Turn {
            tools: vec!["Read".into(), "Bash".into()],
            read_only: true,
            turns: Some(3),
            ..turn(AgentKind::ClaudeCode)
        };
        let text = words(&around, &both).join(" ");
        assert!(text.contains("--tools=Read --strict-mcp-config --max-turns=3"), "{text}");
    }

    #[test]
    fn only_agent_there_is_does_it_and_of_several_one_is_named() {
        let (_place, around) = place(&["claude"]);
        assert_eq!(choose(&around, None), Ok(AgentKind::ClaudeCode));
        let missing = choose(&around, Some(AgentKind::Codex)).unwrap_err().to_string();
        assert!(missing.contains("npm install -g @openai/codex"), "{missing}");
        let (_place, around) = place(&["claude", "opencode"]);
        assert_eq!(choose(&around, None), Err(CannotRun::WhichAgent("claude-code, opencode".into())));
        assert_eq!(choose(&around, Some(AgentKind::OpenCode)), Ok(AgentKind::OpenCode));
        let (_place, around) = place(&[]);
        assert_eq!(choose(&around, None), Err(CannotRun::NoAgent));
    }

    /// Shows: E-6
    #[test]
    fn environment_is_what_the_agent_needs_and_no_secret_of_others() {
        let (place, mut around) = place(&["codex"]);
        std::fs::create_dir_all(place.path().join(".codex")).unwrap();
        std::fs::write(place.path().join(".codex/config.toml"), "env_key = \"LAB_KEY\"\n").unwrap();
        let set = [
            ("LAB_KEY", "k"),
            ("CODEX_HOME", "/c"),
            ("GITHUB_TOKEN", "x"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("LANG", "C"),
            ("https_proxy", "p"),
            ("SSH_AUTH_SOCK", "x"),
            ("CEDE_HOME", "x"),
            ("LD_PRELOAD", "x"),
        ];
        around.variables = set.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let got = invocation(&around, &turn(AgentKind::Codex)).unwrap().environment;
        let names: Vec<String> = got.into_iter().map(|(name, _)| name.into_string().unwrap()).collect();
        assert_eq!(names, ["LAB_KEY", "CODEX_HOME", "LANG", "https_proxy", "HOME", "PATH", "CEDE_TASK"]);
    }
}
