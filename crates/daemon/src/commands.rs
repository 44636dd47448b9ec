//! What a person may ask of the daemon, one arm a command.

use std::path::Path;

use cede_carrier::endpoint::dial::DialError;
use cede_core::custodian::Standing;
use cede_wire::audit::AuditAct;
use cede_wire::control::{Answer, Command, Failure, MoveRequest, SessionSummary, exit};
use cede_wire::id::{DeviceId, SessionId};
use cede_wire::member::{Capability, Member};
use cede_wire::record::Record;
use cede_wire::refusal::Refusal;
use cede_wire::session::{AgentKind, Requirement, SessionInfo};

use crate::actor::{Actor, Input};
use crate::arriving::NOT_COME;
use crate::clock::random;
use crate::context::Context;
use crate::control::Replies;
use crate::moves::Story;
use crate::offering::{Order, Prepared, failure, stopping};
use crate::payload::{self, PayloadError};
use crate::peers::{self, Unreached};
use crate::sessions::{self, Found};

impl Actor {
    pub(crate) fn command(&mut self, command: Command, replies: Replies) {
        if self.read_only && changes(&command) {
            let why = "the journal is damaged, so this device acts for no session";
            replies.failed(failure(exit::FAILED, "nothing was done", why, "cede doctor"));
            return;
        }
        match command {
            Command::Status => self.ask_status(replies),
            Command::Sessions { peers } => self.ask_sessions(peers, replies),
            Command::Devices => {
                let mut devices = vec![self.this_device()];
                devices.extend(self.peers.members().iter().map(|member| self.device(member)));
                replies.done(Answer::Devices { devices });
            }
            Command::Doctor => self.ask_doctor(replies),
            Command::Pair { expires_in_s } => self.arm_pairing(expires_in_s, replies),
            Command::PairWith { words, address, name } => self.pair_with(words, address, name, replies),
            Command::PairConfirm { accept } => self.durably(replies, |actor| actor.confirm_pairing(accept)),
            Command::Revoke { device, confirmed } => self.durably(replies, |actor| actor.revoke(&device, confirmed)),
            Command::LeaveMesh { confirmed } => self.leave_mesh(confirmed, &replies),
            Command::Policy { device, policy } => self.durably(replies, |actor| actor.policy(&device, policy)),
            Command::Policies { device } => replies.settle(self.policies(device.as_deref())),
            Command::SetRule { device, capability, rule, seconds } => {
                self.durably(replies, |actor| actor.set_rule(&device, (capability, rule), seconds))
            }
            Command::Address { device, address } => self.set_address(&device, address, replies),
            Command::To(request) => self.to(request, replies),
            Command::Take { session, wait, carry_only } => self.ask_take(session, wait, carry_only, replies),
            Command::SeizePlan { session } => self.ask_seize_plan(&session, replies),
            Command::Seize { session } => self.ask_seize(&session, replies),
            Command::Confirm { session } => self.durably(replies, |actor| actor.confirm(session.as_deref())),
            Command::Claim { session } => self.ask_claim(session, replies),
            Command::Cancel { handoff } => self.durably(replies, |actor| actor.cancel(&handoff)),
            Command::Approvals => replies.done(Answer::Approvals { approvals: self.approval_summaries() }),
            Command::Approvers => replies.done(self.approver_list()),
            Command::SetApprover { device, may } => self.durably(replies, |actor| actor.set_approver(&device, may)),
            Command::Decide { approval, yes } => self.decide(&approval, yes, replies),
            Command::Adopt { directory } => adopt(self.context.clone(), directory, replies),
            Command::Log { tail, verify } => self.ask_log(tail, verify, replies),
            Command::SettleLog { device } => self.settle_log(&device, replies),
            Command::Stop => self.stop(&replies),
            Command::Hold { session } => self.keep_keyboard(session, true, replies),
            Command::Release { session } => self.keep_keyboard(session, false, replies),
            // Their connections are served apart from the others.
            Command::Run(_) | Command::View(_) => {}
            Command::Tell(request) => self.ask_tell(request, replies),
            Command::Inbox { sent, all } => self.ask_inbox(sent, all, replies),
            Command::Letter { id } => self.ask_letter(&id, replies),
            Command::ReadLetter { id } => self.read_letter(&id, replies),
            Command::LetterShown { id } => self.durably(replies, |actor| actor.letter_shown(&id)),
            Command::MarkLetter { id, acted } => self.mark_letter(&id, acted, replies),
            Command::ReleaseLetters { device } => self.durably(replies, |actor| actor.release_letters(&device)),
            Command::Send(request) => self.send_files(request, replies),
            Command::Transfers => replies.done(Answer::Transfers { transfers: self.transfer_summaries() }),
            Command::Notify(request) => self.notify(request, replies),
            Command::StopTransfer { transfer } => self.durably(replies, |actor| actor.stop_transfer(&transfer)),
            Command::Ask(request) => self.ask_task(request, replies),
            Command::Tasks { all } => self.ask_tasks(all, replies),
            Command::Task { id } => self.ask_one_task(&id, replies),
            Command::CancelTask { id } => self.cancel_task(&id, replies),
        }
    }

