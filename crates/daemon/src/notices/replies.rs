//! Reads what the buttons of a call send back: from its own topic of the ntfy server, and only while its question waits.
//!
//! The server is bounded in what it may send and how long it may take, and reached again with pauses that grow. Whatever it
//! says, only a token of the call decides anything.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde::Deserialize;
use tokio::sync::{mpsc, oneshot};

use super::buttons::Buttons;
use super::{Health, delivery, lock, still_waits};
use crate::context::Context;
use crate::limits;

/// A line of the stream, as far as it matters.
#[derive(Deserialize)]
struct Line {
    id: String,
    event: String,
    #[serde(default)]
    message: String,
}

/// Listens until the question of a call is over, and a little longer: what is pressed as it ends is recorded as late.
pub(super) async fn listen(context: Context, buttons: Buttons, health: Arc<Mutex<Health>>) {
    let buttons = Arc::new(buttons);
    let (mut since, mut room, mut noted) = ("all".to_owned(), limits::REPLY_BYTES, 0);
    let mut pause = limits::LISTEN_PAUSE;
    let over = over(&context, &buttons);
    tokio::pin!(over);
    while still_waits(&context, Some(buttons.question())).await {
        let begun = Instant::now();
        let (lines, mut inbox) = mpsc::channel(LINES_AHEAD);
        let ended = follow(format!("{}/json?since={since}", buttons.topic()), room, lines);
        loop {
            let line = tokio::select! {
                line = inbox.recv() => line,
                // Whoever reads for this hears with the next line that nobody wants it.
                () = &mut over => return,
            };
            let Some(line) = line else { break };
            room = room.saturating_sub(line.len());
            let Some(Line { id, message, .. }) = message(&line) else { continue };
            since = id;
            let (buttons, note) = (buttons.clone(), noted < limits::PRESSES_NOTED);
            noted += 1;
            if context.ask(move |actor| actor.pressed(&buttons, message.trim(), note)).await.is_err() {
                return;
            }
        }
        let ended = ended.await.unwrap_or_else(|_| Err("fault of ours: it ended without a result".to_owned()));
        if room == 0 {
            lock(&health).deaf =
                Some("too much came for the buttons of a call, so they do nothing any more".to_owned());
            return;
        }
        lock(&health).deaf = ended.err().map(|why| format!("the answers of its buttons are not read: {why}"));
        let lasted = begun.elapsed() >= limits::LISTEN_TIME / 2;
        pause = if lasted { limits::LISTEN_PAUSE } else { (pause * 2).min(limits::LISTEN_PAUSE_MOST) };
        tokio::time::sleep(pause).await;
    }
}

async fn over(context: &Context, buttons: &Buttons) {
    while still_waits(context, Some(buttons.question())).await {
        tokio::time::sleep(limits::LISTEN_LOOK).await;
    }
    tokio::time::sleep(limits::LISTEN_AFTER).await;
}

/// What was published, where a line says that something was.
fn message(line: &[u8]) -> Option<Line> {
    let line: Line = serde_json::from_slice(line).ok()?;
    let plain = line.id.len() <= ID_BYTES && line.id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (line.event == "message" && plain).then_some(line)
}

/// Reads one stream on a thread of its own, which nobody waits for when the daemon ends.
fn follow(url: String, room: usize, lines: mpsc::Sender<Vec<u8>>) -> oneshot::Receiver<Result<(), String>> {
    let (done, ended) = oneshot::channel();
    let read = move || {
        let result = read(&url, room, &lines);
        drop(lines);
        // Whoever listened may be gone.
        let _gone = done.send(result);
    };
    // A thread that does not start drops the sender, which is said.
    let _unstarted = std::thread::Builder::new().name("ntfy".to_owned()).spawn(read);
    ended
}

fn read(url: &str, room: usize, lines: &mpsc::Sender<Vec<u8>>) -> Result<(), String> {
    let body = delivery::get(url, limits::LISTEN_TIME)?;
    let mut body = BufReader::new(body.take(room as u64));
    loop {
        let mut line = Vec::new();
        let taken = (&mut body).take(limits::REPLY_LINE_BYTES as u64).read_until(b'\n', &mut line);
        let whole = line.ends_with(b"\n");
        let long = line.len() >= limits::REPLY_LINE_BYTES && !whole;
        match taken {
            Ok(0) => return Ok(()),
            Ok(_) if lines.blocking_send(line).is_err() => return Ok(()),
            Ok(_) if long => return Err("a line is too long".to_owned()),
            Ok(_) => {}
            // The time of one reading is over.
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => return Ok(()),
            Err(error) => return Err(format!("the connection broke: {}", error.kind())),
        }
    }
}

/// Lines that wait for the deciders.
const LINES_AHEAD: usize = 4;
/// Longest id of a message that is sent back: ntfy's have twelve characters.
const ID_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_message_with_a_plain_id_is_one() {
        let said = message(br#"{"id":"hwQ2YpKdmg","time":1,"event":"message","topic":"t","message":"hello"}"#);
        assert_eq!(said.map(|line| (line.id, line.message)), Some(("hwQ2YpKdmg".into(), "hello".into())));
        let others: [&[u8]; 7] = [
            b"",
            b"nonsense",
            b"[[[[",
            br#"{"id":"a","event":"open"}"#,
            br#"{"id":"a","event":"keepalive"}"#,
            br#"{"id":"a&since=1","event":"message","message":"m"}"#,
            br#"{"id":7,"event":"message","message":"m"}"#,
        ];
        for line in others {
            assert!(message(line).is_none(), "{}", String::from_utf8_lossy(line));
        }
        let long = format!(r#"{{"id":"{}","event":"message","message":"m"}}"#, "a".repeat(33));
        assert!(message(long.as_bytes()).is_none());
    }
}
