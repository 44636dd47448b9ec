//! Where text goes: data to the standard output, talk to the standard error, JSON instead of both where it is asked for.

use std::fs::File;
use std::io::{BufRead, ErrorKind, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::sync::{Arc, OnceLock};

use cede_wire::control::{Failure, Reply, ReplyBody, exit};

use crate::args::Global;
use crate::fault;
use crate::limits::TYPED_BYTES;
use crate::page::Page;
use crate::tty;

/// The person's side of the command.
#[derive(Debug, Clone)]
pub(crate) struct Terminal {
    /// JSON lines instead of text.
    pub(crate) json: bool,
    /// A person can be asked.
    pub(crate) may_ask: bool,
    /// The whole screen can be drawn on, and a person is in front of it.
    pub(crate) screen: bool,
    /// A bar can be drawn.
    pub(crate) bars: bool,
    quiet: bool,
    colour: bool,
    /// Why something did not come to the standard output, though its reader is there.
    unwritten: Arc<OnceLock<String>>,
}

impl Terminal {
    /// Looks at the flags and at what the standard streams are.
    pub(crate) fn new(global: &Global) -> Self {
        let talks = std::io::stderr().is_terminal();
        let may_ask = !global.json && !global.no_input && talks && std::io::stdin().is_terminal();
        Self {
            json: global.json,
            may_ask,
            screen: may_ask && !global.quiet && !is_dumb() && tty::is_there(),
            bars: !global.json && !global.quiet && talks,
            quiet: global.quiet,
            colour: colour_wanted(),
            unwritten: Arc::default(),
        }
    }

    /// A result, for the standard output. False: not all of it was written.
    pub(crate) fn data(&self, page: &Page) -> bool {
        self.json || self.out(&self.text(page, &std::io::stdout()))
    }

    /// Text as it is, for the standard output. False: not all of it was written. A closed pipe is the reader's choice: `cede
    /// ls | head` is no failure. Everything else ends the command as one, once it has done what it was asked for.
    pub(crate) fn out(&self, text: &str) -> bool {
        match put(text) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::BrokenPipe => false,
            Err(error) => {
                self.unwritten.get_or_init(|| error.to_string());
                false
            }
        }
    }

    /// Whether everything was written so far.
    ///
    /// # Errors
    /// What the system said. What was asked for is done all the same.
    pub(crate) fn written(&self) -> Result<(), Failure> {
        self.unwritten.get().map_or(Ok(()), |why| Err(unwritten(why)))
    }

    /// What is said besides, for the standard error.
    pub(crate) fn talk(&self, page: &Page) {
        if !self.json && !self.quiet {
            self.insist(page);
        }
    }

    /// One line of talk.
    pub(crate) fn say(&self, text: impl AsRef<str>) {
        self.talk(&Page::of(text));
    }

    /// The failure that ends the command.
    pub(crate) fn fail(&self, failure: &Failure) {
        if !self.json || !self.reply(&ReplyBody::Failed(failure.clone())) {
            self.insist(&fault::page(failure));
        }
    }

    /// One line of the answer, where JSON is asked for. False: not all of it was written.
    pub(crate) fn reply(&self, body: &ReplyBody) -> bool {
        if !self.json {
            return true;
        }
        let line = serde_json::to_string(&Reply::new(body.clone()));
        line.is_ok_and(|line| self.out(&format!("{}\n", crate::page::safe_json(&line))))
    }

    /// Asks, with no as the default. `None`: nobody can be asked.
    pub(crate) fn ask(&self, question: &str) -> Option<bool> {
        if !self.may_ask {
            return None;
        }
        self.prompt(&format!("{question} [y/N]"));
        let mut typed = String::new();
        std::io::stdin().lock().take(TYPED_BYTES).read_line(&mut typed).ok()?;
        Some(is_yes(&typed))
    }

    /// Asks for a text. `None`: nobody can be asked.
    pub(crate) fn type_in(&self, question: &str) -> Option<String> {
        if !self.may_ask {
            return None;
        }
        self.prompt(question);
        let mut typed = String::new();
        std::io::stdin().lock().take(TYPED_BYTES).read_line(&mut typed).ok()?;
        Some(typed)
    }

    fn insist(&self, page: &Page) {
        let talk = std::io::stderr();
        print(&mut talk.lock(), &self.text(page, &talk));
    }

    /// What is typed stands behind it.
    fn prompt(&self, question: &str) {
        let talk = std::io::stderr();
        print(&mut talk.lock(), &format!("{} ", self.text(&Page::of(question), &talk).trim_end()));
    }

    /// A page as a person reads it, or as another program does.
    fn text(&self, page: &Page, to: &(impl IsTerminal + AsFd)) -> String {
        if to.is_terminal() {
            page.render_within(self.colour, usize::from(tty::size_or_usual(to).columns))
        } else {
            page.render_uncut()
        }
    }
}

/// Only `y` and `yes` are a yes.
fn is_yes(typed: &str) -> bool {
    matches!(typed.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// Whether colours may be used. Source: no-color.org.
pub(crate) fn colour_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && !is_dumb()
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// What was to be written is not.
pub(crate) fn unwritten(why: &str) -> Failure {
    let cure = "let it go to a terminal, to a pipe or to a disk with room; what was asked for is done";
    fault::local(exit::FAILED, "the output was not written", why, cure)
}

/// The library's own hand on the standard output takes what a descriptor that is not open for writing refuses for written.
fn put(text: &str) -> std::io::Result<()> {
    let held = std::io::stdout().lock();
    File::from(held.as_fd().try_clone_to_owned()?).write_all(text.as_bytes())
}

/// Whether what is written to the standard output is lost. One that was closed before this program began is the null device
/// by now.
pub(crate) fn is_lost() -> bool {
    let out = std::io::stdout().as_fd().try_clone_to_owned().and_then(|out| File::from(out).metadata());
    let null = std::fs::metadata("/dev/null");
    matches!((out, null), (Ok(out), Ok(null)) if out.file_type().is_char_device() && out.rdev() == null.rdev())
}

/// Talk that nobody hears is no failure: what it is about is said by the exit code.
pub(crate) fn print(to: &mut dyn Write, text: &str) {
    let _closed = to.write_all(text.as_bytes()).and_then(|()| to.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_a_yes() {
        assert!(["y\n", "Yes\n", " y "].into_iter().all(is_yes));
        assert!(!["", "\n", "n", "yep", "ja", "yes please"].into_iter().any(is_yes));
    }
}
