//! A watcher that asks all devices all the time who is in charge, and remembers what would break the promise.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use cede_wire::control::{Answer, Command, Reply, ReplyBody, Request, SessionSummary};
use cede_wire::custody::FencingToken;
use cede_wire::id::SessionId;

/// What the watcher saw.
#[derive(Debug, Default, Clone)]
pub struct Seen {
    /// Rounds of questions in which two devices answered.
    pub looks: u64,
    /// Which device said under which token that it is in charge.
    pub holders: BTreeMap<(u64, u64), String>,
    /// Everything that may not be.
    pub wrong: Vec<String>,
}

/// The watcher; it ends with the value.
#[derive(Debug)]
pub struct Watcher {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Seen>>,
}

impl Watcher {
    /// Watches a session on devices, named with their control sockets.
    pub fn start(session: SessionId, devices: Vec<(String, PathBuf)>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::default();
            let mut highest: BTreeMap<String, FencingToken> = BTreeMap::new();
            while !stopped.load(Ordering::Relaxed) {
                seen.look(session, &devices, &mut highest);
                std::thread::sleep(Duration::from_millis(20));
            }
            seen
        });
        Self { stop, thread: Some(thread) }
    }

    /// Ends it.
    pub fn end(mut self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _seen = thread.join();
        }
    }
}

impl Seen {
    /// Of each two: first, second, first again. Ownership passes in between, but never there and back.
    fn look(
        &mut self,
        session: SessionId,
        devices: &[(String, PathBuf)],
        highest: &mut BTreeMap<String, FencingToken>,
    ) {
        for (place, first) in devices.iter().enumerate() {
            for second in &devices[place + 1..] {
                self.look_at_two(session, first, second, highest);
            }
        }
    }

    fn look_at_two(
        &mut self,
        session: SessionId,
        (first, first_socket): &(String, PathBuf),
        (second, second_socket): &(String, PathBuf),
        highest: &mut BTreeMap<String, FencingToken>,
    ) {
        let before = ask(first_socket, session);
        let middle = ask(second_socket, session);
        let after = ask(first_socket, session);
        for (name, said) in [(first, &before), (second, &middle), (first, &after)] {
            if let Some(said) = said {
                self.holds(name, said, highest);
            }
        }
        let (Some(before), Some(middle), Some(after)) = (before, middle, after) else { return };
        self.looks += 1;
        if acts(&before) && acts(&middle) && acts(&after) {
            self.wrong.push(format!("both act: {} {:?}, {} {:?}", first, after.token, second, middle.token));
        }
    }

    fn holds(&mut self, name: &str, said: &SessionSummary, highest: &mut BTreeMap<String, FencingToken>) {
        let token = said.token;
        let known = highest.entry(name.to_owned()).or_insert(token);
        if token < *known {
            self.wrong.push(format!("{name} went back from {known:?} to {token:?}"));
        }
        *known = token.max(*known);
        if acts(said) {
            let holder = self.holders.entry((token.generation, token.epoch)).or_insert_with(|| name.to_owned());
            if holder != name {
                self.wrong.push(format!("{holder} and {name} both acted under {token:?}"));
            }
        }
    }
}

/// Whether the device says that it may act for the session.
pub fn acts(said: &SessionSummary) -> bool {
    said.state.starts_with("in charge here")
}

fn ask(socket: &std::path::Path, session: SessionId) -> Option<SessionSummary> {
    use std::io::{BufRead, BufReader, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut line = serde_json::to_vec(&Request::new(Command::Status)).ok()?;
    line.push(b'\n');
    stream.write_all(&line).ok()?;
    let mut answer = Vec::new();
    BufReader::new(stream).read_until(b'\n', &mut answer).ok()?;
    match serde_json::from_slice::<Reply>(&answer).ok()?.body {
        // A device that never heard of the session does not list it, so it does not act for it either.
        ReplyBody::Done(Answer::Status(report)) => report.sessions.into_iter().find(|known| known.id == session),
        _ => None,
    }
}
