//! Buttons of a call: what each stands for, the tokens that they send back, and what a token that came decides. Source: SPEC L-16.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cede_core::authority::Afar;
use cede_seal::device::LocalDevice;
use cede_wire::approver::{Button, Posed};
use cede_wire::audit::{AuditEvent, AuditOf, Press};
use cede_wire::control::notify::{Notice, Sink};
use cede_wire::id::{ApprovalId, DeviceId, Hash, ShowingId};
use cede_wire::refusal::Refusal;
use serde::Serialize;

use super::{address, question};
use crate::actor::Actor;
use crate::clock::{random, unix_ms};
use crate::context::Context;

/// A question that a call with buttons shows.
pub(super) struct Asking {
    question: ApprovalId,
    who: DeviceId,
    of: AuditOf,
    shown: Hash,
    /// All of it, or why a call cannot show it.
    text: Result<String, &'static str>,
    ends: Instant,
}

/// The buttons of one call. They hold secrets, so nothing prints them.
pub(super) struct Buttons {
    asking: Arc<Asking>,
    /// Where they send what they stand for.
    topic: String,
    allow: Option<Button>,
    deny: Button,
}

/// What ntfy's app does when a button is pressed.
#[derive(Serialize)]
struct Action<'a> {
    action: &'a str,
    label: &'a str,
    method: &'a str,
    url: &'a str,
    body: String,
    clear: bool,
}

impl Buttons {
    /// The buttons of a call by this way; none where it has none.
    pub(super) fn of(context: &Context, sink: &Sink, asking: Option<&Arc<Asking>>) -> Option<Self> {
        let Sink::Ntfy { url, buttons: true } = sink else { return None };
        let asking = asking?.clone();
        let topic = format!("{}/cede{}", address::server(url)?, ShowingId::new(random().ok()?));
        let left = asking.ends.saturating_duration_since(Instant::now());
        let deny = Button {
            at: context.local.device(),
            question: asking.question,
            shown: asking.shown,
            showing: ShowingId::new(random().ok()?),
            expires_unix_ms: unix_ms().saturating_add(u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            yes: false,
        };
        let allow = asking.text.is_ok().then(|| Button { yes: true, ..deny.clone() });
        Some(Self { asking, topic, allow, deny })
    }

    pub(super) fn question(&self) -> ApprovalId {
        self.asking.question
    }

    /// The address of the topic to which they send.
    pub(super) fn topic(&self) -> &str {
        &self.topic
    }

    /// What the call says.
    pub(super) fn text(&self, notice: &Notice) -> String {
        let Notice { device, look, allow, deny, text: wish, .. } = notice;
        let wish = cede_wire::shown::plain(wish);
        match &self.asking.text {
            Ok(whole) => format!("{wish}\n{whole}\nOn {device}: {look}; then {allow} or {deny}"),
            Err(why) => {
                format!("{wish}\nThere is no button for a yes: {why}.\nOn {device}: {look}; then {allow} or {deny}")
            }
        }
    }

    /// The buttons as ntfy's header has them.
    pub(super) fn header(&self, local: &LocalDevice) -> Result<String, String> {
        let action = |button: &Button| Action {
            action: "http",
            label: if button.yes { "Allow" } else { "Deny" },
            method: "POST",
            url: &self.topic,
            body: local.token(button),
            clear: true,
        };
        let actions: Vec<Action<'_>> = self.allow.iter().chain([&self.deny]).map(action).collect();
        serde_json::to_string(&actions).map_err(|error| error.to_string())
    }

    /// Which answer a text stands for.
    fn which(&self, local: &LocalDevice, said: &str) -> Option<bool> {
        let pressed = self.allow.iter().chain([&self.deny]).find(|button| local.is_token(button, said));
        pressed.map(|button| button.yes)
    }
}

impl Actor {
    /// What a call with buttons would show of a question of this device.
    pub(super) fn asking(&self, id: ApprovalId) -> Option<Arc<Asking>> {
        let left = Duration::from_millis(self.left_ms(self.approvals.get(&id)?));
        let posed = self.posed(id)?;
        let (who, of, shown) = (posed.who, posed.of, posed.hash());
        let text = question::whole(&self.seen(posed, id, 0));
        Some(Arc::new(Asking { question: id, who, of, shown, text, ends: Instant::now() + left }))
    }

    /// Something came to the topic of a call's buttons. What decides is always recorded; of what does not, as much as `note` says.
    pub(super) fn pressed(&mut self, buttons: &Buttons, said: &str, note: bool) -> Press {
        let Asking { question, who, of, shown, .. } = *buttons.asking;
        let press = self.judge(buttons, said);
        let verdict = match press {
            Press::Yes => Ok(()),
            Press::No => Err(Refusal::Declined),
            Press::Late | Press::Swapped | Press::Unknown => {
                tracing::info!(id = %question, ?press, "what came to the topic of a call's buttons decides nothing");
                if note {
                    self.audit.note(AuditEvent::Pressed { who, of, shown, press });
                }
                return press;
            }
        };
        self.audit.note(AuditEvent::Pressed { who, of, shown, press });
        self.once_durable(move |actor| {
            // What cannot be recorded decides nothing.
            if !actor.audit.is_broken() {
                actor.settle_by(question, verdict, Some(Afar::Button), Box::new(|_, _| {}));
            }
        });
        press
    }

    fn judge(&self, buttons: &Buttons, said: &str) -> Press {
        let Some(yes) = buttons.which(&self.context.local, said) else { return Press::Unknown };
        let asking = &buttons.asking;
        let stands = self.posed(asking.question).filter(|_| Instant::now() < asking.ends);
        match stands.as_ref().map(Posed::hash) {
            None => Press::Late,
            // A no is no less a no where more became known of the question since.
            Some(_) if !yes => Press::No,
            Some(shown) if shown == asking.shown => Press::Yes,
            Some(_) => Press::Swapped,
        }
    }
}
