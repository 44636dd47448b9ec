//! Calls the person when a question waits: one call, many ways, and none of them holds anything up.
//!
//! Each way has a task and a short queue of its own. What does not fit in the queue is left out and counted; what fails is
//! tried again a few times while its question still waits, and said in `cede status` and `cede doctor`.

mod address;
mod buttons;
mod delivery;
mod people;
mod question;
mod replies;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cede_core::limits::{ASKED_IN, ASKED_MOST};
use cede_store::home::Home;
use cede_wire::control::ApprovalSummary;
use cede_wire::control::notify::{NOTICE_SCHEMA, Notice, Sink, SinkSummary};
use cede_wire::id::{ApprovalId, DeviceId};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc};
use tokio::task::{AbortHandle, JoinSet};

use self::buttons::Buttons;
use crate::actor::Actor;
use crate::context::Context;
use crate::limits;

/// The ways to call the person, and who waits to be called about.
#[derive(Default)]
pub(crate) struct Notices {
    /// A question came.
    asked: Notify,
    ways: Mutex<BTreeMap<String, Way>>,
    /// Held by whoever changes the list, from reading it until it is served as it was kept.
    changing: tokio::sync::Mutex<()>,
    /// Why the list was not read; what is there is kept.
    unread: Mutex<Option<String>>,
}

/// One way, with the task that serves it.
struct Way {
    sink: Sink,
    calls: mpsc::Sender<Call>,
    health: Arc<Mutex<Health>>,
    task: AbortHandle,
}

impl Drop for Way {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How a way has done since the daemon began.
#[derive(Debug, Clone, Default)]
struct Health {
    told: u64,
    failed: u64,
    /// Why the last call failed; none where it went through, or where there was none.
    trouble: Option<String>,
    /// Why the answers of its buttons are not read.
    deaf: Option<String>,
}

/// A call on its way.
#[derive(Clone)]
struct Call {
    /// None: a test, which is made once.
    question: Option<ApprovalId>,
    notice: Arc<Notice>,
    /// What buttons would answer; none where there are none.
    asking: Option<Arc<buttons::Asking>>,
}

/// A question that waits.
struct Waiting {
    id: ApprovalId,
    /// The device at which it waits, and its id there.
    which: (DeviceId, ApprovalId),
    age: Duration,
    /// What is said of it.
    notice: Notice,
    asking: Option<Arc<buttons::Asking>>,
}

/// A way as it lies on the disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Kept {
    name: String,
    sink: Sink,
}

impl Notices {
    /// A question came: who looks after calls looks at it.
    pub(crate) fn asked(&self) {
        self.asked.notify_one();
    }

    /// Reads the list and begins to serve it.
    pub(crate) fn begin(context: &Context) {
        match read(&context.home) {
            Ok(kept) => kept.into_iter().for_each(|kept| context.notices.serve(context, kept)),
            Err(error) => {
                tracing::warn!(error, "the ways to call the person were not read");
                *lock(&context.notices.unread) = Some(error);
            }
        }
    }

    /// Ends every task.
    pub(crate) fn end(&self) {
        lock(&self.ways).clear();
    }

    fn serve(&self, context: &Context, kept: Kept) {
        let (calls, inbox) = mpsc::channel(limits::CALLS);
        let health = Arc::new(Mutex::new(Health::default()));
        let task = tokio::spawn(serve(context.clone(), kept.clone(), inbox, health.clone()));
        let way = Way { sink: kept.sink, calls, health, task: task.abort_handle() };
        lock(&self.ways).insert(kept.name, way);
    }

    /// Calls by every way, and waits for none.
    fn call(&self, call: &Call) {
        for (name, way) in &*lock(&self.ways) {
            if way.calls.try_send(call.clone()).is_err() {
                tracing::warn!(name, "a call was left out: earlier ones by this way are not through yet");
                lock(&way.health).give_up("earlier calls are not through yet".to_owned());
            }
        }
    }

    fn summaries(&self) -> Vec<SinkSummary> {
        lock(&self.ways).iter().map(|(name, way)| way.summary(name)).collect()
    }

