//! A person at this machine looks on, over the control socket: output goes out on the connection of the question, what the
//! person types comes in on it.

use std::sync::Arc;

use cede_core::lease::{Asked, ViewerId};
use cede_wire::audit::KeyboardChange;
use cede_wire::control::terminal::{
    Base64, Keyboard, RunRequest, TerminalEnd, TerminalEvent, TerminalSize, TerminalState, ViewRequest, ViewerSays,
};
use cede_wire::control::{Answer, Failure, ReplyBody, exit};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::mpsc;

use super::desk::{TypeError, Who};
use super::keyboard::wished_here;
use super::{Hosted, afar, run};
use crate::context::Context;
use crate::offering::failure;
use crate::{conversations, limits};

/// The lines of one viewer.
pub(crate) type Lines = BufReader<OwnedReadHalf>;

/// What a person sits in front of.
struct Sight {
    hosted: Arc<Hosted>,
    viewer: ViewerId,
    /// What it has seen already.
    from: Option<u64>,
}

/// What a viewer asks for.
pub(crate) enum Question {
    /// To host a command, and to look on.
    Run(RunRequest),
    /// To look on.
    View(ViewRequest),
}

/// Serves one viewer until it detaches, goes away, or the command has ended. What it is told comes back.
pub(crate) fn serve(context: Context, question: Question, lines: Lines) -> mpsc::Receiver<ReplyBody> {
    let (out, told) = mpsc::channel(limits::VIEWER_FRAMES);
    tokio::spawn(attend_to(context, question, lines, out));
    told
}

async fn attend_to(context: Context, question: Question, lines: Lines, out: mpsc::Sender<ReplyBody>) {
    let question = match question {
        Question::View(request) if context.terminals.meant(&request.session).is_empty() => {
            if let Some(last) = view_other(&context, request, lines, &out).await {
                // One that went away needs no last word.
                let _ = out.send(last).await;
            }
            return;
        }
        Question::Run(request) if request.detached => return host(&context, request, &out).await,
        here @ (Question::View(_) | Question::Run(_)) => here,
    };
    let last = match open(&context, question).await {
        Ok(sight) => {
            let end = look_on(&context, &sight, lines, &out).await;
            sight.get_up(&context).await;
            end.map(|end| ReplyBody::Done(Answer::TerminalEnded(end)))
        }
        Err(failed) => Some(ReplyBody::Failed(failed)),
    };
    if let Some(last) = last {
        // One that went away needs no last word.
        let _ = out.send(last).await;
    }
}

/// Hosts a command on which nobody looks.
async fn host(context: &Context, request: RunRequest, out: &mpsc::Sender<ReplyBody>) {
    let last = match run(context, request).await {
        Ok(hosted) => ReplyBody::Done(Answer::TerminalEnded(detached_from(&hosted))),
        Err(failed) => ReplyBody::Failed(failed),
    };
    // One that went away needs no last word.
    let _ = out.send(last).await;
}

/// What is no terminal of this device is a conversation of it, or something of another one. None: the client is gone.
async fn view_other(
    context: &Context,
    request: ViewRequest,
    lines: Lines,
    out: &mpsc::Sender<ReplyBody>,
) -> Option<ReplyBody> {
    match conversations::meant_here(context, &request.session).await {
        Ok(None) => afar::look_on(context, request, lines, out).await,
        Ok(Some(info)) if request.keyboard != Keyboard::No => {
            Some(ReplyBody::Failed(conversations::not_driven(&info.title)))
        }
        Ok(Some(info)) => conversations::read_along(context, (info, &request), lines, out).await,
        Err(failed) => Some(ReplyBody::Failed(failed)),
    }
}

async fn open(context: &Context, question: Question) -> Result<Sight, Failure> {
    let (hosted, request) = match question {
        Question::Run(request) => {
            let keyboard = Keyboard::Wanted;
            let view =
                ViewRequest { session: String::new(), keyboard, size: Some(request.size), from: None, read: None };
            (run(context, request).await?, view)
        }
        Question::View(request) => (meant(context, &request.session)?, request),
    };
    sit_down(context, hosted, &request).await
}

async fn sit_down(context: &Context, hosted: Arc<Hosted>, request: &ViewRequest) -> Result<Sight, Failure> {
    let Some(viewer) = hosted.sit_down(Who::here()) else {
        let why = format!("{} look on already", limits::VIEWERS);
        return Err(failure(exit::FAILED, "you do not look on", &why, "cede status"));
    };
    let sight = Sight { hosted, viewer, from: request.from };
    let insist = request.keyboard == Keyboard::Insisted;
    if request.keyboard != Keyboard::No {
        match wished_here(context, &sight.hosted, viewer, insist).await {
            Some(Asked::Granted { .. }) => take_size(context, &sight, request.size),
            Some(Asked::Driven(_) | Asked::Held) if request.keyboard == Keyboard::IfFree => {}
            refused => {
                sight.get_up(context).await;
                return Err(driven(&sight.hosted, refused));
            }
        }
    }
    Ok(sight)
}

fn take_size(context: &Context, sight: &Sight, size: Option<TerminalSize>) {
    if let Some(size) = size {
        sight.hosted.resize(sight.viewer, size, context.clock.now());
    }
}

fn driven(hosted: &Hosted, asked: Option<Asked>) -> Failure {
    let who = match asked {
        Some(Asked::Driven(other)) => hosted.driver_name(other),
        Some(Asked::Granted { .. } | Asked::Held) | None => "the person at the machine".to_owned(),
    };
    let short = hosted.session.short();
    let cure = format!("look on: cede watch {short}; take the keyboard: cede drive {short} --force");
    failure(exit::PENDING, "you do not drive", &format!("{who} drives {} now", hosted.title), &cure)
}

