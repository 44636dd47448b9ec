//! From a few short words to a key that nobody in the middle has: SPAKE2 over ed25519, with roles.
//!
//! The host is the trusted device that shows the words, the guest the new one that enters them. Every type is
//! consumed by its step, so one run is one guess. The guest proves first: a stranger who connects as a guest learns
//! whether its guess was right and nothing else.

use core::fmt;

use cede_wire::id::{DeviceKey, MeshId};
use ed25519_dalek::VerifyingKey;
use spake2::{Ed25519Group, Identity, Password, Spake2};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::exchange::expand;

mod seeded;

/// Why a pairing run failed. The run is over and its words are burned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PakeError {
    /// The peer's share is no point, a point of low order, or our own.
    #[error("the pairing share is not usable")]
    Share,
    /// The proof does not match: other words, or somebody stands between the two devices.
    #[error("the pairing proof does not match")]
    Proof,
}

/// What both sides must see alike, besides the words. Anything that differs makes the proofs differ.
/// Source: SPEC S-8.
#[derive(Clone, PartialEq, Eq)]
pub struct Transcript {
    /// The host's mesh.
    pub mesh: MeshId,
    /// The host's key, as the link proved it.
    pub host: DeviceKey,
    /// The guest's key, as the link proved it.
    pub guest: DeviceKey,
    /// Lowest and highest protocol version of the host.
    pub host_versions: (u16, u16),
    /// Lowest and highest protocol version of the guest.
    pub guest_versions: (u16, u16),
    /// Random, from the host.
    pub host_nonce: [u8; 32],
    /// Random, from the guest.
    pub guest_nonce: [u8; 32],
    /// The link's exported keying material: the same at both ends of one TLS connection and nowhere else.
    pub exporter: [u8; 32],
}

impl Transcript {
    fn bytes(&self, shares: &Shares) -> Vec<u8> {
        let versions = [self.host_versions.0, self.host_versions.1, self.guest_versions.0, self.guest_versions.1];
        let versions = versions.map(u16::to_le_bytes);
        let fields: [&[u8]; 10] = [
            DOMAIN,
            self.mesh.as_bytes(),
            self.host.as_bytes(),
            self.guest.as_bytes(),
            versions.as_flattened(),
            &self.host_nonce,
            &self.guest_nonce,
            &self.exporter,
            &shares.host,
            &shares.guest,
        ];
        fields.concat()
    }
}

impl fmt::Debug for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Transcript");
        shown.field("mesh", &self.mesh).field("host", &self.host).field("guest", &self.guest).finish_non_exhaustive()
    }
}

/// Six decimal digits that both screens show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comparison(u32);

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:03} {:03}", self.0 / 1_000, self.0 % 1_000)
    }
}

/// The trusted device's run.
pub struct HostPake {
    run: Spake2<Ed25519Group>,
    share: [u8; 32],
}

impl HostPake {
    /// Begins a run. Gives the share to send.
    pub fn start(words: &[u8], random: [u8; 32]) -> (Self, [u8; 32]) {
        let mut random = seeded::Seeded::new(random);
        let (run, share) = Spake2::start_a_with_rng(&password(words), &host(), &guest(), &mut random);
        let share = without_side(&share);
        (Self { run, share }, share)
    }

    /// Checks the guest's proof and only then gives the host's.
    ///
    /// # Errors
    /// [`PakeError`]; the words are burned, and nothing may be sent that depends on them.
    pub fn check(
        self,
        guest_share: &[u8; 32],
        guest_proof: &[u8; 32],
        transcript: &Transcript,
    ) -> Result<([u8; 32], Comparison), PakeError> {
        let shares = Shares { host: self.share, guest: *guest_share };
        let schedule = agree(self.run, b'B', guest_share, &self.share, &transcript.bytes(&shares))?;
        if !same(&schedule.guest_proof, guest_proof) {
            return Err(PakeError::Proof);
        }
        Ok((*schedule.host_proof, schedule.comparison))
    }
}

