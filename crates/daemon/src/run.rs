//! From a directory to a running daemon, and back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use cede_agent::adapter::adapters;
use cede_carrier::discovery::{Announcement, Discovery, Scope};
use cede_carrier::endpoint::{BindError, Endpoint, Incoming};
use cede_core::authority::approvers::Approvers;
use cede_core::chain::ChainError;
use cede_core::custodian::{Custodian, RestoreError, Trust};
use cede_core::ledger::Ledger;
use cede_core::tasks::TaskBook;
use cede_core::transfers::Transfers;
use cede_mesh::membership::{LogError, MembershipLog};
use cede_seal::device::LocalDevice;
use cede_store::audit::AuditError;
use cede_store::home::{Home, IncarnationError, OpenError, SecretError};
use cede_store::journal::{CommitError, Condition, Journal, JournalError, Replay};
use cede_store::objects::{ObjectError, Objects};
use cede_wire::id::{DeviceId, Incarnation};
use cede_wire::record::{Doubt, Record};
use tokio::net::UnixListener;
use tokio::sync::mpsc;

use crate::actor::{Actor, Input, LoopError};
use crate::audit::Audit;
use crate::authorities::Authorities;
use crate::clock::{Clock, NoRandomness, random};
use crate::context::{Context, Shared};
use crate::control::{self, SocketError};
use crate::limits;
use crate::options::Options;
use crate::peers::{Door, Peers};
use crate::seizing::Seizes;
use crate::succession;
use crate::tasks::Tasks;
use crate::transfers::TransferPlan;
use crate::witness::{Found, Mark, Members, Witness};

