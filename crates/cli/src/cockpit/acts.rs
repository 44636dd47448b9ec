//! Does what a key asked for, with the requests that the commands of the same name make.

use cede_wire::control::{Command, Failure};

use super::state::{Act, News};
use crate::client::Client;

/// Does it on a thread of its own, and tells how it ended.
pub(crate) fn begin(client: &Client, act: Act, tell: impl Fn(News) -> bool + Send + 'static) {
    let Some(command) = command(&act) else { return };
    let client = client.clone();
    std::thread::spawn(move || {
        let result = ask(&client, command, waits(&act));
        tell(News::Ended(act, result));
    });
}

/// A move lasts as long as it takes; what it says meanwhile comes with the other news.
fn ask(client: &Client, command: Command, waits: bool) -> Result<cede_wire::control::Answer, Failure> {
    if waits { client.ask_to_the_end(command) } else { client.ask(command) }
}

const fn waits(act: &Act) -> bool {
    matches!(act, Act::To(_) | Act::Take { .. } | Act::Plan(_))
}

fn command(act: &Act) -> Option<Command> {
    Some(match act.clone() {
        Act::Decide { approval, yes, .. } => Command::Decide { approval, yes },
        Act::Plan(request) | Act::To(request) => Command::To(request),
        Act::Take { session } => Command::Take { session, wait: false, carry_only: false },
        Act::Cancel { handoff } => Command::Cancel { handoff },
        Act::StopTransfer { transfer } => Command::StopTransfer { transfer },
        Act::Read { letter } => Command::Letter { id: letter },
        Act::Mark { letter, acted } => Command::MarkLetter { id: letter, acted },
        Act::Attach { .. }
        | Act::Watch { .. }
        | Act::Resume { .. }
        | Act::Refresh
        | Act::Redraw
        | Act::Suspend
        | Act::Quit => return None,
    })
}
