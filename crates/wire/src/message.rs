//! What two daemons say to each other on their control stream.

use serde::{Deserialize, Serialize};

use crate::approver::ApproverMessage;
use crate::audit::AuditMirror;
use crate::canonical::{DecodeError, Signed, decode, encode};
use crate::custody::{Custody, FencingToken, SeizeVote};
use crate::frame::Header;
use crate::handoff::{Accept, Activated, CommitAck, Manifest, Offer};
use crate::id::{DeviceId, HandoffId, Hash, MeshId, SessionId};
use crate::letter::{LetterId, LetterReceipts, Letters, ReceiptsHeld};
use crate::limits;
use crate::member::MemberEntry;
use crate::refusal::Refusal;
use crate::session::SessionInfo;
use crate::terminal::TerminalMessage;
use crate::transfer::TransferMessage;

/// Lowest protocol version this build speaks.
pub const PROTOCOL_MIN: u16 = 1;
/// Highest protocol version this build speaks.
pub const PROTOCOL_MAX: u16 = 1;

/// The first message in each direction. Nothing else is read before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Lowest version spoken.
    pub protocol_min: u16,
    /// Highest version spoken.
    pub protocol_max: u16,
    /// The sender; must match the key that the link proved.
    pub device: DeviceId,
    /// The sender's mesh.
    pub mesh: MeshId,
    /// Version of the program, for people.
    pub software: String,
    /// Number of membership entries that the sender holds.
    pub members: u64,
    /// Random for each life of the sender's daemon: links of an earlier one are dead.
    pub run: u64,
}

impl Hello {
    /// The highest version that both sides speak.
    pub fn agree(&self, other: &Self) -> Option<u16> {
        let high = self.protocol_max.min(other.protocol_max);
        let low = self.protocol_min.max(other.protocol_min);
        (low <= high).then_some(high)
    }
}

/// Which chunks a [`PeerMessage::Need`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NeedOf {
    /// 0: the manifest's `catalog` list.
    Catalog,
    /// 1: the catalog's distinct chunks, in the order of first use.
    Payload,
}

/// Where a handoff stands, as one side sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HandoffStatus {
    /// 0: not known here, or ended without a result.
    Unknown,
    /// 1: approved, chunks are coming.
    Receiving,
    /// 2: durable here, waiting for the release.
    Staged(Signed<CommitAck>),
    /// 3: in charge here.
    Active(Signed<Activated>),
    /// 4: discarded.
    Discarded,
}

/// A session in a peer's listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedSession {
    /// What it is.
    pub info: SessionInfo,
    /// Whose it is, as the peer knows.
    pub owner: DeviceId,
    /// Under which token.
    pub token: FencingToken,
}

/// What a device knows of the custody of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownCustody {
    /// The session.
    pub session: SessionId,
    /// The highest token.
    pub token: FencingToken,
    /// Hash of the record that brought it.
    pub record: Hash,
}

