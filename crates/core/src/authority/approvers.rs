//! Other devices of the operator that may answer the questions of this one. Source: SPEC U-14 to U-16.
//!
//! An answer counts for exactly what was shown to exactly that device on exactly that connection, once, and only while the same
//! would be shown now.

use std::collections::{BTreeMap, BTreeSet};

use cede_seal::verify::Verified;
use cede_wire::approver::{AnswerTaken, ApproverAnswer};
use cede_wire::id::{ApprovalId, DeviceId, Hash, ShowingId};

use crate::limits::SHOWINGS_PER_APPROVER;

/// A question as it stands now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Who wants it.
    pub who: DeviceId,
    /// Hash of what would be shown now.
    pub shown: Hash,
}

/// Why a question is not shown to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotShown {
    /// It may not answer.
    #[error("the device may not answer questions of this one")]
    NoApprover,
    /// It is the one that wants it.
    #[error("a device answers no question about itself")]
    ItsOwn,
    /// As many wait there as may.
    #[error("too many questions wait there")]
    TooMany,
}

/// Why an answer is none. Nothing was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The device may not answer.
    #[error("the device may not answer questions of this one")]
    NoApprover,
    /// It is the one that wants it.
    #[error("a device answers no question about itself")]
    ItsOwn,
    /// The question was decided, or is over.
    #[error("the question does not wait any more")]
    Late,
    /// It covers another showing, another device or other bytes than those that are asked about.
    #[error("the answer is not to what was shown")]
    Swapped,
}

impl NoAnswer {
    /// What the device is told.
    pub const fn outcome(self) -> AnswerTaken {
        match self {
            Self::Late => AnswerTaken::Late,
            Self::NoApprover | Self::ItsOwn | Self::Swapped => AnswerTaken::Refused,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Showing {
    id: ShowingId,
    shown: Hash,
}

/// The devices that may answer, and what is shown to them.
#[derive(Debug, Default)]
pub struct Approvers {
    devices: BTreeSet<DeviceId>,
    showings: BTreeMap<(ApprovalId, DeviceId), Showing>,
}

impl Approvers {
    /// Those that the operator set in an earlier run.
    pub fn restore(devices: BTreeSet<DeviceId>) -> Self {
        Self { devices, showings: BTreeMap::new() }
    }

    /// An answer came on a connection of `from`. `stands`: the question as it stands now; none where it waits no more. A yes or
    /// a no uses the showing up.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub fn handle_answer(
        &mut self,
        (me, from): (DeviceId, DeviceId),
        answer: &Verified<ApproverAnswer>,
        stands: Option<Standing>,
    ) -> Result<bool, NoAnswer> {
        if answer.by != from || answer.at != me {
            return Err(NoAnswer::Swapped);
        }
        if !self.devices.contains(&from) {
            return Err(NoAnswer::NoApprover);
        }
        let stands = stands.ok_or(NoAnswer::Late)?;
        if stands.who == from {
            return Err(NoAnswer::ItsOwn);
        }
        let key = (answer.question, from);
        let showing = self.showings.get(&key).ok_or(NoAnswer::Swapped)?;
        let same = showing.id == answer.showing && showing.shown == answer.shown && stands.shown == answer.shown;
        if !same {
            return Err(NoAnswer::Swapped);
        }
        self.showings.remove(&key);
        Ok(answer.yes)
    }

    /// The operator here says whether a device may answer. No word of a peer leads here.
    pub fn set(&mut self, device: DeviceId, may: bool) {
        if may {
            self.devices.insert(device);
        } else {
            self.devices.remove(&device);
        }
    }

    /// Begins to show a question to a device, in place of an earlier showing of it there.
    ///
    /// # Errors
    /// [`NotShown`].
    pub fn show(
        &mut self,
        to: DeviceId,
        question: ApprovalId,
        stands: Standing,
        id: ShowingId,
    ) -> Result<(), NotShown> {
        if !self.devices.contains(&to) {
            return Err(NotShown::NoApprover);
        }
        if stands.who == to {
            return Err(NotShown::ItsOwn);
        }
        let there = self.showings.keys().filter(|(other, device)| *device == to && *other != question).count();
        if there >= SHOWINGS_PER_APPROVER {
            return Err(NotShown::TooMany);
        }
        self.showings.insert((question, to), Showing { id, shown: stands.shown });
        Ok(())
    }

    /// A connection of a device ended or was replaced: what was shown on it is shown no more.
    pub fn link_changed(&mut self, device: DeviceId) {
        self.showings.retain(|(_, to), _| *to != device);
    }

    /// Ends the showings of questions that wait no more, and those to devices that may not answer any more: whom to tell.
    pub fn end(&mut self, waits: impl Fn(ApprovalId) -> bool) -> Vec<(DeviceId, ShowingId)> {
        let over = |(question, to): &(ApprovalId, DeviceId)| !waits(*question) || !self.devices.contains(to);
        let over: Vec<(ApprovalId, DeviceId)> = self.showings.keys().copied().filter(over).collect();
        let gone = |key: (ApprovalId, DeviceId)| self.showings.remove(&key).map(|showing| (key.1, showing.id));
        over.into_iter().filter_map(gone).collect()
    }

    /// Devices that are no members any more may answer nothing.
    pub fn retain(&mut self, is_member: impl Fn(DeviceId) -> bool) {
        self.devices.retain(|device| is_member(*device));
    }

    /// The devices that may answer.
    pub fn devices(&self) -> impl Iterator<Item = DeviceId> {
        self.devices.iter().copied()
    }

    /// Whether a device may answer.
    pub fn may_answer(&self, device: DeviceId) -> bool {
        self.devices.contains(&device)
    }

    /// Whether exactly this is shown to a device already.
    pub fn shows(&self, to: DeviceId, question: ApprovalId, shown: Hash) -> bool {
        self.showings.get(&(question, to)).is_some_and(|showing| showing.shown == shown)
    }
}

#[cfg(test)]
mod tests;
