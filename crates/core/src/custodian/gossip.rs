//! Chains that reach further than what a device knows, and two that contradict each other.

use cede_wire::canonical::{Signable, Signed};
use cede_wire::custody::Custody;
use cede_wire::id::{DeviceId, SessionId};
use cede_wire::message::{KnownCustody, PeerMessage};
use cede_wire::record::{Doubt, Record};
use cede_wire::refusal::Refusal;

use super::offered::Unmergeable;
use super::{Custodian, Role, Session};
use crate::chain::{Chain, verified};
use crate::limits;
use crate::output::Event;

impl Custodian {
    /// At every new link: what this device knows, so that the other one may say that it knows more. Source: SPEC H-32.
    pub(super) fn ask_custody(&mut self, device: DeviceId) {
        let most = cede_wire::limits::LISTED_SESSIONS;
        let known = |(id, state): (&SessionId, &Session)| {
            let chain = state.chain.as_ref()?;
            Some(KnownCustody { session: *id, token: chain.token(), record: chain.head() })
        };
        let (mut at_stake, others): (Vec<_>, Vec<_>) =
            self.sessions.iter().partition(|(_, state)| !matches!(state.role, Role::Bystander));
        at_stake.extend(others);
        let known: Vec<KnownCustody> = at_stake.into_iter().filter_map(known).take(most).collect();
        self.asked.insert(device);
        self.send(device, PeerMessage::CustodyQuery(known));
    }

    /// Asks every device that a link stands to whether it knows more. In doubt they are asked already.
    pub fn ask_links(&mut self) {
        if self.doubt.is_none() {
            self.links.clone().into_iter().for_each(|device| self.ask_custody(device));
        }
    }

    /// Says of each session that the asker knows where it does not know enough, and of which it does.
    pub(super) fn handle_custody_query(&mut self, from: DeviceId, asked: &[KnownCustody]) {
        let (mut vouched, mut sent) = (Vec::new(), 0);
        for known in asked.iter().take(cede_wire::limits::LISTED_SESSIONS) {
            let Some(state) = self.sessions.get(&known.session) else {
                vouched.extend((self.trust == super::Trust::Whole).then_some(*known));
                continue;
            };
            let Some(chain) = &state.chain else { continue };
            let differs = chain.token() == known.token && chain.head() != known.record;
            let waits = state.arriving.as_ref().is_some_and(|arriving| arriving.attempt().source == from);
            if chain.token() > known.token || differs {
                sent += 1;
                if sent <= limits::CHAINS_PER_ANSWER {
                    self.send_custody(from, known.session);
                }
            } else if !waits && !matches!(state.role, Role::Unconfirmed(_)) {
                vouched.push(*known);
            }
        }
        if asked.len() < cede_wire::limits::LISTED_SESSIONS {
            self.remind(from, asked, limits::CHAINS_PER_ANSWER.saturating_sub(sent));
        }
        self.send(from, PeerMessage::CustodyAnswer(vouched));
    }

    /// The asker had sessions once of which it says nothing.
    fn remind(&mut self, device: DeviceId, asked: &[KnownCustody], most: usize) {
        let named = |id: &SessionId| asked.iter().any(|known| known.session == *id);
        let had = |state: &Session| state.chain.as_ref().is_some_and(|chain| chain.owned_by(device));
        let forgotten = self.sessions.iter().filter(|(id, state)| had(state) && !named(id));
        for session in forgotten.map(|(id, _)| *id).take(most).collect::<Vec<_>>() {
            self.send_custody(device, session);
        }
    }

    /// In doubt every device is asked again once this one knows more: one that has not answered yet after its answer, which
    /// may teach more still.
    pub(super) fn ask_again(&mut self) {
        if self.doubt.is_none() {
            return;
        }
        self.vouched.clear();
        for device in self.links.clone() {
            if self.asked.contains(&device) {
                self.learned.insert(device);
            } else {
                self.ask_custody(device);
            }
        }
    }

