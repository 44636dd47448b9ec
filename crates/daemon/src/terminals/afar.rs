//! A person at this machine looks on at a terminal or a conversation of another device. Source: SPEC D-8, D-10, D-12.
//!
//! What that device says is drawn on the person's own terminal, so it is filtered first. A viewing follows the links: when
//! one breaks, it is asked for again on the next one, from the offset that was seen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cede_agent::terminal::filter::Filter;
use cede_wire::control::terminal::{
    Base64, Keyboard, TerminalEnd, TerminalEvent, TerminalSize, TerminalState, ViewRequest, ViewerSays,
};
use cede_wire::control::{Answer, Failure, ReplyBody, exit};
use cede_wire::conversation::{Bookmark, Piece};
use cede_wire::id::{DeviceId, SessionId};
use cede_wire::limits::{TERMINAL_OUTPUT_BYTES, TERMINAL_WINDOW_BYTES};
use cede_wire::message::{ListedSession, PeerMessage};
use cede_wire::refusal::Refusal;
use cede_wire::session::AgentKind;
use cede_wire::terminal::{TerminalBody, TerminalMessage, Wish};
use tokio::sync::mpsc;

use super::local::{Lines, hear};
use crate::actor::Actor;
use crate::authorities::Asker;
use crate::clock::random;
use crate::context::Context;
use crate::conversations::{self, is_told};
use crate::limits;
use crate::offering::{exit_of, failure, stopping};
use crate::peers::NOT_ADMITTED;
use crate::sessions;

/// The viewings of this device at others.
#[derive(Default)]
pub(crate) struct Afar(BTreeMap<u64, Look>);

struct Look {
    device: DeviceId,
    /// The link on which it was asked for.
    link: Option<u64>,
    news: mpsc::Sender<News>,
    /// Bytes of what the host said that wait to be taken.
    waiting: Arc<AtomicU64>,
}

enum News {
    Said(TerminalBody),
    /// The link is gone.
    Away,
    /// There is a link again.
    Reachable,
    /// Nothing will be heard of it any more: why.
    Over(&'static str),
}

impl Afar {
    /// Whether somebody looks on, or wants to, at that device.
    pub(crate) fn waits_for(&self, device: DeviceId) -> bool {
        self.0.values().any(|look| look.device == device && look.link.is_none())
    }
}

impl Actor {
    /// The device of a terminal says something about a viewing of this one.
    pub(crate) fn hear_host(&mut self, asker: Asker, viewing: u64, body: TerminalBody) {
        let Some(look) = self.afar.0.get(&viewing) else { return };
        if look.device != asker.device || look.link != Some(asker.link) {
            return;
        }
        let (weight, fits) = (weight(&body), body.fits());
        let waits = look.waiting.fetch_add(weight, Ordering::SeqCst);
        // The host stops where it is a window ahead, with a last piece over it.
        if !fits || waits >= TERMINAL_WINDOW_BYTES && weight > 0 || look.news.try_send(News::Said(body)).is_err() {
            self.afar_say(viewing, TerminalBody::Leave);
            self.afar.0.remove(&viewing);
        }
    }

    /// A link to a device is there.
    pub(crate) fn afar_link_up(&mut self, device: DeviceId) {
        for look in self.afar.0.values().filter(|look| look.device == device && look.link.is_none()) {
            // One whose channel is full is about to end.
            let _ = look.news.try_send(News::Reachable);
        }
    }

    /// A link is gone; on another one it may be asked for again.
    pub(crate) fn afar_link_down(&mut self, device: DeviceId, number: u64) {
        let connected = self.peers.is_connected(device);
        for look in self.afar.0.values_mut().filter(|look| look.device == device && look.link == Some(number)) {
            look.link = None;
            let _ = look.news.try_send(News::Away);
            if connected {
                let _ = look.news.try_send(News::Reachable);
            }
        }
    }

    /// There is nothing to look on at any more where the device was removed.
    pub(crate) fn end_looks_of_strangers(&mut self) {
        let peers = &self.peers;
        for (_, look) in self.afar.0.extract_if(.., |_, look| !peers.is_member(look.device)) {
            // A viewer that is so far behind finds its channel closed.
            let _ = look.news.try_send(News::Over("was removed"));
        }
    }

    /// Nor where the device does not admit this one any more.
    pub(crate) fn end_looks_at(&mut self, device: DeviceId) {
        for (_, look) in self.afar.0.extract_if(.., |_, look| look.device == device && look.link.is_none()) {
            let _ = look.news.try_send(News::Over(NOT_ADMITTED));
        }
    }

    /// Asks on the newest link. False: there is none.
    fn afar_open(&mut self, viewing: u64, body: TerminalBody) -> bool {
        let Some(look) = self.afar.0.get_mut(&viewing) else { return false };
        let device = look.device;
        look.link = self.peers.newest_link(device);
        if look.link.is_none() {
            self.reach_afresh(device);
            return false;
        }
        self.afar_say(viewing, body)
    }