/// The terminal that a person means.
pub(crate) fn meant(context: &Context, text: &str) -> Result<Arc<Hosted>, Failure> {
    let found = context.terminals.meant(text);
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => {
            let why = format!("no terminal that this device hosts is called {text}");
            Err(failure(exit::USAGE, "no terminal is meant", &why, "cede ls; to host one: cede run"))
        }
        several => {
            let list: Vec<String> =
                several.iter().take(5).map(|one| format!("{} ({})", one.session.short(), one.title)).collect();
            let why = format!("{} terminals fit: {}", several.len(), list.join(", "));
            Err(failure(exit::USAGE, "it is not clear which terminal is meant", &why, "name one by its id"))
        }
    }
}

/// None: the client is gone.
async fn look_on(context: &Context, sight: &Sight, lines: Lines, out: &mpsc::Sender<ReplyBody>) -> Option<TerminalEnd> {
    let opened = TerminalEvent::Opened {
        session: sight.hosted.session,
        title: sight.hosted.title.clone(),
        device: None,
        agent: None,
    };
    out.send(ReplyBody::Terminal(opened)).await.ok()?;
    tokio::select! {
        end = show(context, sight, out) => end,
        detached = listen(context, sight, lines, out) => detached.then(|| detached_from(&sight.hosted)),
    }
}

fn detached_from(hosted: &Hosted) -> TerminalEnd {
    let text = format!("detached; {} goes on: cede attach {}", hosted.title, hosted.session.short());
    TerminalEnd { session: hosted.session, goes_on: true, code: None, signal: None, text }
}

/// Shows what comes, until the command has ended. None: the client is gone.
async fn show(context: &Context, sight: &Sight, out: &mpsc::Sender<ReplyBody>) -> Option<TerminalEnd> {
    let hosted = &sight.hosted;
    let mut screen = hosted.terminal.view(sight.from);
    let mut changed = hosted.news.changed.subscribe();
    let mut told: Option<TerminalState> = None;
    loop {
        let state = hosted.state(sight.viewer, context.clock.now());
        if told.as_ref() != Some(&state) {
            out.send(ReplyBody::Terminal(TerminalEvent::State(state.clone()))).await.ok()?;
            told = Some(state);
        }
        let end = hosted.terminal.end();
        let frame = screen.next(limits::FRAME_BYTES);
        match (frame, end) {
            (Some(frame), _) => {
                let bytes = Base64(frame.bytes);
                let output = TerminalEvent::Output { fresh: frame.fresh, bytes, next: frame.next };
                out.send(ReplyBody::Terminal(output)).await.ok()?;
            }
            (None, Some(end)) => return Some(hosted.last_word(end)),
            (None, None) => {
                // Leases end by silence, which tells nobody.
                let _ = tokio::time::timeout(limits::VIEWER_LOOK, changed.changed()).await;
            }
        }
    }
}

/// Passes on what a viewer says, line by line, until it is gone or says something else.
pub(crate) async fn hear(mut lines: Lines, heard: mpsc::Sender<ViewerSays>) {
    while let Some(says) = next(&mut lines).await {
        if heard.send(says).await.is_err() {
            return;
        }
    }
}

async fn next(lines: &mut Lines) -> Option<ViewerSays> {
    let mut line = Vec::new();
    lines.take(limits::VIEWER_LINE_BYTES).read_until(b'\n', &mut line).await.ok()?;
    let whole = line.last() == Some(&b'\n');
    whole.then(|| serde_json::from_slice(&line).ok()).flatten()
}

/// Listens to the person. True: it detached; false: it is gone.
async fn listen(context: &Context, sight: &Sight, mut lines: Lines, out: &mpsc::Sender<ReplyBody>) -> bool {
    loop {
        let Some(says) = next(&mut lines).await else { return false };
        if says == ViewerSays::Detach {
            return true;
        }
        if let Some(text) = sight.heard(context, says).await {
            // A viewer whose lines are not taken has more pressing troubles than this note.
            let _ = out.try_send(ReplyBody::Terminal(TerminalEvent::Note { text }));
        }
    }
}

impl Sight {
    /// It looks on no more.
    async fn get_up(&self, context: &Context) {
        let (hosted, viewer) = (self.hosted.clone(), self.viewer);
        context.tell(move |actor| actor.gets_up(&hosted, viewer)).await;
    }

    /// Something to say to the person, where there is.
    async fn heard(&self, context: &Context, says: ViewerSays) -> Option<String> {
        let (hosted, now) = (&self.hosted, context.clock.now());
        match says {
            ViewerSays::Typed { bytes } => match hosted.type_in(self.viewer, &bytes.0, now) {
                Ok(()) | Err(TypeError::NotDriver) => None,
                Err(error @ TypeError::NotTaken(_)) => Some(error.to_string()),
            },
            ViewerSays::Resized { size } => {
                hosted.resize(self.viewer, size, now);
                None
            }
            ViewerSays::Beat => {
                hosted.beat(self.viewer, now);
                None
            }
            ViewerSays::Keyboard { insist } => match wished_here(context, hosted, self.viewer, insist).await? {
                Asked::Granted { .. } => None,
                Asked::Driven(other) => Some(format!("{} drives", hosted.driver_name(other))),
                Asked::Held => Some("the terminal is held".to_owned()),
            },
            ViewerSays::LetGo => {
                let (hosted, viewer) = (hosted.clone(), self.viewer);
                context.tell(move |actor| actor.keyboard_ends(&hosted, viewer, KeyboardChange::LetGo)).await;
                None
            }
            ViewerSays::Detach => None,
        }
    }
}
