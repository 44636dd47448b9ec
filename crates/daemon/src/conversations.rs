//! Conversations of coding agents that somebody reads along, here or on another device. Source: SPEC D-12, D-13.
//!
//! What is told comes out of the agent's own store, which is looked at again and again: the store is the backlog, and
//! nothing of it is kept here. Only the device that is in charge of a session tells what is said in it.

use std::sync::Arc;
use std::time::Instant;

use cede_agent::adapter::{AgentError, Conversation};
use cede_wire::control::terminal::{TerminalEnd, TerminalEvent, ViewRequest, ViewerSays};
use cede_wire::control::{Answer, Failure, ReplyBody, exit};
use cede_wire::conversation::{Bookmark, Piece};
use cede_wire::id::SessionId;
use cede_wire::refusal::Refusal;
use cede_wire::session::{AgentKind, SessionInfo, SessionKey};
use cede_wire::terminal::TerminalBody;
use tokio::sync::mpsc;

use crate::actor::Actor;
use crate::context::Context;
use crate::offering::{failure, stopping};
use crate::terminals::host::say;
use crate::terminals::local::{Lines, hear};
use crate::terminals::viewings::{Flow, Opening};
use crate::{limits, sessions};

/// Whether an agent's sessions are conversations.
pub(crate) const fn is_told(agent: AgentKind) -> bool {
    match agent {
        AgentKind::Codex | AgentKind::ClaudeCode | AgentKind::OpenCode => true,
        AgentKind::Files | AgentKind::Terminal => false,
    }
}

/// Somebody who reads along.
struct Reader {
    context: Context,
    key: SessionKey,
    at: Option<Bookmark>,
    conversation: Option<Conversation>,
    faults: u32,
}

/// What there is to tell.
enum News {
    Piece(Piece),
    /// Nothing for now.
    Nothing,
    /// Nothing any more, and why.
    Over(String),
}

impl Reader {
    fn new(context: &Context, key: SessionKey, at: Option<Bookmark>) -> Self {
        Self { context: context.clone(), key, at, conversation: None, faults: 0 }
    }

    async fn next(&mut self) -> News {
        let session = self.key.id();
        let elsewhere = self.context.ask(move |actor| actor.told_elsewhere(session)).await;
        match elsewhere {
            Ok(None) => {}
            Ok(Some(why)) => return News::Over(why),
            Err(stops) => return News::Over(stops.to_string()),
        }
        let (key, at, conversation) = (self.key.clone(), self.at, self.conversation.take());
        let read = self.context.block(move |context| read(context, &key, conversation, at)).await;
        match read {
            Ok(Ok((piece, conversation))) => {
                self.conversation = Some(conversation);
                self.faults = 0;
                self.took(piece)
            }
            Ok(Err(error)) if self.faults < limits::CONVERSATION_FAULTS => {
                self.faults += 1;
                tracing::debug!(session = %session.short(), %error, "a conversation could not be read; it is tried again");
                News::Nothing
            }
            Ok(Err(error)) => News::Over(error.to_string()),
            Err(stops) => News::Over(stops.to_string()),
        }
    }

    fn took(&mut self, piece: Piece) -> News {
        let moved = self.at != Some(piece.next);
        self.at = Some(piece.next);
        if piece.said.is_empty() && piece.gap.is_none() && !moved { News::Nothing } else { News::Piece(piece) }
    }
}

/// Blocks.
fn read(
    context: &Context,
    key: &SessionKey,
    conversation: Option<Conversation>,
    at: Option<Bookmark>,
) -> Result<(Piece, Conversation), AgentError> {
    let unknown = || AgentError::Unknown { agent: key.agent, native: key.native.clone() };
    let mut conversation = match conversation {
        Some(conversation) => conversation,
        None => context.adapter(key.agent).ok_or_else(unknown)?.conversation(&key.native)?,
    };
    let piece = conversation.said(at)?;
    Ok((piece, conversation))
}

impl Actor {
    /// Why nothing is told of a session here; none where it is.
    fn told_elsewhere(&self, session: SessionId) -> Option<String> {
        if self.custodian.may_act(session) {
            return None;
        }
        let owner = self.custodian.owner(session).unwrap_or(self.context.local.device());
        if owner == self.context.local.device() {
            return Some("nothing is told of the session here: cede status".to_owned());
        }
        Some(format!("the session is at {} now: cede watch {}", self.device_name(owner), session.short()))
    }
}

