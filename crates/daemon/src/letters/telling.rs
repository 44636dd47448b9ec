//! `cede tell`: a letter is durable here before anybody hears that it is queued; who waits hears how far it came.

use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cede_core::ledger::{Heading, MarkError, TellError, Told};
use cede_wire::canonical::encode;
use cede_wire::control::{Answer, Failure, ReplyBody, TellRequest, TellUntil, exit};
use cede_wire::id::{DeviceId, Hash, SessionId};
use cede_wire::letter::{Letter, LetterFacts, LetterId, LetterState};
use cede_wire::refusal::Refusal;

use crate::actor::Actor;
use crate::clock::{random, unix_ms};
use crate::context::Context;
use crate::control::Replies;
use crate::offering::{failure, stopping};
use crate::sessions;
use crate::tasks::leave_tasks;

/// Those who wait until a letter is somewhere.
#[derive(Default)]
pub(crate) struct Watches(Vec<Watch>, u64);

struct Watch {
    number: u64,
    id: LetterId,
    until: TellUntil,
    /// Waits as long as it takes, and hears of each step.
    patient: bool,
    replies: Replies,
}

/// Letters on their way to the ledger. Those that come while others are written are written together, with few flushes.
/// No more wait than clients are served.
#[derive(Clone, Default)]
pub(crate) struct Tellings(Arc<Mutex<Waiting>>);

#[derive(Default)]
struct Waiting {
    letters: Vec<Telling>,
    /// Somebody takes them.
    taken_care_of: bool,
}

struct Telling {
    told: Told,
    letter: Vec<u8>,
    parent: Option<LetterId>,
    request: TellRequest,
    replies: Replies,
}

impl Tellings {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True: whoever added it has to take care of all of them.
    fn add(&self, telling: Telling) -> bool {
        let mut waiting = self.lock();
        waiting.letters.push(telling);
        !core::mem::replace(&mut waiting.taken_care_of, true)
    }

    /// None: nothing waits, and the next one to add something takes care of it.
    fn take(&self) -> Option<Vec<Telling>> {
        let mut waiting = self.lock();
        waiting.taken_care_of = !waiting.letters.is_empty();
        waiting.taken_care_of.then(|| core::mem::take(&mut waiting.letters))
    }
}

/// Where words go.
pub(crate) struct Address {
    pub(crate) heading: Heading,
    /// The device's name.
    pub(crate) name: String,
    /// The message that they answer, with the digest of its words.
    parent: Option<(LetterId, Hash)>,
}

impl Actor {
    pub(crate) fn ask_tell(&mut self, request: TellRequest, replies: Replies) {
        match self.heading(&request) {
            Ok(address) => {
                let context = self.context.clone();
                tokio::spawn(async move { tell(&context, request, address, replies).await });
            }
            Err(failed) => replies.failed(failed),
        }
    }

    pub(crate) fn heading(&self, request: &TellRequest) -> Result<Address, Failure> {
        if self.read_only {
            return Err(failure(exit::FAILED, NOT_TOLD, "the journal is damaged", "cede doctor"));
        }
        if request.text.trim().is_empty() {
            let cure = "cede tell <device> \"the words\", or - to read them from the standard input";
            return Err(failure(exit::USAGE, NOT_TOLD, "there are no words", cure));
        }
        let longest = cede_core::limits::LETTER_TTL.as_secs();
        if let Some(seconds) = request.expires_in_s.filter(|seconds| !(1..=longest).contains(seconds)) {
            let why = format!("{seconds} s is no time that it may wait: 1 s to {longest} s");
            return Err(failure(exit::USAGE, NOT_TOLD, &why, "--expires 2h"));
        }
        let parent = request.reply.as_ref().map(|reply| self.find_received(reply)).transpose()?;
        let parent = parent.map(|parent| (parent.kept.id, parent.kept.facts.digest));
        let heading = match parent {
            Some((parent, _)) => self.ledger.reply_to(parent).map_err(|error| self.not_told(&error, None))?,
            None => {
                let to = self.find_member(&request.device)?.device();
                Heading { to, in_reply_to: None, conversation: None, hops: 0 }
            }
        };
        let name = self.device_name(heading.to);
        if !self.has_journal_room() {
            let why = "full: the journal is so long that the rest of it is for moves and receipts";
            return Err(failure(exit::PENDING, NOT_TOLD, why, "a restart shortens it: cede stop; cede up"));
        }
        self.is_there(heading.to)?;
        self.ledger
            .may_tell(heading.to, request.text.len())
            .map_err(|error| self.not_told(&error, Some(heading.to)))?;
        Ok(Address { heading, name, parent })
    }