    /// Does something at once, and answers when it is durable.
    pub(crate) fn durably(&mut self, replies: Replies, what: impl FnOnce(&mut Self) -> Result<Answer, Failure>) {
        let done = what(self);
        self.settle_durable(done, replies);
    }

    fn ask_status(&self, replies: Replies) {
        let context = self.context.clone();
        tokio::spawn(async move {
            let Ok(found) = context.block(sessions::discover).await else { return };
            let listening = listening(&context);
            let status = context.ask(move |actor| actor.status(&found, listening)).await;
            let told = sessions::told(&context).await;
            let named = status.map(|mut status| {
                sessions::call_as_owners_do(&mut status.sessions, &told);
                Answer::Status(Box::new(status))
            });
            replies.settle(named.map_err(stopping));
        });
    }

    fn ask_sessions(&self, peers: bool, replies: Replies) {
        let context = self.context.clone();
        tokio::spawn(async move {
            let Ok(found) = context.block(sessions::look).await else { return };
            let remote = if peers { sessions::peers_sessions(&context).await } else { Vec::new() };
            let mut silent = found.silent.clone();
            let Ok(mut all) = context.ask(move |actor| actor.summaries(&found)).await else { return };
            for peer in remote {
                if !peer.answered {
                    silent
                        .push(format!("{} is not answering; its sessions are listed as it last told them", peer.name));
                }
                sessions::call_as_owners_do(&mut all, &peer.listed);
                merge(&mut all, peer.listed.into_iter().map(|one| sessions::remote(one, peer.name.clone())));
            }
            replies.done(Answer::Sessions { sessions: all, silent });
        });
    }

    fn ask_doctor(&self, replies: Replies) {
        let context = self.context.clone();
        tokio::spawn(async move {
            let listening = listening(&context);
            let Ok(mut checks) = context.ask(move |actor| actor.own_checks(&listening)).await else { return };
            let Ok((outside, gone)) = context.block(crate::doctor::outside).await else { return };
            let Ok(gone) = context.ask(move |actor| actor.gone_checks(&gone)).await else { return };
            checks.extend(outside.into_iter().chain(gone));
            replies.done(Answer::Doctor { checks });
        });
    }

