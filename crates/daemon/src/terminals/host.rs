//! A person on another device looks on at a terminal of this one. Source: SPEC D-8, D-10.
//!
//! Each viewing belongs to the link that it was asked for on: what that link may do was decided by a person, and ends with
//! it. Only what comes on this link is heard, and only on it anything is said.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use cede_agent::terminal::End;
use cede_core::authority::{CapabilityDecision, Permission};
use cede_core::lease::{Asked, ViewerId};
use cede_wire::audit::KeyboardChange;
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
use super::keyboard::Wished;
use crate::actor::Actor;
use crate::authorities::Asker;
use crate::context::Context;
use crate::errands::Pace;
use crate::limits;

/// The viewings of peers here, by link and number, and the pace of the wishes of each link.
#[derive(Default)]
pub(crate) struct Viewings {
    all: BTreeMap<(u64, u64), Viewing>,
    paces: BTreeMap<u64, Pace>,
}

/// One of them.
struct Viewing {
    /// What it lives by.
    by: Capability,
    /// None: the operator has not answered.
    seat: Option<Arc<Taken>>,
}

impl Viewings {
    fn seat(&self, asker: Asker, viewing: u64) -> Option<Arc<Taken>> {
        self.all.get(&(asker.link, viewing))?.seat.clone()
    }

    fn of_link(&self, link: u64) -> Vec<u64> {
        self.all.keys().filter(|(of, _)| *of == link).map(|(_, viewing)| *viewing).collect()
    }

    /// Whether one more wish of this link is heard now.
    fn hears(&mut self, link: u64) -> bool {
        let now = Instant::now();
        self.paces.entry(link).or_insert_with(|| Pace::of_wishes(now)).next(now).is_zero()
    }
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
        self.room.notify_one();
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
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
        let Some(seat) = self.viewings.seat(asker, viewing) else {
            if body == TerminalBody::Leave {
                self.end_viewing(asker, viewing);
            }
            return;
        };
        let now = self.context.clock.now();
        match body {
            TerminalBody::Taken(bytes) => {
                seat.taken.fetch_max(bytes, Ordering::SeqCst);
                seat.room.notify_one();
            }
            TerminalBody::Typed(bytes) if bytes.len() > TERMINAL_OUTPUT_BYTES => {
                self.end_viewing(asker, viewing);
                self.say_no(asker, viewing, Refusal::Protocol, "more was typed at once than a message holds");
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
            TerminalBody::Keyboard => self.asks_for_keyboard(asker, viewing, &seat),
            TerminalBody::LetGo => self.keyboard_ends(&seat.hosted, seat.viewer, KeyboardChange::LetGo),
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
        if self.viewings.all.contains_key(&(asker.link, viewing)) {
            return;
        }
        if self.viewings.of_link(asker.link).len() >= limits::VIEWINGS_PER_LINK || !self.viewings.hears(asker.link) {
            return self.say_no(asker, viewing, Refusal::Busy, "this device looks on too often already");
        }
        let capability = if wish == Wish::Watch { Capability::Observe } else { Capability::Drive };
        self.viewings.all.insert((asker.link, viewing), Viewing { by: capability, seat: None });
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
        self.viewings.all.remove(&(opening.asker.link, opening.viewing));
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
        let Some(by) = self.viewings.all.get(&key).map(|viewing| viewing.by) else {
            // It left while the operator thought.
            return;
        };
        let who = Who::away(&self.device_name(asker.device), asker.device);
        let hosted = self.context.terminals.get(session);
        let Some((hosted, viewer)) = hosted.and_then(|hosted| Some((hosted.clone(), hosted.sit_down(who)?))) else {
            self.viewings.all.remove(&key);
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
        self.viewings.all.insert(key, Viewing { by, seat: Some(seat.clone()) });
        if wish == Wish::Watch {
            return self.show_viewer(opening, seat);
        }
        let (hosted, wish) = (seat.hosted.clone(), (seat.viewer, false, true));
        self.wants_keyboard(hosted, wish, move |actor, wished| actor.begin_driving(opening, seat, wished));
    }

    /// One that wanted the keyboard or nothing gets nothing where another one has it.
    fn begin_driving(&mut self, opening: Opening, seat: Arc<Taken>, wished: Wished) {
        let refused = match wished {
            Wished::Asked(Asked::Granted { .. }) => {
                if let Some((rows, columns)) = opening.size {
                    seat.hosted.resize(seat.viewer, TerminalSize { rows, columns }, self.context.clock.now());
                }
                None
            }
            Wished::Asked(Asked::Driven(_) | Asked::Held) if opening.wish == Wish::DriveIfFree => None,
            Wished::Asked(Asked::Driven(_) | Asked::Held) => {
                Some((Refusal::Busy, "another viewer has the keyboard, or the person there holds it"))
            }
            Wished::Unrecorded => Some((Refusal::Declined, UNRECORDED)),
        };
        match refused {
            None => self.show_viewer(opening, seat),
            Some((refusal, why)) => {
                self.end_viewing(opening.asker, opening.viewing);
                self.say_no(opening.asker, opening.viewing, refusal, why);
            }
        }
    }

    fn show_viewer(&mut self, opening: Opening, seat: Arc<Taken>) {
        self.say(opening.asker, opening.viewing, TerminalBody::Opened);
        tokio::spawn(show(self.context.clone(), opening, seat));
    }

    /// One that was let in to look on wants to type: that is another question.
    fn asks_for_keyboard(&mut self, asker: Asker, viewing: u64, seat: &Arc<Taken>) {
        if !self.viewings.hears(asker.link) {
            return self.say(
                asker,
                viewing,
                TerminalBody::Note("you want to type too often; wait a little".to_owned()),
            );
        }
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
            if seat.is_over() {
                return;
            }
            if !allowed {
                let note = "the device of the terminal does not let this one drive";
                return actor.say(asker, viewing, TerminalBody::Note(note.to_owned()));
            }
            let (hosted, wish) = (seat.hosted.clone(), (seat.viewer, false, true));
            actor.wants_keyboard(hosted, wish, move |actor, wished| actor.say_wished(asker, viewing, wished));
        });
    }

