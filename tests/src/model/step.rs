//! What can happen next.

/// One step, with the number of outputs after which the power fails, where it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Step {
    /// What happens.
    pub what: What,
    /// The power fails after so many outputs; none: it holds.
    pub fails_after: Option<u8>,
}

/// What happens. Letters are named by their place among those in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// A letter comes; again: it will come once more.
    Deliver { letter: u8, again: bool },
    /// A letter is lost.
    Lose { letter: u8 },
    /// The hands do one of their tasks; ship: as a round while the session works.
    Work { at: u8, task: u8, ship: bool },
    /// The operator answers the question.
    Answer { at: u8, yes: bool },
    /// The operator begins a move.
    Offer { from: u8, to: u8 },
    /// The operator withdraws a move.
    Cancel { at: u8 },
    /// The agent commits a turn.
    Turn { at: u8 },
    /// A device waits for its next deadline.
    Wake { at: u8 },
    /// A device sleeps past all of its deadlines.
    Sleep { at: u8 },
    /// The power fails between two steps.
    PowerOff { at: u8 },
    /// A device starts.
    Start { at: u8 },
    /// A line parts, with what is on it.
    Part { a: u8, b: u8 },
    /// A line is there again.
    Join { a: u8, b: u8 },
    /// A disk loses the payloads that arrived.
    Spoil { at: u8 },
    /// The operator seizes the session with what lies there.
    Seize { at: u8 },
    /// A certificate from the disk of `of` comes to `to` by the hand of `by`.
    Carry { of: u8, by: u8, to: u8 },
}
