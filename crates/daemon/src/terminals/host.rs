//! A person on another device looks on at a terminal of this one. Source: SPEC D-8, D-10.
//!
//! Each viewing belongs to the link that it was asked for on: what that link may do was decided by a person, and ends with
//! it. Only what comes on this link is heard, and only on it anything is said.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cede_agent::terminal::End;
use cede_core::authority::{CapabilityDecision, Permission};
use cede_core::lease::{Asked, ViewerId};
use cede_wire::control::terminal::{TerminalSize, TerminalState};
use cede_wire::id::SessionId;
use cede_wire::limits::{TERMINAL_OUTPUT_BYTES, TERMINAL_WINDOW_BYTES};
use cede_wire::member::Capability;
use cede_wire::message::PeerMessage;
use cede_wire::refusal::Refusal;
use cede_wire::terminal::{TerminalBody, TerminalMessage, Wish};
use tokio::sync::Notify;

use super::Hosted;
use super::desk::{TypeError, Who};
use crate::actor::Actor;
use crate::authorities::Asker;
use crate::context::Context;
use crate::limits;

/// The viewings of peers here.
#[derive(Default)]
pub(crate) struct Viewings(BTreeMap<(u64, u64), Viewing>);

/// One of them.
struct Viewing {
    /// None: the operator has not answered.
    seat: Option<Arc<Taken>>,
}

/// Somebody on another device who looks on.
struct Taken {
    hosted: Arc<Hosted>,
    viewer: ViewerId,
    /// Bytes of output that the viewer has taken.
    taken: AtomicU64,
    room: Notify,
    over: AtomicBool,
}

impl Taken {
    fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.hosted.get_up(self.viewer);
        self.room.notify_one();
    }
}

/// What a viewer asked for.
#[derive(Clone, Copy)]
struct Opening {
    asker: Asker,
    viewing: u64,
    session: SessionId,
    wish: Wish,
    from: Option<u64>,
    size: Option<(u16, u16)>,
}

impl Actor {
    /// A peer says something about a viewing of a terminal here.
    pub(crate) fn hear_viewer(&mut self, asker: Asker, viewing: u64, body: TerminalBody) {
        if let TerminalBody::Open { session, wish, from, size } = body {
            return self.open_viewing(Opening { asker, viewing, session, wish, from, size });
        }
        let Some(seat) = self.viewings.0.get(&(asker.link, viewing)).and_then(|one| one.seat.clone()) else { return };
        let now = self.context.clock.now();
        match body {
            TerminalBody::Taken(bytes) => {
                seat.taken.fetch_max(bytes, Ordering::SeqCst);
                seat.room.notify_one();
            }
            TerminalBody::Typed(bytes) => {
                let typed = seat.hosted.type_in(seat.viewer, &bytes, now);
                if let Err(error @ TypeError::NotTaken(_)) = typed {
                    self.say(asker, viewing, TerminalBody::Note(error.to_string()));
                }
            }
            TerminalBody::Resized(rows, columns) => {
                seat.hosted.resize(seat.viewer, TerminalSize { rows, columns }, now)
            }
            TerminalBody::Beat => seat.hosted.beat(seat.viewer, now),
            TerminalBody::Keyboard => self.wants_keyboard(asker, viewing, &seat),
            TerminalBody::LetGo => seat.hosted.let_go(seat.viewer),
            TerminalBody::Leave => self.end_viewing(asker, viewing),
            // A host's words; whoever looks on has nothing of the kind to say.
            TerminalBody::Open { .. }
            | TerminalBody::Asking
            | TerminalBody::Opened
            | TerminalBody::Output { .. }
            | TerminalBody::State { .. }
            | TerminalBody::Note(_)
            | TerminalBody::Ended { .. }
            | TerminalBody::Refused { .. } => {}
        }
    }

