//! Before anything moves: is the session ready, what would travel, what needs a yes.

use std::path::PathBuf;
use std::time::Instant;

use cede_agent::adapter::AgentError;
use cede_agent::chunk::ReadError;
use cede_agent::tree::CaptureError;
use cede_core::source::{OfferTerms, assess_readiness};
use cede_wire::catalog::Oid;
use cede_wire::control::{Failure, MoveRequest, Phase, Plan, exit};
use cede_wire::id::SessionId;
use cede_wire::refusal::Refusal;
use cede_wire::session::{Activity, Requirement, SessionInfo};

use crate::context::{Context, Stopping};
use crate::limits;
use crate::moves::Story;
use crate::payload::{self, Leaves, Payload, PayloadError, Wanted};
use crate::receiving::is_full;

/// A session that is to leave.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) info: SessionInfo,
    pub(crate) destination: cede_wire::id::DeviceId,
    pub(crate) destination_name: String,
    pub(crate) request: MoveRequest,
    /// The number of the peer's `take` that this answers.
    pub(crate) take: Option<u64>,
    /// What a person was shown of it who said yes to that.
    pub(crate) shown: Option<Box<Leaves>>,
}

impl Order {
    pub(crate) fn session(&self) -> SessionId {
        self.info.key.id()
    }

    /// Captures it. More than was shown and allowed does not leave. Source: SPEC U-7.
    pub(crate) async fn capture(&self, context: &Context, have: &[Oid]) -> Result<Payload, Failure> {
        let payload = capture(context, self.wanted(have)).await?;
        let Some(more) = self.shown.as_ref().and_then(|shown| shown.lack(&payload)) else { return Ok(payload) };
        let why = format!("more would leave than was shown and allowed: {more}");
        let failed = failure(exit::REFUSED, "the session stays here", &why, "");
        Err(Failure { refusal: Some(Refusal::Unauthorized), ..failed })
    }

    pub(crate) fn wanted(&self, have: &[Oid]) -> Wanted {
        Wanted {
            key: self.info.key.clone(),
            directory: PathBuf::from(&self.info.directory),
            include_ignored: self.request.include_ignored.clone(),
            exclude: self.request.exclude.clone(),
            have: have.to_vec(),
        }
    }
}

/// Everything that was found out before the offer.
pub(crate) struct Prepared {
    pub(crate) order: Order,
    pub(crate) requirement: Requirement,
    pub(crate) payload: Payload,
}

impl Prepared {
    pub(crate) fn terms(&self, context: &Context) -> Result<OfferTerms, Failure> {
        Ok(OfferTerms {
            head: self.payload.head,
            title: self.order.info.title.clone(),
            requirement: self.requirement.clone(),
            carry_only: self.order.request.carry_only,
            workspace: self.payload.workspace(&context.surroundings.home),
            scope: self.payload.scope().map_err(|error| not_captured(&error))?,
        })
    }

    pub(crate) fn plan(&self, summary: cede_wire::control::SessionSummary) -> Plan {
        Plan {
            session: summary,
            device: self.order.destination_name.clone(),
            inventory: self.payload.inventory.clone(),
            bytes: self.payload.payload_bytes,
            files: self.payload.files,
            secret_looking: self.payload.secret_looking.clone(),
            executables: self.payload.executables.clone(),
            configuration_as_code: self.payload.configuration_as_code.clone(),
            untracked_bytes: self.payload.untracked_bytes,
            needs: self.needs(),
            history_bytes: self.payload.history_bytes,
        }
    }

    /// Flags that stand for a yes that was not given.
    pub(crate) fn needs(&self) -> Vec<String> {
        let mut needs = Vec::new();
        if self.payload.untracked_bytes > limits::LARGE_UNTRACKED_BYTES && !self.order.request.confirm_large {
            needs.push("--yes-large".to_owned());
        }
        if !self.payload.secret_looking.is_empty() && !self.order.request.confirm_secrets {
            needs.push("--yes-secrets".to_owned());
        }
        needs
    }
}

/// Looks at the session, waits for its turn if asked to, and captures it without touching it.
pub(crate) async fn prepare(context: &Context, mut order: Order, number: u64) -> Result<Prepared, Failure> {
    until_in_place(context, order.session()).await?;
    order.info = ready(context, &order, number).await?;
    let key = order.info.key.clone();
    let requirement = context.block(move |context| {
        let adapter = context.adapter(key.agent).ok_or(PayloadError::NoAdapter)?;
        Ok::<_, PayloadError>(adapter.requirement(&key.native)?)
    });
    let requirement = requirement.await.map_err(stopping)?.map_err(|error| not_captured(&error))?;
    let payload = order.capture(context, &[]).await?;
    Ok(Prepared { order, requirement, payload })
}

