//! The new device's side.

use core::time::Duration;

use cede_seal::pake::{GuestPake, GuestProved, Transcript};
use cede_wire::canonical::Signed;
use cede_wire::id::{DeviceKey, MeshId};
use cede_wire::member::MemberEntry;
use cede_wire::message::{PROTOCOL_MAX, PROTOCOL_MIN};
use cede_wire::pairing::PairMessage;
use cede_wire::record::Record;

use super::words::Words;
use super::{Outbox, Output, PairError, PairEvent, PairLink, Random, agree};
use crate::limits::{CONFIRM, STEP};
use crate::membership::MembershipLog;
use crate::name::clean;
use crate::now::Now;

/// Why a pairing did not begin. Nothing was sent and the words are good still.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BeginError {
    /// A device belongs to one mesh.
    #[error(
        "this device already belongs to a mesh of {devices}; one device shows the words with `cede pair`, and what begins with that has a mesh"
    )]
    HasMesh {
        /// How many devices belong to it.
        devices: usize,
    },
    /// The link leads to this device, or to a copy of it.
    #[error("the other device has the same key as this one")]
    Ourselves,
}

/// The machine of the new device, for one pairing. Source: SPEC P-3, P-5.
#[derive(Debug)]
pub struct PairingGuest {
    own: DeviceKey,
    host: DeviceKey,
    name: String,
    state: State,
    outbox: Outbox,
}

#[derive(Debug, Default)]
enum State {
    /// `Open` is sent.
    Opening { words: Words, random: Random, link: PairLink, until: Duration },
    /// Our proof is sent.
    Proving { proved: GuestProved, mesh: MeshId, until: Duration },
    /// The host knew the words; its operator is asked.
    Waiting { mesh: MeshId, until: Duration },
    /// The log is ours.
    Done(MembershipLog),
    #[default]
    Over,
}

impl PairingGuest {
    /// Begins over a link to the host. `existing` is the log of a mesh that this device belongs to; `random` is fresh.
    ///
    /// # Errors
    /// [`BeginError`]; nothing was sent.
    pub fn begin(
        own: DeviceKey,
        name: &str,
        words: Words,
        existing: Option<&MembershipLog>,
        link: PairLink,
        random: [u8; 64],
        now: Now,
    ) -> Result<Self, BeginError> {
        if let Some(log) = existing {
            return Err(BeginError::HasMesh { devices: log.members().count() });
        }
        if link.peer == own {
            return Err(BeginError::Ourselves);
        }
        let random = Random::new(random);
        let (nonce, until, host) = (random.nonce, now.after(STEP), link.peer);
        let mut outbox = Outbox::default();
        let open = PairMessage::Open { protocol_min: PROTOCOL_MIN, protocol_max: PROTOCOL_MAX, nonce };
        outbox.push(Output::Send(open));
        let state = State::Opening { words, random, link, until };
        Ok(Self { own, host, name: clean(name), state, outbox })
    }

