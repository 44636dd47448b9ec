//! The trusted device's side.

use core::time::Duration;
use std::collections::VecDeque;

use cede_seal::device::LocalDevice;
use cede_seal::pake::{Comparison, HostPake, Transcript};
use cede_wire::id::{DeviceKey, MeshId};
use cede_wire::member::{Capability, Member};
use cede_wire::message::{PROTOCOL_MAX, PROTOCOL_MIN};
use cede_wire::pairing::PairMessage;
use cede_wire::record::Record;
use cede_wire::refusal::Refusal;

use super::words::Words;
use super::{Outbox, Output, PairError, PairEvent, PairLink, Random, agree};
use crate::limits::{CONFIRM, FAILURE_WINDOW, FAILURES, LOCK, PAIRING_WORDS, STEP, WORDS_LIFE};
use crate::membership::{LogError, MembershipLog};
use crate::name::clean;
use crate::now::Now;

/// Why no words are shown. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArmError {
    /// Too many failed guesses.
    #[error("pairing is locked after {FAILURES} failed attempts: try again in {} s", .wait.as_secs() + 1)]
    Locked {
        /// How long it stays locked.
        wait: Duration,
    },
    /// A device is being paired.
    #[error("a device is being paired: answer or cancel that first")]
    Running,
    /// Another device signs the log.
    #[error("only {administrator} adds devices to this mesh: run `cede pair` there")]
    NotAdministrator {
        /// Its name.
        administrator: String,
    },
}

/// Why a link is not served. The driver sends the refusal and closes it; nothing else changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// No words are shown.
    #[error("no pairing is open")]
    NotArmed,
    /// Another device is being paired.
    #[error("another device is being paired")]
    Busy,
    /// The mesh has removed the device.
    #[error("the device was removed from the mesh")]
    Removed,
    /// Our own key.
    #[error("the device has the same key as this one")]
    Ourselves,
}

impl ConnectError {
    /// What to send before closing.
    pub fn refusal(self) -> PairMessage {
        PairMessage::Refuse(match self {
            Self::NotArmed => Refusal::NoApprover,
            Self::Busy => Refusal::Busy,
            Self::Removed => Refusal::NotGranted,
            Self::Ourselves => Refusal::Protocol,
        })
    }
}

/// There is nothing to confirm. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no device waits for a confirmation")]
pub struct ConfirmError;

/// The machine of the trusted device. It lives as long as the daemon and pairs one device at a time.
/// Source: SPEC P-1, P-2, P-4.
#[derive(Debug, Default)]
pub struct PairingHost {
    state: State,
    failures: VecDeque<Duration>,
    locked_until: Option<Duration>,
    outbox: Outbox,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    /// Words are shown.
    Armed(Invitation),
    /// A link stands; the words are still good.
    Opening { invitation: Invitation, link: PairLink, random: Random, until: Duration },
    /// The share is out; the words are spent.
    Proving { run: HostPake, transcript: Transcript, grant: Vec<Capability>, until: Duration },
    /// The guest knew the words.
    Naming { guest: Guest, until: Duration },
    /// The operator is asked.
    Asking { guest: Guest, name: String, until: Duration },
    /// The guest is a member and has been sent the log.
    Welcoming { mesh: MeshId, name: String, until: Duration },
}

#[derive(Debug)]
struct Invitation {
    words: Words,
    mesh: MeshId,
    own: DeviceKey,
    grant: Vec<Capability>,
    until: Duration,
}

#[derive(Debug)]
struct Guest {
    key: DeviceKey,
    mesh: MeshId,
    grant: Vec<Capability>,
    comparison: Comparison,
}