    fn afar_say(&mut self, viewing: u64, body: TerminalBody) -> bool {
        let Some((device, link)) = self.afar.0.get(&viewing).and_then(|look| Some((look.device, look.link?))) else {
            return false;
        };
        self.send_on(Asker { device, link }, PeerMessage::Terminal(TerminalMessage { viewing, body }))
    }
}

/// What counts towards the window.
fn weight(body: &TerminalBody) -> u64 {
    if let TerminalBody::Output { bytes, .. } = body {
        bytes.len() as u64
    } else if let TerminalBody::Piece(piece) = body {
        piece.weight()
    } else {
        0
    }
}

/// A terminal at a peer.
struct There {
    device: DeviceId,
    name: String,
    session: SessionId,
    title: String,
    agent: AgentKind,
}

/// The terminal of a peer that a text means: `name`, the beginning of an id, or either after `device/`.
async fn meant(context: &Context, text: &str) -> Result<There, Failure> {
    let (device, wanted) = text.split_once('/').map_or((None, text), |(device, rest)| (Some(device.to_owned()), rest));
    let device = match device {
        Some(name) => {
            let found = context.ask(move |actor| actor.find_member(&name)).await.map_err(stopping)?;
            Some(found?.device())
        }
        None => None,
    };
    let mut found = Vec::new();
    for peer in sessions::peers_sessions(context).await {
        if device.is_some_and(|device| device != peer.device) {
            continue;
        }
        // Of a conversation only its owner tells; other devices list it too.
        let told = |one: &ListedSession| {
            let agent = one.info.key.agent;
            agent == AgentKind::Terminal || (is_told(agent) && one.owner == peer.device)
        };
        for info in peer.listed.into_iter().filter(told).map(|one| one.info) {
            let (session, agent) = (info.key.id(), info.key.agent);
            if !wanted.is_empty() && (info.title == wanted || session.to_string().starts_with(wanted)) {
                found.push(There { device: peer.device, name: peer.name.clone(), session, title: info.title, agent });
            }
        }
    }
    if found.len() > 1 {
        let list: Vec<String> =
            found.iter().take(5).map(|one| format!("{}/{}", one.name, one.session.short())).collect();
        let why = format!("{} sessions fit: {}", found.len(), list.join(", "));
        return Err(failure(exit::USAGE, "it is not clear which session is meant", &why, "name one by its id"));
    }
    found.pop().ok_or_else(|| {
        let why = format!("no terminal and no conversation here or at a peer is called {text}");
        failure(exit::USAGE, "no session is meant", &why, "cede ls; to host a terminal: cede run")
    })
}

/// One viewing, as the person's daemon sees it.
struct Sight {
    context: Context,
    there: There,
    viewing: u64,
    wish: Wish,
    size: Option<TerminalSize>,
    /// Everything before was seen; none: nothing, or a drawing is under way.
    at: Option<u64>,
    /// The same of a conversation.
    read: Option<Bookmark>,
    filter: Filter,
    taken: u64,
    acknowledged: u64,
    waiting: Arc<AtomicU64>,
    opened: bool,
}

/// Serves one viewer until it detaches, goes away, is refused, or the command has ended. None: it went away.
pub(super) async fn look_on(
    context: &Context,
    request: ViewRequest,
    lines: Lines,
    out: &mpsc::Sender<ReplyBody>,
) -> Option<ReplyBody> {
    let (mut sight, mut news) = match begin(context, request).await {
        Ok(begun) => begun,
        Err(failed) => return Some(ReplyBody::Failed(failed)),
    };
    let (heard, mut says) = mpsc::channel(limits::VIEWER_FRAMES);
    let listening = tokio::spawn(hear(lines, heard));
    let last = sight.follow(&mut news, &mut says, out).await;
    listening.abort();
    let viewing = sight.viewing;
    let left = context.ask(move |actor| {
        actor.afar_say(viewing, TerminalBody::Leave);
        actor.afar.0.remove(&viewing);
    });
    // A daemon that stops ends its links, and with them the viewing.
    let _ = left.await;
    last
}

async fn begin(context: &Context, request: ViewRequest) -> Result<(Sight, mpsc::Receiver<News>), Failure> {
    let what = "you do not look on";
    let wish = match request.keyboard {
        Keyboard::No => Wish::Watch,
        Keyboard::IfFree => Wish::DriveIfFree,
        Keyboard::Wanted => Wish::Drive,
        Keyboard::Insisted => {
            let why = "only the person at the terminal's own machine takes the keyboard from another one";
            return Err(failure(exit::REFUSED, what, why, &format!("cede drive {}", request.session)));
        }
    };
    let there = meant(context, &request.session).await?;
    if is_told(there.agent) && wish != Wish::Watch {
        return Err(conversations::not_driven(&there.title));
    }
    let viewing = random().map_err(|error| failure(exit::FAILED, what, &error.to_string(), ""))?;
    let viewing = u64::from_le_bytes(viewing);
    let (told, news) = mpsc::channel(limits::FRAMES_FROM_AFAR);
    let (device, waiting) = (there.device, Arc::<AtomicU64>::default());
    let look = Look { device, link: None, news: told, waiting: waiting.clone() };
    context.ask(move |actor| drop(actor.afar.0.insert(viewing, look))).await.map_err(stopping)?;
    let (context, filter) = (context.clone(), Filter::default());
    let sight = Sight {
        context,
        there,
        viewing,
        wish,
        size: request.size,
        at: request.from,
        read: request.read,
        filter,
        taken: 0,
        acknowledged: 0,
        waiting,
        opened: false,
    };
    Ok((sight, news))
}

impl Sight {
    async fn follow(
        &mut self,
        news: &mut mpsc::Receiver<News>,
        says: &mut mpsc::Receiver<ViewerSays>,
        out: &mpsc::Sender<ReplyBody>,
    ) -> Option<ReplyBody> {
        let patience = tokio::time::sleep(limits::REACH);
        tokio::pin!(patience);
        let mut reached = self.open().await;
        loop {
            tokio::select! {
                said = news.recv() => match said {
                    Some(News::Said(body)) => {
                        reached = true;
                        self.waiting.fetch_sub(weight(&body), Ordering::SeqCst);
                        if let Some(last) = self.said(body, out).await? {
                            return Some(last);
                        }
                    }
                    Some(News::Away) => out.send(self.away()).await.ok()?,
                    Some(News::Over(why)) => return Some(ReplyBody::Failed(self.given_up(why))),
                    Some(News::Reachable) => reached |= self.open().await,
                    None => return Some(ReplyBody::Failed(self.cut_off())),
                },
                says = says.recv() => match says {
                    Some(ViewerSays::Detach) => return Some(self.detached()),
                    Some(says) => self.say(says).await,
                    None => return None,
                },
                () = &mut patience, if !reached => return Some(ReplyBody::Failed(self.unreached())),
            }
        }
    }

