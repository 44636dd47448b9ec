//! The loop around the cockpit: keyboard, signals, news and the screen.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::process::Command as Program;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cede_wire::control::{Failure, exit};
use ratatui_core::terminal::Terminal as Screen;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::keys::Keys;
use super::painter::Painter;
use super::state::{Act, Cockpit, Moment, News};
use super::{acts, frame, news};
use crate::client::Client;
use crate::fault;
use crate::interrupt;
use crate::limits::{EVENTS, GOES_ON, GOES_ON_LOOK, KEY_WAIT, TYPED_AT_ONCE};
use crate::terminal::colour_wanted;
use crate::tty::{self, Raw};
use crate::verbs::now;

/// Shows the cockpit until the person leaves it.
///
/// # Errors
/// The failure to show; the terminal is as it was before.
pub(crate) fn run(client: &Client, home: Option<&Path>) -> Result<u8, Failure> {
    guarded(|| show(client, home))
}

/// Shows something, and says what fell over only when the terminal is as it was before.
fn guarded(show: impl FnOnce() -> Result<u8, Failure>) -> Result<u8, Failure> {
    let fallen = Arc::new(Mutex::new(None));
    let noted = fallen.clone();
    // What is printed over the screen would be wiped away with it.
    std::panic::set_hook(Box::new(move |panic| {
        *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic.to_string());
    }));
    let ended = catch_unwind(AssertUnwindSafe(show));
    drop(std::panic::take_hook());
    // Also what fell over on another thread, while the screen went on.
    if let Some(text) = fallen.lock().unwrap_or_else(PoisonError::into_inner).take() {
        crate::terminal::print(&mut std::io::stderr().lock(), &format!("{}\n", crate::page::safe(&text)));
    }
    ended.unwrap_or_else(|panic| resume_unwind(panic))
}

fn show(client: &Client, home: Option<&Path>) -> Result<u8, Failure> {
    let (waker, woken) = UnixStream::pair().map_err(|error| lost(&error))?;
    waker.set_nonblocking(true).and_then(|()| woken.set_nonblocking(true)).map_err(|error| lost(&error))?;
    let (sender, inbox) = sync_channel(EVENTS);
    let bell = Bell { waker: Arc::new(waker), sender };
    let signals = Signals::default();
    listen(&bell, &signals);
    let (nudge, nudges) = sync_channel(1);
    let (asker, teller) = (client.clone(), bell.clone());
    std::thread::spawn(move || news::watch(&asker, &nudges, &|news| teller.tell(news)));
    let raw = enter()?;
    let screen = Screen::new(Painter::default()).map_err(|error| lost(&error))?;
    let window = Window {
        client,
        home,
        screen,
        raw: Some(raw),
        colour: colour_wanted(),
        began: Instant::now(),
        cockpit: Cockpit::default(),
        keyboard: tty::keyboard().map_err(|error| lost(&error))?,
        keys: Keys::default(),
        bell,
        nudge,
        signals,
    };
    window.run(&inbox, woken)
}

/// Signals from before the terminal is changed on.
fn listen(bell: &Bell, signals: &Signals) {
    let (ringer, came) = (bell.clone(), signals.clone());
    interrupt::on_interrupt(move || {
        // While another program has the terminal Ctrl-C is for that one.
        if !came.away.load(Ordering::SeqCst) {
            came.left.store(true, Ordering::SeqCst);
            ringer.wake();
        }
        true
    });
    let (ringer, came) = (bell.clone(), signals.clone());
    interrupt::on_job_control(move |stop| {
        if !stop {
            came.goes_on.store(true, Ordering::SeqCst);
        } else if !came.away.load(Ordering::SeqCst) {
            came.stopped.store(true, Ordering::SeqCst);
        }
        ringer.wake();
        true
    });
    let ringer = bell.clone();
    interrupt::on_resize(move || {
        ringer.wake();
        true
    });
}

fn enter() -> Result<Raw, Failure> {
    let raw = Raw::enter().ok_or_else(|| {
        let why = "the standard input and output are no terminal";
        fault::local(exit::USAGE, "there is no terminal to draw on", why, "cede status")
    })?;
    tty::draw(ENTER).map_err(|error| lost(&error))?;
    Ok(raw)
}

