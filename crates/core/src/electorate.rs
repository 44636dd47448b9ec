//! Who may say that a device may seize, and how many of them must.

use std::collections::{BTreeMap, BTreeSet};

use cede_seal::verify::verify;
use cede_wire::custody::Seize;
use cede_wire::id::DeviceId;

/// Who was enrolled when the membership log had so many entries. Source: SPEC H-31.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Electorate {
    at: BTreeMap<u64, BTreeSet<DeviceId>>,
}

/// Why a seize does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VotesError {
    /// It names a membership log that this device does not hold.
    #[error("the seize names a membership that is not known here")]
    UnknownMembers,
    /// The seizing device was not enrolled.
    #[error("the seizing device was not enrolled")]
    NotEnrolled,
    /// A vote is forged, doubled, for something else, or of a device that has none.
    #[error("a vote of the seize does not count")]
    BadVote,
    /// Fewer votes than it takes.
    #[error("the seize lacks votes")]
    TooFew,
}

impl Electorate {
    /// Notes who is enrolled once the log has `length` entries.
    pub fn note(&mut self, length: u64, enrolled: BTreeSet<DeviceId>) {
        self.at.insert(length, enrolled);
    }

    /// The length of the newest log.
    pub fn length(&self) -> u64 {
        self.at.last_key_value().map_or(0, |(length, _)| *length)
    }

    /// Who is enrolled now.
    pub fn enrolled(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.at.last_key_value().into_iter().flat_map(|(_, enrolled)| enrolled.iter().copied())
    }

    /// Whether a device is enrolled now.
    pub fn is_enrolled(&self, device: DeviceId) -> bool {
        self.at.last_key_value().is_some_and(|(_, enrolled)| enrolled.contains(&device))
    }

    /// Whether a device was enrolled when the log had so many entries.
    pub fn was_enrolled(&self, length: u64, device: DeviceId) -> bool {
        self.at.get(&length).is_some_and(|enrolled| enrolled.contains(&device))
    }

    /// How many votes a seize from `owner` took when the log had so many entries.
    pub fn needed_at(&self, length: u64, owner: DeviceId) -> usize {
        self.at.get(&length).map_or(usize::MAX, |enrolled| needed(enrolled, owner))
    }

    /// How many votes a seize takes from `owner` now, that of the seizing device among them.
    pub fn needed(&self, owner: DeviceId) -> usize {
        self.at.last_key_value().map_or(usize::MAX, |(_, enrolled)| needed(enrolled, owner))
    }

    /// Whether the votes of a seize from `owner` suffice. Source: SPEC H-31.
    ///
    /// # Errors
    /// [`VotesError`].
    pub fn check(&self, seize: &Seize, owner: DeviceId) -> Result<(), VotesError> {
        let enrolled = self.at.get(&seize.members).ok_or(VotesError::UnknownMembers)?;
        if !enrolled.contains(&seize.to) {
            return Err(VotesError::NotEnrolled);
        }
        if seize.votes.len() > cede_wire::limits::SEIZE_VOTES {
            return Err(VotesError::BadVote);
        }
        let mut last = None;
        for vote in &seize.votes {
            let vote = verify(vote).map_err(|_| VotesError::BadVote)?;
            let same = vote.mesh == seize.mesh && vote.session == seize.session && vote.prev == seize.prev;
            let fits = same
                && vote.members == seize.members
                && vote.generation == seize.next_token.generation
                && vote.to == seize.to;
            let may = enrolled.contains(&vote.voter) && vote.voter != seize.to && vote.voter != owner;
            if !fits || !may || last.is_some_and(|last| last >= vote.voter) {
                return Err(VotesError::BadVote);
            }
            last = Some(vote.voter);
        }
        if seize.votes.len() + 1 >= needed(enrolled, owner) { Ok(()) } else { Err(VotesError::TooFew) }
    }
}

/// More than half of all, so that two sets of voters have a device in common whoever is thought to be the owner. Of two
/// devices the one that is left decides alone.
fn needed(enrolled: &BTreeSet<DeviceId>, owner: DeviceId) -> usize {
    if enrolled.len() == 2 && enrolled.contains(&owner) { 1 } else { enrolled.len() / 2 + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(n: u8) -> DeviceId {
        DeviceId::new([n; 32])
    }

    /// Shows: H-31
    #[test]
    fn more_than_half_of_all_devices_must_agree_and_of_two_the_other_one() {
        for (count, votes) in [(1, 1), (2, 1), (3, 2), (4, 3), (5, 3), (6, 4)] {
            let mut electorate = Electorate::default();
            electorate.note(1, (0..count).map(device).collect());
            assert_eq!(electorate.needed(device(0)), votes, "{count} devices");
        }
        let mut electorate = Electorate::default();
        electorate.note(1, BTreeSet::from([device(1), device(2)]));
        assert_eq!(electorate.needed(device(9)), 2, "the lost owner was removed before");
    }
}