    /// The member that a text means: its name, or a prefix of its id.
    pub(crate) fn find_member(&self, text: &str) -> Result<Member, Failure> {
        let members = self.peers.members();
        if let Some(exact) = members.iter().find(|member| member.name == text) {
            return Ok(exact.clone());
        }
        if text == self.name {
            return Err(failure(
                exit::USAGE,
                "no other device is meant",
                &format!("{text} is this device"),
                "cede devices",
            ));
        }
        let fits = |member: &&Member| {
            !text.is_empty() && (member.name.starts_with(text) || member.device().to_string().starts_with(text))
        };
        let fitting: Vec<&Member> = members.iter().filter(fits).collect();
        match fitting.as_slice() {
            [one] => Ok((*one).clone()),
            [] => {
                let known: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
                let (why, cure) = if known.is_empty() {
                    ("this device is paired with none".to_owned(), "cede pair")
                } else if text.is_empty() {
                    (format!("no name was given; known: {}", known.join(", ")), "cede devices")
                } else {
                    (format!("no device is called {text}; known: {}", known.join(", ")), "cede devices")
                };
                Err(failure(exit::USAGE, "no device is meant", &why, cure))
            }
            _ => {
                let why = format!("several devices begin with {text}");
                Err(failure(exit::USAGE, "it is not clear which device is meant", &why, "cede devices"))
            }
        }
    }

    fn revoke(&mut self, text: &str, confirmed: bool) -> Result<Answer, Failure> {
        let member = self.find_member(text)?;
        let device = member.device();
        // What cannot be taken back is not done by a beginning of a name.
        if member.name != text && device.short() != text && device.to_string() != text {
            let cure = format!("cede devices revoke {}", member.name);
            let why = format!("{text} is only the beginning of {}, and a removal is for good", member.name);
            return Err(failure(exit::USAGE, "nobody was removed", &why, &cure));
        }
        let me = self.context.local.clone();
        let administrator = self.is_administrator(me.device());
        if !confirmed {
            let cure = format!("cede devices revoke {} --yes", member.name);
            let why = format!("{}{}", self.meaning_of_removal(&member), self.loss_by_removal(&member));
            return Err(failure(exit::PENDING, "nobody was removed yet", &why, &cure));
        }
        if administrator && let Some(log) = &mut self.peers.log {
            let entry = log.remove(&me, device);
            let entry = entry
                .map_err(|error| failure(exit::FAILED, "nobody was removed", &error.to_string(), "cede devices"))?;
            self.record(Record::Member(entry));
        } else {
            self.peers.dropped.insert(device);
            self.record(Record::PeerDropped { device });
        }
        self.note_act(AuditAct::Removed, Some(device), None);
        self.members_changed();
        self.context.endpoint.drop_peer(&member.key);
        let text = if administrator {
            format!(
                "{} is removed from the mesh for good; the other devices hear of it with the next contact. To be paired \
                 again it needs a new key; there: cede devices leave",
                member.name
            )
        } else {
            format!(
                "{} is not served by this device any more; to remove it everywhere, type the same on the first device. \
                 To take it back, leave and be paired again; here: cede devices leave",
                member.name
            )
        };
        Ok(Answer::Said { text })
    }

    /// What a person says yes to.
    fn meaning_of_removal(&self, member: &Member) -> String {
        let name = &member.name;
        if self.is_administrator(self.context.local.device()) {
            return format!("{name} would be removed from the mesh for good, and need a new key to be paired again");
        }
        let cut_off = if self.is_administrator(member.device()) {
            " It is the one that adds devices to this mesh and removes them: this device would hear of no such change any more."
        } else {
            ""
        };
        format!(
            "this device adds and removes nobody: it would only stop to talk to {name} itself, and leave and be paired \
             again to take that back. All others go on with {name}.{cut_off}"
        )
    }

    /// What ends with a device, and what lies with it.
    fn loss_by_removal(&self, member: &Member) -> String {
        let (device, name) = (member.device(), &member.name);
        let owned = self.custodian.sessions().filter(|(id, _)| self.custodian.owner(*id) == Some(device)).count();
        let mut lost = String::new();
        if owned > 0 {
            lost.push_str(&format!(
                "; {owned} sessions known here are at {name}, which will not hear where they go on: take them first"
            ));
        }
        match self.letters_queued(|id| id.stream == device) {
            0 => {}
            queued => lost.push_str(&format!("; {queued} messages that wait for it are told to nobody")),
        }
        match self.letters_unread(|letter| letter.first().origin == device) {
            0 => {}
            unread => {
                lost.push_str(&format!("; {unread} messages of it that nobody read are kept no more: cede inbox"))
            }
        }
        lost
    }