/// The other screen, and pasted text that is known as such.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?2004h\x1b[?25l";

fn lost(error: &std::io::Error) -> Failure {
    fault::local(exit::FAILED, "the terminal cannot be drawn on", &error.to_string(), "cede status")
}

/// Wakes the loop, from any thread.
#[derive(Debug, Clone)]
struct Bell {
    waker: Arc<UnixStream>,
    sender: SyncSender<News>,
}

impl Bell {
    /// False: nobody listens any more.
    fn tell(&self, news: News) -> bool {
        let told = self.sender.send(news).is_ok();
        self.wake();
        told
    }

    fn wake(&self) {
        // A full pipe wakes as well.
        let _full = (&*self.waker).write(b"!");
    }
}

/// What the system or the person wants, as signals say it.
#[derive(Debug, Clone, Default)]
struct Signals {
    /// This is to end.
    left: Arc<AtomicBool>,
    /// This is to stop for a while.
    stopped: Arc<AtomicBool>,
    /// It was stopped and goes on.
    goes_on: Arc<AtomicBool>,
    /// Another program has the terminal.
    away: Arc<AtomicBool>,
}

struct Window<'a> {
    client: &'a Client,
    /// As it was said on the command line.
    home: Option<&'a Path>,
    screen: Screen<Painter>,
    /// None while another program has the terminal.
    raw: Option<Raw>,
    colour: bool,
    began: Instant,
    cockpit: Cockpit,
    keyboard: File,
    keys: Keys,
    bell: Bell,
    nudge: SyncSender<()>,
    signals: Signals,
}

