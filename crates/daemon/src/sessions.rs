//! Which session a person means.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use cede_core::authority::Permission;
use cede_wire::control::{Failure, SessionSummary, exit};
use cede_wire::id::{DeviceId, SessionId};
use cede_wire::member::{Capability, Member};
use cede_wire::message::{ListedSession, PeerMessage};
use cede_wire::session::{Activity, AgentKind, SessionInfo, SessionKey};

use crate::actor::Actor;
use crate::authorities::Asker;
use crate::context::Context;
use crate::errands::Errand;
use crate::limits;
use crate::moves::Story;
use crate::offering::failure;

/// A look at the agents' stores.
#[derive(Debug, Clone, Default)]
pub(crate) struct Found {
    pub(crate) sessions: Vec<SessionInfo>,
    /// Adapters that could not look, with the reason.
    pub(crate) silent: Vec<String>,
}

/// The last look, for callers that come within [`limits::DISCOVERY_AGE`].
#[derive(Default)]
pub(crate) struct LastLook(Mutex<Option<(Instant, Found)>>);

impl LastLook {
    /// The stores changed: the next one looks again.
    pub(crate) fn forget(&self) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    }

    fn fresh(&self) -> Option<Found> {
        let last = self.0.lock().ok()?;
        last.as_ref().filter(|(at, _)| at.elapsed() < limits::DISCOVERY_AGE).map(|(_, found)| found.clone())
    }
}

/// Looks at every agent's store, unless that was done a moment ago. Blocks.
pub(crate) fn discover(context: &Context) -> Found {
    context.last_look.fresh().unwrap_or_else(|| look(context))
}

/// Looks at every agent's store: a person may name a session that began this very moment. Blocks.
pub(crate) fn look(context: &Context) -> Found {
    let mut found = Found::default();
    for adapter in &context.adapters {
        match adapter.discover() {
            Ok(sessions) => found.sessions.extend(sessions.into_iter().map(|info| context.located(info))),
            Err(error) => found.silent.push(format!("{}: {error}", adapter.agent().name())),
        }
    }
    found.sessions.extend(context.terminals.infos());
    found.sessions.sort_by_key(|info| std::cmp::Reverse(info.updated_unix_ms));
    if let Ok(mut last) = context.last_look.0.lock() {
        *last = Some((Instant::now(), found.clone()));
    }
    found
}

/// A session by its id. Blocks.
pub(crate) fn find(context: &Context, session: SessionId, key: Option<SessionKey>) -> Option<SessionInfo> {
    let described = key.and_then(|key| crate::offering::describe(context, &key).ok());
    described.or_else(|| discover(context).sessions.into_iter().find(|info| info.key.id() == session))
}

pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(bytes)).to_owned()
}

/// Picks the session that a text means: a prefix of its id or of the agent's id, its title, or its directory.
pub(crate) fn pick(found: &[SessionInfo], text: Option<&str>, directory: &str) -> Result<SessionInfo, Failure> {
    let around = |info: &&SessionInfo| Path::new(directory).starts_with(&info.directory);
    let mut matching = text.map_or_else(|| found.iter().filter(around).collect(), |text| fitting(found, text));
    if text.is_none() {
        // Where directories lie in each other, the nearest one is meant.
        let nearest = matching.iter().map(|info| info.directory.len()).max().unwrap_or(0);
        matching.retain(|info| info.directory.len() == nearest);
    }
    match matching.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(none_found(text, directory)),
        several => Err(too_many(several)),
    }
}

/// The session that a plain directory is.
pub(crate) fn adopted(found: &[SessionInfo], directory: &str) -> Option<SessionId> {
    let is_it = |info: &&SessionInfo| info.key.agent == AgentKind::Files && info.directory == directory;
    found.iter().find(is_it).map(|info| info.key.id())
}

fn named(info: &SessionInfo, text: &str) -> bool {
    let id = info.key.id().to_string();
    let native = info.key.native.as_str();
    !text.is_empty()
        && (id.starts_with(text) || native.starts_with(text) || info.title == text || info.directory == text)
}