/// Captures; files that change while they are read are read again a few times.
pub(crate) async fn capture(context: &Context, wanted: Wanted) -> Result<Payload, Failure> {
    let mut attempt = 1;
    loop {
        let wanted = wanted.clone();
        match context.block(move |context| payload::take(context, &wanted)).await.map_err(stopping)? {
            Ok(payload) => return Ok(payload),
            Err(error) if error.is_passing() && attempt < limits::CAPTURES => attempt += 1,
            Err(error) => return Err(not_captured(&error)),
        }
        tokio::time::sleep(limits::CAPTURE_PAUSE).await;
    }
}

/// Whoever asks for a session that has just come need not ask twice.
pub(crate) async fn until_in_place(context: &Context, session: SessionId) -> Result<(), Failure> {
    let deadline = Instant::now() + limits::PLACE_WAIT;
    let arrives = move |actor: &mut crate::actor::Actor| {
        actor.custodian.standing(session) == Some(cede_core::custodian::Standing::Arriving)
    };
    while context.ask(arrives).await.map_err(stopping)? && Instant::now() < deadline {
        tokio::time::sleep(limits::PLACE_POLL).await;
    }
    Ok(())
}

/// Refuses while a turn runs, or waits for its end.
async fn ready(context: &Context, order: &Order, number: u64) -> Result<SessionInfo, Failure> {
    let deadline = Instant::now() + limits::TURN_WAIT;
    let session = order.session();
    let mut told = false;
    loop {
        let key = order.info.key.clone();
        let described = context.block(move |context| describe(context, &key)).await.map_err(stopping)?;
        let mut info = described.map_err(|error| not_captured(&error))?;
        let directory = PathBuf::from(&info.directory);
        // The whole tree travels, of which the session's directory may be a part.
        let real = context.block(move |_| cede_agent::tree::root_of(&directory).unwrap_or(directory));
        let real = real.await.map_err(stopping)?;
        let moves = !order.request.dry_run;
        let works = context.ask(move |actor| actor.keep_quiet(session, real, moves)).await.map_err(stopping)?;
        if let Some(evidence) = works {
            info.activity = Activity::Busy { pid: None, evidence };
        }
        match assess_readiness(&info.activity) {
            Ok(()) => return Ok(info),
            Err(refusal) if !order.request.wait => return Err(in_flight(&info, refusal)),
            Err(_) if Instant::now() > deadline => return Err(never_idle(&info)),
            Err(_) => {}
        }
        if !told {
            told = true;
            let note = evidence(&info.activity).to_owned();
            context.tell(move |actor| actor.report(Story::Going(session), Phase::Waiting, (0, 0), 0, &note)).await;
        }
        if !context.ask(move |actor| actor.is_leaving(session, number)).await.map_err(stopping)? {
            return Err(cancelled());
        }
        tokio::time::sleep(limits::TURN_POLL).await;
    }
}

pub(crate) fn describe(context: &Context, key: &cede_wire::session::SessionKey) -> Result<SessionInfo, PayloadError> {
    if key.agent == cede_wire::session::AgentKind::Terminal {
        return Err(PayloadError::Terminal);
    }
    let adapter = context.adapter(key.agent).ok_or(PayloadError::NoAdapter)?;
    Ok(context.located(adapter.describe(&key.native)?))
}

pub(crate) fn evidence(activity: &Activity) -> &str {
    match activity {
        Activity::Idle { evidence }
        | Activity::Open { evidence, .. }
        | Activity::Busy { evidence, .. }
        | Activity::Interrupted { evidence } => evidence,
    }
}

fn in_flight(info: &SessionInfo, refusal: Refusal) -> Failure {
    Failure {
        exit: exit::REFUSED,
        what: "the session was not offered".to_owned(),
        why: format!("a turn is running: {}", evidence(&info.activity)),
        cure: "wait for the turn to end, or add --wait".to_owned(),
        refusal: Some(refusal),
        now_at: None,
    }
}

fn never_idle(info: &SessionInfo) -> Failure {
    Failure {
        exit: exit::TIMEOUT,
        what: "the turn did not end in time".to_owned(),
        ..in_flight(info, Refusal::TimedOut)
    }
}

pub(crate) fn cancelled() -> Failure {
    failure(exit::FAILED, "the move was cancelled", "it was withdrawn here before the decision", "")
}

pub(crate) fn failure(exit: u8, what: &str, why: &str, cure: &str) -> Failure {
    let (what, why, cure) = (what.to_owned(), why.to_owned(), cure.to_owned());
    Failure { exit, what, why, cure, refusal: None, now_at: None }
}