impl Window<'_> {
    fn run(mut self, inbox: &Receiver<News>, mut woken: UnixStream) -> Result<u8, Failure> {
        loop {
            self.draw()?;
            let typed = self.wait(&woken)?;
            let mut woke = [0; 64];
            while woken.read(&mut woke).is_ok_and(|read| read == woke.len()) {}
            if self.signals.left.load(Ordering::SeqCst) {
                return Ok(exit::INTERRUPTED);
            }
            let stopped = self.signals.stopped.swap(false, Ordering::SeqCst);
            let goes_on = self.signals.goes_on.swap(false, Ordering::SeqCst);
            if stopped {
                self.stop()?;
            }
            if goes_on {
                self.draw_afresh()?;
            }
            if stopped || goes_on {
                // What was typed may be gone by now: it is looked for again, not waited for.
                continue;
            }
            let now = self.now();
            // Keys first: they were pressed over what is on the screen.
            let Some(keys) = (if typed { self.read() } else { Some(self.keys.idle().into_iter().collect()) }) else {
                return Ok(exit::INTERRUPTED);
            };
            for key in keys {
                match self.cockpit.key(key, now) {
                    Some(Act::Quit) => return Ok(exit::OK),
                    Some(act) => self.act(act)?,
                    None => {}
                }
            }
            inbox.try_iter().take(EVENTS).for_each(|news| self.cockpit.news(news, now));
            if let Some(text) = self.cockpit.ring(now) {
                // The bell, and what terminals show as a notification.
                let text = crate::page::safe(&text);
                tty::draw(format!("\x07\x1b]9;cede: {text}\x07").as_bytes()).map_err(|error| lost(&error))?;
            }
        }
    }

    fn draw(&mut self) -> Result<(), Failure> {
        let (now, colour, mut drawn) = (self.now(), self.colour, None);
        let cockpit = &self.cockpit;
        let painted = self.screen.draw(|screen| drawn = Some(frame::frame(cockpit, now, colour, screen.buffer_mut())));
        painted.map_err(|error| lost(&error))?;
        self.cockpit.drawn(drawn.unwrap_or_default(), now);
        Ok(())
    }

    /// Waits for a key, a wake or the next second. True: something was typed.
    fn wait(&self, woken: &UnixStream) -> Result<bool, Failure> {
        let mut looked = [PollFd::new(&self.keyboard, PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
        let wait = if self.keys.is_open() { KEY_WAIT } else { Duration::from_secs(1) };
        let wait = Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
        match poll(&mut looked, Some(&wait)) {
            Ok(_) => Ok(looked.first().is_some_and(|input| !input.revents().is_empty())),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(lost(&error.into())),
        }
    }

    /// The keys that were typed; none where the keyboard is gone.
    fn read(&mut self) -> Option<Vec<super::keys::Key>> {
        let mut buffer = [0; TYPED_AT_ONCE];
        match rustix::io::read(&self.keyboard, &mut buffer) {
            Ok(0) => None,
            Ok(read) => Some(self.keys.read(buffer.get(..read).unwrap_or_default())),
            Err(Errno::INTR | Errno::AGAIN) => Some(Vec::new()),
            Err(_) => None,
        }
    }

    fn act(&mut self, act: Act) -> Result<(), Failure> {
        match act {
            Act::Refresh => drop(self.nudge.try_send(())),
            Act::Redraw => self.screen.clear().map_err(|error| lost(&error))?,
            Act::Suspend => self.stop()?,
            Act::Attach { session } => self.look_on("attach", &session)?,
            Act::Watch { session } => self.look_on("watch", &session)?,
            Act::Resume { command } => self.elsewhere(|| ran(Program::new("sh").args(["-c", &command])))?,
            Act::Quit => {}
            asked @ (Act::Decide { .. }
            | Act::Plan(_)
            | Act::To(_)
            | Act::Take { .. }
            | Act::Cancel { .. }
            | Act::StopTransfer { .. }
            | Act::Read { .. }
            | Act::Mark { .. }) => {
                let (bell, nudge) = (self.bell.clone(), self.nudge.clone());
                acts::begin(self.client, asked, move |news| {
                    let told = bell.tell(news);
                    let _already = nudge.try_send(());
                    told
                });
            }
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<(), Failure> {
        if !tty::has_a_shell() {
            return Ok(());
        }
        let Signals { stopped, goes_on, .. } = self.signals.clone();
        self.elsewhere(|| {
            goes_on.store(false, Ordering::SeqCst);
            tty::stop_for_a_while();
            let until = Instant::now() + GOES_ON;
            while !goes_on.swap(false, Ordering::SeqCst) && Instant::now() < until {
                std::thread::sleep(GOES_ON_LOOK);
            }
            // Whatever asked for a stop until now has had it.
            stopped.store(false, Ordering::SeqCst);
        })
    }

    /// Runs another command of `cede` in this terminal.
    fn look_on(&mut self, verb: &str, session: &str) -> Result<(), Failure> {
        let program = std::env::current_exe().map_err(|error| lost(&error))?;
        let mut program = Program::new(program);
        program.args([verb, session]);
        if let Some(home) = self.home {
            program.arg("--home").arg(home);
        }
        self.elsewhere(|| ran(&mut program))
    }

    /// Gives the terminal away for a while.
    fn elsewhere(&mut self, what: impl FnOnce()) -> Result<(), Failure> {
        self.signals.away.store(true, Ordering::SeqCst);
        self.raw = None;
        what();
        let raw = enter();
        self.signals.away.store(false, Ordering::SeqCst);
        self.raw = Some(raw?);
        self.screen.clear().map_err(|error| lost(&error))
    }

    /// Whoever had the terminal meanwhile may have left it in any state.
    fn draw_afresh(&mut self) -> Result<(), Failure> {
        if let Some(raw) = &self.raw {
            raw.again().and_then(|()| tty::draw(ENTER)).map_err(|error| lost(&error))?;
        }
        self.screen.clear().map_err(|error| lost(&error))
    }

    fn now(&self) -> Moment {
        Moment { since: self.began.elapsed(), unix_ms: now() }
    }
}

/// Runs another program in this terminal, and waits for the person where it failed.
fn ran(program: &mut Program) {
    let ended = program.status();
    if ended.as_ref().is_ok_and(std::process::ExitStatus::success) {
        return;
    }
    let what = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
    let text = format!("it ended: {what}; enter goes back to the cockpit\n");
    crate::terminal::print(&mut std::io::stderr().lock(), &crate::page::safe(text.trim_end()));
    let _any = std::io::stdin().read(&mut [0; 64]);
}

#[cfg(test)]
mod tests;