/// The sessions that a text names.
pub(crate) fn called(found: &[SessionInfo], text: &str) -> Vec<SessionInfo> {
    fitting(found, text).into_iter().cloned().collect()
}

fn fitting<'a>(found: &'a [SessionInfo], text: &str) -> Vec<&'a SessionInfo> {
    let whole = |info: &&SessionInfo| info.key.id().to_string() == text || info.key.native.as_str() == text;
    // Whoever types a whole id means that one, whatever another one is called.
    match found.iter().find(whole) {
        Some(info) => vec![info],
        None => found.iter().filter(|info| named(info, text)).collect(),
    }
}

fn none_found(text: Option<&str>, directory: &str) -> Failure {
    let (why, cure) = match text {
        Some(text) => (format!("no session here is called {text}"), "cede ls".to_owned()),
        None => (
            format!("no session of a coding agent works in {directory}"),
            "cede ls, or to move the plain directory: cede to <device> --files".to_owned(),
        ),
    };
    failure(exit::USAGE, "no session is meant", &why, &cure)
}

pub(crate) fn too_many(several: &[&SessionInfo]) -> Failure {
    let list: Vec<String> =
        several.iter().take(5).map(|info| format!("{} ({})", info.key.id().short(), info.title)).collect();
    let why = format!("{} sessions fit: {}", several.len(), list.join(", "));
    failure(exit::USAGE, "it is not clear which session is meant", &why, "name one by its id")
}

impl Actor {
    /// A session of this device, for lists.
    pub(crate) fn summary(&self, info: &SessionInfo) -> SessionSummary {
        let id = info.key.id();
        let here = self.is_here(id);
        let directory = Path::new(&info.directory);
        let resume = self.context.adapter(info.key.agent).filter(|_| self.custodian.may_act(id));
        let hosted = self.context.terminals.get(id);
        let works = self.task_in(id, Path::new("")).map(|evidence| Activity::Busy { pid: None, evidence });
        let activity = works.unwrap_or_else(|| info.activity.clone());
        let resume = match &hosted {
            Some(_) => format!("cede attach {}", id.short()),
            None => resume.map_or_else(String::new, |adapter| adapter.resume_command(&info.key.native, directory)),
        };
        SessionSummary {
            id,
            agent: info.key.agent,
            native: info.key.native.to_string(),
            title: info.title.clone(),
            directory: info.directory.clone(),
            turns: info.turns,
            bytes: info.bytes,
            version: info.version.clone(),
            updated_unix_ms: info.updated_unix_ms,
            activity: Some(activity).filter(|_| self.custodian.may_act(id)),
            owner: self.owner_name(id),
            here,
            token: self.custodian.token(id),
            state: self.state_of(id),
            resume,
            terminal: hosted.map(|hosted| hosted.summary(&self.context)),
        }
    }

    /// A session that this device knows of but does not have in an agent's store.
    fn absent(&self, id: SessionId) -> Option<SessionSummary> {
        let (key, title, directory) = match self.placed.get(&id) {
            Some(placed) => (placed.key.clone(), placed.title.clone(), path_of(&placed.directory)),
            // It never stood here, and this device answers for it.
            None if self.is_here(id) => {
                let title = self.moves.get(Story::Coming(id)).map_or_else(String::new, |view| view.title.clone());
                (self.key_of(id)?, title, PathBuf::new())
            }
            None => return None,
        };
        Some(SessionSummary {
            id,
            agent: key.agent,
            native: key.native.to_string(),
            title,
            directory: directory.display().to_string(),
            turns: 0,
            bytes: 0,
            version: String::new(),
            updated_unix_ms: 0,
            activity: None,
            owner: self.owner_name(id),
            here: self.is_here(id),
            token: self.custodian.token(id),
            state: self.state_of(id),
            resume: String::new(),
            terminal: None,
        })
    }

    fn owner_name(&self, id: SessionId) -> String {
        self.device_name(self.custodian.owner(id).unwrap_or(self.context.local.device()))
    }

