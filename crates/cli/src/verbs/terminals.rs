//! `cede run`, `attach`, `watch` and `drive`: another terminal is drawn on this one, and what is typed here goes there.

use std::io::Read;

use cede_wire::control::terminal::{
    Base64, Keyboard, RunRequest, TerminalEnd, TerminalEvent, TerminalState, ViewRequest, ViewerSays, is_passed_on,
};
use cede_wire::control::{Answer, Command, Failure, ReplyBody, exit};

use crate::args::Run;
use crate::client::{AskError, Sayer};
use crate::fault;
use crate::interrupt::{self, Event};
use crate::limits::{BEAT, TYPED_AT_ONCE};
use crate::page::Page;
use crate::show;
use crate::tty::keys::{HELP, Keys, Meant};
use crate::tty::{self, Raw};
use crate::units;
use crate::verbs::{Hand, present, text_of};

/// Hosts a command, and looks on.
///
/// # Errors
/// The failure to show.
pub(crate) fn run(hand: &Hand<'_>, run: Run) -> Result<u8, Failure> {
    let looks_on = !run.detach;
    if looks_on {
        needs_a_terminal(hand, "cede run --detach -- <command>")?;
    }
    if let Ok(outer) = std::env::var("CEDE_SESSION") {
        let short: String = outer.chars().take(8).collect();
        hand.terminal.say(format!("this is the hosted terminal {short} already; the new one lies within it"));
    }
    let request = RunRequest {
        words: run.command,
        name: run.name,
        directory: text_of(&present()?)?,
        environment: std::env::vars().filter(|(name, _)| is_passed_on(name)).collect(),
        size: tty::size_or_usual(std::io::stdout()),
        detached: run.detach,
    };
    if looks_on { View { types: true }.look_on(hand, Command::Run(request)) } else { host(hand, request) }
}

/// Hosts a command, and does not look on.
fn host(hand: &Hand<'_>, request: RunRequest) -> Result<u8, Failure> {
    let answer = hand.client.ask_to_the_end(Command::Run(request))?;
    let Answer::TerminalEnded(end) = &answer else { return Err(fault::unexpected_answer()) };
    hand.terminal.data(&Page::of(format!("hosted as {}", end.session.short())));
    hand.terminal.say(format!("look on: cede attach {}", end.session.short()));
    hand.terminal.reply(&ReplyBody::Done(answer));
    Ok(exit::OK)
}

/// Looks on at a hosted terminal.
///
/// # Errors
/// The failure to show.
pub(crate) fn view(hand: &Hand<'_>, session: String, keyboard: Keyboard) -> Result<u8, Failure> {
    let types = keyboard != Keyboard::No;
    if types {
        needs_a_terminal(hand, &bytes_of(&session))?;
    }
    let request = ViewRequest { session, keyboard, size: tty::size(), from: None, read: None };
    View { types }.look_on(hand, Command::View(request))
}

/// Terminals and running tasks end with the daemon: that is said before.
pub(crate) fn may_end(hand: &Hand<'_>) -> Result<(), Failure> {
    let Answer::Status(status) = hand.client.ask(Command::Status)? else { return Err(fault::unexpected_answer()) };
    let Answer::Tasks { tasks } = hand.client.ask(Command::Tasks { all: false })? else {
        return Err(fault::unexpected_answer());
    };
    let hosted: Vec<&str> =
        status.sessions.iter().filter(|one| one.terminal.is_some()).map(|one| one.title.as_str()).collect();
    let running = tasks.iter().filter(|one| !one.asked_here && one.state == "running");
    let running: Vec<String> = running.map(|one| format!("{} of {}", one.id, one.from)).collect();
    let mut what = Vec::new();
    if !hosted.is_empty() {
        let count = units::count(hosted.len() as u64, "hosted terminal", "hosted terminals");
        what.push(format!("{count}: {}", hosted.join(", ")));
    }
    if !running.is_empty() {
        let count = units::count(running.len() as u64, "running task", "running tasks");
        what.push(format!("{count}: {}", running.join(", ")));
    }
    if what.is_empty() {
        return Ok(());
    }
    let why = format!("with the daemon end {}", what.join("; "));
    hand.consent(fault::local(exit::PENDING, "the daemon was not stopped", &why, "cede stop --yes"), "Stop it?")
}