impl PairingHost {
    /// A link came in that wants to pair. `random` is fresh.
    ///
    /// # Errors
    /// [`ConnectError`]; the link is not served.
    pub fn handle_connected(
        &mut self,
        link: PairLink,
        log: &MembershipLog,
        random: [u8; 64],
        now: Now,
    ) -> Result<(), ConnectError> {
        self.handle_timeout(now);
        if log.was_removed(&link.peer.device()) {
            return Err(ConnectError::Removed);
        }
        match core::mem::take(&mut self.state) {
            State::Idle => Err(ConnectError::NotArmed),
            State::Armed(invitation) if invitation.own == link.peer => {
                self.state = State::Armed(invitation);
                Err(ConnectError::Ourselves)
            }
            State::Armed(invitation) => {
                let until = now.after(STEP);
                self.state = State::Opening { invitation, link, random: Random::new(random), until };
                Ok(())
            }
            busy @ (State::Opening { .. }
            | State::Proving { .. }
            | State::Naming { .. }
            | State::Asking { .. }
            | State::Welcoming { .. }) => {
                self.state = busy;
                Err(ConnectError::Busy)
            }
        }
    }

    /// A message came from the guest.
    pub fn handle_message(&mut self, message: PairMessage, now: Now) {
        self.handle_timeout(now);
        match (core::mem::take(&mut self.state), message) {
            (State::Opening { invitation, link, random, .. }, message) => {
                self.open(invitation, &link, random, message, now);
            }
            (State::Proving { run, transcript, grant, .. }, PairMessage::GuestProof { share, proof }) => {
                match run.check(&share, &proof, &transcript) {
                    Ok(proved) => self.become_naming(&transcript, grant, proved, now),
                    Err(error) => self.burn(error.into(), now),
                }
            }
            (State::Proving { .. }, PairMessage::Refuse(refusal)) => self.burn(PairError::of_peer(refusal), now),
            (State::Proving { .. }, _) => self.burn(PairError::Protocol("no proof"), now),
            (State::Naming { guest, .. }, PairMessage::Name { name }) => self.become_asking(guest, clean(&name), now),
            (State::Welcoming { mesh, name, .. }, PairMessage::Joined) => {
                self.outbox.push(Output::Close);
                self.outbox.push(Output::Tell(PairEvent::Joined { mesh, peer: name }));
            }
            (State::Welcoming { .. }, _) => self.refuse(PairError::Unconfirmed),
            (State::Naming { .. } | State::Asking { .. }, PairMessage::Refuse(refusal)) => {
                self.refuse(PairError::of_peer(refusal));
            }
            (State::Naming { .. } | State::Asking { .. }, _) => self.refuse(PairError::Protocol("out of turn")),
            // A frame that was under way when the link was closed.
            (quiet @ (State::Idle | State::Armed(_)), _) => self.state = quiet,
        }
    }

    /// The link ended.
    pub fn handle_disconnected(&mut self, now: Now) {
        match core::mem::take(&mut self.state) {
            State::Idle => (),
            State::Armed(invitation) | State::Opening { invitation, .. } => self.state = State::Armed(invitation),
            State::Proving { .. } => {
                self.count_failure(now);
                self.become_idle(PairError::Abandoned);
            }
            State::Naming { .. } | State::Asking { .. } => self.become_idle(PairError::Abandoned),
            State::Welcoming { .. } => self.become_idle(PairError::Unconfirmed),
        }
        self.handle_timeout(now);
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Now) {
        if self.poll_timeout().is_none_or(|due| now.monotonic < due) {
            return;
        }
        match core::mem::take(&mut self.state) {
            State::Idle => (),
            State::Armed(_) => self.become_idle(PairError::Expired),
            State::Opening { invitation, .. } => self.let_go(invitation, PairError::Silent, now),
            State::Proving { .. } => self.burn(PairError::Silent, now),
            State::Naming { .. } => self.refuse(PairError::Silent),
            State::Asking { .. } => self.refuse(PairError::Expired),
            State::Welcoming { .. } => self.refuse(PairError::Unconfirmed),
        }
    }

