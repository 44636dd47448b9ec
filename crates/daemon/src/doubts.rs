//! S7: this device's records may not be the newest. What a person types to end that, and what is held still meanwhile.

use cede_core::custodian::Standing;
use cede_wire::audit::AuditAct;
use cede_wire::control::{Answer, Check, Failure, exit};
use cede_wire::id::SessionId;
use cede_wire::message::ListedSession;
use cede_wire::record::Doubt;
use cede_wire::session::SessionInfo;

use crate::actor::Actor;
use crate::control::Replies;
use crate::offering::{failure, stopping};

/// Why, for people.
pub(crate) fn in_words(why: Doubt) -> &'static str {
    match why {
        Doubt::Damaged => "its journal was damaged and set aside; what stood behind the damage is lost",
        Doubt::Copied => {
            "its state directory was copied or moved: it was last used at another place or on another machine, \
             and the other copy may act"
        }
        Doubt::RolledBack => "its state directory is older than when it was last used: a backup was put back",
        Doubt::Forgotten => {
            "another device showed a word that this one signed and does not know: its state is an older one"
        }
    }
}

impl Actor {
    pub(crate) fn confirm(&mut self, text: Option<&str>) -> Result<Answer, Failure> {
        let Some(text) = text else { return self.confirm_all() };
        let session = self.session_of(text, NOT_CONFIRMED).or_else(|failed| self.chainless(text).ok_or(failed))?;
        if let Some(by) = self.custodian.contested(session) {
            let why = format!("{} holds it too, by another record; no confirmation ends that", self.device_name(by));
            let cure = format!("on the device that is to have it: cede take --force {}", session.short());
            return Err(failure(exit::FAILED, NOT_CONFIRMED, &why, &cure));
        }
        if self.custodian.doubt().is_none() && !self.custodian.waits_for_word(session) {
            return Ok(Answer::Said {
                text: format!("nothing is in doubt; the session is {}", self.state_of(session)),
            });
        }
        self.note_act(AuditAct::Confirmed, None, Some(session));
        self.custodian.confirm(session);
        Ok(Answer::Said { text: format!("confirmed; the session is {}", self.state_of(session)) })
    }

    /// A session that never moved: only its agent knows it.
    fn chainless(&self, text: &str) -> Option<SessionId> {
        let waiting = || {
            let mut waiting = self.custodian.unclaimed().map(|(id, _)| id);
            waiting.find(|id| !text.is_empty() && id.to_string().starts_with(text))
        };
        text.parse().ok().or_else(waiting).filter(|session| self.custodian.chain(*session).is_none())
    }

    fn confirm_all(&mut self) -> Result<Answer, Failure> {
        if self.custodian.doubt().is_none() {
            return Ok(Answer::Said { text: "nothing is in doubt".to_owned() });
        }
        self.note_act(AuditAct::Confirmed, None, None);
        self.custodian.confirm_all();
        let here = self.custodian.sessions().filter(|(_, standing)| *standing == Standing::InCharge).count();
        let mut text = format!("confirmed; sessions in charge here that moved before: {here}");
        if self.custodian.unclaimed().next().is_some() {
            text.push_str("; others were released to this device, which forgot it: cede doctor");
        }
        Ok(Answer::Said { text })
    }

    /// Looks up what the old owner told of the session: how it is called, and what its directory.
    pub(crate) fn ask_claim(&mut self, text: String, replies: Replies) {
        let context = self.context.clone();
        tokio::spawn(async move {
            let told = crate::sessions::told(&context).await;
            let here = context.block(|context| crate::sessions::discover(context).sessions).await.unwrap_or_default();
            let claimed = context.ask(move |actor| actor.claim(&text, &told, &here)).await;
            replies.settle(claimed.map_err(stopping).and_then(|claimed| claimed));
        });
    }

    /// Fetches what was released to this device and what nobody approved here.
    fn claim(&mut self, text: &str, told: &[ListedSession], here: &[SessionInfo]) -> Result<Answer, Failure> {
        let all: Vec<_> = self.custodian.unclaimed().map(|(id, release)| (id, release.clone())).collect();
        let mut fitting = all.iter().filter(|(id, _)| !text.is_empty() && id.to_string().starts_with(text));
        let (Some((session, release)), None) = (fitting.next(), fitting.next()) else {
            let why = format!("no release of a session {text} waits here");
            return Err(failure(exit::USAGE, NOT_CLAIMED, &why, "cede doctor lists what waits"));
        };
        let from = self.device_name(release.from);
        self.custodian.claim(*session, release.handoff).map_err(|refusal| {
            let why = format!("{refusal}: who is in charge has changed meanwhile");
            failure(exit::REFUSED, NOT_CLAIMED, &why, "cede status")
        })?;
        let info = told.iter().map(|one| &one.info).find(|info| info.key.id() == *session);
        let planned = self.plan_claimed(*session, release, info);
        let place = planned.map_or_else(String::new, |place| format!(", into {}", place.display()));
        let title = info.map_or_else(String::new, |info| format!(" ({})", crate::scrutiny::text(&info.title)));
        let spoken = match release.head.turn {
            0 => String::new(),
            turn => format!(" with {turn} turns and {} KB of conversation", release.head.length / 1_000),
        };
        // The agent went on here after the handoff, which nobody knows any more.
        let stays = here.iter().any(|info| info.key.id() == *session).then_some(
            "; what comes is as it was at the handoff: a tree that was worked on here since stays as it is, and is not in the session",
        );
        let text = format!(
            "claimed: session {}{title}{spoken} is fetched from {from}{place}; cede status shows when it is in its place",
            session.short()
        );
        Ok(Answer::Said { text: text + stays.unwrap_or_default() })
    }

    /// The records count: what is in charge here works again.
    pub(crate) fn confirmed(&mut self) {
        tracing::warn!("the records of this device are confirmed");
        self.context.last_look.forget();
        self.lift_stale_fences();
    }

    /// Lines of `cede doctor`.
    pub(crate) fn doubt_checks(&self) -> Vec<Check> {
        let fail = |what: &str, found: String, cure: String| Check {
            what: what.to_owned(),
            result: "fail".to_owned(),
            found,
            cure,
        };
        let mut checks = Vec::new();
        if let Some(why) = self.custodian.doubt() {
            let found = format!("this device acts for no session: {}", in_words(why));
            let cure = "if nothing else runs with this state and nothing newer is lost: cede confirm --all, \
                        or one by one: cede confirm <session>";
            checks.push(fail("records", found, cure.to_owned()));
        }
        for (session, _) in self.custodian.sessions() {
            if let Some(by) = self.custodian.contested(session) {
                let id = session.short();
                let found =
                    format!("session {id} was given out twice, also to {}: nothing acts for it", self.device_name(by));
                let cure = format!("on the device that is to have it: cede take --force {id}");
                checks.push(fail("sessions", found, cure));
            }
        }
        checks
    }
}

const NOT_CONFIRMED: &str = "nothing was confirmed";
const NOT_CLAIMED: &str = "nothing was claimed";
