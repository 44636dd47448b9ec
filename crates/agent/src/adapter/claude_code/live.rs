//! The registry of running Claude Code processes, believed only where the process is the one that wrote the entry.

use std::path::Path;

use serde_json::Value;

use crate::adapter::limits::STORE_ENTRIES;
use crate::adapter::processes;

/// A running process that has a session open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Live {
    pub(super) pid: u32,
    pub(super) start_ticks: u64,
    pub(super) busy: bool,
}

/// Every running process that has the session open.
pub(super) fn of(home: &Path, native: &str) -> Vec<Live> {
    let entries = std::fs::read_dir(home.join("sessions")).into_iter().flatten().flatten().take(STORE_ENTRIES);
    entries.filter_map(|entry| read(&entry.path(), native)).collect()
}

fn read(path: &Path, native: &str) -> Option<Live> {
    let entry: Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    if entry.get("sessionId")?.as_str()? != native {
        return None;
    }
    let pid = u32::try_from(entry.get("pid")?.as_u64()?).ok()?;
    let start_ticks = entry.get("procStart")?.as_str()?.parse().ok()?;
    // A killed process leaves its entry, and its id is given to others.
    if !processes::runs(pid, start_ticks) {
        return None;
    }
    let busy = entry.get("status").and_then(Value::as_str) != Some("idle");
    Some(Live { pid, start_ticks, busy })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_of_another_process_with_the_same_id_is_not_believed() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("sessions")).unwrap();
        let pid = std::process::id();
        let ticks = processes::start_ticks(pid).unwrap();
        let entry = |ticks: u64, status: &str| {
            let text = format!(r#"{{"pid":{pid},"sessionId":"s","procStart":"{ticks}","status":"{status}"}}"#);
            std::fs::write(home.path().join("sessions/1.json"), text).unwrap();
            of(home.path(), "s")
        };
        assert_eq!(entry(ticks, "busy"), [Live { pid, start_ticks: ticks, busy: true }]);
        assert_eq!(entry(ticks, "idle"), [Live { pid, start_ticks: ticks, busy: false }]);
        assert_eq!(entry(ticks + 1, "busy"), []);
        std::fs::write(home.path().join("sessions/1.json"), "{").unwrap();
        assert_eq!(of(home.path(), "s"), []);
    }
}