fn needs_a_terminal(hand: &Hand<'_>, cure: &str) -> Result<(), Failure> {
    if tty::is_there() && !hand.terminal.json {
        return Ok(());
    }
    let why = if hand.terminal.json {
        "a terminal is drawn, which is no JSON"
    } else {
        "the standard input and output are no terminal"
    };
    Err(fault::local(exit::USAGE, "there is no terminal to draw on", why, cure))
}

fn bytes_of(session: &str) -> String {
    format!("what it draws, as data: cede watch --json {session}")
}

struct View {
    /// Whether it may want to type.
    types: bool,
}

impl View {
    fn look_on(&self, hand: &Hand<'_>, command: Command) -> Result<u8, Failure> {
        let (answers, sayer) = hand.client.converse(command)?;
        let events = interrupt::events(answers);
        let mut sight = Sight { raw: None, state: None, sayer, begun: false, open: None };
        loop {
            match events.recv() {
                Ok(Event::Reply(body)) => match *body {
                    ReplyBody::Terminal(event) => {
                        hand.terminal.reply(&ReplyBody::Terminal(event.clone()));
                        self.see(hand, &mut sight, event)?;
                        hand.terminal.written()?;
                    }
                    ReplyBody::Done(Answer::TerminalEnded(end)) => return Ok(sight.leave(hand, end)),
                    ReplyBody::Failed(failure) => return Err(failure),
                    ReplyBody::Progress(_)
                    | ReplyBody::Planned(_)
                    | ReplyBody::Pairing(_)
                    | ReplyBody::Sending(_)
                    | ReplyBody::Task(_)
                    | ReplyBody::Telling(_)
                    | ReplyBody::Done(_) => {
                        return Err(fault::unexpected_answer());
                    }
                },
                // The session goes on; the daemon says so, and that ends the loop.
                Ok(Event::Interrupted) => drop(sight.sayer.say(&ViewerSays::Detach)),
                Ok(Event::Over(error)) => return Err(sight.torn(error)),
                Err(_) => return Err(fault::unexpected_answer()),
            }
        }
    }

    fn see(&self, hand: &Hand<'_>, sight: &mut Sight, event: TerminalEvent) -> Result<(), Failure> {
        match event {
            TerminalEvent::Opened { title, device, agent: Some(agent), .. } => {
                let at = device.map_or_else(String::new, |device| format!(" at {device}"));
                hand.terminal.say(format!("{title} ({}){at}; you read along, Ctrl-C leaves", agent.name()));
            }
            TerminalEvent::Opened { session, title, device, agent: None } => {
                if !hand.terminal.json {
                    needs_a_terminal(hand, &bytes_of(&session.short()))?;
                    if std::env::var("CEDE_SESSION").is_ok_and(|around| around == session.to_string()) {
                        let why = "this runs inside of it, and would draw what it draws, without an end";
                        return Err(fault::local(
                            exit::USAGE,
                            &format!("{title} is not shown"),
                            why,
                            "type it elsewhere",
                        ));
                    }
                }
                sight.open = Some((title, device));
                sight.begin(hand, self.types);
            }
            TerminalEvent::Piece(piece) => {
                hand.terminal.data(&show::conversation::page(&piece));
            }
            TerminalEvent::Output { fresh, bytes, .. } => sight.draw(hand, fresh, &bytes),
            TerminalEvent::State(state) => sight.become_state(state),
            TerminalEvent::Asking { device } => sight.remark(hand, &format!("asking {device}: its operator answers")),
            TerminalEvent::Away { device } => {
                sight.remark(hand, &format!("the link to {device} is gone; looking for it"))
            }
            TerminalEvent::Note { text } => sight.remark(hand, &text),
        }
        Ok(())
    }
}

/// What is drawn on the person's terminal.
struct Sight {
    raw: Option<Raw>,
    state: Option<TerminalState>,
    sayer: Sayer,
    begun: bool,
    /// The terminal that is shown, and at which device where it is another one.
    open: Option<(String, Option<String>)>,
}

