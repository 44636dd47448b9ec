//! Whether an agent here can go on with a session from elsewhere.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;

use cede_wire::path::escape;
use cede_wire::session::Requirement;
use serde_json::Value;

use crate::adapter::limits::{CONFIG_BYTES, QUOTED_CHARS};
use crate::adapter::scratch::Scratch;
use crate::adapter::{CannotResume, Surroundings, version};

/// The agent is installed and not older than what wrote the session.
pub(super) fn version(
    around: &Surroundings,
    requirement: &Requirement,
    program: &'static str,
    install: &'static str,
) -> Result<(), CannotResume> {
    let agent = requirement.agent;
    if around.find(program).is_none() {
        return Err(CannotResume::NotInstalled { agent, install });
    }
    let here = installed(around, program).map_err(|why| CannotResume::Unclear { agent, why })?;
    if version::is_older(&here, &requirement.version) {
        let needed = shown(&requirement.version);
        return Err(CannotResume::Older { agent, here, needed, update: install });
    }
    Ok(())
}

/// The version that the program prints.
pub(super) fn installed(around: &Surroundings, program: &'static str) -> Result<String, String> {
    let scratch = Scratch::new(&around.state).map_err(|error| error.to_string())?;
    let output = scratch.path().join("said");
    let arguments = [OsStr::new("--version")];
    around.run(program, &arguments, Path::new("/"), &output).map_err(|error| error.to_string())?;
    let said = read(&output);
    version::find(&said).ok_or_else(|| format!("{program} --version said: {}", shown(&said)))
}

/// The providers that Codex brings along and that need no login of its own.
const CODEX_OWN: [&str; 3] = ["ollama", "lmstudio", "amazon-bedrock"];

/// The session's provider stands in Codex's configuration.
pub(super) fn codex_provider(around: &Surroundings, requirement: &Requirement) -> Result<(), CannotResume> {
    let Some(provider) = &requirement.provider else { return Ok(()) };
    if provider == "openai" {
        return codex_login(around, requirement);
    }
    let file = around.codex_home.join("config.toml");
    if CODEX_OWN.contains(&provider.as_str()) || toml_has_provider(&read(&file), provider) {
        return Ok(());
    }
    let file = format!("{} as [model_providers.{}]", file.display(), shown(provider));
    Err(CannotResume::NoProvider { agent: requirement.agent, provider: shown(provider), file })
}

/// Codex itself says whether it has a login; a key in the environment it does not count.
fn codex_login(around: &Surroundings, requirement: &Requirement) -> Result<(), CannotResume> {
    let said = ask(around, "codex", &["login", "status"]);
    let has_key = around.variables.iter().any(|(name, value)| name == "CODEX_API_KEY" && !value.is_empty());
    if !has_key && said.contains("Not logged in") {
        return Err(CannotResume::NoLogin { agent: requirement.agent, login: "codex login" });
    }
    Ok(())
}

/// Claude Code itself says whether it has a login, a key or another provider. Its sessions do not name one.
pub(super) fn claude_login(around: &Surroundings, requirement: &Requirement) -> Result<(), CannotResume> {
    let said = ask(around, "claude", &["auth", "status"]);
    // What it complains of stands behind.
    let status = serde_json::Deserializer::from_str(&said).into_iter::<Value>().next().and_then(Result::ok);
    if status.is_some_and(|status| status.get("loggedIn").and_then(Value::as_bool) == Some(false)) {
        return Err(CannotResume::NoLogin { agent: requirement.agent, login: "claude auth login" });
    }
    Ok(())
}

/// What a program prints, whether it is content or not. A version that does not understand the question says
/// nothing that counts.
fn ask(around: &Surroundings, program: &'static str, arguments: &[&str]) -> String {
    let Ok(scratch) = Scratch::new(&around.state) else { return String::new() };
    let output = scratch.path().join("said");
    let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    // Its ending says no more than its words.
    let _ = around.run(program, &arguments, &around.home, &output);
    [read(&output), read(&output.with_extension("stderr"))].concat()
}