    fn is_there(&self, device: DeviceId) -> Result<(), Failure> {
        if self.peers.is_member(device) {
            return Ok(());
        }
        let name = self.peers.former_name(device).unwrap_or_else(|| self.device_name(device));
        let why = format!("{name} is no member any more");
        Err(failure(exit::FAILED, NOT_TOLD, &why, "cede devices"))
    }

    /// The words are durable: the ledger takes the letter, if what was so before they were written is so still. If not, the
    /// words go.
    pub(crate) fn tell_kept(&mut self, told: Told, parent: Option<LetterId>) -> Result<LetterId, Failure> {
        let id = self.is_there(told.to).and_then(|()| {
            let may = parent.map_or(Ok(()), |parent| self.ledger.reply_to(parent).map(|_| ()));
            let id = may.and_then(|()| self.ledger.tell(told, self.context.clock.now()));
            id.map_err(|error| self.not_told(&error, Some(told.to)))
        });
        if id.is_err() {
            self.forget_words(&told.facts.digest);
        }
        id
    }

    pub(crate) fn not_told(&self, error: &TellError, to: Option<DeviceId>) -> Failure {
        let why = match error {
            TellError::PassedOn(next) => format!("{error}, to {}", self.device_name(*next)),
            TellError::NotBegun
            | TellError::ToSelf
            | TellError::TooLong(_)
            | TellError::Full { .. }
            | TellError::TooMany
            | TellError::Unknown
            | TellError::Exhausted(_)
            | TellError::Answered(_) => error.to_string(),
        };
        let name = to.map_or_else(|| "the device".to_owned(), |to| self.device_name(to));
        let cure = match error {
            TellError::Full { .. } | TellError::TooMany => {
                format!("start {name}, or look what waits: cede inbox --sent")
            }
            TellError::TooLong(_) => "say less; a file goes another way".to_owned(),
            TellError::Unknown => "cede inbox".to_owned(),
            TellError::PassedOn(next) => format!("cede tell {}", self.device_name(*next)),
            TellError::Exhausted(_) | TellError::Answered(_) => "begin a new one: cede tell <device> \"…\"".to_owned(),
            TellError::NotBegun | TellError::ToSelf => "cede doctor".to_owned(),
        };
        let exit = match error {
            TellError::Full { .. } | TellError::TooMany => exit::PENDING,
            TellError::Exhausted(_) | TellError::Answered(_) => exit::REFUSED,
            TellError::TooLong(_) | TellError::Unknown | TellError::ToSelf => exit::USAGE,
            TellError::NotBegun | TellError::PassedOn(_) => exit::FAILED,
        };
        failure(exit, NOT_TOLD, &why, &cure)
    }

    /// The ledger takes the letter, and who waits is noted.
    fn told(&mut self, telling: &Telling) -> Result<(), Failure> {
        let (told, parent) = (telling.told, telling.parent);
        let id = self.tell_kept(told, parent)?;
        if let Some(parent) = parent {
            // Whoever answers has dealt with it. One that ended before stays as it ended.
            let marked = self.ledger.mark(parent, LetterState::Acted, self.context.clock.now());
            debug_assert!(!matches!(marked, Err(MarkError::Unknown)), "it was answered");
        }
        self.reach(told.to);
        self.watch(id, &telling.request, telling.replies.clone());
        Ok(())
    }