    /// Draws words from fresh random bytes and waits for one device. Words shown before are burned. `grant` is what the
    /// new device may ask, `life` how long the words can be used: [`WORDS_LIFE`] at most.
    ///
    /// # Errors
    /// [`ArmError`]; no words are shown.
    pub fn arm(
        &mut self,
        own: &LocalDevice,
        log: &MembershipLog,
        grant: &[Capability],
        life: Duration,
        random: [u8; 2 * PAIRING_WORDS],
        now: Now,
    ) -> Result<Words, ArmError> {
        self.handle_timeout(now);
        let wait = self.locked_until.unwrap_or_default().saturating_sub(now.monotonic);
        if !wait.is_zero() {
            return Err(ArmError::Locked { wait });
        }
        if log.administrator() != own.device() {
            let administrator = log.member(&log.administrator()).map(|member| member.name.clone());
            return Err(ArmError::NotAdministrator { administrator: administrator.unwrap_or_default() });
        }
        if !matches!(self.state, State::Idle | State::Armed(_)) {
            return Err(ArmError::Running);
        }
        let words = Words::from_random(random);
        let mut grant = grant.to_vec();
        grant.sort_unstable();
        grant.dedup();
        let until = now.after(life.min(WORDS_LIFE));
        self.state = State::Armed(Invitation { words: words.clone(), mesh: log.mesh(), own: own.key(), grant, until });
        Ok(words)
    }

    /// The operator's answer to [`PairEvent::Compare`]. A yes signs the entry.
    ///
    /// # Errors
    /// [`ConfirmError`]; nothing changed.
    pub fn confirm(
        &mut self,
        yes: bool,
        own: &LocalDevice,
        log: &mut MembershipLog,
        now: Now,
    ) -> Result<(), ConfirmError> {
        self.handle_timeout(now);
        if !matches!(self.state, State::Asking { .. }) {
            return Err(ConfirmError);
        }
        let State::Asking { guest, name, .. } = core::mem::take(&mut self.state) else {
            return Err(ConfirmError);
        };
        let welcomed = if yes { self.become_welcoming(guest, name, own, log, now) } else { Err(PairError::Declined) };
        welcomed.unwrap_or_else(|error| self.refuse(error));
        Ok(())
    }

