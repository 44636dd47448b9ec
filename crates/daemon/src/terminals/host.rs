//! A person on another device looks on at a terminal or a conversation of this one. Source: SPEC D-8, D-10, D-12.
//!
//! Each viewing belongs to the link that it was asked for on: what that link may do was decided by a person, and ends with
//! it. Only what comes on this link is heard, and only on it anything is said.

use std::sync::Arc;
use std::time::Instant;

use cede_agent::terminal::End;
use cede_core::authority::{CapabilityDecision, Permission};
use cede_core::lease::Asked;
use cede_wire::audit::KeyboardChange;
use cede_wire::control::terminal::{TerminalSize, TerminalState};
use cede_wire::limits::TERMINAL_OUTPUT_BYTES;
use cede_wire::member::Capability;
use cede_wire::message::PeerMessage;
use cede_wire::refusal::Refusal;
use cede_wire::terminal::{TerminalBody, TerminalMessage, Wish};

use super::desk::{TypeError, Who};
use super::keyboard::Wished;
use super::viewings::{Chair, Flow, Opening, Seat, Viewing, What};
use crate::actor::Actor;
use crate::authorities::Asker;
use crate::context::Context;
use crate::{conversations, limits};

impl Actor {
    /// A peer says something about a viewing here.
    pub(crate) fn hear_viewer(&mut self, asker: Asker, viewing: u64, body: TerminalBody) {
        let now = self.context.clock.now();
        if !body.fits() {
            self.end_viewing(asker, viewing);
            return self.say_no(asker, viewing, Refusal::Protocol, "more was said at once than a message holds");
        }
        match body {
            TerminalBody::Open { session, wish, from, size } => {
                let what = What::Terminal { wish, from, size };
                self.open_viewing(Opening { asker, viewing, session, what });
            }
            TerminalBody::Read { session, from } => {
                let what = What::Conversation { from };
                self.open_viewing(Opening { asker, viewing, session, what });
            }
            TerminalBody::Leave => self.end_viewing(asker, viewing),
            TerminalBody::Taken(bytes) => {
                if let Some(seat) = self.viewings.seat(asker, viewing) {
                    seat.flow.took(bytes);
                }
            }
            TerminalBody::Typed(bytes) => self.hear_typed(asker, viewing, &bytes),
            TerminalBody::Resized(rows, columns) => {
                if let Some(chair) = self.chair(asker, viewing) {
                    chair.hosted.resize(chair.viewer, TerminalSize { rows, columns }, now);
                }
            }
            TerminalBody::Beat => {
                if let Some(chair) = self.chair(asker, viewing) {
                    chair.hosted.beat(chair.viewer, now);
                }
            }
            TerminalBody::Keyboard => self.asks_for_keyboard(asker, viewing),
            TerminalBody::LetGo => {
                if let Some(chair) = self.chair(asker, viewing) {
                    self.keyboard_ends(&chair.hosted, chair.viewer, KeyboardChange::LetGo);
                }
            }
            // A host's words; whoever looks on has nothing of the kind to say.
            TerminalBody::Asking
            | TerminalBody::Opened
            | TerminalBody::Output { .. }
            | TerminalBody::State { .. }
            | TerminalBody::Note(_)
            | TerminalBody::Ended { .. }
            | TerminalBody::Refused { .. }
            | TerminalBody::Piece(_)
            | TerminalBody::Over { .. } => {}
        }
    }

    fn chair(&self, asker: Asker, viewing: u64) -> Option<Chair> {
        self.viewings.seat(asker, viewing)?.chair
    }

    fn hear_typed(&mut self, asker: Asker, viewing: u64, bytes: &[u8]) {
        let Some(chair) = self.chair(asker, viewing) else { return };
        let typed = chair.hosted.type_in(chair.viewer, bytes, self.context.clock.now());
        if let Err(error @ TypeError::NotTaken(_)) = typed {
            self.say(asker, viewing, TerminalBody::Note(error.to_string()));
        }
    }

    fn open_viewing(&mut self, opening: Opening) {
        let Opening { asker, viewing, what, .. } = opening;
        if self.viewings.all.contains_key(&(asker.link, viewing)) {
            return;
        }
        if self.viewings.of_link(asker.link).len() >= limits::VIEWINGS_PER_LINK || !self.viewings.hears(asker.link) {
            return self.say_no(asker, viewing, Refusal::Busy, "this device looks on too often already");
        }
        let by = what.needs();
        self.viewings.all.insert((asker.link, viewing), Viewing { by, seat: None });
        if self.permission(asker, by) == Permission::Asks {
            self.say(asker, viewing, TerminalBody::Asking);
        }
        let nothing = cede_wire::authority::Subject::default();
        self.ask_authority(asker, by, nothing.clone(), move |actor, decision, _| {
            match decision {
                CapabilityDecision::Allowed(permit) => match permit.redeem(&nothing) {
                    Ok(()) => actor.begin_viewing(opening),
                    Err(_) => actor.refuse_viewing(opening, Refusal::Declined, NOT_LET),
                },
                CapabilityDecision::Refused { why, .. } => actor.refuse_viewing(opening, why.refusal(), NOT_LET),
            }
            // The yes is for the connection, whoever left meanwhile.
            true
        });
    }