/// The one conversation here that a text means; none where none does.
pub(crate) async fn meant_here(context: &Context, text: &str) -> Result<Option<SessionInfo>, Failure> {
    let wanted = text.to_owned();
    let named = move |context: &Context| {
        let found = sessions::look(context).sessions;
        let told: Vec<SessionInfo> = found.into_iter().filter(|info| is_told(info.key.agent)).collect();
        sessions::called(&told, &wanted)
    };
    let named = context.block(named).await.map_err(stopping)?;
    let here = move |actor: &mut Actor| -> Vec<SessionInfo> {
        named.into_iter().filter(|info| actor.custodian.may_act(info.key.id())).collect()
    };
    let mut here = context.ask(here).await.map_err(stopping)?;
    if here.len() > 1 {
        return Err(sessions::too_many(&here.iter().collect::<Vec<_>>()));
    }
    Ok(here.pop())
}

/// Reads along for a person at this machine. None: it went away.
pub(crate) async fn read_along(
    context: &Context,
    (info, request): (SessionInfo, &ViewRequest),
    lines: Lines,
    out: &mpsc::Sender<ReplyBody>,
) -> Option<ReplyBody> {
    let session = info.key.id();
    let agent = Some(info.key.agent);
    let opened = TerminalEvent::Opened { session, title: info.title.clone(), device: None, agent };
    out.send(ReplyBody::Terminal(opened)).await.ok()?;
    let (heard, mut says) = mpsc::channel(limits::VIEWER_FRAMES);
    let listening = tokio::spawn(hear(lines, heard));
    let mut reader = Reader::new(context, info.key, request.read);
    let end = tokio::select! {
        over = tell_here(&mut reader, out) => over,
        detached = detached(&mut says) => detached.then(|| format!("{} goes on", info.title)),
    };
    listening.abort();
    let end = TerminalEnd { session, goes_on: true, code: None, signal: None, text: end? };
    Some(ReplyBody::Done(Answer::TerminalEnded(end)))
}

/// Nobody types into a conversation.
pub(crate) fn not_driven(title: &str) -> Failure {
    let why = format!("{title} is the conversation of a coding agent, and only a hosted terminal is typed into");
    failure(exit::USAGE, "you do not drive", &why, "read along: cede watch <session>; to type: cede run -- <agent>")
}

/// None: the client is gone.
async fn tell_here(reader: &mut Reader, out: &mpsc::Sender<ReplyBody>) -> Option<String> {
    loop {
        match reader.next().await {
            News::Piece(piece) => out.send(ReplyBody::Terminal(TerminalEvent::Piece(piece))).await.ok()?,
            News::Nothing => tokio::time::sleep(limits::CONVERSATION_LOOK).await,
            News::Over(why) => return Some(why),
        }
    }
}

/// True: the person detached; false: it is gone. Nothing else that it says means anything here.
async fn detached(says: &mut mpsc::Receiver<ViewerSays>) -> bool {
    while let Some(said) = says.recv().await {
        if said == ViewerSays::Detach {
            return true;
        }
    }
    false
}

/// Tells a viewer on another device, never more than a window ahead of it.
pub(crate) async fn tell(context: Context, opening: Opening, flow: Arc<Flow>, from: Option<Bookmark>) {
    let Opening { asker, viewing, session, .. } = opening;
    let key = context.block(move |context| sessions::find(context, session, None)).await.ok().flatten();
    let Some(key) = key.map(|info| info.key).filter(|key| is_told(key.agent)) else {
        let why = "no such conversation is here";
        return context.tell(move |actor| actor.refuse_viewing(opening, Refusal::NotOwner, why)).await;
    };
    tracing::info!(session = %session.short(), peer = %asker.device.short(), "somebody reads along");
    say(&context, asker, viewing, TerminalBody::Opened).await;
    let mut reader = Reader::new(&context, key, from);
    let (mut sent, mut looked) = (0, Instant::now());
    while !flow.is_over() {
        if looked.elapsed() >= limits::RIGHT_LOOK {
            looked = Instant::now();
            let _stopping = context.ask(move |actor| actor.recheck(asker, viewing)).await;
        }
        if !flow.has_room(sent) {
            flow.wait().await;
            continue;
        }
        match reader.next().await {
            News::Piece(piece) => {
                sent += piece.weight();
                say(&context, asker, viewing, TerminalBody::Piece(piece)).await;
            }
            News::Nothing => tokio::time::sleep(limits::CONVERSATION_LOOK).await,
            News::Over(detail) => {
                say(&context, asker, viewing, TerminalBody::Over { detail }).await;
                context.tell(move |actor| actor.end_viewing(asker, viewing)).await;
            }
        }
    }
    tracing::info!(session = %session.short(), peer = %asker.device.short(), "somebody reads along no more");
}
