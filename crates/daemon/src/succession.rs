//! Leaving a mesh: this device begins anew under another key, and what it is in charge of goes along.
//!
//! The running daemon only lays the new key down and stops. The next start does the rest before anything is heard, and
//! repeats it if it was cut off: the journal first, then the key.

use cede_core::custodian::Standing;
use cede_core::destination::DestinationPhase;
use cede_seal::device::LocalDevice;
use cede_store::home::Home;
use cede_store::journal::{Journal, Replay};
use cede_wire::control::{Answer, Failure, exit};
use cede_wire::id::{DeviceId, MeshId, SessionId};
use cede_wire::record::Record;

use crate::actor::Actor;
use crate::clock::random;
use crate::control::Replies;
use crate::offering::failure;
use crate::run::RunError;

impl Actor {
    /// Leaves the mesh, once the person has said yes to what that means.
    pub(crate) fn leave_mesh(&mut self, confirmed: bool, replies: &Replies) {
        match self.may_leave().and_then(|()| self.lay_down_key(confirmed)) {
            Ok(answer) => {
                replies.done(answer);
                self.stop_soon();
            }
            Err(failed) => replies.failed(failed),
        }
    }

    fn may_leave(&self) -> Result<(), Failure> {
        let refused = |exit, why: &str, cure: &str| Err(failure(exit, NOT_LEFT, why, cure));
        if self.peers.log.is_none() {
            return refused(exit::FAILED, "this device belongs to no mesh", "cede pair");
        }
        if self.custodian.doubt().is_some() {
            return refused(exit::FAILED, "its records may not be the newest", "cede doctor; then: cede confirm --all");
        }
        if let Some(session) = self.under_way() {
            let cure = format!("cede status, or withdraw it: cede cancel {}", session.short());
            return refused(exit::PENDING, "a move is under way", &cure);
        }
        if let Some((session, owner)) = self.staged_for_me() {
            let (id, owner) = (session.short(), self.device_name(owner));
            let why =
                format!("{owner} sent everything of session {id} and may release it to this device at any moment");
            let cure = format!(
                "start {owner} and wait for it, or end the move there: cede cancel {id}. If {owner} is gone for good: \
                 cede take --force {id}"
            );
            return refused(exit::PENDING, &why, &cure);
        }
        Ok(())
    }

    /// A session whose owner holds everything of it that it needs to release it to the old key, at any moment.
    fn staged_for_me(&self) -> Option<(SessionId, DeviceId)> {
        self.custodian.sessions().find_map(|(id, _)| {
            let coming = self.custodian.arriving(id)?;
            let staged = matches!(coming.phase(), DestinationPhase::Staged { .. });
            staged.then(|| (id, coming.attempt().source))
        })
    }

    /// A session whose move or fence belongs to the old key.
    fn under_way(&self) -> Option<SessionId> {
        let moves = |(id, standing): &(SessionId, Standing)| {
            let coming = self.custodian.arriving(*id);
            coming.is_some_and(|coming| matches!(coming.phase(), DestinationPhase::Receiving { .. }))
                || matches!(standing, Standing::Leaving(_) | Standing::Arriving | Standing::PayloadMissing)
        };
        let fenced = || self.custodian.fences_to_lift().first().map(|(id, _)| *id);
        let moving = self.custodian.sessions().find(moves).map(|(id, _)| id);
        self.leaving.keys().next().copied().or(moving).or_else(fenced)
    }

    fn lay_down_key(&self, confirmed: bool) -> Result<Answer, Failure> {
        let released = self.custodian.sessions().filter(|(_, standing)| matches!(standing, Standing::ReleasedTo(_)));
        let mut why = "this device would get a new key, and stay in charge of what it is in charge of now".to_owned();
        for (id, _) in released {
            why.push_str(&format!("; {} is released, and its new owner has not answered yet", id.short()));
        }
        if self.is_administrator(self.context.local.device()) && !self.peers.members().is_empty() {
            why.push_str("; nobody could add devices to this mesh or remove any after that");
        }
        match (self.unread_letters(), self.letters_queued(|_| true)) {
            (0, 0) => {}
            (unread, queued) => {
                why.push_str(&format!(
                    "; its messages end with the mesh, {unread} unread and {queued} queued ones too"
                ));
            }
        }
        let files = self.transfers.going().count() + self.transfers.coming().count();
        if files > 0 {
            why.push_str(&format!("; {files} sendings of files that are under way end too"));
        }
        let tasks = self.running_tasks();
        if tasks > 0 {
            why.push_str(&format!("; {tasks} tasks that run are ended"));
        }
        if !confirmed {
            return Err(failure(exit::PENDING, NOT_LEFT, &why, "cede devices leave --yes"));
        }
        let io = |error: String| failure(exit::FAILED, NOT_LEFT, &error, "look at the disk: cede doctor");
        let next: [u8; 32] = random().map_err(|error| io(error.to_string()))?;
        self.context.home.put_secret(NEXT, &next).map_err(|error| io(error.to_string()))?;
        let text = format!(
            "left: with the next start this device has a new key. Start it: cede up; then on the first device: cede pair. \
             Where this one is still listed there: cede devices revoke {}",
            self.name
        );
        Ok(Answer::Said { text })
    }
}

