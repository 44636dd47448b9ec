//! Every bound of the core: name, value, reason.

use core::time::Duration;

/// An offer that nobody answers is withdrawn. Longer than an operator's question lives at the destination (15
/// minutes), so that the destination's own "expired" arrives first.
pub const OFFER: Duration = Duration::from_secs(16 * 60);

/// A transfer without a word from the destination is given up. Long enough for a laptop to change networks.
pub const TRANSFER_SILENCE: Duration = Duration::from_secs(10 * 60);

/// A frozen session thaws when the last delta is not committed in this time: the person's agent waits.
pub const FREEZE: Duration = Duration::from_secs(120);

/// The longest freeze, however much is heard meanwhile: a peer that keeps talking must not hold the person's agent.
pub const FREEZE_LONGEST: Duration = Duration::from_secs(15 * 60);

/// First and longest pause between two sendings of a release. Source: the fault table, "back-off at most 5 s".
pub const RELEASE_FIRST: Duration = Duration::from_millis(250);
/// See [`RELEASE_FIRST`].
pub const RELEASE_LONGEST: Duration = Duration::from_secs(5);

/// First and longest pause between two repetitions of an acknowledgement that nobody answered. A stage waits for days;
/// when the line comes back the acknowledgement is repeated at once.
pub const ACK_REPEAT: Duration = Duration::from_secs(5);
/// See [`ACK_REPEAT`].
pub const ACK_LONGEST: Duration = Duration::from_secs(5 * 60);

/// An approval whose payload does not come is discarded.
pub const RECEIVING_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// A stage whose release does not come is discarded; the release still finds its way to a designate.
pub const STAGED_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Pause between two requests of a designate for its payload. Long enough for a source to read a large catalog.
pub const REFETCH: Duration = Duration::from_secs(30);

/// A question that no operator answers is withdrawn. Shorter than [`OFFER`], so that the source hears `expired`.
pub const QUESTION: Duration = Duration::from_secs(15 * 60);

/// Approved and ended attempts remembered per session, so that a discard is sticky and a late release finds its approval.
pub const ENDED_ATTEMPTS: usize = 1_024;

/// Attempts that ended before an approval, remembered per device: they are in no journal.
pub const DECLINED_ATTEMPTS: usize = 1_024;

/// Handoffs in flight per device, in each direction.
pub const HANDOFFS: usize = 64;

/// Questions that one peer may have waiting here, so that it cannot take all the places of the others.
pub const QUESTIONS_PER_PEER: usize = 8;

/// Releases for handoffs that nobody approved here, kept until the operator answers. They lie in memory only.
pub const UNCLAIMED: usize = 16;

/// A chain up to this length always travels whole (about 20 KiB): the other side may have lost its journal.
pub const WHOLE_CHAIN: usize = 64;

/// Longest chain of a session that this device never had, kept in memory of what one peer told of it (about 10 MiB): an offer
/// that follows carries only its end. At ten moves a day it takes four years; then the offer is refused.
pub const TOLD_RECORDS: usize = 16_384;

/// Every so many sendings of a release carry the whole chain, however long: the other side may have lost its journal.
pub const RELEASE_WHOLE_EVERY: u32 = 4;

/// How long the votes of a seize are waited for. A person looks on; a device that is reachable answers at once.
pub const VOTES: Duration = Duration::from_secs(20);

/// Sessions that this device never had and voted for. Each is a vote and a chain in the journal that a peer asked for; a
/// device that is lost with all its sessions has fewer.
pub const STRANGE_VOTES: usize = 1_024;

/// Sessions that a device keeps, in doubt or because a release of them waited here, and of which it signed nothing: a peer can
/// make them up. A device that lost its journal had fewer.
pub const NAMED: usize = 1_024;

/// How far a generation may be from the one that is known: forced take-overs that came to nothing in between. A peer could
/// else use the counter up, or fill the journal with votes.
pub const GENERATIONS_AHEAD: u64 = 1_000;
/// How much higher than the last one the generation of a seize may be. Far more than honest devices skip, and the counter
/// outlives any number of hostile ones.
pub const GENERATIONS_LEAP: u64 = u32::MAX as u64;

/// Chains that one question about custody is answered with. Whoever learned from them asks again for the rest; more at once
/// would overflow the line.
pub const CHAINS_PER_ANSWER: usize = 64;

/// A question that is kept for later is a no after this.
pub const QUESTION_HELD: Duration = Duration::from_secs(24 * 60 * 60);
/// Questions of one peer that wait at once, over all its connections: a person who is flooded says yes without reading.
pub const PENDING_PER_PEER: usize = 3;
/// Requests that share one question.
pub const REQUESTS_PER_QUESTION: usize = 64;
/// Questions of one peer within [`ASKED_IN`]: one every twenty seconds, more than a person reads.
pub const ASKED_MOST: usize = 30;
/// See [`ASKED_MOST`].
pub const ASKED_IN: Duration = Duration::from_secs(10 * 60);
/// Questions that one other device of the operator is shown at once: more than a person has in mind.
pub const SHOWINGS_PER_APPROVER: usize = 8;
/// Answers of no in a row after which the next question may come at once: a slip is repeated, a flood is not.
pub const NOES_FREE: u32 = 1;
/// First and longest pause after another no; it doubles with each.
pub const ASK_PAUSE_FIRST: Duration = Duration::from_secs(10);
/// See [`ASK_PAUSE_FIRST`].
pub const ASK_PAUSE_LONGEST: Duration = Duration::from_secs(15 * 60);
/// Longest standing yes to what needs a person: a working day.
pub const ACCEPT_LONGEST: Duration = Duration::from_secs(8 * 60 * 60);