    /// Tells a device of a session what it may lack.
    pub fn send_custody(&mut self, to: DeviceId, session: SessionId) {
        let Some(chain) = self.chain(session) else { return };
        let links = chain.told_to(to).to_vec();
        let last = self.send_all_but_last(to, links);
        self.send(to, PeerMessage::Custody(last));
    }

    /// Of a chain that is longer than a message sends all pieces but the last one, which goes with the message itself.
    pub(super) fn send_all_but_last(&mut self, to: DeviceId, mut links: Vec<Signed<Custody>>) -> Vec<Signed<Custody>> {
        while let Some(end) = piece(&links, to) {
            let later = links.split_off(end);
            self.send(to, PeerMessage::Custody(links));
            links = later;
        }
        links
    }

    /// Tells every device that a link stands to.
    pub(super) fn spread(&mut self, session: SessionId) {
        for device in self.links.clone() {
            self.send_custody(device, session);
        }
    }

    /// A move is over: devices that had the session once, and took no part in this move, hear where it is. One of them could
    /// otherwise neither say so nor seize it from the device that has it now. Source: SPEC H-32.
    pub(super) fn tell_earlier_owners(&mut self, session: SessionId, other: DeviceId) {
        let Some(chain) = self.chain(session) else { return };
        let earlier: Vec<DeviceId> =
            self.links.iter().copied().filter(|device| *device != other && chain.owned_by(*device)).collect();
        earlier.into_iter().for_each(|device| self.send_custody(device, session));
    }

    /// A chain came: from whom does not matter, it proves itself.
    pub(super) fn handle_custody(&mut self, from: DeviceId, links: &[Signed<Custody>]) {
        let Some(session) = links.first().and_then(|link| verified(link).ok()).map(|link| link.session()) else {
            return;
        };
        let state = self.sessions.get(&session);
        let voted = |state: &Session| state.voted.is_some() && state.unclaimed.is_none();
        let known = state.is_some_and(|state| state.chain.is_some() || voted(state));
        let chain = state.and_then(|state| state.chain.as_ref());
        // Where nothing but a vote is known, what was told is still to be kept.
        let told = self.told.get(&from).filter(|told| told.session() == session && known == chain.is_some());
        let heard = |before: &Chain| links.iter().all(|link| before.contains(&link.hash()));
        // What was told before the doubt may be to be kept in it.
        if chain.is_some_and(heard) || told.is_some_and(|told| heard(told) && !self.concerns(told)) {
            return;
        }
        let goes_on = told.is_some();
        let Some((chain, proved)) = self.told_by_now(from, session, links) else {
            return self.begin_anew(from, session, links);
        };
        match self.weigh(session, &chain, proved) {
            Ok(new) if known || self.concerns(&chain) || self.ends_what_waits(&chain) => {
                let head = chain.head();
                self.take_custody(session, chain, new);
                // A release that waits for a claim is not learned: it would be told again and again.
                if self.chain(session).is_some_and(|chain| chain.head() == head) {
                    self.learned.insert(from);
                }
            }
            Ok(_) => {
                self.pass_unclaimed(&chain);
                self.note_told(from, chain);
            }
            Err(Unmergeable::Rival(rival)) => {
                self.note_parted(from, chain, proved);
                self.doubt_second_word(session, links);
                self.contest(from, session, *rival);
            }
            Err(Unmergeable::No((Refusal::StaleToken, _))) => {
                self.note_parted(from, chain, proved);
                if !goes_on {
                    self.send_custody(from, session);
                }
            }
            Err(Unmergeable::No(_)) => self.begin_anew(from, session, links),
        }
    }

    /// The chain that a peer told by now, and how many of its records were looked at before. What it told earlier grows in
    /// place: how often it goes on a peer chooses.
    fn told_by_now(&mut self, from: DeviceId, session: SessionId, links: &[Signed<Custody>]) -> Option<(Chain, usize)> {
        if links.len() > cede_wire::limits::CHAIN_RECORDS {
            return None;
        }
        let known = self.chain(session);
        let fits = |told: &&Chain| told.session() == session && known.is_none_or(|known| known.shared_with(told) > 0);
        let fits = self.told.get(&from).filter(fits).is_some();
        if let Some(mut told) = fits.then(|| self.told.remove(&from)).flatten() {
            let proved = told.links().len();
            let new = links.iter().position(|link| !told.contains(&link.hash())).unwrap_or(links.len());
            if links.iter().skip(new).all(|link| told.append(link).is_ok()) {
                return Some((told, proved));
            }
            // Where nothing of it follows it may part from what was told.
            if told.links().len() == proved {
                self.told.insert(from, told);
            }
        }
        let chain = self.branch(Some(from), session, links).ok()?;
        let proved = self.proved(Some(from), &chain);
        Some((chain, proved))
    }

