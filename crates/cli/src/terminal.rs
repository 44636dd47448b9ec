//! Where text goes: data to the standard output, talk to the standard error, JSON instead of both where it is asked for.

use std::io::{BufRead, IsTerminal, Read, Write};
use std::os::fd::AsFd;

use cede_wire::control::{Failure, Reply, ReplyBody};

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
        }
    }

    /// A result, for the standard output.
    pub(crate) fn data(&self, page: &Page) {
        if !self.json {
            let out = std::io::stdout();
            print(&mut out.lock(), &self.text(page, &out));
        }
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
        if self.json {
            self.reply(&ReplyBody::Failed(failure.clone()));
        } else {
            self.insist(&fault::page(failure));
        }
    }

    /// One line of the answer, where JSON is asked for.
    pub(crate) fn reply(&self, body: &ReplyBody) {
        if self.json
            && let Ok(line) = serde_json::to_string(&Reply::new(body.clone()))
        {
            print(&mut std::io::stdout().lock(), &format!("{}\n", crate::page::safe_json(&line)));
        }
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

/// A closed pipe is the reader's choice: `cede ls | head` is no failure.
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