    /// Where a session stands, in words.
    pub(crate) fn state_of(&self, id: SessionId) -> String {
        use cede_core::custodian::Standing;
        match self.custodian.standing(id) {
            None if !self.custodian.may_act(id) => "unconfirmed: nothing acts".to_owned(),
            None | Some(Standing::InCharge) => "in charge here".to_owned(),
            Some(Standing::Leaving(_)) => "in charge here, a move is under way".to_owned(),
            Some(Standing::Arriving) => "arriving".to_owned(),
            Some(Standing::PayloadMissing) => "arriving, its files are fetched again".to_owned(),
            Some(Standing::ReleasedTo(to)) => format!("released, waiting for {}", self.device_name(to)),
            Some(Standing::Elsewhere(owner)) => format!("at {}", self.device_name(owner)),
            Some(Standing::SeizedBy(owner)) => {
                let kept = self.branch_of(id).map(|place| format!("; own turns kept in {}", place.display()));
                format!("taken over by {}{}", self.device_name(owner), kept.unwrap_or_default())
            }
            Some(Standing::Unconfirmed) => match self.custodian.contested(id) {
                Some(by) => format!("given out twice, also to {}: nothing acts", self.device_name(by)),
                None => "unconfirmed: nothing acts".to_owned(),
            },
        }
    }

    /// Every session that this device has or has had, newest first.
    pub(crate) fn summaries(&self, found: &Found) -> Vec<SessionSummary> {
        let mut all: Vec<SessionSummary> = found.sessions.iter().map(|info| self.summary(info)).collect();
        let listed: Vec<SessionId> = all.iter().map(|summary| summary.id).collect();
        let known = self.custodian.sessions().map(|(id, _)| id).filter(|id| !listed.contains(id));
        all.extend(known.filter_map(|id| self.absent(id)));
        all
    }

    /// A peer wants to see the sessions here.
    pub(crate) fn answer_listing(&mut self, asker: Asker) {
        let from = asker.device;
        if matches!(self.permission(asker, Capability::Handoff), Permission::Refused(..)) {
            // It waits for an answer, and there is nothing that it may know.
            return self.send(from, PeerMessage::Sessions(Vec::new()));
        }
        if !self.errands.begin(from, Errand::List) {
            // The answer that is on its way is an answer to this question too.
            return;
        }
        let context = self.context.clone();
        tokio::spawn(async move {
            let found = context.block(discover).await;
            context
                .tell(move |actor| {
                    actor.errands.end(from, Errand::List);
                    let Ok(found) = found else { return };
                    let here = found.sessions.into_iter().filter(|info| actor.is_here(info.key.id()));
                    let me = actor.context.local.device();
                    let listed = here.take(cede_wire::limits::LISTED_SESSIONS).map(|info| {
                        let id = info.key.id();
                        let owner = actor.custodian.owner(id).unwrap_or(me);
                        ListedSession { token: actor.custodian.token(id), owner, info }
                    });
                    let message = PeerMessage::Sessions(listed.collect());
                    actor.send(from, message);
                })
                .await;
        });
    }

    pub(crate) fn handle_listing(&mut self, from: DeviceId, listed: Vec<ListedSession>) {
        let listed = crate::scrutiny::listing(listed);
        let (answered, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.listings).into_iter().partition(|w| w.0 == from);
        self.listings = waiting;
        for (_, waiter) in answered {
            // A listing that timed out has nobody left.
            let _ = waiter.send(listed.clone());
        }
        self.keep_listing(from, listed);
    }

    /// Keeps what a peer has. While one listing is being written only the newest of the later ones waits.
    fn keep_listing(&mut self, from: DeviceId, listed: Vec<ListedSession>) {
        if !self.errands.begin(from, Errand::KeepListing) {
            self.unkept.insert(from, listed);
            return;
        }
        let context = self.context.clone();
        tokio::spawn(async move {
            // One that could not be kept is told again at the next contact.
            let _ = context.block(move |context| context.listings.replace(from, &listed)).await;
            context
                .tell(move |actor| {
                    actor.errands.end(from, Errand::KeepListing);
                    if let Some(newer) = actor.unkept.remove(&from) {
                        actor.keep_listing(from, newer);
                    }
                })
                .await;
        });
    }
}

/// What a peer has: as it says now, or as it said when it was last here.
pub(crate) struct PeerSessions {
    pub(crate) device: DeviceId,
    pub(crate) name: String,
    pub(crate) listed: Vec<ListedSession>,
    pub(crate) answered: bool,
}

