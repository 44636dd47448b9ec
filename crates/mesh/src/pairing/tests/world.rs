//! Both devices and the link between them, without a network.

use core::time::Duration;

use cede_seal::device::LocalDevice;
use cede_seal::pake::{HostPake, Transcript};
use cede_wire::member::Capability;

use super::super::*;
use crate::membership::MembershipLog;
use crate::now::Now;

pub(super) const START: Now = Now { monotonic: Duration::from_secs(1_000), unix_ms: 0 };
pub(super) const GRANT: [Capability; 2] = [Capability::Presence, Capability::Handoff];

/// Both devices and the link between them, without a network.
pub(super) struct World {
    pub(super) now: Now,
    pub(super) log: MembershipLog,
    pub(super) host: PairingHost,
    pub(super) guest: Option<PairingGuest>,
    pub(super) host_told: Vec<PairEvent>,
    pub(super) guest_told: Vec<PairEvent>,
    pub(super) to_host: Vec<PairMessage>,
    pub(super) change: Option<fn(&mut PairMessage)>,
    pub(super) drawn: u8,
    pub(super) life: Duration,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            now: START,
            log: MembershipLog::genesis(&host_device(), "home", [3; 16]).unwrap(),
            host: PairingHost::default(),
            guest: None,
            host_told: Vec::new(),
            guest_told: Vec::new(),
            to_host: Vec::new(),
            change: None,
            drawn: 0,
            life: crate::limits::WORDS_LIFE,
        }
    }

    pub(super) fn try_arm(&mut self) -> Result<Words, ArmError> {
        self.drawn += 1;
        self.host.arm(&host_device(), &self.log, &[GRANT[1], GRANT[0], GRANT[1]], self.life, [self.drawn; 8], self.now)
    }

    pub(super) fn arm(&mut self) -> Words {
        self.host_told.clear();
        self.guest_told.clear();
        self.try_arm().unwrap()
    }

    pub(super) fn try_connect(&mut self, words: &Words) -> Result<(), ConnectError> {
        let (at_host, at_guest) = links();
        self.connect_over(words, at_host, at_guest)
    }

    pub(super) fn connect(&mut self, words: &Words) {
        self.try_connect(words).unwrap();
    }

    pub(super) fn connect_over(
        &mut self,
        words: &Words,
        at_host: PairLink,
        at_guest: PairLink,
    ) -> Result<(), ConnectError> {
        self.host.handle_connected(at_host, &self.log, [11; 64], self.now)?;
        let own = guest_device().key();
        let begun = PairingGuest::begin(own, "New Box", words.clone(), None, at_guest, [22; 64], self.now);
        self.guest = Some(begun.map_err(|_| ConnectError::Ourselves)?);
        Ok(())
    }

    pub(super) fn confirm(&mut self, yes: bool) {
        self.host.confirm(yes, &host_device(), &mut self.log, self.now).unwrap();
    }

    pub(super) fn wait(&mut self, time: Duration) {
        self.now.monotonic += time;
        self.host.handle_timeout(self.now);
        if let Some(guest) = &mut self.guest {
            guest.handle_timeout(self.now);
        }
    }

    /// Delivers everything until both are quiet.
    pub(super) fn run(&mut self) {
        while self.step() {}
    }

    /// Takes one output of each side.
    pub(super) fn step(&mut self) -> bool {
        let from_guest = self.guest.as_mut().and_then(PairingGuest::poll);
        let from_host = self.host.poll();
        let busy = from_guest.is_some() || from_host.is_some();
        match from_guest {
            Some(Output::Send(mut message)) => {
                self.change.inspect(|change| change(&mut message));
                self.to_host.push(message.clone());
                self.host.handle_message(message, self.now);
            }
            Some(Output::Tell(event)) => self.guest_told.push(event),
            Some(Output::Persist(_) | Output::Close) | None => (),
        }
        match from_host {
            Some(Output::Send(mut message)) => {
                self.change.inspect(|change| change(&mut message));
                self.guest.as_mut().unwrap().handle_message(message, self.now);
            }
            Some(Output::Tell(event)) => self.host_told.push(event),
            Some(Output::Persist(_) | Output::Close) | None => (),
        }
        busy
    }
}

/// A run up to the question.
pub(super) fn asked() -> World {
    let mut world = World::new();
    let words = world.arm();
    world.connect(&words);
    world.run();
    assert!(matches!(world.host_told[..], [PairEvent::Compare { .. }]));
    world
}

