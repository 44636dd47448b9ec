//! What a viewer on one device and the host of a terminal or a conversation on another say to each other.

use serde::{Deserialize, Serialize};

use crate::conversation::{Bookmark, Piece};
use crate::id::SessionId;
use crate::limits::TERMINAL_OUTPUT_BYTES;
use crate::refusal::Refusal;

/// Whether a viewer wants to type. From another device nobody insists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wish {
    /// 0: it only looks on.
    Watch,
    /// 1: it types if nobody else does, and looks on otherwise.
    DriveIfFree,
    /// 2: it types, or there is nothing to see.
    Drive,
}

/// One message about a viewing. Append only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalMessage {
    /// Chosen by the viewer, random: it is not used again.
    pub viewing: u64,
    /// The content.
    pub body: TerminalBody,
}

impl TerminalMessage {
    /// Whether only the host of a terminal says so.
    pub fn is_from_host(&self) -> bool {
        match &self.body {
            TerminalBody::Asking
            | TerminalBody::Opened
            | TerminalBody::Output { .. }
            | TerminalBody::State { .. }
            | TerminalBody::Note(_)
            | TerminalBody::Ended { .. }
            | TerminalBody::Refused { .. }
            | TerminalBody::Piece(_)
            | TerminalBody::Over { .. } => true,
            TerminalBody::Open { .. }
            | TerminalBody::Taken(_)
            | TerminalBody::Typed(_)
            | TerminalBody::Resized(..)
            | TerminalBody::Beat
            | TerminalBody::Keyboard
            | TerminalBody::LetGo
            | TerminalBody::Leave
            | TerminalBody::Read { .. } => false,
        }
    }
}

/// What is said about a viewing. Append only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TerminalBody {
    /// 0, from the viewer: "may I look on?"
    Open {
        /// The session.
        session: SessionId,
        /// Whether it wants to type.
        wish: Wish,
        /// It has seen everything before this offset; none: nothing.
        from: Option<u64>,
        /// Rows and columns of the person's terminal, where there is one.
        size: Option<(u16, u16)>,
    },
    /// 1, from the host: the operator is asked.
    Asking,
    /// 2, from the host: it looks on.
    Opened,
    /// 3, from the host, at most [`crate::limits::TERMINAL_OUTPUT_BYTES`].
    Output {
        /// Set where the screen is drawn anew: how many bytes the viewer will never see.
        fresh: Option<u64>,
        /// The bytes.
        bytes: Vec<u8>,
        /// With these bytes everything before this offset was seen; none: more of the drawing follows.
        next: Option<u64>,
    },
    /// 4, from the viewer: so many bytes of output in all were taken. The host is never more than
    /// [`crate::limits::TERMINAL_WINDOW_BYTES`] ahead.
    Taken(u64),
    /// 5, from the host: who types, how large it is, how many look on.
    State {
        /// Whether this viewer types.
        yours: bool,
        /// Who types, for people; none: nobody.
        driver: Option<String>,
        /// Whether only the person at the host may type.
        held: bool,
        /// How many look on.
        viewers: u32,
        /// Rows and columns that the program has.
        size: (u16, u16),
    },
    /// 6, from the viewer: this was typed. At most [`crate::limits::TERMINAL_OUTPUT_BYTES`].
    Typed(Vec<u8>),
    /// 7, from the viewer: rows and columns of the person's terminal.
    Resized(u16, u16),
    /// 8, from the viewer: the driver is there.
    Beat,
    /// 9, from the viewer: it wants to type.
    Keyboard,
    /// 10, from the viewer: it does not want to type any more.
    LetGo,
    /// 11, from the viewer: it looks on no more.
    Leave,
    /// 12, from the host: something to say to the person.
    Note(String),
    /// 13, from the host: the command has ended, with this code or by this signal.
    Ended {
        /// The code.
        code: Option<i32>,
        /// The signal.
        signal: Option<i32>,
    },
    /// 14, from the host: it does not look on.
    Refused {
        /// The reason.
        refusal: Refusal,
        /// For people, at most [`crate::limits::DETAIL_CHARS`] characters.
        detail: String,
    },
    /// 15, from the viewer: "may I read along in a conversation?"
    Read {
        /// The session.
        session: SessionId,
        /// How far it has read; none: the end of it, and what comes.
        from: Option<Bookmark>,
    },
    /// 16, from the host: a piece of the conversation. Its weight counts as output does.
    Piece(Piece),
    /// 17, from the host: the conversation goes on elsewhere, or nowhere.
    Over {
        /// For people, at most [`crate::limits::DETAIL_CHARS`] characters.
        detail: String,
    },
}

impl TerminalBody {
    /// Whether it keeps to what one message may hold.
    pub fn fits(&self) -> bool {
        match self {
            Self::Output { bytes, .. } | Self::Typed(bytes) => bytes.len() <= TERMINAL_OUTPUT_BYTES,
            Self::Piece(piece) => piece.fits(),
            Self::Open { .. }
            | Self::Asking
            | Self::Opened
            | Self::Taken(_)
            | Self::State { .. }
            | Self::Resized(..)
            | Self::Beat
            | Self::Keyboard
            | Self::LetGo
            | Self::Leave
            | Self::Note(_)
            | Self::Ended { .. }
            | Self::Refused { .. }
            | Self::Read { .. }
            | Self::Over { .. } => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{Said, Voice};
    use crate::limits::SAID_AT_ONCE;
    use crate::numbers::of_zeros;

    #[test]
    fn message_has_one_side_that_says_it() {
        let bodies: Vec<TerminalBody> = (0..).map_while(of_zeros).collect();
        assert_eq!(bodies.len(), 18);
        for (number, body) in bodies.into_iter().enumerate() {
            let of_viewer = [0, 4, 6, 7, 8, 9, 10, 11, 15].contains(&number);
            assert_eq!(TerminalMessage { viewing: 1, body }.is_from_host(), !of_viewer, "{number}");
        }
    }

    #[test]
    fn message_keeps_to_its_bounds() {
        let output = |count| TerminalBody::Output { fresh: None, bytes: vec![0; count], next: None };
        let piece = |count| {
            let said = vec![Said::new(Voice::Person, "x"); count];
            let Some(TerminalBody::Piece(piece)) = of_zeros(16) else { panic!("16 is Piece") };
            TerminalBody::Piece(Piece { said, ..piece })
        };
        for (most, longer) in [
            (output(TERMINAL_OUTPUT_BYTES), output(TERMINAL_OUTPUT_BYTES + 1)),
            (
                TerminalBody::Typed(vec![0; TERMINAL_OUTPUT_BYTES]),
                TerminalBody::Typed(vec![0; TERMINAL_OUTPUT_BYTES + 1]),
            ),
            (piece(SAID_AT_ONCE), piece(SAID_AT_ONCE + 1)),
        ] {
            assert!(most.fits() && !longer.fits());
        }
        assert!((0..).map_while(of_zeros).all(|body: TerminalBody| body.fits()));
    }
}
