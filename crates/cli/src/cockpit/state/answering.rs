//! Yes and no.

use super::{Act, Cockpit, Lies, Moment, Subject};
use crate::cockpit::ARM;
use crate::show::approvals;

impl Cockpit {
    /// The answer to a question that is on the screen.
    pub(super) fn answer(&mut self, id: &str, yes: bool, now: Moment) -> Option<Act> {
        let question = self.seen.question(id)?.clone();
        if self.answered.contains(id) {
            return None;
        }
        let subject = Subject::of(&question);
        // A no is also to one that was not read to its end.
        let may = self.has_stood(&subject, now).and_then(|()| if yes { self.is_read(&subject) } else { Ok(()) });
        if let Err(why) = may {
            if self.over.is_none() {
                self.open(Lies::Question(id.to_owned()));
            }
            self.say(why);
            return None;
        }
        Some(Act::Decide { approval: id.to_owned(), yes, about: approvals::question(&question) })
    }

    /// A yes is to what stood on the screen, all of it, for long enough to be read before the key was pressed.
    pub(super) fn may_say_yes(&self, subject: &Subject, now: Moment) -> Result<(), String> {
        self.has_stood(subject, now).and_then(|()| self.is_read(subject))
    }

    fn has_stood(&self, subject: &Subject, now: Moment) -> Result<(), String> {
        let looked = self.looked.as_ref().filter(|looked| looked.subject == *subject);
        let stood = looked.is_some_and(|looked| now.since >= looked.since + ARM);
        stood.then_some(()).ok_or_else(|| "it came on the screen only now: look, then answer again".to_owned())
    }

    fn is_read(&self, subject: &Subject) -> Result<(), String> {
        let looked = self.looked.as_ref().filter(|looked| looked.subject == *subject);
        match looked.map_or(1, |looked| looked.lines.saturating_sub(looked.read)) {
            0 => Ok(()),
            more => Err(format!("{more} more lines: read to the end (space), then answer")),
        }
    }
}
