//! `cede doctor`: each line says what was looked at, what was found, and the exact cure.

use std::process::Command;

use cede_core::custodian::Standing;
use cede_wire::control::Check;
use cede_wire::id::SessionId;
use cede_wire::session::{AgentKind, Requirement, SessionInfo};
use cede_wire::shown::bytes;

use crate::actor::Actor;
use crate::context::{Context, found};
use crate::moves::Story;

fn check(what: &str, result: &str, found: impl Into<String>, cure: &str) -> Check {
    Check { what: what.to_owned(), result: result.to_owned(), found: found.into(), cure: cure.to_owned() }
}

/// What needs the disk or other programs. Blocks.
pub(crate) fn outside(context: &Context) -> (Vec<Check>, Vec<SessionInfo>) {
    let mut checks = vec![git(), space(context)];
    checks.extend(AgentKind::ALL.into_iter().filter(|agent| is_program(*agent)).map(|agent| installed(context, agent)));
    let sessions = crate::sessions::discover(context).sessions;
    checks.extend(leftovers(context, &sessions));
    checks.extend(kept(context));
    (checks, sessions.into_iter().filter(|info| is_gone(context, info)).collect())
}

/// Whether the directory of a session is gone that this device moved or was told to move. What an agent remembers of old
/// directories is its own business.
fn is_gone(context: &Context, info: &SessionInfo) -> bool {
    let ours = info.key.agent == AgentKind::Files || context.places.contains_key(&info.key.id());
    ours && matches!(found(std::fs::metadata(&info.directory)), Ok(None))
}

/// A plain directory and a hosted terminal need nothing that could be missing.
fn is_program(agent: AgentKind) -> bool {
    match agent {
        AgentKind::Files | AgentKind::Terminal => false,
        AgentKind::Codex | AgentKind::ClaudeCode | AgentKind::OpenCode => true,
    }
}

fn git() -> Check {
    match Command::new("git").arg("--version").output() {
        Ok(said) if said.status.success() => check("git", "ok", String::from_utf8_lossy(&said.stdout).trim(), ""),
        Ok(_) | Err(_) => check("git", "fail", "no git program in PATH", "install git 2.30 or newer"),
    }
}

fn space(context: &Context) -> Check {
    match context.home.free_bytes() {
        Ok(free) if context.home.has_room_for_bulk(0).unwrap_or(true) => {
            check("space", "ok", format!("{} free", bytes(free)), "")
        }
        Ok(free) => {
            let found = format!("{} free: no session is received", bytes(free));
            check("space", "warn", found, "free some space below the state directory")
        }
        Err(error) => check("space", "fail", error.to_string(), "check the disk of the state directory"),
    }
}

fn installed(context: &Context, agent: AgentKind) -> Check {
    let requirement = Requirement { agent, version: String::new(), provider: None };
    match context.adapter(agent).map(|adapter| adapter.check(&requirement)) {
        Some(Ok(())) => check(agent.name(), "ok", "installed", ""),
        Some(Err(error)) => {
            let text = error.to_string();
            let (found, cure) = text.split_once("; ").unwrap_or((&text, ""));
            check(agent.name(), "warn", found, cure)
        }
        None => check(agent.name(), "fail", "no adapter", ""),
    }
}

/// Tool processes that outlived their agent: their outcome is unknown and they may still write.
fn leftovers(context: &Context, sessions: &[SessionInfo]) -> Vec<Check> {
    let found = sessions.iter().flat_map(|info| {
        let adapter = context.adapter(info.key.agent);
        let left = adapter.map(|adapter| adapter.leftovers(&info.key.native)).unwrap_or_default();
        left.into_iter().map(|process| {
            let found =
                format!("process {} outlived session {}: {}", process.pid, info.key.id().short(), process.command);
            check("left-over tools", "warn", found, &format!("kill {}", process.pid))
        })
    });
    found.take(16).collect()
}

/// What somebody wrote where a session was not in charge: it is in no session, and nobody looks into hidden files.
fn kept(context: &Context) -> Vec<Check> {
    let all = context.adapters.iter().flat_map(|adapter| adapter.kept());
    let line = |path: std::path::PathBuf| {
        let found = format!("{} was kept when its session went on elsewhere, and is not in it", path.display());
        check("kept conversations", "warn", found, "read it; remove it once nothing in it is needed")
    };
    all.take(16).map(line).collect()
}

