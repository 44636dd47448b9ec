//! A peer sends files: what is too much is refused unasked, the operator or a rule decides, and only then is anything
//! written.

use cede_core::authority::{CapabilityDecision, CapabilityRefusal, DecidedBy};
use cede_core::transfers::ComingPhase;
use cede_seal::verify::Verified;
use cede_wire::approver::Posed;
use cede_wire::audit::{AuditEvent, AuditOf, AuditOutcome};
use cede_wire::authority::{Subject, SubjectTooLong};
use cede_wire::handoff::{Disposition, InventoryItem};
use cede_wire::id::{DeviceId, Hash, TransferId};
use cede_wire::limits::{CATALOG_BYTES, DETAIL_CHARS, SCOPE_PATHS, TRANSFER_CATALOG_CHUNKS, TRANSFER_LINES};
use cede_wire::member::Capability;
use cede_wire::path::RelPath;
use cede_wire::refusal::Refusal;
use cede_wire::shown::bytes as in_words;
use cede_wire::transfer::TransferOffer;

use super::view::{View, roots_of, title_of, unknown, untaken};
use super::{Considered, Task, TransferPlan, room};
use crate::actor::Actor;
use crate::context::Context;
use crate::limits;
use crate::receiving::FetchError;

impl Actor {
    /// Looks away from the actor whether there is room, then asks. One that is considered already is not begun again.
    pub(super) fn consider_files(&mut self, offer: &Verified<TransferOffer>) {
        let (transfer, from) = (offer.transfer, offer.source);
        let Some(asker) = self.files.last_asker.filter(|asker| asker.device == from) else { return };
        if self.files.considered.contains_key(&transfer) {
            return;
        }
        self.files.offered.insert(transfer, untaken(offer));
        if let Some(detail) = too_much(&self.context, offer) {
            return self.refuse_files(transfer, Refusal::TooLarge, &detail);
        }
        if self.audit.is_broken() {
            return self.put_off_files(asker, offer);
        }
        self.files.considered.insert(transfer, Considered { asker, plan: None, question: None });
        let (context, name, offer) = (self.context.clone(), self.device_name(from), offer.clone());
        tokio::spawn(async move {
            let plan = context.block(move |context| look(context, &name, &offer)).await;
            context
                .tell(move |actor| match plan {
                    Ok(Ok(plan)) => actor.ask_for_files(plan),
                    Ok(Err(detail)) => actor.refuse_files(transfer, Refusal::TooLarge, &detail),
                    Err(_) => drop(actor.files.considered.remove(&transfer)),
                })
                .await;
        });
    }

    /// The question, on the link that brought the offer, or on the one that is there now.
    fn ask_for_files(&mut self, plan: TransferPlan) {
        let transfer = plan.transfer;
        let Some(offer) = self.asked_for_files(transfer) else { return };
        let from = offer.source;
        if self.takes_files_unasked(from) {
            return self.approve_unattended(offer, plan);
        }
        let Ok(subject) = subject(&offer) else {
            return self.refuse_files(transfer, Refusal::TooLarge, "its words are longer than a person can be shown");
        };
        let Some(considered) = self.files.considered.get_mut(&transfer) else { return };
        considered.plan = Some(Box::new(plan));
        let newest = self.peers.asker(from);
        if let Some(newest) = newest {
            considered.asker = newest;
        }
        let asker = considered.asker;
        let question = self.ask_authority(asker, Capability::File, subject, move |actor, decision, of| {
            actor.files_decided(transfer, (from, of), decision)
        });
        if let Some(considered) = self.files.considered.get_mut(&transfer) {
            considered.question = Some(question);
        }
    }

    /// The standing yes without an end, which no authority knows: it is in the record before anything comes of it.
    fn approve_unattended(&mut self, offer: Verified<TransferOffer>, plan: TransferPlan) {
        let (who, transfer, shown) = (offer.source, offer.transfer, Some(offer.signed().hash()));
        let (capability, of) = (Capability::File, AuditOf::Transfer(transfer));
        let decided = AuditEvent::Decided { who, capability, of, allowed: true, by: DecidedBy::Rule, shown, times: 1 };
        let asker = self.files.considered.get(&transfer).map(|considered| considered.asker);
        self.once_recorded(decided, move |actor, stands| match asker.filter(|_| !stands) {
            Some(asker) => actor.put_off_files(asker, &offer),
            None if !stands => {}
            None => actor.approve_files(offer, plan),
        });
    }