    /// Takes the words back, or ends the pairing.
    pub fn cancel(&mut self, now: Now) {
        match core::mem::take(&mut self.state) {
            State::Idle => (),
            State::Armed(_) => self.become_idle(PairError::Cancelled),
            State::Opening { .. } | State::Proving { .. } | State::Naming { .. } | State::Asking { .. } => {
                self.refuse(PairError::Cancelled);
            }
            State::Welcoming { .. } => self.refuse(PairError::Unconfirmed),
        }
        self.handle_timeout(now);
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Output> {
        self.outbox.pop()
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Duration> {
        match &self.state {
            State::Idle => None,
            State::Armed(invitation) => Some(invitation.until),
            State::Opening { until, .. }
            | State::Proving { until, .. }
            | State::Naming { until, .. }
            | State::Asking { until, .. }
            | State::Welcoming { until, .. } => Some(*until),
        }
    }

    /// Whether a stranger may connect: words are shown and nobody has come yet.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Armed(_))
    }

    fn open(&mut self, invitation: Invitation, link: &PairLink, random: Random, message: PairMessage, now: Now) {
        let PairMessage::Open { protocol_min, protocol_max, nonce } = message else {
            return self.let_go(invitation, PairError::Protocol("no opening"), now);
        };
        match agree(protocol_min, protocol_max) {
            Err(error) => self.let_go(invitation, error, now),
            Ok(()) if now.monotonic >= invitation.until => self.refuse(PairError::Expired),
            Ok(()) => {
                let transcript = Transcript {
                    mesh: invitation.mesh,
                    host: invitation.own,
                    guest: link.peer,
                    host_versions: (PROTOCOL_MIN, PROTOCOL_MAX),
                    guest_versions: (protocol_min, protocol_max),
                    host_nonce: random.nonce,
                    guest_nonce: nonce,
                    exporter: link.exporter,
                };
                self.become_proving(invitation, transcript, &random, now);
            }
        }
    }

    fn become_proving(&mut self, invitation: Invitation, transcript: Transcript, random: &Random, now: Now) {
        let (run, share) = HostPake::start(invitation.words.show().as_bytes(), *random.share);
        self.outbox.push(Output::Send(PairMessage::HostShare {
            protocol_min: PROTOCOL_MIN,
            protocol_max: PROTOCOL_MAX,
            mesh: transcript.mesh,
            nonce: transcript.host_nonce,
            share,
        }));
        self.state = State::Proving { run, transcript, grant: invitation.grant, until: now.after(STEP) };
    }

    fn become_naming(
        &mut self,
        transcript: &Transcript,
        grant: Vec<Capability>,
        (proof, comparison): ([u8; 32], Comparison),
        now: Now,
    ) {
        self.outbox.push(Output::Send(PairMessage::HostProof { proof }));
        let guest = Guest { key: transcript.guest, mesh: transcript.mesh, grant, comparison };
        self.state = State::Naming { guest, until: now.after(STEP) };
    }

    fn become_asking(&mut self, guest: Guest, name: String, now: Now) {
        self.outbox.push(Output::Tell(PairEvent::Compare {
            peer: guest.key.device(),
            comparison: guest.comparison,
            name: Some(name.clone()),
        }));
        self.state = State::Asking { guest, name, until: now.after(CONFIRM) };
    }

    fn become_welcoming(
        &mut self,
        guest: Guest,
        name: String,
        own: &LocalDevice,
        log: &mut MembershipLog,
        now: Now,
    ) -> Result<(), PairError> {
        if log.mesh() != guest.mesh {
            return Err(PairError::OtherMesh);
        }
        let device = guest.key.device();
        // A member that lost its log, or never got it, is given it again.
        if !log.is_member(&device) {
            let entry = log.add(own, Member { key: guest.key, name, capabilities: guest.grant })?;
            self.outbox.push(Output::Persist(vec![Record::Member(entry)]));
        }
        let member = log.member(&device).ok_or(LogError::NotMember(device))?.clone();
        self.outbox.push(Output::Send(PairMessage::Welcome(log.entries().to_vec())));
        self.state = State::Welcoming { mesh: guest.mesh, name: member.name.clone(), until: now.after(STEP) };
        self.outbox.push(Output::Tell(PairEvent::Added(member)));
        Ok(())
    }

    fn become_idle(&mut self, error: PairError) {
        self.state = State::Idle;
        self.outbox.push(Output::Tell(PairEvent::Failed(error)));
    }

    fn refuse(&mut self, error: PairError) {
        self.outbox.push(Output::Send(PairMessage::Refuse(error.refusal())));
        self.outbox.push(Output::Close);
        self.become_idle(error);
    }

    /// A guess failed. Source: SPEC P-2.
    fn burn(&mut self, error: PairError, now: Now) {
        self.count_failure(now);
        self.refuse(error);
    }

    fn count_failure(&mut self, now: Now) {
        self.failures.retain(|at| now.monotonic.saturating_sub(*at) < FAILURE_WINDOW);
        self.failures.push_back(now.monotonic);
        if self.failures.len() >= FAILURES {
            self.locked_until = Some(now.after(LOCK));
        }
    }

    /// The link goes, the words stay: nobody has had a guess.
    fn let_go(&mut self, invitation: Invitation, error: PairError, now: Now) {
        if now.monotonic >= invitation.until {
            return self.refuse(PairError::Expired);
        }
        self.outbox.push(Output::Send(PairMessage::Refuse(error.refusal())));
        self.outbox.push(Output::Close);
        self.state = State::Armed(invitation);
    }
}