    /// Asks for the viewing, from where it stands.
    async fn open(&mut self) -> bool {
        (self.taken, self.acknowledged) = (0, 0);
        let size = self.size.map(|size| (size.rows, size.columns));
        let (viewing, session, wish, from) = (self.viewing, self.there.session, self.wish, self.at);
        let body = if is_told(self.there.agent) {
            TerminalBody::Read { session, from: self.read }
        } else {
            TerminalBody::Open { session, wish, from, size }
        };
        self.context.ask(move |actor| actor.afar_open(viewing, body)).await.unwrap_or(false)
    }

    /// None: the client is gone. Some of some: it is over.
    async fn said(&mut self, body: TerminalBody, out: &mpsc::Sender<ReplyBody>) -> Option<Option<ReplyBody>> {
        let device = self.there.name.clone();
        let event = match body {
            TerminalBody::Asking => TerminalEvent::Asking { device },
            TerminalBody::Opened if std::mem::replace(&mut self.opened, true) => {
                TerminalEvent::Note { text: format!("{device} is there again") }
            }
            TerminalBody::Opened => {
                let title = self.there.title.clone();
                let agent = Some(self.there.agent).filter(|agent| is_told(*agent));
                TerminalEvent::Opened { session: self.there.session, title, device: Some(device), agent }
            }
            TerminalBody::Output { fresh, bytes, next } => return self.output(fresh, &bytes, next, out).await,
            TerminalBody::State { yours, driver, held, viewers, size: (rows, columns) } => {
                let driver = driver.map(|driver| crate::scrutiny::text(&driver));
                let size = TerminalSize { rows, columns };
                TerminalEvent::State(TerminalState { yours, driver, held, viewers, size })
            }
            TerminalBody::Piece(piece) => return self.piece(piece, out).await,
            TerminalBody::Over { detail } => {
                return Some(Some(self.over(true, None, None, crate::scrutiny::detail(&detail))));
            }
            TerminalBody::Note(text) => TerminalEvent::Note { text: crate::scrutiny::detail(&text) },
            TerminalBody::Ended { code, signal } => return Some(Some(self.ended(code, signal))),
            TerminalBody::Refused { refusal, detail } => {
                return Some(Some(ReplyBody::Failed(self.refused(refusal, &detail))));
            }
            // A viewer's words.
            TerminalBody::Open { .. }
            | TerminalBody::Read { .. }
            | TerminalBody::Taken(_)
            | TerminalBody::Typed(_)
            | TerminalBody::Resized(..)
            | TerminalBody::Beat
            | TerminalBody::Keyboard
            | TerminalBody::LetGo
            | TerminalBody::Leave => return Some(None),
        };
        out.send(ReplyBody::Terminal(event)).await.ok()?;
        Some(None)
    }