impl Actor {
    /// A session that this device answers for and that nobody can work with.
    fn unsettled(&self, session: SessionId, standing: Standing) -> Option<Check> {
        let id = session.short();
        match standing {
            Standing::PayloadMissing => {
                let attempt = self.custodian.arriving(session).map(|arriving| arriving.attempt());
                let from = attempt.map_or_else(|| "the old owner".to_owned(), |a| self.device_name(a.source));
                let found =
                    format!("session {id} is in charge here and its files are not; they are fetched from {from}");
                Some(check("arrivals", "warn", found, &format!("start {from}, and leave its copy as it is")))
            }
            Standing::Arriving => {
                let found = format!("session {id} is in charge here and not in its place yet");
                let view = self.moves.get(Story::Coming(session));
                let why = view.and_then(|view| view.timeline.last()).map_or("", |last| &last.note);
                let found = if why.is_empty() { found } else { format!("{found}: {why}") };
                Some(check("arrivals", "warn", found, "do what the reason says; it is tried again until it stands"))
            }
            // Said once for all, with the reason.
            Standing::Unconfirmed
            | Standing::InCharge
            | Standing::Leaving(_)
            | Standing::ReleasedTo(_)
            | Standing::Elsewhere(_)
            | Standing::SeizedBy(_) => None,
        }
    }

    /// Directories that vanished from under a session that is in charge here.
    pub(crate) fn gone_checks(&self, gone: &[SessionInfo]) -> Vec<Check> {
        let line = |info: &SessionInfo| {
            let (id, place) = (info.key.id().short(), &info.directory);
            let found = format!("session {id} ({}) is in charge here, and its directory is gone: {place}", info.title);
            check("directories", "warn", found, &format!("put {place} back; without it the session cannot move"))
        };
        gone.iter().filter(|info| self.is_here(info.key.id())).map(line).collect()
    }

    /// What the daemon knows by itself.
    pub(crate) fn own_checks(&self, listening: &str) -> Vec<Check> {
        let mut checks = vec![
            check("daemon", "ok", format!("{} on {listening}", env!("CARGO_PKG_VERSION")), ""),
            if self.read_only {
                check(
                    "journal",
                    "fail",
                    "damaged: this device acts for no session",
                    "keep a copy of the state directory, then: cede stop && cede up --start-over",
                )
            } else {
                check("journal", "ok", "whole", "")
            },
        ];
        if self.peers.members().is_empty() {
            checks.push(check("devices", "warn", "paired with none", "cede pair"));
        }
        checks.extend(self.peers.members().iter().map(|member| {
            if self.peers.is_connected(member.device()) {
                check(&member.name, "ok", "connected", "")
            } else {
                let cure = if self.peers.refuses_us(member.device()) {
                    "if this device was removed there: cede devices leave, and then cede pair".to_owned()
                } else {
                    format!(
                        "start it there: cede up, or tell where it is: cede devices address {} HOST:PORT",
                        member.name
                    )
                };
                let found = format!("not connected: {}", self.peers.trouble(member.device()).1);
                check(&member.name, "warn", found, &cure)
            }
        }));
        checks.extend(self.custodian.sessions().filter_map(|(id, standing)| self.unsettled(id, standing)));
        checks.extend(self.custodian.unclaimed().map(|(id, release)| {
            let from = self.device_name(release.from);
            let found = format!("{from} released session {} to this device, which approved no such move", id.short());
            let id = id.short();
            let cure = format!(
                "if you want it here: cede claim {id}; if it is this device's own and never moved: cede confirm {id}; else do \
                 nothing, {from} keeps its copy"
            );
            check("handoffs", "warn", found, &cure)
        }));
        checks.extend(self.doubt_checks());
        checks.extend(self.branch_checks());
        checks.extend(self.letter_checks());
        checks.extend(self.notice_checks());
        let stale = self.custodian.fences_to_lift();
        if !stale.is_empty() {
            checks.push(check(
                "fences",
                "warn",
                format!("{} still up though this device is in charge", stale.len()),
                "they are being lifted; see the log",
            ));
        }
        checks
    }
}