/// The sessions of every peer; one that is away or slow is remembered.
pub(crate) async fn peers_sessions(context: &Context) -> Vec<PeerSessions> {
    let asked = context.ask(|actor| {
        let members = actor.peers.members();
        members.into_iter().map(|member| (member.device(), member.name.clone(), actor.query(member.device()))).collect()
    });
    let asked: Vec<(DeviceId, String, Option<Answered>)> = asked.await.unwrap_or_default();
    let deadline = tokio::time::Instant::now() + limits::LISTING;
    let mut all = Vec::new();
    for (device, name, answered) in asked {
        let now = match answered {
            Some(answered) => tokio::time::timeout_at(deadline, answered).await.ok().and_then(Result::ok),
            None => None,
        };
        let answered = now.is_some();
        let listed = match now {
            Some(listed) => listed,
            None => context.block(move |context| context.listings.of(device)).await.unwrap_or_default(),
        };
        all.push(PeerSessions { device, name, listed, answered });
    }
    all
}

/// A session as the peer says that has it now.
pub(crate) async fn at(context: &Context, device: DeviceId, session: SessionId) -> Option<SessionInfo> {
    let listed = of_peer(context, device).await?;
    listed.into_iter().find(|info| info.key.id() == session)
}

/// The sessions of one peer, as it says now. None: it is away or slow.
pub(crate) async fn of_peer(context: &Context, device: DeviceId) -> Option<Vec<SessionInfo>> {
    let asked = context.ask(move |actor| actor.query(device)).await.ok()??;
    let listed = tokio::time::timeout(limits::LISTING, asked).await.ok()?.ok()?;
    Some(listed.into_iter().map(|one| one.info).collect())
}

/// Whether a peer's directory came through as it is: neither cut nor made safe to print.
pub(crate) fn is_whole(directory: &str) -> bool {
    !directory.contains('\\') && directory.chars().count() < limits::PEER_PATH_CHARS
}

type Answered = tokio::sync::oneshot::Receiver<Vec<ListedSession>>;

impl Actor {
    /// Asks a connected peer for its sessions.
    fn query(&mut self, device: DeviceId) -> Option<Answered> {
        if !self.peers.is_connected(device) {
            return None;
        }
        let (answer, answered) = tokio::sync::oneshot::channel();
        self.listings.retain(|(_, waiter)| !waiter.is_closed());
        self.listings.push((device, answer));
        self.send(device, PeerMessage::SessionsQuery);
        Some(answered)
    }
}

/// What the members last told of their sessions.
pub(crate) async fn told(context: &Context) -> Vec<ListedSession> {
    let members = context.ask(|actor| actor.peers.members().iter().map(Member::device).collect::<Vec<_>>()).await;
    let members = members.unwrap_or_default();
    let told = context.block(move |context| members.iter().flat_map(|one| context.listings.of(*one)).collect());
    told.await.unwrap_or_default()
}

/// One session has one title everywhere: that of the device that is in charge of it, as it last told.
pub(crate) fn call_as_owners_do(all: &mut [SessionSummary], told: &[ListedSession]) {
    for session in all.iter_mut().filter(|session| !session.here) {
        let by_owner = |one: &&ListedSession| one.info.key.id() == session.id && one.token >= session.token;
        if let Some(one) = told.iter().filter(by_owner).max_by_key(|one| one.token) {
            session.title.clone_from(&one.info.title);
        }
    }
}

/// Summary of a session at a peer.
pub(crate) fn remote(listed: ListedSession, owner: String) -> SessionSummary {
    let info = listed.info;
    SessionSummary {
        id: info.key.id(),
        agent: info.key.agent,
        native: info.key.native.to_string(),
        title: info.title,
        directory: info.directory,
        turns: info.turns,
        bytes: info.bytes,
        version: info.version,
        updated_unix_ms: info.updated_unix_ms,
        activity: Some(info.activity),
        state: format!("at {owner}"),
        owner,
        here: false,
        token: listed.token,
        resume: String::new(),
        terminal: None,
    }
}