    /// A message came from the host.
    pub fn handle_message(&mut self, message: PairMessage, now: Now) {
        self.handle_timeout(now);
        match (core::mem::take(&mut self.state), message) {
            (over @ (State::Over | State::Done(_)), _) => self.state = over,
            (_, PairMessage::Refuse(refusal)) => self.end(PairError::of_peer(refusal)),
            (
                State::Opening { words, random, link, .. },
                PairMessage::HostShare { protocol_min, protocol_max, mesh, nonce, share },
            ) => {
                let transcript = Transcript {
                    mesh,
                    host: self.host,
                    guest: self.own,
                    host_versions: (protocol_min, protocol_max),
                    guest_versions: (PROTOCOL_MIN, PROTOCOL_MAX),
                    host_nonce: nonce,
                    guest_nonce: random.nonce,
                    exporter: link.exporter,
                };
                let proved = self.prove(&words, &random, &share, &transcript, now);
                proved.unwrap_or_else(|error| self.become_over(error));
            }
            (State::Proving { proved, mesh, .. }, PairMessage::HostProof { proof }) => match proved.check(&proof) {
                Ok(comparison) => {
                    let peer = self.host.device();
                    self.outbox.push(Output::Tell(PairEvent::Compare { peer, comparison, name: None }));
                    self.outbox.push(Output::Send(PairMessage::Name { name: self.name.clone() }));
                    self.state = State::Waiting { mesh, until: now.after(CONFIRM + STEP) };
                }
                Err(error) => self.become_over(error.into()),
            },
            (State::Waiting { mesh, .. }, PairMessage::Welcome(entries)) => {
                let joined = self.become_done(mesh, entries);
                joined.unwrap_or_else(|error| self.become_over(error));
            }
            (State::Opening { .. } | State::Proving { .. } | State::Waiting { .. }, _) => {
                self.become_over(PairError::Protocol("out of turn"));
            }
        }
    }

    /// The link ended.
    pub fn handle_disconnected(&mut self) {
        match core::mem::take(&mut self.state) {
            over @ (State::Over | State::Done(_)) => self.state = over,
            State::Opening { .. } | State::Proving { .. } | State::Waiting { .. } => self.end(PairError::Abandoned),
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Now) {
        if self.poll_timeout().is_some_and(|due| now.monotonic >= due) {
            self.become_over(PairError::Silent);
        }
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Output> {
        self.outbox.pop()
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Duration> {
        match &self.state {
            State::Opening { until, .. } | State::Proving { until, .. } | State::Waiting { until, .. } => Some(*until),
            State::Done(_) | State::Over => None,
        }
    }

    /// The log of the mesh that was joined. It counts once the `Persist` before is durable.
    pub fn log(&self) -> Option<&MembershipLog> {
        match &self.state {
            State::Done(log) => Some(log),
            State::Opening { .. } | State::Proving { .. } | State::Waiting { .. } | State::Over => None,
        }
    }

    fn prove(
        &mut self,
        words: &Words,
        random: &Random,
        host_share: &[u8; 32],
        transcript: &Transcript,
        now: Now,
    ) -> Result<(), PairError> {
        agree(transcript.host_versions.0, transcript.host_versions.1)?;
        let (run, share) = GuestPake::start(words.show().as_bytes(), *random.share);
        let (proof, proved) = run.prove(host_share, transcript)?;
        self.outbox.push(Output::Send(PairMessage::GuestProof { share, proof }));
        self.state = State::Proving { proved, mesh: transcript.mesh, until: now.after(STEP) };
        Ok(())
    }

    fn become_done(&mut self, mesh: MeshId, entries: Vec<Signed<MemberEntry>>) -> Result<(), PairError> {
        let log = MembershipLog::from_entries(&entries)?;
        if log.mesh() != mesh {
            return Err(PairError::OtherMesh);
        }
        let host = log.member(&self.host.device()).filter(|host| host.device() == log.administrator());
        let ours = log.member(&self.own.device());
        let (Some(host), Some(_)) = (host, ours) else {
            return Err(PairError::NotInLog);
        };
        let peer = host.name.clone();
        self.outbox.push(Output::Persist(entries.into_iter().map(Record::Member).collect()));
        self.outbox.push(Output::Send(PairMessage::Joined));
        self.outbox.push(Output::Close);
        self.outbox.push(Output::Tell(PairEvent::Joined { mesh, peer }));
        self.state = State::Done(log);
        Ok(())
    }

    fn become_over(&mut self, error: PairError) {
        self.outbox.push(Output::Send(PairMessage::Refuse(error.refusal())));
        self.end(error);
    }

    fn end(&mut self, error: PairError) {
        self.state = State::Over;
        self.outbox.push(Output::Close);
        self.outbox.push(Output::Tell(PairEvent::Failed(error)));
    }
}