    fn say_wished(&mut self, asker: Asker, viewing: u64, wished: Wished) {
        let note = match wished {
            Wished::Asked(Asked::Granted { .. }) => return,
            Wished::Asked(Asked::Driven(_)) => "another viewer has the keyboard",
            Wished::Asked(Asked::Held) => "the person there holds the keyboard",
            Wished::Unrecorded => UNRECORDED,
        };
        self.say(asker, viewing, TerminalBody::Note(note.to_owned()));
    }

    fn end_viewing(&mut self, asker: Asker, viewing: u64) {
        if let Some(seat) = self.viewings.all.remove(&(asker.link, viewing)).and_then(|one| one.seat) {
            seat.end();
            self.gets_up(&seat.hosted, seat.viewer);
        }
    }

    /// Nothing on this link is served any more: nobody looks on by it.
    pub(crate) fn viewings_end(&mut self, asker: Asker) {
        for viewing in self.viewings.of_link(asker.link) {
            self.end_viewing(asker, viewing);
        }
        self.viewings.paces.remove(&asker.link);
    }

    /// What the peer of a link may do is less now, perhaps.
    pub(crate) fn viewings_recheck(&mut self, asker: Asker) {
        for viewing in self.viewings.of_link(asker.link) {
            self.recheck(asker, viewing);
        }
    }

    /// Ends a viewing whose right has ended, and the driving of one that may still look on.
    fn recheck(&mut self, asker: Asker, viewing: u64) {
        let Some(one) = self.viewings.all.get(&(asker.link, viewing)) else { return };
        let (by, Some(seat)) = (one.by, one.seat.clone()) else { return };
        if !self.still_may(asker, by) {
            self.end_viewing(asker, viewing);
            self.say_no(asker, viewing, Refusal::Declined, "the right to look on has ended");
        } else if seat.hosted.drives(seat.viewer, self.context.clock.now()) && !self.still_may(asker, Capability::Drive)
        {
            self.keyboard_ends(&seat.hosted, seat.viewer, KeyboardChange::Withdrawn);
            self.say(asker, viewing, TerminalBody::Note("the right to type has ended".to_owned()));
        }
    }

    fn still_may(&mut self, asker: Asker, capability: Capability) -> bool {
        matches!(self.permission(asker, capability), Permission::Allowed(_))
    }

    fn say(&mut self, asker: Asker, viewing: u64, body: TerminalBody) {
        self.send_on(asker, PeerMessage::Terminal(TerminalMessage { viewing, body }));
    }

    fn say_no(&mut self, asker: Asker, viewing: u64, refusal: Refusal, detail: &str) {
        self.say(asker, viewing, TerminalBody::Refused { refusal, detail: detail.to_owned() });
    }
}

const UNRECORDED: &str = "the device of the terminal cannot record who types at the moment, so no peer does";

/// Shows what comes, never more than a window ahead of the viewer.
async fn show(context: Context, opening: Opening, seat: Arc<Taken>) {
    let Opening { asker, viewing, .. } = opening;
    let hosted = &seat.hosted;
    let mut screen = hosted.terminal.view(opening.from);
    let mut changed = hosted.news.changed.subscribe();
    let (mut told, mut sent): (Option<TerminalState>, u64) = (None, 0);
    let mut looked = Instant::now();
    while !seat.is_over() {
        if looked.elapsed() >= limits::RIGHT_LOOK {
            looked = Instant::now();
            let _stopping = context.ask(move |actor| actor.recheck(asker, viewing)).await;
        }
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
