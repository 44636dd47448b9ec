//! What the two sides of a handoff sign. Source: SPEC H-3 to H-8.

use serde::{Deserialize, Serialize};

use crate::canonical::{Signable, encode};
use crate::catalog::{ChunkRef, Oid};
use crate::custody::{FencingToken, Head};
use crate::id::{DeviceId, HandoffId, Hash, MeshId, SessionId};
use crate::session::{Requirement, SessionKey};

/// What becomes of a part of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Disposition {
    /// 0: its bytes travel.
    Transferred,
    /// 1: the destination makes it anew from a reference.
    Rehydrated,
    /// 2: stays here by choice.
    Stays,
    /// 3: stays by rule.
    NeverTravels,
}

/// One line of what the operator is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventoryItem {
    /// What: "conversation", "tracked files", "ignored files", "provider credentials".
    pub what: String,
    /// What becomes of it.
    pub disposition: Disposition,
    /// How many files, commits or processes.
    pub count: u64,
    /// How many bytes.
    pub bytes: u64,
    /// A reason or a name, empty for none.
    pub note: String,
}

/// What the operator approves: nothing outside it is accepted later. Paths are escaped text, sorted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// The lines shown.
    pub inventory: Vec<InventoryItem>,
    /// Most payload bytes.
    pub limit_bytes: u64,
    /// Most entries.
    pub limit_entries: u64,
    /// Every executable file.
    pub executables: Vec<String>,
    /// Every file or directory whose name begins with a dot.
    pub dotfiles: Vec<String>,
    /// Every file that some tool runs without being asked: hooks, agent settings, build scripts, editor tasks.
    pub configuration_as_code: Vec<String>,
}

impl Scope {
    /// The digest that an approval is bound to.
    pub fn digest(&self) -> Hash {
        Hash::of(&encode(self))
    }
}

/// A repository, wherever its clones lie: by root commits and remote, not by path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryIdentity {
    /// Root commits of HEAD, sorted.
    pub roots: Vec<Oid>,
    /// The `origin` address without user information, where there is one.
    pub remote: Option<String>,
    /// The commit checked out, none before the first.
    pub head: Option<Oid>,
}

/// The working directory as the source knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// Its absolute path at the source, as bytes.
    pub path: Vec<u8>,
    /// The same below the source's home directory, where it lies there.
    pub below_home: Option<Vec<u8>>,
    /// The repository, where it is one.
    pub repository: Option<RepositoryIdentity>,
}

/// "May I hand this session to you?" Signed by the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The mesh.
    pub mesh: MeshId,
    /// The attempt.
    pub handoff: HandoffId,
    /// The session.
    pub key: SessionKey,
    /// Who offers, and signs.
    pub source: DeviceId,
    /// Who is asked.
    pub destination: DeviceId,
    /// The source's token.
    pub token: FencingToken,
    /// The turns so far.
    pub head: Head,
    /// The session's title, for the operator.
    pub title: String,
    /// What the destination needs to go on.
    pub requirement: Requirement,
    /// True: carry the session even where the agent is missing, to be resumed later.
    pub carry_only: bool,
    /// Where the work lies.
    pub workspace: Workspace,
    /// What is to be approved.
    pub scope: Scope,
    /// Milliseconds since 1970, for display only.
    pub offered_at_unix_ms: u64,
}

/// "Yes, this scope." Signed by the destination; a reconnect brings a new one with a fresh key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accept {
    /// The attempt.
    pub handoff: HandoffId,
    /// Who offered.
    pub source: DeviceId,
    /// Who accepts, and signs.
    pub destination: DeviceId,
    /// Digest of the scope that was approved.
    pub scope: Hash,
    /// A fresh X25519 public key, erased when the handoff ends.
    pub exchange_key: [u8; 32],
    /// Commits of the same repository that the destination already has.
    pub have: Vec<Oid>,
}

/// One round of the transfer: what the payload is. Signed by the source. The last one is what is committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The mesh.
    pub mesh: MeshId,
    /// The attempt.
    pub handoff: HandoffId,
    /// The session.
    pub session: SessionId,
    /// Who sends, and signs.
    pub source: DeviceId,
    /// Who receives.
    pub destination: DeviceId,
    /// The source's token.
    pub token: FencingToken,
    /// Number of the round, from 0.
    pub round: u32,
    /// True: the session is frozen, nothing follows.
    pub last: bool,
    /// The turns in it.
    pub head: Head,
    /// Hash of the catalog.
    pub root: Hash,
    /// The catalog's chunks, in order.
    pub catalog: Vec<ChunkRef>,
    /// Bytes of content that the catalog names.
    pub payload_bytes: u64,
    /// The source's X25519 public key for this accept.
    pub exchange_key: [u8; 32],
}

/// "All of it is durable here." Signed by the destination, only when it is true.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitAck {
    /// The attempt.
    pub handoff: HandoffId,
    /// The session.
    pub session: SessionId,
    /// The source's token.
    pub token: FencingToken,
    /// The turns that are durable.
    pub head: Head,
    /// The catalog that is durable.
    pub root: Hash,
    /// Who sent it.
    pub source: DeviceId,
    /// Who holds it, and signs.
    pub destination: DeviceId,
}

/// "I act under this token." Signed by the new owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activated {
    /// The attempt that ended.
    pub handoff: HandoffId,
    /// The session.
    pub session: SessionId,
    /// The token now.
    pub token: FencingToken,
    /// The owner, who signs.
    pub owner: DeviceId,
}

impl Signable for Offer {
    const DOMAIN: &'static str = "cede/1 offer";
    fn signer(&self) -> DeviceId {
        self.source
    }
}

impl Signable for Accept {
    const DOMAIN: &'static str = "cede/1 accept";
    fn signer(&self) -> DeviceId {
        self.destination
    }
}

impl Signable for Manifest {
    const DOMAIN: &'static str = "cede/1 manifest";
    fn signer(&self) -> DeviceId {
        self.source
    }
}

impl Signable for CommitAck {
    const DOMAIN: &'static str = "cede/1 commit-ack";
    fn signer(&self) -> DeviceId {
        self.destination
    }
}

impl Signable for Activated {
    const DOMAIN: &'static str = "cede/1 activated";
    fn signer(&self) -> DeviceId {
        self.owner
    }
}