    /// The answer. It covers the offer that the machine holds, or it is none. False: it was withdrawn meanwhile.
    fn files_decided(
        &mut self,
        transfer: TransferId,
        (from, of): (DeviceId, AuditOf),
        decision: CapabilityDecision,
    ) -> bool {
        let considered = self.files.considered.remove(&transfer);
        let (Some(considered), Some(offer)) = (considered, self.asked_for_files(transfer)) else {
            if decision.is_allowed() {
                self.came_of_files(from, (transfer, Some(of)), AuditOutcome::Failed);
            }
            return false;
        };
        match decision {
            CapabilityDecision::Allowed(permit) => {
                let redeemed = subject(&offer).is_ok_and(|subject| permit.redeem(&subject).is_ok());
                match considered.plan.filter(|_| redeemed) {
                    Some(plan) => self.approve_files(offer, TransferPlan { of: Some(of), ..*plan }),
                    None => {
                        self.came_of_files(from, (transfer, Some(of)), AuditOutcome::Swapped);
                        self.refuse_files(transfer, Refusal::Unauthorized, "the answer was to another offer");
                    }
                }
            }
            // The question died with its link: it is asked anew on another one, now or when the offer comes again.
            CapabilityDecision::Refused { by: DecidedBy::Closed, .. } => {
                let other = self.peers.asker(offer.source).filter(|asker| *asker != considered.asker);
                if let (Some(asker), Some(plan)) = (other, considered.plan) {
                    self.files.considered.insert(transfer, Considered { asker, plan: None, question: None });
                    self.ask_for_files(*plan);
                }
            }
            CapabilityDecision::Refused { by: DecidedBy::Fault, .. } => self.put_off_files(considered.asker, &offer),
            CapabilityDecision::Refused { by: DecidedBy::Time, .. } => {
                self.refuse_files(transfer, Refusal::Expired, "nobody answered in time");
            }
            CapabilityDecision::Refused { by: DecidedBy::Pace, .. } => {
                self.refuse_files(transfer, Refusal::Busy, crate::approvals::TOO_MANY);
            }
            CapabilityDecision::Refused { why, .. } => self.refuse_files(transfer, why.refusal(), not_allowed(why)),
        }
        true
    }

    /// The offer, while it waits for an answer.
    fn asked_for_files(&self, transfer: TransferId) -> Option<Verified<TransferOffer>> {
        let (_, coming) = self.transfers.coming().find(|(id, _)| *id == transfer)?;
        (coming.phase() == ComingPhase::Asked).then(|| coming.offer().clone())
    }

    /// The yes. What it was a yes to is durable before it is said.
    pub(crate) fn approve_files(&mut self, offer: Verified<TransferOffer>, plan: TransferPlan) {
        let (context, transfer, hash) = (self.context.clone(), offer.transfer, offer.signed().hash());
        let (from, of) = (offer.source, plan.of);
        let Some(asker) = self.files.last_asker else { return };
        // Until it is said, the offer that comes again is no new one.
        self.files.considered.insert(transfer, Considered { asker, plan: None, question: None });
        tokio::spawn(async move {
            let kept = plan.clone();
            let saved = context.block(move |context| {
                kept.save_offer(context, &offer)
                    .and_then(|()| kept.save(context))
                    .map_err(|error| FetchError::writing(&error))
            });
            let saved = saved.await;
            context
                .tell(move |actor| match saved {
                    Ok(Ok(())) => actor.say_yes_to_files(from, plan, hash),
                    Ok(Err(error)) => {
                        actor.came_of_files(from, (transfer, of), AuditOutcome::Failed);
                        let why = format!("what was approved cannot be kept there: {error}");
                        actor.refuse_files(transfer, error.refusal(), &why);
                    }
                    Err(_) => {}
                })
                .await;
        });
    }

    fn say_yes_to_files(&mut self, from: DeviceId, plan: TransferPlan, offer: Hash) {
        let (transfer, of, now) = (plan.transfer, plan.of, self.context.clock.now());
        self.files.considered.remove(&transfer);
        self.files.views.insert(transfer, View::new(plan));
        if self.transfers.approve(transfer, offer, now).is_err() {
            // Withdrawn meanwhile.
            self.files.views.remove(&transfer);
            self.came_of_files(from, (transfer, of), AuditOutcome::Failed);
            TransferPlan::remove(&self.context, transfer);
        }
    }

    /// What came of files that were allowed to come.
    pub(super) fn came_of_files(
        &mut self,
        from: DeviceId,
        (transfer, of): (TransferId, Option<AuditOf>),
        outcome: AuditOutcome,
    ) {
        self.came_of(from, of.unwrap_or(AuditOf::Transfer(transfer)), Capability::File, outcome);
    }

    /// A no, of the operator, of a limit or of time.
    pub(crate) fn refuse_files(&mut self, transfer: TransferId, refusal: Refusal, detail: &str) {
        self.files.considered.remove(&transfer);
        // It ended by itself where this says so.
        let _ = self.transfers.stop(transfer, refusal, detail);
    }

    /// The offer was withdrawn while its question waited.
    pub(super) fn withdraw_files_question(&mut self, transfer: TransferId) {
        let considered = self.files.considered.remove(&transfer);
        if let Some((asker, question)) = considered.and_then(|one| Some((one.asker, one.question?))) {
            self.withdraw_request(asker, question);
        }
    }