impl Sight {
    fn begin(&mut self, hand: &Hand<'_>, types: bool) {
        if std::mem::replace(&mut self.begun, true) || hand.terminal.json {
            return;
        }
        self.raw = Raw::enter();
        if self.raw.is_none() {
            return;
        }
        let sayer = self.sayer.clone();
        std::thread::spawn(move || type_on(&sayer, types));
        let sayer = self.sayer.clone();
        std::thread::spawn(move || {
            while sayer.say(&ViewerSays::Beat) {
                std::thread::sleep(BEAT);
            }
        });
        let sayer = self.sayer.clone();
        interrupt::on_resize(move || tty::size().is_none_or(|size| sayer.say(&ViewerSays::Resized { size })));
    }

    fn draw(&self, hand: &Hand<'_>, fresh: Option<u64>, bytes: &Base64) {
        if hand.terminal.json {
            return;
        }
        // A reader that is gone ends the command with the next line of the daemon's.
        let _closed = tty::draw(&bytes.0);
        if let Some(lost) = fresh.filter(|lost| *lost > 0) {
            self.remark(hand, &format!("{lost} bytes were missed; this is the screen as it is now"));
        }
    }

    fn become_state(&mut self, state: TerminalState) {
        let before = self.state.replace(state.clone());
        if self.raw.is_none() {
            return;
        }
        let drove = before.as_ref().is_some_and(|before| before.yours);
        if state.yours && !drove {
            if let Some(size) = tty::size() {
                self.sayer.say(&ViewerSays::Resized { size });
            }
            if before.is_some() {
                tty::remark("you drive now");
            }
        } else if !state.yours && before.as_ref().is_none_or(|before| before.yours || before.driver != state.driver) {
            let who = state.driver.map_or("nobody drives".to_owned(), |driver| format!("{driver} drives"));
            tty::remark(&format!("{who}, you look on; Ctrl-] d detaches, Ctrl-] ? helps"));
        }
    }

    fn remark(&self, hand: &Hand<'_>, text: &str) {
        if self.raw.is_some() {
            tty::remark(text);
        } else {
            hand.terminal.say(text);
        }
    }

    /// The daemon here is gone, and with it what it hosts.
    fn torn(self, error: AskError) -> Failure {
        match self.open {
            Some((title, None)) if error == AskError::Ended => {
                let what = format!("the daemon went away, and {title} with it");
                let why = "a hosted terminal ends with its daemon: its command was hung up on";
                fault::local(exit::FAILED, &what, why, "cede up; then host it anew: cede run")
            }
            Some((title, Some(device))) if error == AskError::Ended => {
                let what = format!("the daemon here went away; {title} goes on at {device}");
                fault::local(exit::FAILED, &what, &error.to_string(), "cede up; then look on again")
            }
            Some(_) | None => error.into(),
        }
    }

    fn leave(self, hand: &Hand<'_>, end: TerminalEnd) -> u8 {
        drop(self.raw);
        hand.terminal.talk(&Page::of(&end.text));
        let ok = end.goes_on || end.code == Some(0);
        hand.terminal.reply(&ReplyBody::Done(Answer::TerminalEnded(end)));
        if ok { exit::OK } else { exit::FAILED }
    }
}

/// Passes on what is typed, until the keyboard or the daemon is gone.
fn type_on(sayer: &Sayer, types: bool) {
    let (mut keys, mut buffer) = (Keys::default(), vec![0; TYPED_AT_ONCE]);
    loop {
        let read = match std::io::stdin().lock().read(&mut buffer) {
            Ok(read @ 1..) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Ok(_) | Err(_) => {
                sayer.say(&ViewerSays::Detach);
                return;
            }
        };
        let bytes = buffer.get(..read).unwrap_or_default();
        // Who only looks on leaves as one leaves any program.
        if !types && (bytes == b"\x03" || bytes == b"q") {
            sayer.say(&ViewerSays::Detach);
            return;
        }
        for meant in keys.read(bytes) {
            let heard = match meant {
                // Of one that does not drive the daemon passes nothing on.
                Meant::Typed(bytes) if types => sayer.say(&ViewerSays::Typed { bytes: Base64(bytes) }),
                Meant::Typed(_) => true,
                Meant::Detach => sayer.say(&ViewerSays::Detach),
                Meant::Keyboard(insist) if types => sayer.say(&ViewerSays::Keyboard { insist }),
                Meant::Keyboard(_) => true,
                Meant::LetGo => sayer.say(&ViewerSays::LetGo),
                Meant::Help => {
                    tty::remark(HELP);
                    true
                }
            };
            if !heard {
                return;
            }
        }
    }
}