/// A run up to the question with a host that claims another mesh.
pub(super) fn asked_in(mesh: MeshId) -> World {
    let mut world = World::new();
    let words = Words::from_random([1; 8]);
    let (at_host, at_guest) = links();
    let own = guest_device().key();
    let mut guest = PairingGuest::begin(own, "x", words.clone(), None, at_guest, [22; 64], world.now).unwrap();
    let PairMessage::Open { nonce: guest_nonce, .. } = sent(|| guest.poll()) else { panic!("no opening") };
    let (run, share) = HostPake::start(words.show().as_bytes(), [5; 32]);
    let (protocol_min, protocol_max) = (PROTOCOL_MIN, PROTOCOL_MAX);
    let nonce = [6; 32];
    guest.handle_message(PairMessage::HostShare { protocol_min, protocol_max, mesh, nonce, share }, world.now);
    let PairMessage::GuestProof { share, proof } = sent(|| guest.poll()) else { panic!("no proof") };
    let transcript = Transcript {
        mesh,
        host: host_device().key(),
        guest: own,
        host_versions: (protocol_min, protocol_max),
        guest_versions: (protocol_min, protocol_max),
        host_nonce: nonce,
        guest_nonce,
        exporter: at_host.exporter,
    };
    let (proof, _) = run.check(&share, &proof, &transcript).unwrap();
    guest.handle_message(PairMessage::HostProof { proof }, world.now);
    let _ = drain(|| guest.poll());
    world.guest = Some(guest);
    world
}

pub(super) fn host_device() -> LocalDevice {
    LocalDevice::from_secret(&[1; 32])
}

pub(super) fn guest_device() -> LocalDevice {
    LocalDevice::from_secret(&[2; 32])
}

pub(super) fn links() -> (PairLink, PairLink) {
    let exporter = [9; 32];
    (PairLink { peer: guest_device().key(), exporter }, PairLink { peer: host_device().key(), exporter })
}

pub(super) fn member(device: &LocalDevice) -> Member {
    Member { key: device.key(), name: format!("n-{}", device.device().short()), capabilities: GRANT.to_vec() }
}

pub(super) fn wrong(words: &Words) -> Words {
    let shown = words.show();
    let other = if shown.ends_with("zoom") { "acorn" } else { "zoom" };
    let (start, _) = shown.rsplit_once('-').unwrap();
    Words::parse(&format!("{start}-{other}")).unwrap()
}

pub(super) fn other_share() -> [u8; 32] {
    HostPake::start(b"other", [1; 32]).1
}

pub(super) fn invented(which: usize) -> PairMessage {
    let (protocol_min, protocol_max, nonce) = (PROTOCOL_MIN, PROTOCOL_MAX, [1; 32]);
    let mesh = MeshId::new([1; 32]);
    let share = other_share();
    match which {
        0 => PairMessage::Open { protocol_min, protocol_max, nonce },
        1 => PairMessage::HostShare { protocol_min, protocol_max, mesh, nonce, share },
        2 => PairMessage::GuestProof { share, proof: [0; 32] },
        3 => PairMessage::HostProof { proof: [0; 32] },
        4 => PairMessage::Name { name: "x".into() },
        5 => PairMessage::Welcome(World::new().log.entries().to_vec()),
        6 => PairMessage::Joined,
        _ => PairMessage::Refuse(Refusal::Declined),
    }
}

pub(super) fn drain(mut poll: impl FnMut() -> Option<Output>) -> Vec<Output> {
    core::iter::from_fn(&mut poll).collect()
}

pub(super) fn sent(poll: impl FnMut() -> Option<Output>) -> PairMessage {
    let outputs = drain(poll);
    let message =
        outputs.into_iter().find_map(|output| if let Output::Send(message) = output { Some(message) } else { None });
    message.unwrap()
}

pub(super) fn failure(poll: impl FnMut() -> Option<Output>) -> Option<PairError> {
    drain(poll).into_iter().find_map(|output| match output {
        Output::Tell(PairEvent::Failed(error)) => Some(error),
        Output::Tell(_) | Output::Persist(_) | Output::Send(_) | Output::Close => None,
    })
}

pub(super) fn compared(told: &[PairEvent]) -> (Comparison, Option<String>) {
    match told {
        [PairEvent::Compare { comparison, name, .. }] => (*comparison, name.clone()),
        other => panic!("{other:?}"),
    }
}