    /// Looks at the address at once, and notes it unless another device answers there.
    fn set_address(&mut self, text: &str, address: String, replies: Replies) {
        let member = match self.find_member(text).and_then(|member| is_address(&address).map(|()| member)) {
            Ok(member) => member,
            Err(failed) => return replies.failed(failed),
        };
        let context = self.context.clone();
        tokio::spawn(async move {
            let found = peers::probe(&context, &member, &address).await;
            let noted = context.ask(move |actor| actor.note_probed(&member, address, found)).await;
            replies.settle(noted.unwrap_or_else(|stops| Err(stopping(stops))));
        });
    }

    fn note_probed(
        &mut self,
        member: &Member,
        address: String,
        found: Result<(), Unreached>,
    ) -> Result<Answer, Failure> {
        let (device, name) = (member.device(), &member.name);
        if let Err(error @ Unreached::Dial(DialError::WrongKey { .. })) = &found {
            let cure = format!("on {name}, look where it listens: cede status");
            return Err(failure(exit::FAILED, "nothing was noted", &format!("{address}: {error}"), &cure));
        }
        let text = match &found {
            Ok(()) => format!("{name} answers at {address}"),
            Err(error) => format!("noted: {name} is looked for at {address}; not reached there now: {error}"),
        };
        self.peers.addresses.insert(device, address.clone());
        self.record(Record::AddressSeen { device, address });
        self.reach(device);
        Ok(Answer::Said { text })
    }

    fn to(&mut self, request: MoveRequest, replies: Replies) {
        if let Err(failed) = usable_patterns(&request) {
            return replies.failed(failed);
        }
        let member = match self.find_member(&request.device) {
            Ok(member) => member,
            Err(failed) => return replies.failed(failed),
        };
        if request.files && !request.dry_run && !member.capabilities.contains(&Capability::Handoff) {
            return replies.failed(self.may_take_nothing(&member));
        }
        let context = self.context.clone();
        tokio::spawn(async move {
            // Only now is it known that there is somebody to hand it to.
            let request = match adopted_first(&context, request).await {
                Ok(request) => request,
                Err(failed) => return replies.failed(failed),
            };
            let Ok(found) = context.block(sessions::look).await else { return };
            context.tell(move |actor| actor.start_found(&member, request, &found, replies)).await;
        });
    }

    fn start_found(&mut self, member: &Member, mut request: MoveRequest, found: &Found, replies: Replies) {
        if request.files && request.dry_run {
            match sessions::adopted(&found.sessions, &request.directory) {
                Some(session) => request.session = Some(session.to_string()),
                None => return self.plan_directory(member, request, replies),
            }
        }
        let picked = sessions::pick(&found.sessions, request.session.as_deref(), &request.directory);
        let info = match picked {
            Ok(info) => info,
            Err(failed) => {
                return replies.failed(self.maybe_elsewhere(request.session.as_deref(), &request.directory, failed));
            }
        };
        if !self.is_here(info.key.id()) {
            return replies.failed(self.elsewhere(info.key.id()));
        }
        if !member.capabilities.contains(&Capability::Handoff) {
            return replies.failed(self.may_take_nothing(member));
        }
        let session = info.key.id();
        let order = Order {
            info,
            destination: member.device(),
            destination_name: member.name.clone(),
            request,
            take: None,
            shown: None,
        };
        if !self.leaving.contains_key(&session) {
            self.moves.watch(Story::Going(session), replies.watcher());
        }
        if let Err(failed) = self.start_leaving(order) {
            replies.failed(failed);
        }
    }