/// A control message. Append only; the number is the frame's `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeerMessage {
    /// 0
    Hello(Hello),
    /// 1: membership entries that the other side lacks, in order.
    Members(Vec<Signed<MemberEntry>>),
    /// 2: with the custody chain from the last record that the destination took part in.
    Offer {
        /// The offer.
        offer: Signed<Offer>,
        /// The chain.
        chain: Vec<Signed<Custody>>,
    },
    /// 3
    Accept(Signed<Accept>),
    /// 4: answers an offer, or ends a handoff at any time before the release.
    Refuse {
        /// The attempt.
        handoff: HandoffId,
        /// The reason.
        refusal: Refusal,
        /// For people, at most [`limits::DETAIL_CHARS`] characters.
        detail: String,
    },
    /// 5
    Manifest(Signed<Manifest>),
    /// 6: a bitmap, lowest bit first; a set bit is a chunk to send.
    Need {
        /// The attempt.
        handoff: HandoffId,
        /// The round.
        round: u32,
        /// Which list.
        of: NeedOf,
        /// The bits.
        bitmap: Vec<u8>,
    },
    /// 7: everything of the round has arrived and verifies.
    RoundComplete {
        /// The attempt.
        handoff: HandoffId,
        /// The round.
        round: u32,
    },
    /// 8
    CommitAck(Signed<CommitAck>),
    /// 9: the certificate, and the chain before it for a destination that lost its stage.
    Release {
        /// The certificate.
        certificate: Signed<Custody>,
        /// The chain before it, from the last record that the destination took part in.
        chain: Vec<Signed<Custody>>,
    },
    /// 10
    Activated(Signed<Activated>),
    /// 11: the source withdraws; the destination discards.
    Abort {
        /// The attempt.
        handoff: HandoffId,
        /// The reason.
        refusal: Refusal,
    },
    /// 12: "where does it stand with you?"
    Status {
        /// The attempt.
        handoff: HandoffId,
        /// The session.
        session: SessionId,
    },
    /// 13
    StatusAnswer {
        /// The attempt.
        handoff: HandoffId,
        /// The session.
        session: SessionId,
        /// The answer.
        status: HandoffStatus,
    },
    /// 14: "has it been released to me?" Answered with a `Release`, or an `Abort` when it never will be.
    ReleaseQuery {
        /// The attempt.
        handoff: HandoffId,
        /// The session.
        session: SessionId,
    },
    /// 15: "please hand this session to me."
    Take {
        /// Chosen by the asker; the answer names it.
        request: u64,
        /// The session.
        session: SessionId,
        /// Wait for the turn to end.
        wait: bool,
        /// Carry even where the asker lacks the agent.
        carry_only: bool,
    },
    /// 16: the offer that follows, or why there is none.
    TakeAnswer {
        /// The question.
        request: u64,
        /// The attempt that begins, or the reason.
        answer: Result<HandoffId, (Refusal, String)>,
    },
    /// 17
    SessionsQuery,
    /// 18: at most [`limits::LISTED_SESSIONS`].
    Sessions(Vec<ListedSession>),
    /// 19: the destination lost its stage after the release and fetches again: a fresh accept for the same attempt.
    Refetch(Signed<Accept>),
    /// 20: "my operator seizes this session; may I, as far as you are concerned?"
    SeizeQuery {
        /// The session.
        session: SessionId,
        /// The generation that would begin.
        generation: u64,
        /// Length of the membership log that the asker holds.
        members: u64,
        /// The custody chain as the asker knows it.
        chain: Vec<Signed<Custody>>,
    },
    /// 21
    SeizeAnswer {
        /// The session.
        session: SessionId,
        /// The generation.
        generation: u64,
        /// The vote, or why there is none.
        answer: Result<Signed<SeizeVote>, (Refusal, String)>,
    },
    /// 22: "this is what I know of the sessions that I answer for; do you know more?" At most [`limits::LISTED_SESSIONS`].
    CustodyQuery(Vec<KnownCustody>),
    /// 23: a chain that reaches further than what the other side knows, or contradicts it.
    Custody(Vec<Signed<Custody>>),
    /// 24: of the sessions of a `CustodyQuery`, in its order, those of which no more is known here and no attempt of the asker.
    CustodyAnswer(Vec<KnownCustody>),
    /// 25: letters, or the question how far the other side is.
    Letters(Letters),
    /// 26: what is durable here of the other side's letters, and what became of them.
    LetterReceipts(LetterReceipts),
    /// 27: final receipts that are durable here.
    ReceiptsHeld(ReceiptsHeld),
    /// 28: something of files that are sent.
    Transfer(Box<TransferMessage>),
    /// 29: something of a terminal that another device looks on at.
    Terminal(TerminalMessage),
    /// 30: where the records of decisions stand.
    Audit(AuditMirror),
    /// 31: a question for the person at another device, and the answer from there.
    Approver(Box<ApproverMessage>),
    /// 32: what the agent does that works on a task of the other side. It is said once and kept nowhere.
    TaskProgress {
        /// The task.
        task: LetterId,
        /// One line, at most [`limits::TASK_LINE_CHARS`] characters.
        line: String,
    },
}

impl PeerMessage {
    /// The frame's `kind`: the position of the variant.
    pub fn kind(&self) -> u16 {
        match self {
            Self::Hello(_) => 0,
            Self::Members(_) => 1,
            Self::Offer { .. } => 2,
            Self::Accept(_) => 3,
            Self::Refuse { .. } => 4,
            Self::Manifest(_) => 5,
            Self::Need { .. } => 6,
            Self::RoundComplete { .. } => 7,
            Self::CommitAck(_) => 8,
            Self::Release { .. } => 9,
            Self::Activated(_) => 10,
            Self::Abort { .. } => 11,
            Self::Status { .. } => 12,
            Self::StatusAnswer { .. } => 13,
            Self::ReleaseQuery { .. } => 14,
            Self::Take { .. } => 15,
            Self::TakeAnswer { .. } => 16,
            Self::SessionsQuery => 17,
            Self::Sessions(_) => 18,
            Self::Refetch(_) => 19,
            Self::SeizeQuery { .. } => 20,
            Self::SeizeAnswer { .. } => 21,
            Self::CustodyQuery(_) => 22,
            Self::Custody(_) => 23,
            Self::CustodyAnswer(_) => 24,
            Self::Letters(_) => 25,
            Self::LetterReceipts(_) => 26,
            Self::ReceiptsHeld(_) => 27,
            Self::Transfer(_) => 28,
            Self::Terminal(_) => 29,
            Self::Audit(_) => 30,
            Self::Approver(_) => 31,
            Self::TaskProgress { .. } => 32,
        }
    }