    fn watch(&mut self, id: LetterId, request: &TellRequest, replies: Replies) {
        self.watches.0.retain(|watch| !watch.replies.watcher().is_closed());
        // No number comes again: the time of one that has ended may not be over.
        self.watches.1 += 1;
        let number = self.watches.1;
        let wait = request.wait_ms.map(Duration::from_millis);
        // Nobody waits a moment for a device that is away.
        let away = wait.is_some() && !self.peers.is_connected(id.stream);
        let until = if away { TellUntil::Queued } else { request.until };
        self.watches.0.push(Watch { number, id, until, patient: wait.is_none(), replies });
        self.once_durable(move |actor| {
            actor.told_moved(id);
            let waits = actor.watches.0.iter().any(|watch| watch.number == number);
            if let Some(wait) = wait.filter(|_| waits) {
                let context = actor.context.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(wait).await;
                    context.tell(move |actor| actor.give_up_watch(number)).await;
                });
            }
        });
    }

    /// Who waited for this hears of it.
    pub(crate) fn told_moved(&mut self, id: LetterId) {
        let state = self.ledger.told(id).and_then(|letter| letter.kept.state);
        let there = |watch: &mut Watch| watch.id == id && reached(watch.until, state);
        let there: Vec<Watch> = self.watches.0.extract_if(.., there).collect();
        for watch in self.watches.0.iter().filter(|watch| watch.id == id && watch.patient) {
            if let Some(letter) = self.ledger.told(id) {
                watch.replies.say(ReplyBody::Telling(Box::new(self.sent_summary(&letter, String::new()))));
            }
        }
        there.iter().for_each(|watch| self.answer_watch(watch));
    }

    /// Of what was told to a device that was removed nothing is heard any more.
    pub(super) fn end_watches_of(&mut self, device: DeviceId) {
        for watch in self.watches.0.extract_if(.., |watch| watch.id.stream == device) {
            let why = "the device was removed, and what waited for it is gone";
            watch.replies.failed(failure(exit::FAILED, "nothing more is heard of the message", why, "cede devices"));
        }
    }

    fn give_up_watch(&mut self, number: u64) {
        if let Some(at) = self.watches.0.iter().position(|watch| watch.number == number) {
            let watch = self.watches.0.remove(at);
            self.answer_watch(&watch);
        }
    }

    fn answer_watch(&self, watch: &Watch) {
        let Some(letter) = self.ledger.told(watch.id) else { return };
        watch.replies.done(Answer::Told(Box::new(self.sent_summary(&letter, String::new()))));
    }
}

/// Whether a letter came as far as somebody waits for.
fn reached(until: TellUntil, state: Option<LetterState>) -> bool {
    match (until, state) {
        (TellUntil::Queued, _) | (TellUntil::Received, Some(_)) => true,
        (_, Some(state)) if state.is_final() => true,
        (TellUntil::Shown, Some(state)) => state != LetterState::Received,
        (TellUntil::Received | TellUntil::Shown | TellUntil::Ended, _) => false,
    }
}

async fn tell(context: &Context, request: TellRequest, address: Address, replies: Replies) {
    let Address { heading, name, parent } = address;
    if let Some(parent) = parent
        && let Err(failed) = leave_tasks(context, parent, NOT_TOLD).await
    {
        return replies.failed(failed);
    }
    let wanted = request.session.clone();
    let session = match wanted {
        Some(text) => match session_there(context, heading.to, &text, &name).await {
            Ok(session) => Some(session),
            Err(failed) => return replies.failed(failed),
        },
        None => None,
    };
    let letter = match letter(&request, &heading, session) {
        Ok(letter) => letter,
        Err(failed) => return replies.failed(failed),
    };
    let facts = LetterFacts::of(&letter);
    let expires = request.expires_in_s.map_or(cede_core::limits::LETTER_TTL, Duration::from_secs);
    let told = Told { to: heading.to, facts, expires };
    let parent = parent.map(|(parent, _)| parent);
    if context.tellings.add(Telling { told, letter: encode(&letter), parent, request, replies }) {
        while let Some(tellings) = context.tellings.take() {
            keep_and_tell(context, tellings).await;
        }
    }
}