    /// What a person should look after, for `cede status`.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = lock(&self.unread)
            .iter()
            .map(|why| format!("nobody is called when a question waits: {why}; cede notify"))
            .collect();
        let failing = self.summaries().into_iter().filter(|sink| !sink.detail.is_empty());
        warnings.extend(failing.map(|sink| {
            format!("calls by {} do not go through: {}; cede notify test {}", sink.name, sink.detail, sink.name)
        }));
        warnings
    }

    fn kept(&self) -> Vec<Kept> {
        lock(&self.ways).iter().map(|(name, way)| Kept { name: name.clone(), sink: way.sink.clone() }).collect()
    }
}

impl Way {
    fn summary(&self, name: &str) -> SinkSummary {
        let health = lock(&self.health).clone();
        let trouble = health.trouble.or(health.deaf);
        let state = match (&trouble, health.told) {
            (Some(_), _) => "failing",
            (None, 0) => "untried",
            (None, _) => "ok",
        };
        SinkSummary {
            name: name.to_owned(),
            kind: self.sink.kind().to_owned(),
            place: address::place(&self.sink),
            state: state.to_owned(),
            detail: trouble.unwrap_or_default(),
            told: health.told,
            failed: health.failed,
            buttons: matches!(self.sink, Sink::Ntfy { buttons: true, .. }),
        }
    }
}

impl Health {
    fn give_up(&mut self, why: String) {
        self.failed = self.failed.saturating_add(1);
        self.trouble = Some(why);
    }

    fn succeed(&mut self) {
        self.told = self.told.saturating_add(1);
        self.trouble = None;
    }
}

/// Makes the calls of one way, one after the other.
async fn serve(context: Context, kept: Kept, mut inbox: mpsc::Receiver<Call>, health: Arc<Mutex<Health>>) {
    // Whoever listens to what buttons send ends with the way.
    let mut listening = JoinSet::new();
    while let Some(call) = inbox.recv().await {
        while listening.try_join_next().is_some() {}
        let room = listening.len() < limits::LISTENING;
        let buttons = room.then(|| Buttons::of(&context, &kept.sink, call.asking.as_ref())).flatten();
        let made = make(&context, &kept, &call, buttons.as_ref(), &health).await;
        if let (true, Some(buttons)) = (made, buttons) {
            listening.spawn(replies::listen(context.clone(), buttons, health.clone()));
        }
    }
}

/// Tries a few times, as long as the question waits; a test once. Whether it went through.
async fn make(context: &Context, kept: &Kept, call: &Call, buttons: Option<&Buttons>, health: &Mutex<Health>) -> bool {
    let attempts = if call.question.is_some() { &limits::CALL_PAUSES[..] } else { &[Duration::ZERO] };
    let mut last = None;
    for pause in attempts {
        tokio::time::sleep(*pause).await;
        if !still_waits(context, call.question).await {
            break;
        }
        let header = |buttons: &Buttons| Some((buttons.text(&call.notice), buttons.header(&context.local).ok()?));
        let actions = buttons.and_then(header);
        match delivery::deliver(&kept.sink, &call.notice, actions, limits::CALL_TIME).await {
            Ok(()) => {
                lock(health).succeed();
                return true;
            }
            Err(why) => {
                tracing::warn!(name = kept.name, why, "a call did not go through");
                // Said at once: the person may look long before the last attempt.
                lock(health).trouble = Some(why.clone());
                last = Some(why);
            }
        }
    }
    if let Some(why) = last {
        lock(health).give_up(why);
    }
    false
}

async fn still_waits(context: &Context, question: Option<ApprovalId>) -> bool {
    let Some(id) = question else { return true };
    context.ask(move |actor| actor.waits(id).is_some()).await.unwrap_or(false)
}

