//! Files that are sent, as people ask for them and see them.

use serde::{Deserialize, Serialize};

use crate::id::TransferId;
use crate::refusal::Refusal;

/// Files and folders, as a person sends them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SendRequest {
    /// To which device.
    pub device: String,
    /// The files and folders, absolute.
    pub paths: Vec<String>,
    /// Words to the receiver, empty for none.
    #[serde(default)]
    pub note: String,
    /// Answer when it ended, not when it is queued.
    #[serde(default)]
    pub wait: bool,
    /// The person said yes to files in folders that look like secrets.
    #[serde(default)]
    pub confirm_secrets: bool,
}

/// Where a sending of files stands, with the true words. Source: SPEC F-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransferState {
    /// Being read at the sender; nothing is durable or said.
    Reading,
    /// Durable at the sender; the receiver is not connected.
    Queued,
    /// Said to the receiver, or asked here; there is no answer.
    Offered,
    /// Approved; content travels, or waits for a link.
    Sending,
    /// Durable at the receiver and in its place there.
    Received,
    /// The receiver said no, or may take nothing like it.
    Refused,
    /// Nobody answered in time.
    Expired,
    /// Withdrawn by a person.
    Cancelled,
    /// Nobody said no; it could not go on.
    Failed,
}

/// A sending of files in lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferSummary {
    /// The transfer.
    pub id: TransferId,
    /// What: the name of the one file or folder, or of the first and how many more.
    pub title: String,
    /// The other device.
    pub device: String,
    /// True: it is sent from here.
    pub going: bool,
    /// Where it stands.
    pub state: TransferState,
    /// How many files.
    pub files: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// Content bytes that are durable at the receiver or on their way, of `to_move`.
    pub moved: u64,
    /// Content bytes in all, equal ones counted once.
    pub to_move: u64,
    /// Content bytes that this run of the daemon sent or received for it, more than once where a cut lost some.
    pub carried: u64,
    /// Where it lies at the receiver, once it does.
    pub place: String,
    /// The sender's words.
    pub note: String,
    /// When it was queued or offered, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Why it ended before it was received.
    pub refusal: Option<Refusal>,
    /// More about that, or what a person should know: what was left out, what it waits for.
    pub detail: String,
}