    fn open_viewing(&mut self, opening: Opening) {
        let Opening { asker, viewing, wish, .. } = opening;
        let of_link = self.viewings.0.keys().filter(|(link, _)| *link == asker.link).count();
        if self.viewings.0.contains_key(&(asker.link, viewing)) {
            return;
        }
        if of_link >= limits::VIEWINGS_PER_LINK {
            return self.say_no(asker, viewing, Refusal::Busy, "this device looks on too often already");
        }
        let capability = if wish == Wish::Watch { Capability::Observe } else { Capability::Drive };
        self.viewings.0.insert((asker.link, viewing), Viewing { seat: None });
        if self.permission(asker, capability) == Permission::Asks {
            self.say(asker, viewing, TerminalBody::Asking);
        }
        let nothing = cede_wire::authority::Subject::default();
        self.ask_authority(asker, capability, nothing.clone(), move |actor, decision| match decision {
            CapabilityDecision::Allowed(permit) => match permit.redeem(&nothing) {
                Ok(()) => actor.begin_viewing(opening),
                Err(_) => actor.refuse_viewing(opening, Refusal::Declined),
            },
            CapabilityDecision::Refused { why, .. } => actor.refuse_viewing(opening, why.refusal()),
        });
    }

    fn refuse_viewing(&mut self, opening: Opening, refusal: Refusal) {
        self.viewings.0.remove(&(opening.asker.link, opening.viewing));
        self.say_no(
            opening.asker,
            opening.viewing,
            refusal,
            "the device of the terminal does not let this one look on",
        );
    }

    /// A person said yes. Which terminals there are is told to nobody before.
    fn begin_viewing(&mut self, opening: Opening) {
        let Opening { asker, viewing, session, wish, .. } = opening;
        let key = (asker.link, viewing);
        if !self.viewings.0.contains_key(&key) {
            // It left while the operator thought.
            return;
        }
        let who = Who::away(&self.device_name(asker.device), &asker.device.short());
        let hosted = self.context.terminals.get(session);
        let Some((hosted, viewer)) = hosted.and_then(|hosted| Some((hosted.clone(), hosted.sit_down(who)?))) else {
            self.viewings.0.remove(&key);
            return self.say_no(
                asker,
                viewing,
                Refusal::NotOwner,
                "no such terminal is hosted here, or too many look on",
            );
        };
        let seat = Arc::new(Taken {
            hosted,
            viewer,
            taken: AtomicU64::new(0),
            room: Notify::new(),
            over: AtomicBool::new(false),
        });
        self.viewings.0.insert(key, Viewing { seat: Some(seat.clone()) });
        if wish != Wish::Watch && !self.give_keyboard(opening, &seat) {
            return;
        }
        self.say(asker, viewing, TerminalBody::Opened);
        tokio::spawn(show(self.context.clone(), opening, seat));
    }

    /// False: it wanted the keyboard or nothing, and another one has it.
    fn give_keyboard(&mut self, opening: Opening, seat: &Taken) -> bool {
        let now = self.context.clock.now();
        match seat.hosted.ask(seat.viewer, false, now) {
            Asked::Granted { .. } => {
                if let Some((rows, columns)) = opening.size {
                    seat.hosted.resize(seat.viewer, TerminalSize { rows, columns }, now);
                }
                true
            }
            Asked::Driven(_) | Asked::Held if opening.wish == Wish::DriveIfFree => true,
            Asked::Driven(_) | Asked::Held => {
                self.end_viewing(opening.asker, opening.viewing);
                let why = "another viewer has the keyboard, or the person there holds it";
                self.say_no(opening.asker, opening.viewing, Refusal::Busy, why);
                false
            }
        }
    }

