//! The keyboard changes hands: in the record first, then in fact. Source: SPEC D-11.
//!
//! Whoever may type is decided at the desk of the terminal; here is what the record of this device says of it. A loss is
//! recorded as it happens: it takes power from somebody, and waits for nothing.

use std::sync::Arc;

use cede_core::lease::{Asked, ViewerId};
use cede_wire::audit::{AuditEvent, KeyboardChange};
use cede_wire::control::{Answer, Failure, exit};
use tokio::sync::oneshot;

use super::{Hosted, local};
use crate::actor::Actor;
use crate::context::Context;
use crate::control::Replies;
use crate::offering::{failure, stopping};

/// What became of a wish to type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wished {
    /// The desk decided.
    Asked(Asked),
    /// It could not be recorded, so a peer does not type.
    Unrecorded,
}

impl Actor {
    /// Somebody wants to type: `reply` runs once that is recorded and decided.
    pub(crate) fn wants_keyboard(
        &mut self,
        hosted: Arc<Hosted>,
        (viewer, insist, from_afar): (ViewerId, bool, bool),
        reply: impl FnOnce(&mut Self, Wished) + Send + 'static,
    ) {
        let now = self.context.clock.now();
        let would = hosted.would(viewer, insist, now);
        would.iter().for_each(|entry| self.audit.note(entry.clone()));
        self.once_durable(move |actor| {
            // The person at the machine types whatever becomes of the record: it is theirs, and so is the terminal.
            if from_afar && actor.audit.is_broken() {
                would.iter().for_each(|entry| actor.never_drove(&hosted, entry));
                return reply(actor, Wished::Unrecorded);
            }
            let (asked, lost) = hosted.ask(viewer, insist, now);
            lost.into_iter().for_each(|entry| actor.audit.note(entry));
            // Another one got it since that was noted.
            if !matches!(asked, Asked::Granted { .. }) {
                would.iter().for_each(|entry| actor.never_drove(&hosted, entry));
            }
            reply(actor, Wished::Asked(asked));
        });
    }

    /// Nobody drives: what was noted of it is taken back, or ended where it got into the record.
    fn never_drove(&mut self, hosted: &Hosted, noted: &AuditEvent) {
        if !self.audit.take_back(noted)
            && let AuditEvent::Keyboard { who, .. } = noted
        {
            self.audit.note(hosted.entry(*who, KeyboardChange::Withdrawn, 0));
        }
    }

    /// `cede hold` and `cede release`.
    pub(crate) fn keep_keyboard(&self, session: String, holds: bool, replies: Replies) {
        let context = self.context.clone();
        tokio::spawn(async move {
            let done = if holds { hold(&context, &session).await } else { release(&context, &session).await };
            replies.settle(done);
        });
    }

    /// Somebody types no more.
    pub(crate) fn keyboard_ends(&mut self, hosted: &Hosted, viewer: ViewerId, why: KeyboardChange) {
        if let Some(entry) = hosted.let_go(viewer, why) {
            self.audit.note(entry);
        }
    }

    /// Somebody looks on no more.
    pub(crate) fn gets_up(&mut self, hosted: &Hosted, viewer: ViewerId) {
        if let Some(entry) = hosted.get_up(viewer) {
            self.audit.note(entry);
        }
    }
}

/// The person at this machine wants to type.
pub(super) async fn wished_here(
    context: &Context,
    hosted: &Arc<Hosted>,
    viewer: ViewerId,
    insist: bool,
) -> Option<Asked> {
    let (answer, answered) = oneshot::channel();
    let hosted = hosted.clone();
    let wish = move |actor: &mut Actor| {
        actor.wants_keyboard(hosted, (viewer, insist, false), move |_, wished| {
            // The viewer may be gone; the lease ends by its silence.
            let _ = answer.send(wished);
        });
    };
    context.tell(wish).await;
    match answered.await {
        Ok(Wished::Asked(asked)) => Some(asked),
        Ok(Wished::Unrecorded) | Err(_) => None,
    }
}

async fn hold(context: &Context, text: &str) -> Result<Answer, Failure> {
    let hosted = local::meant(context, text)?;
    let (short, title) = (hosted.session.short(), hosted.title.clone());
    let (done, is_done) = oneshot::channel();
    let hold = move |actor: &mut Actor| {
        actor.audit.note(hosted.entry(None, KeyboardChange::Held, 0));
        actor.once_durable(move |actor| {
            let lost = hosted.hold(actor.context.clock.now());
            lost.into_iter().for_each(|entry| actor.audit.note(entry));
            let _ = done.send(());
        });
    };
    context.ask(hold).await.map_err(stopping)?;
    is_done.await.map_err(|_| failure(exit::FAILED, "it is not known whether it is held", "the daemon stops", ""))?;
    let minutes = cede_core::limits::HOLD_LONGEST.as_secs() / 60;
    let text = format!("only this machine types into {title} now, {minutes} minutes at most: cede release {short}");
    Ok(Answer::Said { text })
}

async fn release(context: &Context, text: &str) -> Result<Answer, Failure> {
    let hosted = local::meant(context, text)?;
    let title = hosted.title.clone();
    let release = move |actor: &mut Actor| {
        let released = hosted.release(actor.context.clock.now());
        if released {
            actor.audit.note(hosted.entry(None, KeyboardChange::Released, 0));
        }
        released
    };
    let released = context.ask(release).await.map_err(stopping)?;
    let text = if released { "may be driven by others again" } else { "was not held" };
    Ok(Answer::Said { text: format!("{title} {text}") })
}