/// The words become durable, then the ledger takes the letters.
async fn keep_and_tell(context: &Context, mut tellings: Vec<Telling>) {
    let words: Vec<Vec<u8>> = tellings.iter_mut().map(|telling| core::mem::take(&mut telling.letter)).collect();
    let kept = context.block(move |context| context.letters.put_all(&words).map(|()| words)).await;
    let kept = match kept {
        Ok(Ok(words)) => Ok(words),
        Ok(Err(error)) => Err(failure(exit::FAILED, NOT_TOLD, &error.to_string(), "look at the disk: cede doctor")),
        Err(stops) => Err(stopping(stops)),
    };
    let words = match kept {
        Ok(words) => words,
        Err(failed) => return tellings.into_iter().for_each(|telling| telling.replies.failed(failed.clone())),
    };
    let all = move |actor: &mut Actor| {
        for (telling, words) in tellings.into_iter().zip(words) {
            match actor.told(&telling) {
                Ok(()) => actor.words.remember(telling.told.facts.digest, words),
                Err(failed) => telling.replies.failed(failed),
            }
        }
    };
    context.tell(all).await;
}

fn letter(request: &TellRequest, heading: &Heading, session: Option<SessionId>) -> Result<Letter, Failure> {
    let nonce = random().map_err(|error| failure(exit::FAILED, NOT_TOLD, &error.to_string(), "cede doctor"))?;
    Ok(Letter {
        nonce,
        session,
        in_reply_to: heading.in_reply_to,
        conversation: heading.conversation,
        hops: heading.hops,
        told_unix_ms: unix_ms(),
        text: request.text.clone(),
        part: None,
    })
}

impl Actor {
    /// What to type for a session that is at another device than the one that was named.
    fn where_to_name(&self, owner: DeviceId, text: &str) -> String {
        if owner == self.context.local.device() {
            return "cede ls".to_owned();
        }
        let gone = || format!("that device is no member any more; to go on here: cede take --force {text}");
        self.peers.member(owner).map_or_else(gone, |member| format!("name it there: {}/{text}", member.name))
    }
}

/// The session at that device that a text means, as far as the device told of its sessions.
pub(crate) async fn session_there(
    context: &Context,
    device: DeviceId,
    text: &str,
    name: &str,
) -> Result<SessionId, Failure> {
    let wanted = text.to_owned();
    let here = context.ask(move |actor| {
        let session = actor.known(Some(&wanted), "")?;
        let owner = actor.custodian.owner(session).filter(|owner| *owner != device);
        Some((session, owner.map(|owner| (actor.where_to_name(owner, &wanted), actor.device_name(owner)))))
    });
    match here.await.map_err(stopping)? {
        None => {}
        Some((session, None)) => return Ok(session),
        // Whoever is named would be told of what another one gets.
        Some((_, Some((cure, owner)))) => {
            let why = format!("{text} is at {owner}, not at {name}");
            return Err(failure(exit::NOT_OWNER, NOT_TOLD, &why, &cure));
        }
    }
    let wanted = text.to_owned();
    let found = context.block(move |context| {
        let listed: Vec<_> = context.listings.of(device).into_iter().map(|one| one.info).collect();
        sessions::pick(&listed, Some(&wanted), "").map(|info| info.key.id())
    });
    let mut found = found.await.map_err(stopping)?;
    if found.is_err()
        && let Some(listed) = sessions::of_peer(context, device).await
    {
        // It may have begun since that device told of its sessions last.
        found = sessions::pick(&listed, Some(text), "").map(|info| info.key.id());
    }
    found.map_err(|failed| {
        let why = format!("{name} told of no session called {text}");
        Failure {
            refusal: None::<Refusal>,
            ..failure(failed.exit, NOT_TOLD, &why, "cede ls; cede tell <device> \"…\"")
        }
    })
}

const NOT_TOLD: &str = "nothing was told";