    /// One that was let in to look on wants to type: that is another question.
    fn wants_keyboard(&mut self, asker: Asker, viewing: u64, seat: &Arc<Taken>) {
        let seat = seat.clone();
        if self.permission(asker, Capability::Drive) == Permission::Asks {
            self.say(asker, viewing, TerminalBody::Asking);
        }
        let nothing = cede_wire::authority::Subject::default();
        self.ask_authority(asker, Capability::Drive, nothing.clone(), move |actor, decision| {
            let allowed = match decision {
                CapabilityDecision::Allowed(permit) => permit.redeem(&nothing).is_ok(),
                CapabilityDecision::Refused { .. } => false,
            };
            let gone = seat.over.load(Ordering::SeqCst);
            let note = match allowed && !gone {
                false => Some("the device of the terminal does not let this one drive"),
                true => match seat.hosted.ask(seat.viewer, false, actor.context.clock.now()) {
                    Asked::Granted { .. } => None,
                    Asked::Driven(_) => Some("another viewer has the keyboard"),
                    Asked::Held => Some("the person there holds the keyboard"),
                },
            };
            if let Some(note) = note {
                actor.say(asker, viewing, TerminalBody::Note(note.to_owned()));
            }
        });
    }

    fn end_viewing(&mut self, asker: Asker, viewing: u64) {
        if let Some(seat) = self.viewings.0.remove(&(asker.link, viewing)).and_then(|one| one.seat) {
            seat.end();
        }
    }

    /// Nothing on this link is served any more: nobody looks on by it.
    pub(crate) fn viewings_end(&mut self, asker: Asker) {
        let of_link: Vec<u64> =
            self.viewings.0.keys().filter(|(link, _)| *link == asker.link).map(|(_, viewing)| *viewing).collect();
        of_link.into_iter().for_each(|viewing| self.end_viewing(asker, viewing));
    }

    fn say(&mut self, asker: Asker, viewing: u64, body: TerminalBody) {
        self.send_on(asker, PeerMessage::Terminal(TerminalMessage { viewing, body }));
    }

    fn say_no(&mut self, asker: Asker, viewing: u64, refusal: Refusal, detail: &str) {
        self.say(asker, viewing, TerminalBody::Refused { refusal, detail: detail.to_owned() });
    }
}

/// Shows what comes, never more than a window ahead of the viewer.
async fn show(context: Context, opening: Opening, seat: Arc<Taken>) {
    let Opening { asker, viewing, .. } = opening;
    let hosted = &seat.hosted;
    let mut screen = hosted.terminal.view(opening.from);
    let mut changed = hosted.news.changed.subscribe();
    let (mut told, mut sent): (Option<TerminalState>, u64) = (None, 0);
    while !seat.over.load(Ordering::SeqCst) {
        let state = hosted.state(seat.viewer, context.clock.now());
        if told.as_ref() != Some(&state) {
            say(&context, asker, viewing, state_of(&state)).await;
            told = Some(state);
        }
        let end = hosted.terminal.end();
        if sent.saturating_sub(seat.taken.load(Ordering::SeqCst)) >= TERMINAL_WINDOW_BYTES {
            let _ = tokio::time::timeout(limits::VIEWER_LOOK, seat.room.notified()).await;
            continue;
        }
        match (screen.next(TERMINAL_OUTPUT_BYTES), end) {
            (Some(frame), _) => {
                sent += frame.bytes.len() as u64;
                let output = TerminalBody::Output { fresh: frame.fresh, bytes: frame.bytes, next: frame.next };
                say(&context, asker, viewing, output).await;
            }
            (None, Some(end)) => {
                let (code, signal) = match end {
                    End::Code(code) => (Some(code), None),
                    End::Signal(signal) => (None, Some(signal)),
                    End::Unknown => (None, None),
                };
                say(&context, asker, viewing, TerminalBody::Ended { code, signal }).await;
                context.tell(move |actor| actor.end_viewing(asker, viewing)).await;
                return;
            }
            (None, None) => {
                let _ = tokio::time::timeout(limits::VIEWER_LOOK, changed.changed()).await;
            }
        }
    }
}

fn state_of(state: &TerminalState) -> TerminalBody {
    TerminalBody::State {
        yours: state.yours,
        driver: state.driver.clone(),
        held: state.held,
        viewers: state.viewers,
        size: (state.size.rows, state.size.columns),
    }
}

async fn say(context: &Context, asker: Asker, viewing: u64, body: TerminalBody) {
    // The answer is waited for, so that no more is on its way than the link takes.
    let _stopping = context.ask(move |actor| actor.say(asker, viewing, body)).await;
}
