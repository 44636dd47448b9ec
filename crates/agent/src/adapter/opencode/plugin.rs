//! The plugin that tells a person where a fenced session went. The database refuses the message either way; without
//! the plugin OpenCode shows only that something went wrong.

use std::path::{Path, PathBuf};

use crate::adapter::{AgentError, durable};

/// Where OpenCode looks for it.
pub(super) fn file(config: &Path) -> PathBuf {
    config.join("plugin/cede-fence.js")
}

/// With any plugin present OpenCode waits, at every start, until it has fetched the package that plugins are written
/// with; without a network that takes two minutes. Ours needs no package. A person who never had one gets these two,
/// which OpenCode takes for a finished installation, until the last fence is down.
const LOCK: &str =
    r#"{"name":"cede-fence","lockfileVersion":3,"packages":{"":{"dependencies":{"@opencode-ai/plugin":"*"}}}}"#;

/// Writes the plugin.
pub(super) fn add(config: &Path, fences: &Path) -> Result<(), AgentError> {
    let (lock, modules) = (config.join("package-lock.json"), config.join("node_modules"));
    if !lock.exists() && !modules.exists() && !config.join("package.json").exists() {
        durable::ensure_directory(&modules)?;
        durable::write(&lock, LOCK.as_bytes())?;
    }
    let text = source(fences);
    let file = file(config);
    if std::fs::read(&file).ok().as_deref() == Some(text.as_bytes()) {
        return Ok(());
    }
    durable::write(&file, text.as_bytes())
}

/// Removes the plugin.
pub(super) fn remove(config: &Path) -> Result<(), AgentError> {
    let file = file(config);
    if file.exists() {
        durable::remove(&file)?;
    }
    let lock = config.join("package-lock.json");
    if std::fs::read(&lock).ok().as_deref() == Some(LOCK.as_bytes()) {
        durable::remove(&lock)?;
        // Stays where something was installed meanwhile.
        let _ = std::fs::remove_dir(config.join("node_modules"));
    }
    // Stays where the person keeps plugins of their own.
    let _ = std::fs::remove_dir(config.join("plugin"));
    Ok(())
}

fn source(fences: &Path) -> String {
    let fences = serde_json::Value::from(fences.display().to_string());
    format!(
        r#"// cede: refuses a session that was handed over to another device.
import {{ readFileSync }} from "node:fs";

const fences = {fences};

const refusal = (session) => {{
  if (!/^[A-Za-z0-9_-]+$/.test(session ?? "")) return undefined;
  try {{
    return readFileSync(`${{fences}}/${{session}}`, "utf8").trim();
  }} catch {{
    return undefined;
  }}
}};

// OpenCode shows one notice at a time, and its own about an unexpected error comes after the refusal.
const show = (client, text) =>
  client.tui?.showToast({{ body: {{ message: text, variant: "error", duration: 30000 }} }})?.catch(() => {{}});

export const CedeFence = async ({{ client }}) => ({{
  "chat.message": async (input) => {{
    const text = refusal(input.sessionID);
    if (text === undefined) return;
    if (process.argv.includes("run")) console.error(text);
    else for (const wait of [0, 1000, 3000]) setTimeout(() => show(client, text), wait);
    throw new Error(text);
  }},
}});
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_is_as_before_when_the_plugin_is_gone() {
        let config = tempfile::tempdir().unwrap();
        std::fs::write(config.path().join("opencode.json"), "{}").unwrap();
        add(config.path(), Path::new("/fences")).unwrap();
        add(config.path(), Path::new("/fences")).unwrap();
        assert!(std::fs::read_to_string(file(config.path())).unwrap().contains("\"/fences\""));
        remove(config.path()).unwrap();
        remove(config.path()).unwrap();
        assert_eq!(std::fs::read_dir(config.path()).unwrap().count(), 1);
    }

    #[test]
    fn packages_that_the_person_installed_stay() {
        let config = tempfile::tempdir().unwrap();
        std::fs::create_dir(config.path().join("node_modules")).unwrap();
        std::fs::write(config.path().join("package-lock.json"), "{}").unwrap();
        add(config.path(), Path::new("/fences")).unwrap();
        remove(config.path()).unwrap();
        assert_eq!(std::fs::read(config.path().join("package-lock.json")).unwrap(), b"{}");
        assert!(config.path().join("node_modules").exists());
    }
}