    fn may_take_nothing(&self, member: &Member) -> Failure {
        let why = format!("{} was not given the right to take sessions over", member.name);
        Failure {
            refusal: Some(Refusal::NotGranted),
            now_at: Some(self.name.clone()),
            ..failure(exit::REFUSED, "the session was not offered", &why, "cede devices")
        }
    }

    /// What would travel of a directory that is no session, and becomes none.
    fn plan_directory(&self, member: &Member, request: MoveRequest, replies: Replies) {
        let (destination, destination_name) = (member.device(), member.name.clone());
        let context = self.context.clone();
        tokio::spawn(async move {
            let planned = context.block(move |context| unnamed(context, destination, destination_name, request)).await;
            let prepared = match planned {
                Ok(Ok(prepared)) => prepared,
                Ok(Err(failed)) => return replies.failed(failed),
                Err(stops) => return replies.failed(stopping(stops)),
            };
            let info = prepared.order.info.clone();
            let summary = context.ask(move |actor| actor.summary(&info)).await;
            let plan = summary.map(|summary| Answer::Plan(Box::new(prepared.plan(summary))));
            replies.settle(plan.map_err(stopping));
        });
    }

    /// A session that is not found here may be one that was: then its owner is named.
    fn maybe_elsewhere(&self, text: Option<&str>, directory: &str, failed: Failure) -> Failure {
        let away = self.known(text, directory).filter(|session| !self.is_here(*session));
        away.map_or(failed, |session| self.elsewhere(session))
    }

    pub(crate) fn known(&self, text: Option<&str>, directory: &str) -> Option<SessionId> {
        let fits = |placed: &&cede_wire::record::PlacedSession| match text {
            Some(text) => {
                !text.is_empty()
                    && (placed.key.id().to_string().starts_with(text)
                        || placed.key.native.as_str().starts_with(text)
                        || placed.title == text)
            }
            None => sessions::path_of(&placed.directory) == Path::new(directory),
        };
        let mut fitting = self.placed.values().filter(fits);
        let one = fitting.next()?.key.id();
        fitting.next().is_none().then_some(one)
    }

    fn elsewhere(&self, session: SessionId) -> Failure {
        let owner = self.in_charge(session);
        let unconfirmed = matches!(self.custodian.standing(session), None | Some(Standing::Unconfirmed));
        let why = match unconfirmed {
            true => "the records of this device may not be the newest: nothing acts for the session here".to_owned(),
            false => format!("the session is not in charge here; it is at {owner}"),
        };
        let cure = match self.custodian.contested(session) {
            Some(_) => format!("cede take --force {}", session.short()),
            None if self.custodian.waits_for_word(session) => {
                format!("cede doctor says why; then, if it was released to this device: cede claim {}", session.short())
            }
            None if unconfirmed => format!("cede doctor says why; then: cede confirm {}", session.short()),
            None => format!("cede take {}", session.short()),
        };
        Failure {
            now_at: Some(owner),
            refusal: Some(Refusal::NotOwner),
            ..failure(exit::NOT_OWNER, "the session was not offered", &why, &cure)
        }
    }