    /// Whoever goes on with what does not follow has to begin anew.
    fn begin_anew(&mut self, from: DeviceId, session: SessionId, links: &[Signed<Custody>]) {
        self.told.retain(|device, told| *device != from || told.session() != session);
        self.doubt_second_word(session, links);
    }

    /// Whether a chain of a session that is not known here is to be kept: it ends with this device, or holds what this device
    /// signed and forgot. Whom else a chain names its maker chooses; only in doubt this device may have forgotten that too.
    /// Source: SPEC H-3, H-26.
    fn concerns(&self, chain: &Chain) -> bool {
        let me = self.me();
        let in_doubt = || self.trust != super::Trust::Whole && chain.owned_by(me) && self.has_room_for_named();
        had(chain, me) || in_doubt()
    }

    /// Whether a chain is to be kept because a release that waits for a claim must not be claimed any more.
    fn ends_what_waits(&self, chain: &Chain) -> bool {
        let waiting = self.sessions.get(&chain.session()).and_then(|state| state.unclaimed.as_ref());
        waiting.is_some_and(|waiting| self.passes(&waiting.chain, chain)) && self.has_room_for_named()
    }

    /// Whether one more session may be kept that this device had by the word of others alone.
    pub(super) fn has_room_for_named(&self) -> bool {
        let me = self.me();
        // Those that it voted in and never had have a limit of their own.
        let named = |state: &Session, chain: &Chain| chain.owned_by(me) || state.voted.is_none();
        let counts =
            |state: &Session| state.chain.as_ref().filter(|chain| !had(chain, me)).map(|chain| named(state, chain));
        self.count(|state| counts(state) == Some(true)) < limits::NAMED
    }

    /// Whether the session went on from where a chain ends, or was seized from an owner before that: by no word that says
    /// less than this may a peer end what waits for a claim.
    pub(super) fn passes(&self, before: &Chain, later: &Chain) -> bool {
        if later.contains(&before.head()) {
            return later.head() != before.head();
        }
        let seized = before.shared_with(later) > 0 && before.judge(later).is_ok();
        seized && self.decided_alone(later, before.members()).is_none()
    }

    /// A release that waits is not claimed any more where the session went on.
    pub(super) fn pass_unclaimed(&mut self, chain: &Chain) {
        let session = chain.session();
        let waiting = self.sessions.get(&session).and_then(|state| state.unclaimed.as_ref());
        if waiting.is_some_and(|waiting| self.passes(&waiting.chain, chain)) {
            self.session(session).unclaimed = None;
            self.forget_empty(session);
        }
    }

    /// A chain that is not kept, but in memory: what follows may carry only its end.
    pub(super) fn note_told(&mut self, from: DeviceId, chain: Chain) {
        self.told.remove(&from);
        if chain.links().len() <= limits::TOLD_RECORDS && self.links.contains(&from) {
            self.told.insert(from, chain);
        }
    }

    /// A chain that does not go together with the known one, by a word of this device itself: it signed two records for one
    /// token, and does not know one of them. Source: SPEC H-26.
    fn doubt_second_word(&mut self, session: SessionId, links: &[Signed<Custody>]) {
        let me = self.me();
        let Some(state) = self.sessions.get(&session).filter(|_| self.trust == super::Trust::Whole) else { return };
        let Some(chain) = &state.chain else { return };
        let known = |record: &Custody| chain.records().iter().any(|known| known.token() == record.token());
        let second = |link: &Signed<Custody>| {
            let new = !chain.contains(&link.hash()) && !state.passed.contains(&link.hash());
            new && verified(link).is_ok_and(|record| record.signer() == me && known(&record))
        };
        if links.iter().take(cede_wire::limits::CHAIN_RECORDS).any(second) {
            self.persist(vec![Record::Doubted { why: Doubt::Forgotten }]);
            self.doubt_all(Doubt::Forgotten);
        }
    }

