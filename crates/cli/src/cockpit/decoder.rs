//! The cockpit without a terminal, for tests that feed it nonsense.

use cede_wire::control::{Answer, Failure};
use ratatui_core::buffer::Buffer;

use super::frame::frame;
use super::keys::Keys;
use super::state::{Act, Cockpit, Moment, News};

/// Draws what these answers and these keys come to, all in one moment. True: one of the keys was a yes.
pub(crate) fn drawn(answers: impl Iterator<Item = Result<Answer, Failure>>, typed: &[u8], buffer: &mut Buffer) -> bool {
    let (mut cockpit, now) = (Cockpit::default(), Moment::default());
    for news in answers.filter_map(news) {
        cockpit.news(news, now);
    }
    let mut yes = false;
    for key in Keys::default().read(typed) {
        let drawn = frame(&cockpit, now, true, buffer);
        cockpit.drawn(drawn, now);
        yes |= matches!(cockpit.key(key, now), Some(Act::Decide { yes: true, .. }));
        buffer.reset();
    }
    drop(frame(&cockpit, now, true, buffer));
    yes
}

fn news(answer: Result<Answer, Failure>) -> Option<News> {
    match answer {
        Ok(Answer::Approvals { approvals }) => Some(News::Questions(approvals)),
        Ok(Answer::Status(status)) => Some(News::Status(status)),
        Ok(Answer::Sessions { sessions, .. }) => Some(News::Sessions(sessions)),
        Ok(Answer::Transfers { transfers }) => Some(News::Transfers(transfers)),
        Ok(Answer::Inbox { letters, .. }) => Some(News::Letters(letters)),
        Ok(_) => None,
        Err(failure) => Some(News::Away(failure)),
    }
}

/// The keys in these pieces, and how many bytes wait for their rest.
pub(crate) fn keys(pieces: &[&[u8]]) -> (Vec<String>, usize) {
    let mut keys = Keys::default();
    let found = pieces.iter().flat_map(|piece| keys.read(piece)).map(|key| format!("{key:?}")).collect();
    (found, keys.waits())
}
