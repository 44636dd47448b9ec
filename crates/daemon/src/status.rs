//! One screen: this device, peers, sessions, moves, questions.

use std::collections::BTreeSet;

use cede_wire::control::{DeviceSummary, SessionSummary, StatusReport};
use cede_wire::id::DeviceId;
use cede_wire::member::{Capability, Member};
use cede_wire::record::PeerPolicy;

use crate::actor::Actor;
use crate::sessions::Found;

/// Sessions that never moved are listed up to this number: `cede ls` shows all.
const RECENT: usize = 5;

impl Actor {
    pub(crate) fn status(&self, found: &Found, listening: String) -> StatusReport {
        let sessions = self.notable(self.summaries(found));
        let (moves, approvals) = (self.moves.summaries(), self.approval_summaries());
        let peers: Vec<DeviceSummary> = self.peers.members().iter().map(|member| self.device(member)).collect();
        let next = if self.read_only || self.custodian.doubt().is_some() {
            "cede doctor".to_owned()
        } else if let Some((id, _)) = self.custodian.unclaimed().next() {
            format!("cede claim {}", id.short())
        } else if !approvals.is_empty() {
            "cede approvals".to_owned()
        } else if self.seems_removed(&peers) {
            "cede devices leave, if this device was removed there".to_owned()
        } else if self.unread_letters() > 0 {
            "cede inbox".to_owned()
        } else if peers.is_empty() {
            "cede pair".to_owned()
        } else if let Some(away) = sessions.iter().find(|session| !session.here) {
            let gone = self.custodian.owner(away.id).is_some_and(|owner| !self.peers.is_member(owner));
            format!("cede take {}{}", if gone { "--force " } else { "" }, away.id.short())
        } else if sessions.is_empty() {
            "cede adopt <directory>, or start a coding agent".to_owned()
        } else if let Some(peer) = peers.iter().find(|peer| peer.connected) {
            format!("cede to {}", peer.name)
        } else {
            "cede doctor".to_owned()
        };
        StatusReport {
            device: self.this_device(),
            software: env!("CARGO_PKG_VERSION").to_owned(),
            mesh: self.peers.mesh(),
            listening,
            read_only: self.read_only,
            peers,
            sessions,
            moves,
            transfers: self.open_transfer_summaries(),
            approvals,
            next,
            letters: self.unread_letters(),
            warnings: self.warnings(),
            evidence: self.evidence(),
        }
    }

    /// Whether the device that removes others does not admit this one, or none does.
    fn seems_removed(&self, peers: &[DeviceSummary]) -> bool {
        let refuses = |peer: &DeviceSummary| self.peers.refuses_us(peer.id);
        !peers.is_empty() && (peers.iter().all(refuses) || peers.iter().any(|peer| peer.administrator && refuses(peer)))
    }

    /// What a person should look after.
    fn warnings(&self) -> Vec<String> {
        let unrecorded = self.audit.trouble().map(|why| {
            let state = self.context.state.display();
            format!("decisions cannot be recorded ({why}), so nothing is allowed to peers; look at the disk of {state}: it is tried again every few seconds")
        });
        let calls = self.context.notices.warnings();
        calls.into_iter().chain(unrecorded).chain(self.files_without_room()).collect()
    }

    /// Every session that moved or moves, every hosted terminal, and the few newest others.
    fn notable(&self, all: Vec<SessionSummary>) -> Vec<SessionSummary> {
        let known: BTreeSet<_> = self.custodian.sessions().map(|(id, _)| id).collect();
        let mut recent = 0;
        let keep = |session: &SessionSummary| {
            if known.contains(&session.id) || session.terminal.is_some() {
                return true;
            }
            recent += 1;
            recent <= RECENT
        };
        all.into_iter().filter(keep).collect()
    }

    pub(crate) fn this_device(&self) -> DeviceSummary {
        let id = self.context.local.device();
        DeviceSummary {
            id,
            name: self.name.clone(),
            this: true,
            administrator: self.is_administrator(id),
            connected: true,
            address: None,
            capabilities: Vec::new(),
            policy: PeerPolicy::Yes,
        }
    }

    pub(crate) fn device(&self, member: &Member) -> DeviceSummary {
        let id = member.device();
        DeviceSummary {
            id,
            name: member.name.clone(),
            this: false,
            administrator: self.is_administrator(id),
            connected: self.peers.is_connected(id),
            address: self.peers.address_of(id),
            capabilities: member.capabilities.clone(),
            policy: self.unattended(id),
        }
    }

    pub(crate) fn is_administrator(&self, device: DeviceId) -> bool {
        self.peers.log.as_ref().is_none_or(|log| log.administrator() == device)
    }

    /// What a new device may ask for: a person's own devices may everything that needs a yes to ask for.
    pub(crate) fn granted() -> [Capability; 7] {
        [
            Capability::Presence,
            Capability::Message,
            Capability::Delegate,
            Capability::File,
            Capability::Handoff,
            Capability::Observe,
            Capability::Drive,
        ]
    }
}