    /// The lists of a question about files: what its hash covers.
    pub(crate) fn with_files(&self, posed: Posed, content: Option<Hash>) -> Posed {
        let Some(offer) = content.and_then(|content| self.offer_of_question(content)) else { return posed };
        let plan = self.files.considered.get(&offer.transfer).and_then(|considered| considered.plan.as_ref());
        let (shown, folder) = (offer.shown.clone(), plan.and_then(|plan| plan.folder.clone()));
        let inventory = InventoryItem {
            what: "files".to_owned(),
            disposition: Disposition::Transferred,
            count: shown.files,
            bytes: shown.bytes,
            note: String::new(),
        };
        Posed {
            title: plan.map(|plan| plan.title.clone()).unwrap_or_default(),
            directory: folder.map(|folder| folder.display().to_string()).unwrap_or_default(),
            inventory: vec![inventory],
            executables: shown.executables,
            dotfiles: shown.dotfiles,
            configuration_as_code: shown.configuration_as_code,
            limit_bytes: shown.bytes,
            files: shown.paths,
            note: offer.note.clone(),
            ..posed
        }
    }

    pub(crate) fn files_shown_bytes(&self, content: Option<Hash>) -> usize {
        let offer = content.and_then(|content| self.offer_of_question(content));
        offer.map_or(0, |offer| offer.signed().bytes().len())
    }

    fn offer_of_question(&self, content: Hash) -> Option<&Verified<TransferOffer>> {
        let mut coming = self.transfers.coming().map(|(_, coming)| coming.offer());
        coming.find(|offer| offer.signed().hash() == content)
    }

    /// A fresh key, so that the sender may send.
    pub(super) fn accept_files(&mut self, transfer: TransferId) {
        let Some(secret) = self.exchange_secret(transfer) else { return };
        let task = self.files.tasks.entry(transfer).or_insert_with(Task::idle);
        task.abort();
        task.secret = Some(secret.clone());
        if let Some(view) = self.files.views.get_mut(&transfer) {
            view.waits.clear();
        }
        if let Err(error) = self.transfers.accept(transfer, secret.public()) {
            tracing::debug!(%error, "files were not accepted");
        }
    }
}

/// What the yes is to: the offer, by its hash, and what a person is told of it.
fn subject(offer: &Verified<TransferOffer>) -> Result<Subject, SubjectTooLong> {
    let shown = &offer.shown;
    let subject = Subject::new(&offer.note)?;
    let subject = subject.with("files", &shown.files.to_string())?.with("bytes", &shown.bytes.to_string())?;
    Ok(subject.bound_to(offer.signed().hash()))
}

/// Why not, in words for the peer.
pub(super) fn not_allowed(why: CapabilityRefusal) -> &'static str {
    match why {
        CapabilityRefusal::NotGranted => "this device was not given the right to send files",
        CapabilityRefusal::NoApprover => "nobody can be asked there",
        CapabilityRefusal::Declined => "the operator there said no",
    }
}

/// More than is taken here from anybody, or lists that no person can be shown.
fn too_much(context: &Context, offer: &TransferOffer) -> Option<String> {
    let shown = &offer.shown;
    if shown.bytes > context.receive_limit || shown.files > limits::TRANSFER_FILES {
        let (most, files) = (in_words(context.receive_limit), limits::TRANSFER_FILES);
        return Some(format!("no more than {most} in {files} files are taken there at once"));
    }
    let lists = [&shown.executables, &shown.dotfiles, &shown.configuration_as_code];
    let long = shown.paths.len() > TRANSFER_LINES || lists.iter().any(|list| list.len() > SCOPE_PATHS);
    let catalog: u64 = offer.catalog.iter().map(|chunk| u64::from(chunk.length)).sum();
    let catalog = offer.catalog.len() > TRANSFER_CATALOG_CHUNKS || catalog > CATALOG_BYTES;
    let note = offer.note.chars().count() > DETAIL_CHARS;
    (long || catalog || note).then(|| "its lists are longer than a person can be shown".to_owned())
}

/// Whether there is room, and where it will lie. Nothing is written. Blocks.
fn look(context: &Context, name: &str, offer: &TransferOffer) -> Result<TransferPlan, String> {
    let folder = context.received.join(folder_name(name, offer.source));
    let bytes = offer.shown.bytes;
    // First the chunks lie here, then the files there: for a moment both.
    if let Some(short) = room::short(context, &folder, bytes, bytes) {
        return Err(short.refused(bytes));
    }
    let together = format!("from {name} {}", offer.transfer.short());
    Ok(TransferPlan {
        title: crate::scrutiny::text(&title_of(&roots_of(&offer.shown))),
        files: offer.shown.files,
        bytes,
        note: crate::scrutiny::detail(&offer.note),
        at_unix_ms: crate::clock::unix_ms(),
        staging: Some(folder.join(format!(".cede-{}", offer.transfer))),
        folder: Some(folder),
        together,
        ..unknown(offer.transfer)
    })
}

/// A device's name is plain text without a slash; what is none after all gives way to the id.
fn folder_name(name: &str, device: DeviceId) -> String {
    let plain = RelPath::parse(name.as_bytes()).is_ok_and(|path| path.components().count() == 1);
    if plain && !name.starts_with('.') { name.to_owned() } else { device.short() }
}