    /// It ends before anything was shown.
    pub(crate) fn refuse_viewing(&mut self, opening: Opening, refusal: Refusal, why: &str) {
        self.end_viewing(opening.asker, opening.viewing);
        self.say_no(opening.asker, opening.viewing, refusal, why);
    }

    /// A person said yes. Which terminals and conversations there are is told to nobody before.
    fn begin_viewing(&mut self, opening: Opening) {
        let Some(one) = self.viewings.all.get_mut(&(opening.asker.link, opening.viewing)) else {
            // It left while the operator thought.
            return;
        };
        let flow = Arc::new(Flow::default());
        match opening.what {
            What::Conversation { from } => {
                one.seat = Some(Seat { flow: flow.clone(), chair: None });
                tokio::spawn(conversations::tell(self.context.clone(), opening, flow, from));
            }
            What::Terminal { wish, .. } => self.sit_in_front(opening, flow, wish),
        }
    }

    fn sit_in_front(&mut self, opening: Opening, flow: Arc<Flow>, wish: Wish) {
        let Opening { asker, viewing, session, .. } = opening;
        let who = Who::away(&self.device_name(asker.device), asker.device);
        let hosted = self.context.terminals.get(session);
        let Some((hosted, viewer)) = hosted.and_then(|hosted| Some((hosted.clone(), hosted.sit_down(who)?))) else {
            let why = "no such terminal is hosted here, or too many look on";
            return self.refuse_viewing(opening, Refusal::NotOwner, why);
        };
        let chair = Chair { hosted, viewer };
        if let Some(one) = self.viewings.all.get_mut(&(asker.link, viewing)) {
            one.seat = Some(Seat { flow: flow.clone(), chair: Some(chair.clone()) });
        }
        if wish == Wish::Watch {
            return self.show_viewer(opening, flow, chair);
        }
        let (hosted, asks) = (chair.hosted.clone(), (chair.viewer, false, true));
        self.wants_keyboard(hosted, asks, move |actor, wished| {
            actor.begin_driving(opening, (flow, chair), wish, wished);
        });
    }

    /// One that wanted the keyboard or nothing gets nothing where another one has it.
    fn begin_driving(&mut self, opening: Opening, (flow, chair): (Arc<Flow>, Chair), wish: Wish, wished: Wished) {
        let refused = match wished {
            Wished::Asked(Asked::Granted { .. }) => {
                if let What::Terminal { size: Some((rows, columns)), .. } = opening.what {
                    chair.hosted.resize(chair.viewer, TerminalSize { rows, columns }, self.context.clock.now());
                }
                None
            }
            Wished::Asked(Asked::Driven(_) | Asked::Held) if wish == Wish::DriveIfFree => None,
            Wished::Asked(Asked::Driven(_) | Asked::Held) => {
                Some((Refusal::Busy, "another viewer has the keyboard, or the person there holds it"))
            }
            Wished::Unrecorded => Some((Refusal::Declined, UNRECORDED)),
        };
        match refused {
            None => self.show_viewer(opening, flow, chair),
            Some((refusal, why)) => self.refuse_viewing(opening, refusal, why),
        }
    }

    fn show_viewer(&mut self, opening: Opening, flow: Arc<Flow>, chair: Chair) {
        self.say(opening.asker, opening.viewing, TerminalBody::Opened);
        tokio::spawn(show(self.context.clone(), opening, flow, chair));
    }