/// The exit code that says what a refusal means for the person.
pub(crate) fn exit_of(refusal: Refusal) -> u8 {
    match refusal {
        Refusal::TimedOut => exit::TIMEOUT,
        Refusal::VersionMismatch => exit::VERSION,
        Refusal::NotOwner => exit::NOT_OWNER,
        Refusal::Cancelled | Refusal::IntegrityFailed | Refusal::Truncated | Refusal::PayloadUndecodable => {
            exit::FAILED
        }
        Refusal::NotGranted
        | Refusal::NoApprover
        | Refusal::Declined
        | Refusal::Expired
        | Refusal::InFlightWork
        | Refusal::Unauthorized
        | Refusal::WrongDestination
        | Refusal::DestinationCannotResume
        | Refusal::AlreadyOwner
        | Refusal::StaleToken
        | Refusal::Busy
        | Refusal::TooLarge
        | Refusal::Protocol => exit::REFUSED,
    }
}

/// A refusal with what was said of it. A peer's words may name it already.
pub(crate) fn reason(refusal: Refusal, detail: &str) -> String {
    match detail {
        "" => refusal.word().to_owned(),
        said if said.strip_prefix(refusal.word()).is_some_and(|rest| rest.is_empty() || rest.starts_with(':')) => {
            said.to_owned()
        }
        said => format!("{refusal}: {said}"),
    }
}

pub(crate) fn stopping(why: Stopping) -> Failure {
    match why {
        Stopping::Told => failure(exit::FAILED, "the daemon stops", "it was told to", "start it again with: cede up"),
        Stopping::Fault => failure(exit::FAILED, "it was not done", &why.to_string(), "cede status; the log says more"),
    }
}

/// A session that could not be captured; the cure stands in the adapters' and the tree's own texts.
pub(crate) fn not_captured(error: &PayloadError) -> Failure {
    let (exit, refusal) = match error {
        PayloadError::Agent(AgentError::Live { .. }) => (exit::REFUSED, Some(Refusal::InFlightWork)),
        PayloadError::Agent(AgentError::Fenced(_)) => (exit::NOT_OWNER, Some(Refusal::NotOwner)),
        PayloadError::TooLarge(_) | PayloadError::Unshowable => (exit::FAILED, Some(Refusal::TooLarge)),
        PayloadError::Agent(_)
        | PayloadError::Tree(_)
        | PayloadError::Capture(_)
        | PayloadError::Read(_)
        | PayloadError::NoAdapter
        | PayloadError::Terminal
        | PayloadError::Own(_)
        | PayloadError::Io { .. } => (exit::FAILED, None),
    };
    let text = error.to_string();
    let (why, cure) = text.rsplit_once("; ").unwrap_or((&text, cure_of(error)));
    Failure { refusal, ..failure(exit, "the session cannot be moved as it is", why, cure) }
}

/// What helps where the error does not say so itself.
const fn cure_of(error: &PayloadError) -> &'static str {
    match error {
        PayloadError::Io { kind, .. } | PayloadError::Capture(CaptureError::Io { kind, .. }) if is_full(*kind) => {
            "free some space there, then type it again"
        }
        PayloadError::Read(ReadError::Changing(_))
        | PayloadError::Capture(CaptureError::Read(ReadError::Changing(_))) => {
            "wait until nothing writes there, or leave it here: --exclude <glob>"
        }
        PayloadError::Read(ReadError::Missing(_) | ReadError::NotRegular(_) | ReadError::Io { .. })
        | PayloadError::Capture(CaptureError::Read(_) | CaptureError::Io { .. })
        | PayloadError::Io { .. } => "see to it that it can be read, or leave it here: --exclude <glob>",
        PayloadError::Capture(CaptureError::TooLarge(_)) | PayloadError::TooLarge(_) | PayloadError::Unshowable => {
            "leave files here: --exclude <glob>"
        }
        PayloadError::Capture(CaptureError::Pattern(_)) => "close every bracket of it, as in --exclude 'build/[a-c]*'",
        PayloadError::Capture(CaptureError::Git { .. }) => "look what git says in that directory: git status",
        PayloadError::Agent(AgentError::Unknown { .. }) => "cede ls",
        PayloadError::NoAdapter => "update cede here",
        PayloadError::Agent(_)
        | PayloadError::Tree(_)
        | PayloadError::Capture(CaptureError::Refused(_) | CaptureError::ExcludesTracked { .. })
        | PayloadError::Terminal
        | PayloadError::Own(_) => "cede doctor",
    }
}
