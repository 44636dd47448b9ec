//! The first message in each direction. A TLS client is done before its peer has judged its key, so a link counts only
//! once a greeting went both ways.

use cede_wire::id::{DeviceKey, MeshId};
use cede_wire::message::{Hello, PeerMessage};

use crate::framing::FrameReader;
use crate::limits::HELLO_BYTES;
use crate::link::{Breach, LinkError};

/// Protocol versions, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// The lowest.
    pub min: u16,
    /// The highest.
    pub max: u16,
}

impl Versions {
    fn of(hello: &Hello) -> Self {
        Self { min: hello.protocol_min, max: hello.protocol_max }
    }
}

impl core::fmt::Display for Versions {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.min == self.max { write!(f, "{}", self.max) } else { write!(f, "{} to {}", self.min, self.max) }
    }
}

/// Why two greetings do not fit. The link is closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GreetingFault {
    #[error("the greeting names another device than the key")]
    AnotherDevice,
    #[error("no protocol version in common: ours {ours}, theirs {theirs}")]
    VersionMismatch { ours: Versions, theirs: Versions },
    #[error("the peer belongs to another mesh: {theirs}")]
    WrongMesh { ours: MeshId, theirs: MeshId },
}

/// Holds the peer's greeting against its key and ours; gives the version to speak. Source: SPEC C-3.
pub(crate) fn check(ours: &Hello, theirs: &Hello, peer: &DeviceKey) -> Result<u16, GreetingFault> {
    if theirs.device != peer.device() {
        return Err(GreetingFault::AnotherDevice);
    }
    let mismatch = GreetingFault::VersionMismatch { ours: Versions::of(ours), theirs: Versions::of(theirs) };
    let version = ours.agree(theirs).ok_or(mismatch)?;
    if ours.mesh != theirs.mesh {
        return Err(GreetingFault::WrongMesh { ours: ours.mesh, theirs: theirs.mesh });
    }
    Ok(version)
}

/// Our greeting as a frame.
pub(crate) fn frame(hello: &Hello) -> Result<Vec<u8>, LinkError> {
    let frame = PeerMessage::Hello(hello.clone()).to_frame().map_err(|_| LinkError::TooLong)?;
    if frame.len() > HELLO_BYTES { Err(LinkError::TooLong) } else { Ok(frame) }
}

/// Reads the peer's greeting.
pub(crate) async fn read(reader: &mut FrameReader) -> Result<Hello, LinkError> {
    let (header, body) = reader.next().await?.ok_or(Breach::NoGreeting)?;
    match PeerMessage::from_frame(header, &body).map_err(Breach::from)? {
        Some(PeerMessage::Hello(hello)) => Ok(hello),
        Some(_) | None => Err(Breach::NoGreeting.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(key: &DeviceKey, versions: (u16, u16), mesh: u8) -> Hello {
        Hello {
            protocol_min: versions.0,
            protocol_max: versions.1,
            device: key.device(),
            mesh: MeshId::new([mesh; 32]),
            software: String::new(),
            members: 2,
            run: 1,
        }
    }

    /// Shows: C-3
    #[test]
    fn greeting_is_held_against_key_version_and_mesh() {
        let (a, b) = (DeviceKey::new([1; 32]), DeviceKey::new([2; 32]));
        let ours = hello(&a, (1, 2), 9);
        assert_eq!(check(&ours, &hello(&b, (2, 3), 9), &b), Ok(2));
        assert_eq!(check(&ours, &hello(&a, (1, 2), 9), &b), Err(GreetingFault::AnotherDevice));
        let (ours_versions, theirs) = (Versions { min: 1, max: 2 }, Versions { min: 3, max: 4 });
        let mismatch = GreetingFault::VersionMismatch { ours: ours_versions, theirs };
        assert_eq!(check(&ours, &hello(&b, (3, 4), 9), &b), Err(mismatch));
        assert!(matches!(check(&ours, &hello(&b, (1, 1), 8), &b), Err(GreetingFault::WrongMesh { .. })));
    }

    /// Shows: C-4
    #[test]
    fn greeting_with_a_flood_of_text_is_not_sent() {
        let mut long = hello(&DeviceKey::new([1; 32]), (1, 1), 9);
        long.software = "x".repeat(HELLO_BYTES);
        assert_eq!(frame(&long), Err(LinkError::TooLong));
    }
}