    async fn output(
        &mut self,
        fresh: Option<u64>,
        bytes: &[u8],
        next: Option<u64>,
        out: &mpsc::Sender<ReplyBody>,
    ) -> Option<Option<ReplyBody>> {
        if fresh.is_some() {
            self.filter = Filter::default();
        }
        self.at = next;
        let drawn = Base64(self.filter.pass(bytes));
        out.send(ReplyBody::Terminal(TerminalEvent::Output { fresh, bytes: drawn, next })).await.ok()?;
        self.took(bytes.len() as u64).await;
        Some(None)
    }

    /// A piece counts as read once the person's command has it: one that was cut off comes again.
    async fn piece(&mut self, piece: Piece, out: &mpsc::Sender<ReplyBody>) -> Option<Option<ReplyBody>> {
        let (weight, next) = (piece.weight(), piece.next);
        out.send(ReplyBody::Terminal(TerminalEvent::Piece(piece))).await.ok()?;
        self.read = Some(next);
        self.took(weight).await;
        Some(None)
    }

    /// What the person's command has taken is taken: a slow one slows down nobody but itself.
    async fn took(&mut self, bytes: u64) {
        self.taken += bytes;
        if self.taken - self.acknowledged >= TERMINAL_WINDOW_BYTES / 4 {
            self.acknowledged = self.taken;
            self.tell(TerminalBody::Taken(self.taken)).await;
        }
    }

    async fn say(&mut self, says: ViewerSays) {
        match says {
            ViewerSays::Typed { bytes } => {
                for piece in bytes.0.chunks(TERMINAL_OUTPUT_BYTES) {
                    self.tell(TerminalBody::Typed(piece.to_vec())).await;
                }
            }
            ViewerSays::Resized { size } => {
                self.size = Some(size);
                self.tell(TerminalBody::Resized(size.rows, size.columns)).await;
            }
            ViewerSays::Beat => self.tell(TerminalBody::Beat).await,
            ViewerSays::Keyboard { .. } => self.tell(TerminalBody::Keyboard).await,
            ViewerSays::LetGo => self.tell(TerminalBody::LetGo).await,
            ViewerSays::Detach => {}
        }
    }

    async fn tell(&self, body: TerminalBody) {
        let viewing = self.viewing;
        // What is typed while the link is gone is gone: nobody wants a key to arrive minutes later.
        let _ = self.context.ask(move |actor| actor.afar_say(viewing, body)).await;
    }

    fn away(&self) -> ReplyBody {
        ReplyBody::Terminal(TerminalEvent::Away { device: self.there.name.clone() })
    }

    fn detached(&self) -> ReplyBody {
        let text = format!("detached; {} goes on at {}", self.there.title, self.there.name);
        self.over(true, None, None, text)
    }

    fn ended(&self, code: Option<i32>, signal: Option<i32>) -> ReplyBody {
        let how = match (code, signal) {
            (Some(0) | None, None) => "ended".to_owned(),
            (Some(code), _) => format!("ended with code {code}"),
            (None, Some(signal)) => format!("was ended by signal {signal}"),
        };
        self.over(false, code, signal, format!("{} at {} {how}", self.there.title, self.there.name))
    }

    fn over(&self, goes_on: bool, code: Option<i32>, signal: Option<i32>, text: String) -> ReplyBody {
        let session = self.there.session;
        ReplyBody::Done(Answer::TerminalEnded(TerminalEnd { session, goes_on, code, signal, text }))
    }

    fn refused(&self, refusal: Refusal, detail: &str) -> Failure {
        let busy = refusal == Refusal::Busy;
        let exit = if busy { exit::PENDING } else { exit_of(refusal) };
        let cure = if busy { format!("look on: cede watch {}", self.there.session.short()) } else { String::new() };
        let why = crate::scrutiny::detail(detail);
        Failure { refusal: Some(refusal), ..failure(exit, "you do not look on", &why, &cure) }
    }

    fn unreached(&self) -> Failure {
        let why = format!("{} is not reached", self.there.name);
        failure(exit::TIMEOUT, "you do not look on", &why, "cede devices")
    }

    fn given_up(&self, why: &str) -> Failure {
        let why = format!("{} {why}", self.there.name);
        failure(exit::FAILED, "you look on no more", &why, "cede devices")
    }

    fn cut_off(&self) -> Failure {
        let why = format!("{} sent more than was agreed", self.there.name);
        failure(exit::FAILED, "you look on no more", &why, "")
    }
}
