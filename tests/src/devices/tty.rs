//! A person in front of a terminal of this machine who types `cede …`.

use std::ffi::OsString;
use std::num::NonZeroU16;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use cede_agent::terminal::{End, Order, Size, Terminal, Viewer};

use super::{Device, PATIENCE};

/// A terminal with one command in it.
pub struct Tty {
    terminal: Terminal,
    viewer: Viewer,
    news: Receiver<()>,
    seen: String,
    screen: vt100::Parser,
}

impl Tty {
    /// Types a command of `cede`.
    pub fn open(device: &Device, arguments: &[&str]) -> Self {
        let command = device.command(arguments);
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        Self::start(device, words.map(OsString::from).collect())
    }

    /// Types something to the shell; `$CEDE` is the program.
    pub fn shell(device: &Device, script: &str) -> Self {
        Self::start(device, ["sh", "-c", script].map(OsString::from).to_vec())
    }

    fn start(device: &Device, words: Vec<OsString>) -> Self {
        let command = device.command(&[]);
        let set = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        let mut marks: Vec<(OsString, OsString)> = set.collect();
        marks.push(("CEDE".into(), command.get_program().to_owned()));
        marks.push(("SHELL".into(), "/bin/sh".into()));
        marks.push(("TERM".into(), "xterm-256color".into()));
        let order = Order {
            command: words,
            directory: device.home.clone(),
            environment: vec![("TERM".into(), "xterm-256color".into())],
            marks,
            size: Size::new(30, 100),
        };
        let (tell, news) = channel();
        let tell = Mutex::new(tell);
        let told = move || {
            let _over = tell.lock().unwrap().send(());
        };
        let terminal = Terminal::start(&order, told).unwrap();
        let screen = parser(30, 100);
        Self { viewer: terminal.view(Some(0)), terminal, news, seen: String::new(), screen }
    }

    /// Types.
    pub fn type_in(&self, text: &str) {
        self.terminal.type_in(text.as_bytes()).unwrap();
    }

    /// Waits until this is on the screen, and forgets what was there up to it.
    pub fn see(&mut self, wanted: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            self.look();
            if let Some(at) = self.seen.find(wanted) {
                self.seen.drain(..at + wanted.len());
                return;
            }
            let over = self.terminal.end().is_some() && !self.look().contains(wanted);
            assert!(!over && Instant::now() < until, "waiting for {wanted:?}: {:?}", self.seen);
            let _timeout = self.news.recv_timeout(Duration::from_millis(50));
        }
    }

    /// What came since the last look.
    pub fn look(&mut self) -> &str {
        while let Some(frame) = self.viewer.next(1 << 16) {
            self.screen.process(&frame.bytes);
            self.seen.push_str(&String::from_utf8_lossy(&frame.bytes));
        }
        &self.seen
    }

    /// Everything that was ever drawn.
    pub fn everything(&self) -> Vec<u8> {
        let mut viewer = self.terminal.view(Some(0));
        std::iter::from_fn(|| viewer.next(1 << 16)).flat_map(|frame| frame.bytes).collect()
    }

    /// The screen as a person sees it now.
    pub fn screen(&mut self) -> String {
        self.look();
        self.screen.screen().contents()
    }

    /// Waits until the screen is as it should be.
    pub fn show(&mut self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if fits(&screen) {
                return screen;
            }
            let over = self.terminal.end().is_some() && !fits(&self.screen());
            assert!(!over && Instant::now() < until, "waiting until {what}:\n{screen}");
            let _timeout = self.news.recv_timeout(Duration::from_millis(50));
        }
    }

    /// Another size.
    pub fn resize(&mut self, rows: u16, columns: u16) {
        self.screen.set_size(nonzero(rows), nonzero(columns));
        self.terminal.resize(Size::new(rows, columns));
    }

    /// The process of the command.
    pub fn pid(&self) -> u32 {
        self.terminal.pid()
    }

    /// Ends the command as nobody can prevent.
    pub fn kill(&self) {
        self.terminal.kill();
    }

    /// Waits until this is said, and for the end.
    pub fn end_with(mut self, wanted: &str) -> End {
        self.see(wanted);
        self.end()
    }

    /// Waits for the end of the command.
    pub fn end(&mut self) -> End {
        let until = Instant::now() + PATIENCE;
        while self.terminal.end().is_none() {
            assert!(Instant::now() < until, "it does not end: {:?}", self.look());
            let _timeout = self.news.recv_timeout(Duration::from_millis(50));
        }
        self.look();
        self.terminal.end().unwrap()
    }
}

fn parser(rows: u16, columns: u16) -> vt100::Parser {
    let (rows, columns) = (nonzero(rows), nonzero(columns));
    vt100::Parser::new(rows, columns, 0)
}

impl Drop for Tty {
    fn drop(&mut self) {
        self.terminal.kill();
    }
}

fn nonzero(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap()
}