    fn ask_take(&mut self, text: String, wait: bool, carry_only: bool, replies: Replies) {
        // Of one whose owner is no member any more the peers may know another.
        let owned = |id: &SessionId| {
            let owner = self.custodian.owner(*id).unwrap_or(self.context.local.device());
            owner == self.context.local.device() || self.peers.is_member(owner)
        };
        if let Some(session) = self.known(Some(&text), "").filter(owned) {
            return self.take_known(session, wait, carry_only, replies);
        }
        let gone = self.known(Some(&text), "");
        let context = self.context.clone();
        tokio::spawn(async move {
            let mut fitting = Vec::new();
            for peer in sessions::peers_sessions(&context).await {
                let device = peer.device;
                let fits = peer
                    .listed
                    .into_iter()
                    .filter(|one| sessions::pick(std::slice::from_ref(&one.info), Some(&text), "").is_ok());
                fitting.extend(fits.map(|one| (device, one.info)));
            }
            match fitting.as_slice() {
                [(device, info)] => {
                    let (device, info) = (*device, info.clone());
                    let ask = move |actor: &mut Actor| {
                        let asked = (info.key.id(), info.title.as_str());
                        actor.take(asked, device, wait, carry_only, replies.watcher());
                    };
                    context.tell(ask).await;
                }
                [] => replies.failed(nobody_has(&text, gone)),
                _ => replies.failed(failure(
                    exit::USAGE,
                    "it is not clear which session is meant",
                    "several fit",
                    "cede ls",
                )),
            }
        });
    }

    fn take_known(&mut self, session: SessionId, wait: bool, carry_only: bool, replies: Replies) {
        let owner = self.custodian.owner(session);
        match owner {
            Some(owner) if owner != self.context.local.device() => {
                let title = self.placed.get(&session).map_or_else(String::new, |placed| placed.title.clone());
                self.take((session, &title), owner, wait, carry_only, replies.watcher());
            }
            Some(_) if self.custodian.standing(session) == Some(Standing::InCharge) => {
                replies.done(Answer::Said { text: format!("the session is {}", self.state_of(session)) });
            }
            Some(_) | None => replies.failed(self.not_yet_here(session)),
        }
    }

    /// This device is the one that is named, and nobody can work with the session here.
    fn not_yet_here(&self, session: SessionId) -> Failure {
        let why = format!("the session is {}", self.state_of(session));
        let id = session.short();
        match self.custodian.standing(session) {
            None | Some(Standing::Unconfirmed) => {
                let cure = format!("cede doctor says why; then: cede confirm {id}");
                Failure { refusal: Some(Refusal::NotOwner), ..failure(exit::NOT_OWNER, NOT_COME, &why, &cure) }
            }
            Some(Standing::Arriving | Standing::PayloadMissing | Standing::Leaving(_) | Standing::ReleasedTo(_)) => {
                failure(exit::PENDING, NOT_COME, &why, "cede status shows what it waits for")
            }
            Some(Standing::InCharge | Standing::Elsewhere(_) | Standing::SeizedBy(_)) => {
                failure(exit::FAILED, NOT_COME, &why, "cede status")
            }
        }
    }

    fn stop(&mut self, replies: &Replies) {
        replies.done(Answer::Said { text: "the daemon stops".to_owned() });
        self.stop_soon();
    }

    pub(crate) fn stop_soon(&self) {
        let inputs = self.context.inputs.clone();
        tokio::spawn(async move {
            // The answer is on its way first.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            let _ = inputs.send(Input::Stop).await;
        });
    }

    pub(crate) fn connected(&self, device: DeviceId) -> bool {
        self.peers.is_connected(device)
    }
}

/// No device of the mesh has the session. `gone`: one that is known, whose owner was removed.
fn nobody_has(text: &str, gone: Option<SessionId>) -> Failure {
    let Some(session) = gone else {
        let why = format!("no session called {text} is known here, and no device is known to have one");
        return failure(exit::USAGE, "no session is meant", &why, "cede ls");
    };
    let cure = format!("cede take --force {}", session.short());
    failure(exit::NOT_OWNER, "the session was not asked for", "the device that has it was removed", &cure)
}

/// A pattern that is none is a mistake of whoever typed it: nothing is begun.
fn usable_patterns(request: &MoveRequest) -> Result<(), Failure> {
    for (option, patterns) in [("--include-ignored", &request.include_ignored), ("--exclude", &request.exclude)] {
        cede_agent::tree::check_patterns(patterns).map_err(|pattern| {
            let why = format!("{option} takes a glob, and this is none: {pattern}");
            let cure = format!("quote it, and close every bracket: {option} '*.log', {option} 'build/[a-c]*'");
            failure(exit::USAGE, "the session was not offered", &why, &cure)
        })?;
    }
    Ok(())
}