/// Ends a leaving that was begun, with a journal that nothing speaks against: the sessions go to the new key, the mesh is forgotten, then the old key is gone. The
/// device of the key that counts from here on.
pub(crate) fn finish(
    home: &Home,
    journal: &Journal,
    replay: &mut Replay,
    old: LocalDevice,
) -> Result<LocalDevice, RunError> {
    let Some(secret) = home.secret(NEXT)? else { return Ok(old) };
    let secret: &[u8; 32] = secret.as_slice().try_into().map_err(|_| RunError::NotAKey)?;
    let new = LocalDevice::from_secret(secret);
    if new.device() != old.device() {
        replay.records.retain(|record| !of_the_mesh(record));
        let more = cede_core::succession::succeed(&replay.records, &old, new.device(), &random()?);
        replay.records.extend(more.map_err(RunError::Succession)?);
        journal.rewrite(replay.records.clone(), replay.position).map_err(RunError::Leave)?;
        home.put_secret(IDENTITY, secret)?;
        tracing::info!(device = %new.device().short(), "the mesh is left; this device has a new key");
    }
    home.remove_secret(NEXT)?;
    Ok(new)
}

/// What this device is in charge of since it was in another mesh begins anew in this one.
pub(crate) fn begin_anew_in(
    mesh: Option<MeshId>,
    journal: &Journal,
    replay: &mut Replay,
    me: DeviceId,
) -> Result<(), RunError> {
    let Some(mesh) = mesh else { return Ok(()) };
    let anew = crate::compaction::begin_anew(me, mesh, &replay.records).map_err(RunError::Succession)?;
    let Some(records) = anew else { return Ok(()) };
    replay.records = records;
    journal.rewrite(replay.records.clone(), replay.position).map_err(RunError::Leave).map(drop)
}

fn of_the_mesh(record: &Record) -> bool {
    matches!(
        record,
        Record::Member(_)
            | Record::PeerDropped { .. }
            | Record::PolicySet { .. }
            | Record::RuleSet { .. }
            | Record::AddressSeen { .. }
            | Record::Letter(_)
            | Record::Transfer(_)
            | Record::Task(_)
    )
}

/// The key that counts.
pub(crate) const IDENTITY: &str = "identity";
/// The key that will.
pub(crate) const NEXT: &str = "identity-next";
const NOT_LEFT: &str = "the mesh was not left";

#[cfg(test)]
mod tests {
    use cede_wire::custody::{Custody, Genesis};
    use cede_wire::id::{Incarnation, MeshId};
    use cede_wire::session::{AgentKind, NativeId, SessionKey};

    use super::*;

    /// Shows: P-11
    #[test]
    fn leaving_that_was_cut_off_is_repeated_and_changes_nothing_twice() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::open(&directory.path().join("state")).unwrap();
        let (old, new) = (LocalDevice::from_secret(&[1; 32]), LocalDevice::from_secret(&[2; 32]));
        let key = SessionKey { agent: AgentKind::Files, native: NativeId::parse("aa").unwrap() };
        let genesis = Genesis {
            mesh: MeshId::new([9; 32]),
            key,
            owner: old.device(),
            incarnation: Incarnation::new([1; 16]),
            members: 0,
        };
        let begun = Record::Custody(old.sign(&Custody::Genesis(genesis)).unwrap());
        let dropped = Record::PeerDropped { device: new.device() };
        Journal::open(&home).unwrap().0.commit(vec![begun, dropped]).unwrap();
        let lives = [1, 2].map(|_| {
            // As a crash leaves it: the journal may be new already, the keys are not.
            home.put_secret(IDENTITY, old.secret().as_slice()).unwrap();
            home.put_secret(NEXT, new.secret().as_slice()).unwrap();
            let (journal, mut replay) = Journal::open(&home).unwrap();
            let local = finish(&home, &journal, &mut replay, LocalDevice::from_secret(&[1; 32])).unwrap();
            assert_eq!(local.device(), new.device());
            assert_eq!(home.secret(IDENTITY).unwrap().unwrap().as_slice(), new.secret().as_slice());
            assert_eq!(home.secret(NEXT), Ok(None));
            replay.records
        });
        assert_eq!(lives[0], lives[1]);
        assert_eq!(lives[0].len(), 4, "the beginning, the release, and two words of the new key; nothing of the mesh");
        let (journal, mut replay) = Journal::open(&home).unwrap();
        assert_eq!(replay.records, lives[0]);
        let kept = finish(&home, &journal, &mut replay, LocalDevice::from_secret(&[2; 32])).unwrap();
        assert_eq!((kept.device(), replay.records.len()), (new.device(), 4), "without a new key nothing is left");
    }
}