    fn take_custody(&mut self, session: SessionId, chain: Chain, new: usize) {
        let me = self.me();
        match chain.last().clone() {
            Custody::Release(release) if release.to == me => self.take_release(session, chain, new, release),
            Custody::Release(_) | Custody::Genesis(_) | Custody::Seize(_) => {
                let forgot = self.forgot(session, &chain, new);
                self.accept_custody(session, chain, new);
                if forgot && self.trust == super::Trust::Whole {
                    self.persist(vec![Record::Doubted { why: Doubt::Forgotten }]);
                    self.doubt_all(Doubt::Forgotten);
                }
            }
        }
    }

    /// Two seizes of one generation: two operators of two devices were each told that the other is gone. Or two releases
    /// under one token: their owner was put back to an older state, or lies. Whoever knows of it stops; a higher generation ends it. Source: SPEC H-33.
    fn contest(&mut self, from: DeviceId, session: SessionId, rival: Signed<Custody>) {
        let Ok(owner) = verified(&rival).map(|rival| rival.owner()) else { return };
        // This device's own seize may be the one that does not go together with the rest.
        let by = if owner == self.me() { from } else { owner };
        let Some(state) = self.sessions.get_mut(&session).filter(|state| state.contested.is_none()) else { return };
        state.contested = Some(rival.clone());
        self.persist(vec![Record::Contested(rival)]);
        self.suspend(session);
        self.tell(Event::Contested { session, by });
        // The other one must hear of it as well.
        self.send_custody(from, session);
    }

    /// The new ones show a record that this device signed and does not know: its own store lost it. Source: SPEC H-26.
    pub(super) fn forgot(&self, session: SessionId, chain: &Chain, new: usize) -> bool {
        let me = self.me();
        let passed = |link: &Signed<Custody>| {
            self.sessions.get(&session).is_some_and(|state| state.passed.contains(&link.hash()))
        };
        let mut newest = chain.links().iter().zip(chain.records()).rev().take(new);
        let ours = newest.any(|(link, record)| record.signer() == me && !passed(link));
        ours && self.trust == super::Trust::Whole
    }

    /// The records are durable.
    pub(super) fn doubt_all(&mut self, why: Doubt) {
        self.replay_doubt(why);
        let ids: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in ids {
            self.suspend(id);
        }
        self.tell(Event::Doubted(why));
        self.ask_again();
    }
}

/// Whether a device has a session, or had it by its own word: whom else a chain names its maker chooses.
pub(super) fn had(chain: &Chain, device: DeviceId) -> bool {
    chain.owner() == device || signs(chain, device)
}

/// Whether a chain holds a record that `device` signed.
fn signs(chain: &Chain, device: DeviceId) -> bool {
    chain.records().iter().any(|record| record.signer() == device)
}

/// How many of these records one message carries; none where it carries all. There is room for one more, a certificate that goes
/// with them. A piece never ends where `to` is the owner: an old release to it would look like one that stands.
fn piece(links: &[Signed<Custody>], to: DeviceId) -> Option<usize> {
    let mut bytes = 0;
    let fits = |link: &&Signed<Custody>| {
        bytes += link.bytes().len() + SIGNATURE_BYTES;
        bytes <= cede_wire::limits::CHAIN_BYTES
    };
    let most = links.iter().take(cede_wire::limits::CHAIN_RECORDS - 1).take_while(fits).count().max(1);
    let owner = |end: usize| Some(verified(links.get(end.checked_sub(1)?)?).ok()?.owner());
    (most < links.len()).then(|| (1..=most).rev().find(|end| owner(*end) != Some(to)).unwrap_or(most))
}

/// What a signed record has beside its bytes: key and signature, each with its length.
const SIGNATURE_BYTES: usize = 104;