/// Why a daemon did not start, or ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The state directory cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The key file cannot be used.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The key file holds something else.
    #[error(
        "the identity file holds no key of 32 bytes; restore it from a backup, or move the state directory away to begin anew"
    )]
    NotAKey,
    /// There is a journal of another key and no key.
    #[error(
        "the key of this device is gone (secrets/identity) and its journal is here; restore the file from a backup, or move the state directory away to begin anew as another device"
    )]
    KeyLost,
    /// The incarnation file cannot be used.
    #[error(transparent)]
    Incarnation(#[from] IncarnationError),
    /// The journal cannot be opened.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The objects cannot be opened.
    #[error(transparent)]
    Objects(#[from] ObjectError),
    /// The membership records contradict each other.
    #[error("the membership records do not hold")]
    Members(#[from] LogError),
    /// The journal is whole, so there is no reason to begin anew.
    #[error("the journal is whole; start without --start-over")]
    NothingDamaged,
    /// The custody records contradict each other.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The address is taken or not ours.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The control socket cannot be opened.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The audit log cannot be written.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// No random bytes.
    #[error(transparent)]
    Random(#[from] NoRandomness),
    /// The sessions could not go to the new key. Nothing changed.
    #[error("the custody records contradict each other")]
    Succession(#[source] ChainError),
    /// The journal could not be written when the mesh was left. The old key counts.
    #[error("the mesh cannot be left now")]
    Leave(#[source] CommitError),
    /// The journal failed while the daemon ran.
    #[error(transparent)]
    Loop(#[from] LoopError),
}

/// What the journal says that is not the custodian's.
#[derive(Default)]
struct Facts {
    members: Vec<cede_wire::canonical::Signed<cede_wire::member::MemberEntry>>,
    dropped: BTreeSet<DeviceId>,
    approvers: BTreeSet<DeviceId>,
    ruled: Vec<crate::rules::Ruled>,
    addresses: BTreeMap<DeviceId, String>,
    placed: BTreeMap<cede_wire::id::SessionId, cede_wire::record::PlacedSession>,
    tasks: TaskBook,
}

/// A daemon that answers now, for the person who started it.
#[derive(Debug, Clone)]
pub struct Up {
    /// Its name.
    pub name: String,
    /// Its id.
    pub device: DeviceId,
    /// The names of the devices that it is paired with.
    pub peers: Vec<String>,
    /// Where it listens.
    pub listening: String,
    /// What another machine would type to reach it.
    pub reachable: String,
}

/// Runs a daemon until it is told to stop: by `cede stop`, SIGTERM or SIGINT. `told` hears when it answers.
///
/// # Errors
/// [`RunError`]; nothing was acted on after it.
pub async fn run(options: Options, told: impl FnOnce(&Up)) -> Result<(), RunError> {
    let (mut actor, inbox, listener) = wake(&options)?;
    let context = actor.context.clone();
    tracing::info!(listening = %crate::commands::listening(&context), socket = %options.socket.display(), "up");
    told(&Up {
        name: actor.name.clone(),
        device: context.local.device(),
        peers: actor.peers.members().into_iter().map(|member| member.name).collect(),
        listening: crate::commands::listening(&context),
        reachable: crate::commands::reachable(&context),
    });
    actor.keep_links();
    crate::notices::Notices::begin(&context);
    let around = [
        tokio::spawn(control::serve(context.clone(), listener)),
        tokio::spawn(accept(context.clone())),
        tokio::spawn(discover(context.clone())),
        tokio::spawn(stop_on_signal(context.clone())),
        tokio::spawn(forget(context.clone())),
        tokio::spawn(crate::notices::watch(context.clone())),
    ];
    // On a thread of the pool, where those run that ask it: on one of its own each question would wake that one first.
    let ended = tokio::spawn(actor.run(inbox)).await.unwrap_or_else(|fault| match fault.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Ok(()),
    });
    around.iter().for_each(tokio::task::JoinHandle::abort);
    context.notices.end();
    context.terminals.end_all().await;
    // What tasks started does not outlive the daemon.
    let all = context.turns.acquire_many(limits::TASKS_RUNNING as u32);
    if tokio::time::timeout(limits::TURNS_END, all).await.is_err() {
        tracing::error!("a task's programs do not end; the next start ends them");
    }
    context.endpoint.close().await;
    context.listings.close();
    // Last: who waits for the end of this daemon waits for its socket to go.
    let _ = std::fs::remove_file(&options.socket);
    tracing::info!("stopped");
    Ok(ended?)
}

/// From what is on the disk to what is known: the journal says who may act, before anything is heard.
fn wake(options: &Options) -> Result<(Actor, mpsc::Receiver<Input>, UnixListener), RunError> {
    let home = Home::open(&options.state)?;
    forget_calls(options);
    let incarnation = home.incarnation(random()?)?;
    let witness = Witness::open(&options.notes, home.dir(), incarnation);
    let (local, journal, mut replay, damaged) = remember(&home, &witness, options.start_over)?;
    let facts = Facts::of(&replay.records);
    let log = log_of(&facts)?;
    let clock = Clock::start();
    let trust = if damaged { Trust::Unconfirmed } else { Trust::Whole };
    let (mark, found) = begin_marked(&witness, &journal, &mut replay, log.as_ref(), trust)?;
    let (mesh, records) = (log.as_ref().map(MembershipLog::mesh), replay.records.iter());
    let mut custodian = Custodian::restore(local.clone(), incarnation, mesh, records, trust, clock.now())?;
    let ledger = Ledger::restore(local.device(), replay.records.iter(), clock.now());
    let offer_of = |transfer| TransferPlan::load_offer(&options.state, transfer);
    let transfers = Transfers::restore(local.clone(), replay.records.iter(), &offer_of, clock.now());
    drop(replay);
    let name = name_of(options, log.as_ref(), &local);
    let peers = known_peers(local.device(), log, facts.dropped, facts.addresses)?;
    believe_peers(&mut custodian, &peers, &found);
    let mut approvers = Approvers::restore(facts.approvers);
    approvers.retain(|device| peers.is_member(device));
    let endpoint = Endpoint::bind(&local, options.listen, peers.door.clone())?;
    let listener = control::listen(&options.socket)?;
    let (inputs, inbox) = mpsc::channel(limits::INPUTS);
    let context = share(options, (local, home), endpoint, clock, inputs, &ledger)?;
    facts.placed.values().for_each(|placed| context.locate(placed));
    let audit = Audit::open(&context.home, context.local.device())?;
    let authorities = Authorities::restore(&facts.ruled, audit.not_before(clock.now()));
    let actor = Actor {
        custodian,
        ledger,
        watches: crate::letters::Watches::default(),
        transfers,
        files: crate::transfers::Files::default(),
        viewings: crate::terminals::viewings::Viewings::default(),
        afar: crate::terminals::afar::Afar::default(),
        words: crate::letters::WordsInHand::default(),
        tasks: Tasks::of(facts.tasks),
        journal,
        read_only: damaged,
        name,
        peers,
        pairing: crate::pairing::Pairing::default(),
        placed: facts.placed,
        audit,
        mirrors: crate::mirrors::MirrorDesk::open(&context.home),
        context,
        authorities,
        moves: crate::moves::Moves::default(),
        leaving: BTreeMap::new(),
        arriving: BTreeMap::new(),
        approvals: BTreeMap::new(),
        approvers,
        questions_changed: false,
        elsewhere: BTreeMap::new(),
        settled: crate::approvals::Settled::default(),
        takes: crate::take::Takes::default(),
        listings: Vec::new(),
        errands: crate::errands::Errands::default(),
        unkept: BTreeMap::new(),
        resent: BTreeMap::new(),
        pending: VecDeque::new(),
        afterwards: VecDeque::new(),
        seizes: Seizes::default(),
        witness,
        mark,
    };
    Ok((actor, inbox, listener))
}

fn share(
    options: &Options,
    (local, home): (Arc<LocalDevice>, Home),
    endpoint: Endpoint,
    clock: Clock,
    inputs: mpsc::Sender<Input>,
    ledger: &Ledger,
) -> Result<Context, RunError> {
    Ok(Context::new(Shared {
        objects: Objects::open(&home)?,
        letters: open_letters(&home, ledger)?,
        tellings: crate::letters::Tellings::default(),
        scope: scope(options.discovery, &endpoint),
        received: options.received.clone(),
        receive_limit: options.receive_limit,
        question_life: options.question_life.min(limits::APPROVAL),
        listings: crate::listings::Listings::open(&home),
        adapters: adapters(&options.surroundings),
        surroundings: options.surroundings.clone(),
        state: options.state.clone(),
        routes: dashmap::DashMap::new(),
        places: dashmap::DashMap::new(),
        greeting: tokio::sync::Notify::new(),
        last_look: crate::sessions::LastLook::default(),
        terminals: crate::terminals::Terminals::default(),
        notices: crate::notices::Notices::default(),
        turns: Arc::new(tokio::sync::Semaphore::new(limits::TASKS_RUNNING)),
        stages: std::sync::Mutex::default(),
        captures: std::sync::Mutex::default(),
        fencing: Default::default(),
        hands: std::sync::Mutex::default(),
        local,
        home,
        endpoint,
        clock,
        inputs,
    }))
}

/// The words of letters; those that no letter needs any more go.
fn open_letters(home: &Home, ledger: &Ledger) -> Result<Objects, ObjectError> {
    let letters = Objects::open_letters(home)?;
    let removed = letters.retain(&ledger.words())?;
    tracing::debug!(removed, "the words of old messages are gone");
    Ok(letters)
}

fn log_of(facts: &Facts) -> Result<Option<MembershipLog>, RunError> {
    Ok((!facts.members.is_empty()).then(|| MembershipLog::from_entries(&facts.members)).transpose()?)
}

/// Whose votes count, and whether what peers say is enough to confirm what was put back.
fn believe_peers(custodian: &mut Custodian, peers: &Peers, found: &Found) {
    custodian.set_electorate(peers.electorate());
    custodian.set_peers_suffice(custodian.doubt() == Some(Doubt::RolledBack) && found.members_whole);
}

fn known_peers(
    me: DeviceId,
    log: Option<MembershipLog>,
    dropped: BTreeSet<DeviceId>,
    addresses: BTreeMap<DeviceId, String>,
) -> Result<Peers, NoRandomness> {
    let mut peers = Peers::new(me, log, Arc::new(Door::default()));
    (peers.dropped, peers.addresses) = (dropped, addresses);
    peers.run = u64::from_le_bytes(random()?);
    peers.refresh_door();
    Ok(peers)
}

/// The key and the journal, after a leaving that was begun is finished; and whether the journal is damaged.
fn remember(
    home: &Home,
    witness: &Witness,
    mut start_over: bool,
) -> Result<(Arc<LocalDevice>, Journal, Replay, bool), RunError> {
    let known = identity(home)?;
    let (mut journal, mut replay) = match Journal::open(home) {
        // The operator knows that it is gone: what it said, nobody acts on until it is confirmed.
        Err(JournalError::Missing) if start_over => {
            drop(Journal::start_over(home, &[Record::Doubted { why: Doubt::Damaged }])?);
            start_over = false;
            Journal::open(home)?
        }
        opened => opened?,
    };
    let local = match known {
        Some(local) => local,
        None if replay.records.is_empty() => begin_identity(home)?,
        None => return Err(RunError::KeyLost),
    };
    let mut damaged = report_condition(&replay);
    if start_over {
        journal = begin_anew(home, journal, &mut replay, damaged)?;
        damaged = false;
    }
    // What a journal says that is damaged, or may be an older one or a copy, is no ground to hand anything on.
    let local = if damaged || home.secret(succession::NEXT)?.is_none() {
        local
    } else if is_doubtful(witness, &replay, &local)? {
        tracing::error!(
            "the mesh is not left: this device's records may not be the newest; confirm them, then start again"
        );
        local
    } else {
        succession::finish(home, &journal, &mut replay, local)?
    };
    if !damaged {
        let mesh = log_of(&Facts::of(&replay.records))?.map(|log| log.mesh());
        succession::begin_anew_in(mesh, &journal, &mut replay, local.device())?;
    }
    if !damaged && journal.wants_rewrite() {
        rewrite(&journal, &replay, local.device());
    }
    Ok((Arc::new(local), journal, replay, damaged))
}

/// Whether something speaks against the journal: the note outside of it, or a doubt in it that nobody settled.
fn is_doubtful(witness: &Witness, replay: &Replay, local: &LocalDevice) -> Result<bool, RunError> {
    let log = log_of(&Facts::of(&replay.records))?;
    if witness.look(&replay.records, Members::of(log.as_ref())).doubt.is_some() {
        return Ok(true);
    }
    let (mesh, now) = (log.as_ref().map(MembershipLog::mesh), Clock::start().now());
    let local = Arc::new(LocalDevice::from_secret(&local.secret()));
    let custodian =
        Custodian::restore(local, Incarnation::new([0; 16]), mesh, replay.records.iter(), Trust::Whole, now)?;
    Ok(custodian.doubt().is_some())
}

/// The operator looked at a damaged journal: what can be read of it is kept, and nothing acts until it is confirmed.
fn begin_anew(home: &Home, journal: Journal, replay: &mut Replay, damaged: bool) -> Result<Journal, RunError> {
    if !damaged {
        return Err(RunError::NothingDamaged);
    }
    drop(journal);
    replay.records.push(Record::Doubted { why: Doubt::Damaged });
    drop(Journal::start_over(home, &replay.records)?);
    let (journal, anew) = Journal::open(home)?;
    *replay = anew;
    Ok(journal)
}

/// The store is marked before anything is heard. What the note outside says against it is in the same batch.
fn begin_marked(
    witness: &Witness,
    journal: &Journal,
    replay: &mut Replay,
    log: Option<&MembershipLog>,
    trust: Trust,
) -> Result<(Option<Mark>, Found), RunError> {
    let members = Members::of(log);
    let found = witness.look(&replay.records, members);
    if trust == Trust::Unconfirmed {
        return Ok((None, found));
    }
    let doubted = matches!(replay.records.last(), Some(Record::Doubted { .. }));
    let doubt = found.doubt.filter(|_| !doubted).map(|why| {
        tracing::error!(why = crate::doubts::in_words(why), "this device acts for no session until it is confirmed");
        Record::Doubted { why }
    });
    let mark = witness.next(Mark::last(&replay.records));
    let batch: Vec<Record> = doubt.into_iter().chain(mark.map(Mark::record)).collect();
    if !batch.is_empty() {
        journal.commit(batch.clone()).map_err(|error| RunError::Loop(LoopError::Journal(error)))?;
        replay.records.extend(batch);
    }
    if let Some(mark) = mark {
        witness.note(mark, members);
    }
    Ok((mark, found))
}

/// What a killed run left of calls to agents: conversations may lie in it, and nobody else works here.
fn forget_calls(options: &Options) {
    // Nothing there is the usual case.
    let _ = std::fs::remove_dir_all(options.surroundings.state.join("scratch"));
}

/// Shortens a long journal. One that cannot be shortened now is as good as before.
fn rewrite(journal: &Journal, replay: &Replay, me: DeviceId) {
    let keep = crate::compaction::compact(me, &replay.records);
    let records = keep.len();
    match journal.rewrite(keep, replay.position) {
        Ok(_) => tracing::info!(records, "the journal was shortened"),
        Err(error) => tracing::warn!(%error, "the journal was not shortened"),
    }
}

/// The device's key.
fn identity(home: &Home) -> Result<Option<LocalDevice>, RunError> {
    let Some(secret) = home.secret(succession::IDENTITY)? else { return Ok(None) };
    let secret: &[u8; 32] = secret.as_slice().try_into().map_err(|_| RunError::NotAKey)?;
    Ok(Some(LocalDevice::from_secret(secret)))
}

/// Made at the first start, before anything is written that names it.
fn begin_identity(home: &Home) -> Result<LocalDevice, RunError> {
    let local = LocalDevice::from_secret(&random()?);
    home.put_secret(succession::IDENTITY, local.secret().as_slice())?;
    Ok(local)
}

fn report_condition(replay: &Replay) -> bool {
    match replay.condition {
        Condition::Clean => false,
        Condition::TornTail { .. } => {
            tracing::info!("the journal ended in a write that was never acknowledged; it was cut off");
            false
        }
        Condition::Damaged { .. } => {
            tracing::error!("the journal is damaged: this device acts for no session until its operator decides");
            true
        }
    }
}

impl Facts {
    fn of(records: &[Record]) -> Self {
        let mut facts = Self { tasks: TaskBook::restore(records.iter()), ..Self::default() };
        for record in records {
            facts.take(record);
        }
        facts
    }

    fn take(&mut self, record: &Record) {
        match record {
            Record::Member(entry) => self.members.push(entry.clone()),
            Record::PeerDropped { device } => drop(self.dropped.insert(*device)),
            Record::ApproverSet { device, may: true } => drop(self.approvers.insert(*device)),
            Record::ApproverSet { device, may: false } => drop(self.approvers.remove(device)),
            Record::PolicySet { .. } | Record::RuleSet { .. } => self.ruled.extend(crate::rules::Ruled::of(record)),
            Record::AddressSeen { device, address } => drop(self.addresses.insert(*device, address.clone())),
            Record::Placed(placed) => drop(self.placed.insert(placed.key.id(), placed.clone())),
            Record::Custody(_)
            | Record::Approved { .. }
            | Record::Staged { .. }
            | Record::Active { .. }
            | Record::Discarded { .. }
            | Record::Retired { .. }
            | Record::Installed { .. }
            | Record::FenceRaised { .. }
            | Record::FenceLifted { .. }
            | Record::Voted { .. }
            | Record::Contested(_)
            | Record::Doubted { .. }
            | Record::Confirmed { .. }
            | Record::SeizedSeen { .. }
            | Record::Marked { .. }
            | Record::Letter(_)
            | Record::Transfer(_)
            | Record::Task(_) => {}
        }
    }
}

/// The name in the mesh; before there is one, what was asked for, or the host's.
fn name_of(options: &Options, log: Option<&MembershipLog>, local: &LocalDevice) -> String {
    let known = log.and_then(|log| log.member(&local.device())).map(|member| member.name.clone());
    let in_a_mesh = known.is_some();
    let name = known.unwrap_or_else(|| {
        let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        cede_mesh::name::clean(&options.name.clone().unwrap_or_else(host))
    });
    if options.name.as_ref().is_some_and(|wanted| *wanted != name) {
        let why =
            if in_a_mesh { "its name in the mesh stays" } else { "a name is short, and holds no such characters" };
        tracing::warn!(why, "this device is called otherwise than asked for: cede status says how");
    }
    name
}

async fn accept(context: Context) {
    loop {
        let Ok(hello) = context.ask(|actor| actor.peers.hello()).await else { return };
        // Before there is a mesh only pairing comes in; the greeting is never sent then.
        let hello = hello.unwrap_or_else(|| no_mesh(&context));
        let incoming = tokio::select! {
            incoming = context.endpoint.accept(&hello) => incoming,
            () = context.greeting.notified() => continue,
        };
        match incoming {
            Some(Incoming::Member(link)) => {
                if context.inputs.send(Input::CameIn(link)).await.is_err() {
                    return;
                }
            }
            Some(Incoming::Pairing(link)) => {
                tokio::spawn(crate::pairing::serve_guest(context.clone(), link));
            }
            None => return,
        }
    }
}

fn no_mesh(context: &Context) -> cede_wire::message::Hello {
    cede_wire::message::Hello {
        protocol_min: cede_wire::message::PROTOCOL_MIN,
        protocol_max: cede_wire::message::PROTOCOL_MAX,
        device: context.local.device(),
        mesh: cede_wire::id::MeshId::new([0; 32]),
        software: env!("CARGO_PKG_VERSION").to_owned(),
        members: 0,
        run: 0,
    }
}

/// A device that only this machine can reach is announced to this machine only.
fn scope(on: bool, endpoint: &Endpoint) -> Scope {
    match endpoint.local_addr() {
        Ok(address) if on && address.ip().is_loopback() => Scope::Loopback,
        Ok(_) if on => Scope::Lan,
        Ok(_) | Err(_) => Scope::Off,
    }
}

/// Announces this device on the local network and dials members that are near.
async fn discover(context: Context) {
    if context.scope == Scope::Off {
        return;
    }
    let mesh = loop {
        match context.ask(|actor| actor.peers.mesh()).await {
            Ok(Some(mesh)) => break mesh,
            Ok(None) => tokio::time::sleep(limits::DIAL_LONGEST).await,
            Err(_) => return,
        }
    };
    let Ok(address) = context.endpoint.local_addr() else { return };
    let announcement = Announcement { device: context.local.device(), mesh, port: address.port() };
    let mut discovery = Discovery::start(announcement, context.scope);
    loop {
        let hint = discovery.next().await;
        let address = hint.address.to_string();
        let near = context.ask(move |actor| {
            let members = actor.peers.members();
            members.into_iter().find(|member| hint.may_be(&member.device()) && !actor.connected(member.device()))
        });
        match near.await {
            Ok(Some(member)) => drop(crate::peers::dial(&context, &member, &address).await),
            Ok(None) => {}
            Err(_) => return,
        }
    }
}

/// Now and then, what was kept for another attempt goes.
async fn forget(context: Context) {
    loop {
        tokio::time::sleep(limits::FORGET).await;
        context.tell(|actor| actor.forget_old_arrivals()).await;
    }
}

async fn stop_on_signal(context: Context) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
        return;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    // A daemon that ends already needs no telling.
    let _ = context.inputs.send(Input::Stop).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows: P-11, H-26
    #[test]
    fn mesh_is_not_left_on_the_word_of_an_older_journal() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::open(&place.path().join("state")).unwrap();
        let open = || Witness::open(&place.path().join("notes"), home.dir(), Incarnation::new([1; 16]));
        let (old, new) = (LocalDevice::from_secret(&[1; 32]), LocalDevice::from_secret(&[2; 32]));
        home.put_secret(succession::IDENTITY, old.secret().as_slice()).unwrap();
        let marks = [None, Some(())].map(|_| {
            let witness = open();
            let mark = witness.next(None).unwrap();
            witness.note(mark, Members::default());
            mark
        });
        let journal = Journal::open(&home).unwrap().0;
        journal.commit(vec![marks[0].record()]).unwrap();
        drop(journal);
        home.put_secret(succession::NEXT, new.secret().as_slice()).unwrap();
        let (kept, journal, ..) = remember(&home, &open(), false).unwrap();
        assert_eq!(kept.device(), old.device(), "the note outside knows a later mark");
        assert!(home.secret(succession::NEXT).unwrap().is_some(), "what was begun is not forgotten");
        journal.commit(vec![marks[1].record(), Record::Doubted { why: Doubt::RolledBack }]).unwrap();
        drop(journal);
        let (kept, journal, ..) = remember(&home, &open(), false).unwrap();
        assert_eq!(kept.device(), old.device(), "nobody has confirmed it");
        journal.commit(vec![Record::Confirmed { session: None }]).unwrap();
        drop(journal);
        assert_eq!(remember(&home, &open(), false).unwrap().0.device(), new.device());
        assert_eq!(home.secret(succession::NEXT), Ok(None));
    }
}