/// How long a driver may be silent. Three beats of [`DRIVER_BEAT`]: one may be lost.
pub const DRIVER_LEASE: Duration = Duration::from_secs(15);
/// How often a driver says that it is there.
pub const DRIVER_BEAT: Duration = Duration::from_secs(5);

/// Longest hold: a person who forgot about it does not lock the others out for ever. Source: the threat model.
pub const HOLD_LONGEST: Duration = Duration::from_secs(30 * 60);

/// Letters to one peer that have not ended, and bytes of their words. A week of one every minute fits.
pub const OUTBOX_LETTERS: usize = 10_000;
/// See [`OUTBOX_LETTERS`].
pub const OUTBOX_BYTES: u64 = 256 << 20;
/// Letters of one peer that nobody has dealt with, and bytes of their words: a peer fills no more of the disk.
pub const INBOX_LETTERS: usize = 10_000;
/// See [`INBOX_LETTERS`].
pub const INBOX_BYTES: u64 = 64 << 20;
/// Letters of all peers and both directions: their words are files of one directory.
pub const LETTERS: usize = 50_000;
/// Letters of one stream that have ended and can still be read.
pub const LETTER_HISTORY: usize = 500;
/// Lives of one peer's outbox that are told apart. Each is a restored home; an honest device has a few.
pub const LETTER_STREAMS: usize = 8;

/// How long a letter lives that says nothing else, and at most.
pub const LETTER_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Letters and bytes of words in one frame. One frame of each stream is under way at a time, so that what matters more
/// waits for at most one.
pub const POST_LETTERS: usize = 512;
/// See [`POST_LETTERS`].
pub const POST_BYTES: u64 = 512 << 10;

/// Records of letters in one batch, where each may be durable without the others.
pub const LETTER_RECORDS: usize = 1_024;

/// First and longest wait for an answer to letters. On a link that stands an answer takes a flush of the disk.
pub const LETTER_ANSWER: Duration = Duration::from_secs(10);
/// See [`LETTER_ANSWER`].
pub const LETTER_ANSWER_LONGEST: Duration = Duration::from_secs(2 * 60);
/// Pause before a receiver that had no room is asked again. It also says so itself when it has room.
pub const LETTER_ROOM_AGAIN: Duration = Duration::from_secs(60);
/// First and longest pause between two sayings of a final receipt that the sender does not yet hold.
pub const RECEIPT_AGAIN: Duration = Duration::from_secs(10);
/// See [`RECEIPT_AGAIN`].
pub const RECEIPT_LONGEST: Duration = Duration::from_secs(5 * 60);

/// Times that the reading of a letter may fail. Then it is put aside, and the others go on.
pub const LETTER_ATTEMPTS: u32 = 3;

/// Longest conversation, in replies, and replies of this device in one: two agents that answer each other come to an end.
pub const CONVERSATION_HOPS: u32 = 32;
/// See [`CONVERSATION_HOPS`].
pub const CONVERSATION_REPLIES: usize = 16;

/// Gaps that are remembered for the operator.
pub const LETTER_GAPS: usize = 64;

/// Files that a device may receive are offered for this long; then the sender gives up. A laptop may be off for a holiday.
pub const TRANSFER_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Files for which a receiver had no place among others are offered again after this.
pub const TRANSFER_AGAIN: Duration = Duration::from_secs(60);
/// A sender that was off for longer than that waits so long for a receiver that took them already.
pub const TRANSFER_HEARING: Duration = Duration::from_secs(60 * 60);
/// What came of files whose sender says nothing any more is kept for this long.
pub const TRANSFER_PARTIAL_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// Sendings of files that did not end yet, per device and direction. Each is a few hundred kilobytes of lists at most.
pub const TRANSFERS: usize = 64;
/// The same of one peer: it cannot take all the places of the others.
pub const TRANSFERS_PER_PEER: usize = 16;
/// Ended sendings of files that are remembered, so that an offer that is said again gets the same answer.
pub const ENDED_TRANSFERS: usize = 1_024;
/// How long a task may wait for its yes that says nothing else.
pub const TASK_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// Tasks that are listed, those that were asked for here and those that ran here. Of older ones the messages remain.
pub const TASKS: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_and_bytes_are_as_the_pages_say() {
        let (minute, hour, day) = (60, 3_600, 86_400);
        let waits = [
            (OFFER, 16 * minute),
            (TRANSFER_SILENCE, 10 * minute),
            (FREEZE_LONGEST, 15 * minute),
            (ACK_LONGEST, 5 * minute),
            (RECEIVING_TTL, day),
            (STAGED_TTL, 7 * day),
            (QUESTION, 15 * minute),
            (QUESTION_HELD, day),
            (ASKED_IN, 10 * minute),
            (ASK_PAUSE_LONGEST, 15 * minute),
            (ACCEPT_LONGEST, 8 * hour),
            (HOLD_LONGEST, 30 * minute),
            (LETTER_TTL, 7 * day),
            (LETTER_ANSWER_LONGEST, 2 * minute),
            (RECEIPT_LONGEST, 5 * minute),
            (TRANSFER_TTL, 7 * day),
            (TRANSFER_PARTIAL_TTL, day),
            (TASK_TTL, day),
        ];
        for (wait, seconds) in waits {
            assert_eq!(wait.as_secs(), seconds);
        }
        assert_eq!([OUTBOX_BYTES, INBOX_BYTES, POST_BYTES], [268_435_456, 67_108_864, 524_288]);
    }
}
