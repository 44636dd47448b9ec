//! The samples of what is said about a viewing.

use cede_wire::conversation::{Bookmark, Gap, Piece, Said, Voice};

use super::*;

/// One of each, in the order of their numbers.
fn bodies() -> Vec<TerminalBody> {
    let session = key().id();
    let read = Bookmark { at: 70_000, before: 0x1122_3344_5566_7788 };
    let voices = [Voice::Person, Voice::Agent, Voice::Call, Voice::Result, Voice::Remark];
    let said = voices.map(|voice| Said { voice, text: "gr\u{fc}\u{df}e".to_owned(), left_out: 300 }).to_vec();
    vec![
        TerminalBody::Open { session, wish: Wish::DriveIfFree, from: None, size: None },
        TerminalBody::Asking,
        TerminalBody::Opened,
        TerminalBody::Output { fresh: Some(5), bytes: b"\x1b[31mred".to_vec(), next: Some(300) },
        TerminalBody::Taken(300),
        TerminalBody::State {
            yours: true,
            driver: Some("server".to_owned()),
            held: false,
            viewers: 2,
            size: (24, 300),
        },
        TerminalBody::Typed(b"ls\n".to_vec()),
        TerminalBody::Resized(24, 300),
        TerminalBody::Beat,
        TerminalBody::Keyboard,
        TerminalBody::LetGo,
        TerminalBody::Leave,
        TerminalBody::Note("the person there holds the keyboard".to_owned()),
        TerminalBody::Ended { code: None, signal: Some(9) },
        TerminalBody::Refused { refusal: Refusal::Busy, detail: "another viewer has the keyboard".to_owned() },
        TerminalBody::Read { session, from: Some(read) },
        TerminalBody::Piece(Piece { gap: Some(Gap::Behind), said, next: read }),
        TerminalBody::Over { detail: "the session is at server now".to_owned() },
    ]
}

pub(super) fn all() -> Vec<Vector> {
    let frame = |(number, body): (usize, TerminalBody)| {
        let said = PeerMessage::Terminal(TerminalMessage { viewing: 300, body });
        let fields = serde_json::to_value(&said).unwrap();
        vector(&format!("terminal {number}"), "D-10", "frame", fields, &said.to_frame().unwrap(), "accepted")
    };
    bodies().into_iter().enumerate().map(frame).collect()
}