/// True where a table or a dotted key defines the provider.
fn toml_has_provider(text: &str, provider: &str) -> bool {
    let names = [provider.to_owned(), format!("\"{provider}\""), format!("'{provider}'")];
    let mut inside = false;
    text.lines().map(str::trim).any(|line| {
        let line = line.split('#').next().unwrap_or_default().trim();
        let table = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).map(str::trim);
        if let Some(table) = table {
            inside = table == "model_providers";
        }
        let path = table.unwrap_or(line).strip_prefix("model_providers.").map(str::trim);
        let key = path.or_else(|| inside.then_some(line));
        key.is_some_and(|key| {
            names.iter().any(|name| {
                key.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ' ', '=']))
            })
        })
    })
}

/// The session's provider stands in OpenCode's configuration, has a login, or a key in the environment.
pub(super) fn opencode_provider(around: &Surroundings, requirement: &Requirement) -> Result<(), CannotResume> {
    let Some(provider) = &requirement.provider else { return Ok(()) };
    let files = [
        around.opencode_config.join("opencode.json"),
        around.opencode_config.join("opencode.jsonc"),
        around.opencode_config.join("config.json"),
        around.opencode_data.join("auth.json"),
    ];
    let quoted = format!("\"{provider}\"");
    let variable = format!("{}_API_KEY", provider.to_uppercase().replace('-', "_"));
    let has_key = around.variables.iter().any(|(name, value)| name == variable.as_str() && !value.is_empty());
    if provider == "opencode" || has_key || files.iter().any(|file| read(file).contains(&quoted)) {
        return Ok(());
    }
    let [file, ..] = files;
    let file = file.display().to_string();
    Err(CannotResume::NoProvider { agent: requirement.agent, provider: shown(provider), file })
}

fn read(file: &Path) -> String {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(file).and_then(|file| file.take(CONFIG_BYTES).read_to_end(&mut bytes));
    read.map(|_| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn shown(text: &str) -> String {
    escape(text.trim().as_bytes()).chars().take(QUOTED_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cede_wire::session::AgentKind;

    fn place_with(program: &str, script: &str) -> (tempfile::TempDir, Surroundings) {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join(program);
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let around = Surroundings::plain(place.path(), &place.path().join("state"), place.path().into());
        (place, around)
    }

    fn requirement(agent: AgentKind, provider: Option<&str>) -> Requirement {
        Requirement { agent, version: String::new(), provider: provider.map(str::to_owned) }
    }

    /// Shows: A-10
    #[test]
    fn claude_code_without_a_login_is_told_and_one_that_does_not_say_is_believed() {
        let need = requirement(AgentKind::ClaudeCode, None);
        let (_place, around) = place_with("claude", r#"echo '{"loggedIn": false}'; echo oh >&2; exit 1"#);
        let text = claude_login(&around, &need).unwrap_err().to_string();
        assert!(text.contains("not logged in here; to log in, type: claude auth login"), "{text}");
        for script in [r#"echo '{"loggedIn": true}'"#, "echo \"unknown command 'auth'\" >&2; exit 1", "exit 0"] {
            let (_place, around) = place_with("claude", script);
            assert_eq!(claude_login(&around, &need), Ok(()), "{script}");
        }
    }

    /// Shows: A-10
    #[test]
    fn codex_needs_a_login_for_its_own_provider_only() {
        let (_place, mut around) = place_with("codex", "echo 'Not logged in' >&2; exit 1");
        let need = requirement(AgentKind::Codex, Some("openai"));
        let missing = codex_provider(&around, &need).unwrap_err();
        assert_eq!(missing, CannotResume::NoLogin { agent: AgentKind::Codex, login: "codex login" });
        assert_eq!(codex_provider(&around, &requirement(AgentKind::Codex, Some("ollama"))), Ok(()));
        around.variables.push(("CODEX_API_KEY".into(), "key".into()));
        assert_eq!(codex_provider(&around, &need), Ok(()));
        let (_place, around) = place_with("codex", "echo 'Logged in using ChatGPT' >&2");
        assert_eq!(codex_provider(&around, &need), Ok(()));
    }

    #[test]
    fn provider_is_found_however_toml_spells_it() {
        for text in [
            "[model_providers.mock]\nname = \"mock\"",
            "[ model_providers.\"mock\" ]",
            "[model_providers]\nmock = { name = \"x\" }",
            "model_providers.mock.name = \"x\"",
        ] {
            assert!(toml_has_provider(text, "mock"), "{text}");
        }
        for text in
            ["[model_providers.mocking]", "model_provider = \"mock\"", "# [model_providers.mock]", "[x]\nmock = 1", ""]
        {
            assert!(!toml_has_provider(text, "mock"), "{text}");
        }
    }
}
