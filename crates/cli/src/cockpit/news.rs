//! Asks the daemon for news: what costs it nothing twice a second, the rest more seldom.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use cede_wire::control::{Answer, Command, Failure};

use super::state::News;
use crate::client::Client;
use crate::fault;
use crate::limits::{COCKPIT_LOOK, COCKPIT_PEERS, COCKPIT_SCREEN, COCKPIT_WAIT};

/// Asks until nobody hears it any more. What comes on `nudges` is the wish to be told everything now.
pub(crate) fn watch(client: &Client, nudges: &Receiver<()>, tell: &impl Fn(News) -> bool) {
    let mut due = Due::default();
    loop {
        let heard = match look(client, &mut due, tell) {
            Ok(heard) => heard,
            Err(failure) => {
                due = Due::default();
                tell(News::Away(failure))
            }
        };
        if !heard {
            return;
        }
        match nudges.recv_timeout(COCKPIT_LOOK) {
            Ok(()) => due = Due::default(),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// When the dearer questions were asked last.
#[derive(Debug, Default)]
struct Due {
    screen: Option<Instant>,
    peers: Option<Instant>,
    questions: usize,
}

impl Due {
    fn is(last: &mut Option<Instant>, pause: Duration) -> bool {
        let due = last.is_none_or(|at| at.elapsed() >= pause);
        if due {
            *last = Some(Instant::now());
        }
        due
    }
}

fn look(client: &Client, due: &mut Due, tell: &impl Fn(News) -> bool) -> Result<bool, Failure> {
    let Answer::Approvals { approvals } = ask(client, Command::Approvals)? else { return unexpected() };
    // A question that comes or goes has changed more than itself.
    if std::mem::replace(&mut due.questions, approvals.len()) != approvals.len() {
        due.screen = None;
    }
    if !tell(News::Questions(approvals)) {
        return Ok(false);
    }
    if Due::is(&mut due.screen, COCKPIT_SCREEN) {
        let Answer::Status(status) = ask(client, Command::Status)? else { return unexpected() };
        let Answer::Transfers { transfers } = ask(client, Command::Transfers)? else { return unexpected() };
        let inbox = ask(client, Command::Inbox { sent: false, all: false })?;
        let Answer::Inbox { letters, .. } = inbox else { return unexpected() };
        if !(tell(News::Status(status)) && tell(News::Transfers(transfers)) && tell(News::Letters(letters))) {
            return Ok(false);
        }
    }
    if Due::is(&mut due.peers, COCKPIT_PEERS) {
        let answer = ask(client, Command::Sessions { peers: true })?;
        let Answer::Sessions { sessions, .. } = answer else { return unexpected() };
        return Ok(tell(News::Sessions(sessions)));
    }
    Ok(true)
}

fn ask(client: &Client, command: Command) -> Result<Answer, Failure> {
    client.ask_within(command, COCKPIT_WAIT)
}

fn unexpected<T>() -> Result<T, Failure> {
    Err(fault::unexpected_answer())
}