    /// One that was let in to look on wants to type: that is another question.
    fn asks_for_keyboard(&mut self, asker: Asker, viewing: u64) {
        let Some(Seat { flow, chair: Some(chair) }) = self.viewings.seat(asker, viewing) else { return };
        if !self.viewings.hears(asker.link) {
            return self.say(
                asker,
                viewing,
                TerminalBody::Note("you want to type too often; wait a little".to_owned()),
            );
        }
        if self.permission(asker, Capability::Drive) == Permission::Asks {
            self.say(asker, viewing, TerminalBody::Asking);
        }
        let nothing = cede_wire::authority::Subject::default();
        self.ask_authority(asker, Capability::Drive, nothing.clone(), move |actor, decision, _| {
            let allowed = match decision {
                CapabilityDecision::Allowed(permit) => permit.redeem(&nothing).is_ok(),
                CapabilityDecision::Refused { .. } => false,
            };
            if flow.is_over() {
                return true;
            }
            if allowed {
                let wish = (chair.viewer, false, true);
                actor.wants_keyboard(chair.hosted, wish, move |actor, wished| actor.say_wished(asker, viewing, wished));
            } else {
                let note = "the device of the terminal does not let this one drive";
                actor.say(asker, viewing, TerminalBody::Note(note.to_owned()));
            }
            true
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

    pub(crate) fn end_viewing(&mut self, asker: Asker, viewing: u64) {
        let Some(seat) = self.viewings.all.remove(&(asker.link, viewing)).and_then(|one| one.seat) else { return };
        seat.flow.end();
        if let Some(chair) = seat.chair {
            self.gets_up(&chair.hosted, chair.viewer);
        }
    }

    /// Nothing on this link is served any more: nobody looks on by it.
    pub(crate) fn viewings_end(&mut self, asker: Asker) {
        for viewing in self.viewings.of_link(asker.link) {
            self.end_viewing(asker, viewing);
        }
        self.viewings.forget(asker.link);
    }

    /// What the peer of a link may do is less now, perhaps.
    pub(crate) fn viewings_recheck(&mut self, asker: Asker) {
        for viewing in self.viewings.of_link(asker.link) {
            self.recheck(asker, viewing);
        }
    }

    /// Ends a viewing whose right has ended, and the driving of one that may still look on.
    pub(crate) fn recheck(&mut self, asker: Asker, viewing: u64) {
        let Some(one) = self.viewings.all.get(&(asker.link, viewing)) else { return };
        let (by, Some(seat)) = (one.by, one.seat.clone()) else { return };
        if !self.still_may(asker, by) {
            self.end_viewing(asker, viewing);
            return self.say_no(asker, viewing, Refusal::Declined, "the right to look on has ended");
        }
        let drives = |chair: &Chair| chair.hosted.drives(chair.viewer, self.context.clock.now());
        if let Some(chair) = seat.chair.filter(drives)
            && !self.still_may(asker, Capability::Drive)
        {
            self.keyboard_ends(&chair.hosted, chair.viewer, KeyboardChange::Withdrawn);
            self.say(asker, viewing, TerminalBody::Note("the right to type has ended".to_owned()));
        }
    }

    fn still_may(&mut self, asker: Asker, capability: Capability) -> bool {
        matches!(self.permission(asker, capability), Permission::Allowed(_))
    }

    pub(crate) fn say(&mut self, asker: Asker, viewing: u64, body: TerminalBody) {
        self.send_on(asker, PeerMessage::Terminal(TerminalMessage { viewing, body }));
    }

    fn say_no(&mut self, asker: Asker, viewing: u64, refusal: Refusal, detail: &str) {
        self.say(asker, viewing, TerminalBody::Refused { refusal, detail: detail.to_owned() });
    }
}

const NOT_LET: &str = "the device of the session does not let this one look on";
const UNRECORDED: &str = "the device of the terminal cannot record who types at the moment, so no peer does";

/// Shows what comes, never more than a window ahead of the viewer.
async fn show(context: Context, opening: Opening, flow: Arc<Flow>, Chair { hosted, viewer }: Chair) {
    let Opening { asker, viewing, what, .. } = opening;
    let What::Terminal { from, .. } = what else { return };
    let mut screen = hosted.terminal.view(from);
    let mut changed = hosted.news.changed.subscribe();
    let (mut told, mut sent): (Option<TerminalState>, u64) = (None, 0);
    let mut looked = Instant::now();
    while !flow.is_over() {
        if looked.elapsed() >= limits::RIGHT_LOOK {
            looked = Instant::now();
            let _stopping = context.ask(move |actor| actor.recheck(asker, viewing)).await;
        }
        let state = hosted.state(viewer, context.clock.now());
        if told.as_ref() != Some(&state) {
            say(&context, asker, viewing, state_of(&state)).await;
            told = Some(state);
        }
        let end = hosted.terminal.end();
        if !flow.has_room(sent) {
            flow.wait().await;
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

pub(crate) async fn say(context: &Context, asker: Asker, viewing: u64, body: TerminalBody) {
    // The answer is waited for, so that no more is on its way than the link takes.
    let _stopping = context.ask(move |actor| actor.say(asker, viewing, body)).await;
}