    /// Header and body.
    ///
    /// # Errors
    /// [`DecodeError::TooLong`] when the body is over the limit of a frame; nothing is sent.
    pub fn to_frame(&self) -> Result<Vec<u8>, DecodeError> {
        let body = encode(self);
        if body.len() > limits::FRAME_BODY_BYTES {
            return Err(DecodeError::TooLong("PeerMessage"));
        }
        let header = Header { kind: self.kind(), length: body.len() as u32 };
        let mut frame = header.to_bytes().to_vec();
        frame.extend_from_slice(&body);
        Ok(frame)
    }

    /// Reads a frame's body. `Ok(None)`: a kind from a newer version, to be skipped.
    ///
    /// # Errors
    /// [`DecodeError`]; the link is closed with `protocol`.
    pub fn from_frame(header: Header, body: &[u8]) -> Result<Option<Self>, DecodeError> {
        if header.kind > 32 {
            return Ok(None);
        }
        let message: Self = decode(body)?;
        if message.kind() == header.kind { Ok(Some(message)) } else { Err(DecodeError::Malformed("PeerMessage")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Incarnation;
    use crate::numbers::{of_zeros, table, variant};

    #[test]
    fn every_message_comes_back_under_its_own_kind_only() {
        let table = table("Control frames");
        let kinds = table.len() as u16;
        for (kind, name) in table {
            let message: PeerMessage = of_zeros(kind).unwrap();
            assert_eq!((message.kind(), variant(&message).as_str()), (kind, name));
            let frame = message.to_frame().unwrap();
            let (header, body) = frame.split_first_chunk().unwrap();
            let header = Header::from_bytes(*header).unwrap();
            assert_eq!((header.kind, header.length as usize), (kind, body.len()));
            assert_eq!(PeerMessage::from_frame(header, body), Ok(Some(message)));
            let other = Header { kind: (kind + 1) % kinds, ..header };
            assert_eq!(PeerMessage::from_frame(other, body), Err(DecodeError::Malformed("PeerMessage")));
        }
        assert_eq!(of_zeros::<PeerMessage>(kinds), None);
    }

    #[test]
    fn kinds_of_others_and_of_later_versions_are_skipped() {
        let kinds = table("Control frames").len() as u16;
        for kind in [kinds, crate::pairing::PAIRING_KIND, u16::MAX] {
            assert_eq!(PeerMessage::from_frame(Header { kind, length: 0 }, &[]), Ok(None));
        }
    }

    #[test]
    fn message_longer_than_a_frame_is_not_sent() {
        let (origin, incarnation) = (DeviceId::new([1; 32]), Incarnation::new([2; 16]));
        let task = LetterId { origin, incarnation, stream: origin, seq: 3 };
        let said = |chars: usize| PeerMessage::TaskProgress { task, line: "x".repeat(chars) };
        let around = encode(&said(limits::FRAME_BODY_BYTES / 2)).len() - limits::FRAME_BODY_BYTES / 2;
        let most = limits::FRAME_BODY_BYTES - around;
        let longest = said(most).to_frame().unwrap();
        assert_eq!(longest.len(), crate::frame::HEADER_BYTES + limits::FRAME_BODY_BYTES);
        assert_eq!(said(most + 1).to_frame(), Err(DecodeError::TooLong("PeerMessage")));
    }

    #[test]
    fn highest_version_that_both_speak_is_agreed_on() {
        let hello = |(protocol_min, protocol_max): (u16, u16)| {
            let hello = of_zeros(0).unwrap();
            let PeerMessage::Hello(hello) = hello else { panic!("0 is Hello") };
            Hello { protocol_min, protocol_max, ..hello }
        };
        for (ours, theirs, agreed) in [
            ((1, 1), (1, 1), Some(1)),
            ((1, 4), (2, 3), Some(3)),
            ((2, 4), (4, 9), Some(4)),
            ((3, 4), (1, 2), None),
            ((5, 5), (4, 4), None),
        ] {
            assert_eq!(hello(ours).agree(&hello(theirs)), agreed, "{ours:?} {theirs:?}");
            assert_eq!(hello(theirs).agree(&hello(ours)), agreed, "{theirs:?} {ours:?}");
        }
    }
}