impl fmt::Debug for HostPake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostPake(..)")
    }
}

/// The new device's run.
pub struct GuestPake {
    run: Spake2<Ed25519Group>,
    share: [u8; 32],
}

impl GuestPake {
    /// Begins a run. Gives the share to send.
    pub fn start(words: &[u8], random: [u8; 32]) -> (Self, [u8; 32]) {
        let mut random = seeded::Seeded::new(random);
        let (run, share) = Spake2::start_b_with_rng(&password(words), &host(), &guest(), &mut random);
        let share = without_side(&share);
        (Self { run, share }, share)
    }

    /// Answers the host's share with the guest's proof.
    ///
    /// # Errors
    /// [`PakeError::Share`]; the run is over.
    pub fn prove(self, host_share: &[u8; 32], transcript: &Transcript) -> Result<([u8; 32], GuestProved), PakeError> {
        let shares = Shares { host: *host_share, guest: self.share };
        let schedule = agree(self.run, b'A', host_share, &self.share, &transcript.bytes(&shares))?;
        Ok((*schedule.guest_proof, GuestProved(schedule)))
    }
}

impl fmt::Debug for GuestPake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GuestPake(..)")
    }
}

/// The guest has proved that it knows the words and waits for the host to do the same.
pub struct GuestProved(Schedule);

impl GuestProved {
    /// Checks the host's proof.
    ///
    /// # Errors
    /// [`PakeError::Proof`]; the host does not know the words or is not the one at the other end.
    pub fn check(self, host_proof: &[u8; 32]) -> Result<Comparison, PakeError> {
        if same(&self.0.host_proof, host_proof) { Ok(self.0.comparison) } else { Err(PakeError::Proof) }
    }
}

impl fmt::Debug for GuestProved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GuestProved(..)")
    }
}

struct Shares {
    host: [u8; 32],
    guest: [u8; 32],
}

struct Schedule {
    guest_proof: Zeroizing<[u8; 32]>,
    host_proof: Zeroizing<[u8; 32]>,
    comparison: Comparison,
}

impl Schedule {
    fn new(secret: &[u8], transcript: &[u8]) -> Self {
        let proof = |label: &[u8]| {
            let key = expand::<32>(DOMAIN, secret, label);
            Zeroizing::new(*blake3::keyed_hash(&key, transcript).as_bytes())
        };
        let digits = proof(b"comparison");
        let number = digits.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
        Self {
            guest_proof: proof(b"guest proof"),
            host_proof: proof(b"host proof"),
            comparison: Comparison((number % 1_000_000) as u32),
        }
    }
}

fn agree(
    run: Spake2<Ed25519Group>,
    side: u8,
    theirs: &[u8; 32],
    ours: &[u8; 32],
    transcript: &[u8],
) -> Result<Schedule, PakeError> {
    let point = VerifyingKey::from_bytes(theirs).map_err(|_| PakeError::Share)?;
    if point.is_weak() || theirs == ours {
        return Err(PakeError::Share);
    }
    let mut message = [side; 33];
    message[1..].copy_from_slice(theirs);
    let secret = Zeroizing::new(run.finish(&message).map_err(|_| PakeError::Share)?);
    Ok(Schedule::new(&secret, transcript))
}

fn same(expected: &[u8; 32], given: &[u8; 32]) -> bool {
    expected.ct_eq(given).into()
}

fn without_side(message: &[u8]) -> [u8; 32] {
    message.get(1..).and_then(|share| share.try_into().ok()).unwrap_or_default()
}

fn password(words: &[u8]) -> Password {
    Password::new(expand::<32>(DOMAIN, words, b"words").as_slice())
}

fn host() -> Identity {
    Identity::new(b"cede/1 pairing host")
}

fn guest() -> Identity {
    Identity::new(b"cede/1 pairing guest")
}

const DOMAIN: &[u8] = b"cede/1 pairing";

#[cfg(test)]
mod tests;
