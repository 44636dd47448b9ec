//! Ctrl-C, as an event like any other.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use cede_wire::control::ReplyBody;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

use crate::client::{Answers, AskError};
use crate::limits::{EVENTS, STOP_HEARD};

/// What can happen while a long answer is read.
#[derive(Debug)]
pub(crate) enum Event {
    /// A line came.
    Reply(Box<ReplyBody>),
    /// No more lines come.
    Over(AskError),
    /// The person wants out.
    Interrupted,
}

/// The lines of an answer and the person's Ctrl-C, in the order in which they happen.
pub(crate) fn events(mut answers: Answers) -> Receiver<Event> {
    let (send, receive) = sync_channel(EVENTS);
    let interrupted = send.clone();
    on_interrupt(move || interrupted.send(Event::Interrupted).is_ok());
    std::thread::spawn(move || while pass_on(answers.next(), &send) {});
    receive
}

/// Calls `then` at every Ctrl-C, hang-up and request to end from now on, until it returns false.
pub(crate) fn on_interrupt(then: impl Fn() -> bool + Send + 'static) {
    let (ready, handled) = sync_channel(1);
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
        // Without a handler the system's own ends the command: nothing is lost but the explanation.
        let _no_handler = runtime.block_on(wait_for_signals(&ready, &then));
    });
    // What changes the person's terminal must not come before what puts it back.
    let _no_handler = handled.recv();
}

/// Calls `then` whenever the person's terminal has another size, until it returns false.
pub(crate) fn on_resize(then: impl Fn() -> bool + Send + 'static) {
    on(SignalKind::window_change(), then);
}

/// Calls `then` whenever this process is asked to stop for a while (true), or goes on after that, until it returns false. From now
/// on such a request stops nothing by itself. What was asked before it went on is heard before that, or not at all.
pub(crate) fn on_job_control(then: impl Fn(bool) -> bool + Send + 'static) {
    let (ready, handled) = sync_channel(1);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        // Without a handler the system stops it, in the middle of the screen.
        let _no_handler = runtime.map(|runtime| runtime.block_on(wait_for_job_control(&ready, &then)));
    });
    let _no_handler = handled.recv();
}

async fn wait_for_job_control(ready: &SyncSender<()>, then: &impl Fn(bool) -> bool) -> std::io::Result<()> {
    let mut stop = signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?;
    let mut goes_on = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
    let _heard = ready.send(());
    loop {
        let stopped = tokio::select! {
            _ = stop.recv() => true,
            _ = goes_on.recv() => false,
        };
        if !stopped {
            // A request that came just before this process was stopped is told only now, and was met.
            tokio::time::sleep(STOP_HEARD).await;
            let _met = tokio::time::timeout(Duration::ZERO, stop.recv()).await;
        }
        if !then(stopped) {
            return Ok(());
        }
    }
}

/// Waits for the handler to stand, so that nothing that follows is without it.
fn on(kind: SignalKind, then: impl Fn() -> bool + Send + 'static) {
    let (ready, handled) = sync_channel(1);
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
        runtime.block_on(async {
            // Without a handler the system does what it does: what is drawn looks odd, and nothing is lost.
            let Ok(mut came) = signal(kind) else { return };
            let _heard = ready.send(());
            while came.recv().await.is_some() && then() {}
        });
    });
    let _no_handler = handled.recv();
}

async fn wait_for_signals(ready: &SyncSender<()>, then: &impl Fn() -> bool) -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let _heard = ready.send(());
    loop {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
        if !then() {
            return Ok(());
        }
    }
}

fn pass_on(line: Result<ReplyBody, AskError>, send: &SyncSender<Event>) -> bool {
    match line {
        Ok(body) => {
            let last = matches!(body, ReplyBody::Done(_) | ReplyBody::Failed(_));
            send.send(Event::Reply(Box::new(body))).is_ok() && !last
        }
        Err(error) => {
            let _gone = send.send(Event::Over(error));
            false
        }
    }
}