/// Calls about every question that still waits after a while, once for each.
pub(crate) async fn watch(context: Context) {
    let mut called: VecDeque<((DeviceId, ApprovalId), Instant)> = VecDeque::new();
    let me = context.local.device();
    loop {
        context.notices.asked.notified().await;
        // One round ends when all questions that wait were called about.
        loop {
            let Ok(waiting) = context.ask(|actor| actor.waiting()).await else { return };
            let fresh = waiting.into_iter().filter(|one| !called.iter().any(|(which, _)| *which == one.which));
            let (due, later): (Vec<_>, Vec<_>) = fresh.partition(|one| one.age >= limits::CALL_AFTER);
            for Waiting { id, which, notice, asking, .. } in due {
                // Another device shows what it likes: of it too no more is called about than a peer may ask. Source: SPEC U-9
                let lately =
                    |((at, _), when): &&((DeviceId, ApprovalId), Instant)| *at == which.0 && when.elapsed() < ASKED_IN;
                if which.0 == me || called.iter().filter(lately).count() < ASKED_MOST {
                    context.notices.call(&Call { question: Some(id), notice: Arc::new(notice), asking });
                }
                // A question that comes again, as on another connection, is the one that was called about.
                called.push_back((which, Instant::now()));
                called.drain(..called.len().saturating_sub(limits::CALLED));
            }
            let next = later.iter().map(|one| limits::CALL_AFTER.saturating_sub(one.age)).min();
            match next {
                Some(wait) => tokio::time::sleep(wait).await,
                None => break,
            }
        }
    }
}

impl Actor {
    /// Which question it is, at which device, and since when it waits here; none where it is over.
    fn waits(&self, id: ApprovalId) -> Option<((DeviceId, ApprovalId), Instant)> {
        let here = self.approvals.get(&id).map(|one| ((self.context.local.device(), id), one.asked));
        here.or_else(|| self.waits_elsewhere(id))
    }

    /// The questions that wait: of this device, and of others that let the person here answer.
    fn waiting(&self) -> Vec<Waiting> {
        let now = Instant::now();
        let waiting = |one: ApprovalSummary| {
            let (which, since) = self.waits(one.id)?;
            let (notice, asking) = (self.notice(&one), self.asking(one.id));
            Some(Waiting { id: one.id, which, age: now.saturating_duration_since(since), notice, asking })
        };
        self.approval_summaries().into_iter().filter(|one| !one.held).filter_map(waiting).collect()
    }

    fn notice(&self, question: &ApprovalSummary) -> Notice {
        let digits = question.id.short();
        Notice {
            schema: NOTICE_SCHEMA.to_owned(),
            event: "question".to_owned(),
            device: self.name.clone(),
            from: question.device.clone(),
            at: question.at.clone(),
            asks: question.kind.clone(),
            text: question.wish(),
            look: "cede approvals".to_owned(),
            allow: format!("cede allow {digits}"),
            deny: format!("cede deny {digits}"),
            digits,
            expires_in_s: question.expires_in_s,
        }
    }
}

fn read(home: &Home) -> Result<Vec<Kept>, String> {
    let bytes = home.secret(FILE).map_err(|error| error.to_string())?;
    bytes.map_or(Ok(Vec::new()), |bytes| parse(&bytes))
}

/// What could have been added, and nothing else: a person may have written into the file.
fn parse(bytes: &[u8]) -> Result<Vec<Kept>, String> {
    let unfit = |why: &str| format!("secrets/{FILE} does not hold them: {why}");
    let kept: Vec<Kept> = serde_json::from_slice(bytes).map_err(|error| unfit(&error.to_string()))?;
    let names: BTreeSet<&str> = kept.iter().map(|one| one.name.as_str()).collect();
    if kept.len() > limits::SINKS || names.len() < kept.len() || !names.into_iter().all(people::is_name) {
        return Err(unfit("there are too many, or their names are none"));
    }
    kept.iter().try_for_each(|one| address::check(&one.sink)).map_err(|why| unfit(&why))?;
    Ok(kept)
}

/// See [`crate::decoders::ways`].
#[cfg(feature = "decoders")]
pub(crate) fn ways(list: &[u8]) -> Result<Vec<(String, Sink, String)>, String> {
    let shown = |kept: Kept| {
        let place = address::place(&kept.sink);
        (kept.name, kept.sink, place)
    };
    Ok(parse(list)?.into_iter().map(shown).collect())
}

fn write(home: &Home, kept: &[Kept]) -> Result<(), String> {
    let bytes = serde_json::to_vec(kept).map_err(|error| error.to_string())?;
    home.put_secret(FILE, &bytes).map_err(|error| match std::error::Error::source(&error) {
        Some(why) => format!("{error}: {why}"),
        None => error.to_string(),
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Addresses may be secrets, so the list is kept as one.
const FILE: &str = "notify";