fn is_address(address: &str) -> Result<(), Failure> {
    let parts = address.rsplit_once(':').filter(|(host, _)| is_host(host));
    if parts.is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        return Ok(());
    }
    let why = format!("{address} is not HOST:PORT");
    Err(failure(exit::USAGE, "nothing was noted", &why, "cede devices address <device> 192.0.2.7:4455"))
}

fn is_host(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn changes(command: &Command) -> bool {
    match command {
        Command::Status
        | Command::Sessions { .. }
        | Command::Devices
        | Command::Doctor
        | Command::Approvals
        | Command::Approvers
        | Command::Run(_)
        | Command::View(_)
        | Command::Hold { .. }
        | Command::Release { .. }
        | Command::Inbox { .. }
        | Command::Letter { .. }
        | Command::ReadLetter { .. }
        | Command::LetterShown { .. }
        | Command::Policies { .. }
        | Command::Log { .. }
        | Command::Transfers
        | Command::Tasks { .. }
        | Command::Task { .. }
        | Command::Notify(_)
        | Command::Stop => false,
        Command::Pair { .. }
        | Command::PairWith { .. }
        | Command::PairConfirm { .. }
        | Command::Revoke { .. }
        | Command::LeaveMesh { .. }
        | Command::Policy { .. }
        | Command::SetRule { .. }
        | Command::Address { .. }
        | Command::To(_)
        | Command::Take { .. }
        | Command::SeizePlan { .. }
        | Command::Seize { .. }
        | Command::Confirm { .. }
        | Command::Claim { .. }
        | Command::Cancel { .. }
        | Command::Decide { .. }
        | Command::SetApprover { .. }
        | Command::SettleLog { .. }
        | Command::Adopt { .. }
        | Command::Tell(_)
        | Command::MarkLetter { .. }
        | Command::ReleaseLetters { .. }
        | Command::Send(_)
        | Command::StopTransfer { .. }
        | Command::Ask(_)
        | Command::CancelTask { .. } => true,
    }
}

/// The address to type on another machine: a socket that listens everywhere is reached at the address that this machine
/// would itself use towards the outside.
pub(crate) fn reachable(context: &Context) -> String {
    let Ok(address) = context.endpoint.local_addr() else { return "HOST:PORT".to_owned() };
    if !address.ip().is_unspecified() {
        return address.to_string();
    }
    // Connecting a datagram socket sends nothing; it only asks the routing table. The address is one for documentation.
    let outward = std::net::UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    let host = outward.map_or_else(
        |_| rustix::system::uname().nodename().to_string_lossy().into_owned(),
        |outward| outward.ip().to_string(),
    );
    format!("{host}:{}", address.port())
}

pub(crate) fn listening(context: &Context) -> String {
    context.endpoint.local_addr().map_or_else(|_| "nowhere".to_owned(), |address| address.to_string())
}

/// A session that this device lists already stays as this device sees it.
fn merge(all: &mut Vec<SessionSummary>, remote: impl Iterator<Item = SessionSummary>) {
    for session in remote {
        match all.iter_mut().find(|known| known.id == session.id) {
            Some(known) if !known.here && known.activity.is_none() => {
                known.activity = session.activity;
                known.turns = session.turns;
                known.bytes = session.bytes;
                known.version = session.version;
                known.updated_unix_ms = session.updated_unix_ms;
            }
            Some(_) => {}
            None => all.push(session),
        }
    }
}

/// A directory that is to move becomes a session.
async fn adopted_first(context: &Context, mut request: MoveRequest) -> Result<MoveRequest, Failure> {
    if request.files && !request.dry_run {
        let directory = request.directory.clone();
        let info = context.block(move |context| adopt_blocking(context, &directory)).await.map_err(stopping)??;
        (request.session, request.files) = (Some(info.key.id().to_string()), false);
    }
    Ok(request)
}

/// Makes a plain directory a session.
fn adopt(context: Context, directory: String, replies: Replies) {
    tokio::spawn(async move {
        let adopted = context.block(move |context| adopt_blocking(context, &directory)).await;
        match adopted {
            Ok(Ok(info)) => {
                let summary = context.ask(move |actor| actor.summary(&info)).await;
                let adopted = summary.map_err(stopping).and_then(|summary| match summary.here {
                    true => Ok(Answer::Adopted(Box::new(summary))),
                    false => Err(given_away(&summary)),
                });
                replies.settle(adopted);
            }
            Ok(Err(failed)) => replies.failed(failed),
            Err(stops) => replies.failed(stopping(stops)),
        }
    });
}

/// It is a session already, and another device's.
fn given_away(summary: &SessionSummary) -> Failure {
    let id = summary.id.short();
    let why = format!("it is that of session {id} already, whose owner is {}", summary.owner);
    let failed = failure(exit::NOT_OWNER, "the directory was not made a session", &why, &format!("cede take {id}"));
    Failure { refusal: Some(Refusal::NotOwner), now_at: Some(summary.owner.clone()), ..failed }
}

/// Captures a directory as the session that it is not. Blocks.
fn unnamed(
    context: &Context,
    destination: DeviceId,
    destination_name: String,
    request: MoveRequest,
) -> Result<Prepared, Failure> {
    let not_captured = |error: &PayloadError| crate::offering::not_captured(error);
    let info = cede_agent::adapter::files::unnamed(Path::new(&request.directory));
    let info = info.map_err(|error| not_captured(&error.into()))?;
    let order = Order { info, destination, destination_name, request, take: None, shown: None };
    let payload = payload::take_unnamed(context, &order.wanted(&[])).map_err(|error| not_captured(&error))?;
    let requirement = Requirement { agent: AgentKind::Files, version: String::new(), provider: None };
    Ok(Prepared { order, requirement, payload })
}

fn adopt_blocking(context: &Context, directory: &str) -> Result<SessionInfo, Failure> {
    let what = "the directory was not made a session";
    let io = |error: std::io::Error| {
        let cure = "name a directory that can be opened: cede adopt DIR";
        failure(exit::FAILED, what, &format!("{directory}: {error}"), cure)
    };
    let directory = std::fs::canonicalize(directory).map_err(io)?;
    let state = context.state.display();
    let cure = format!("look whether the disk of {state} is full or fails, then type it again");
    let random = random().map_err(|error| failure(exit::FAILED, what, &error.to_string(), &cure))?;
    let files = cede_agent::adapter::files::FilesAdapter::new(&context.surroundings);
    let tree = cede_agent::tree::inspect(&directory).map_err(PayloadError::from);
    tree.and_then(|tree| payload::apart(context, &tree.root)).map_err(|error| crate::offering::not_captured(&error))?;
    let native =
        files.adopt(&directory, random).map_err(|error| failure(exit::FAILED, what, &error.to_string(), &cure))?;
    let key = cede_wire::session::SessionKey { agent: AgentKind::Files, native };
    let info = crate::offering::describe(context, &key).map_err(|error| crate::offering::not_captured(&error))?;
    sessions::look(context);
    Ok(info)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_a_host_that_can_be_and_a_port() {
        for good in ["192.0.2.7:4455", "server.example:1", "[2001:db8::7]:4455"] {
            assert!(is_address(good).is_ok(), "{good}");
        }
        for bad in ["", "server", ":4455", "server:", "server:70000", "\u{1b}[2J:5", "a b:5", "ser\u{202e}ver:5"] {
            assert!(is_address(bad).is_err(), "{bad:?}");
        }
    }
}
