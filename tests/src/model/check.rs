//! The invariants, in every state.

use cede_core::custodian::Standing;
use cede_core::destination::DestinationPhase;
use cede_core::source::SourcePhase;
use cede_wire::custody::Custody;
use cede_wire::id::HandoffId;

use super::node::{Node, SESSION};
use super::snapshot::Snapshot;

/// What is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// At most one device acts in a generation: the one that the disks name.
    OneOwner,
    /// Every committed turn is on a disk; between Staged and Retired on two.
    Copies,
    /// Who acts has every committed turn.
    AllTurns,
    /// Tokens only rise on a device, and each has one holder.
    Tokens,
    /// Nothing leaves before the record that permits it is durable.
    RecordFirst,
    /// In fair weather one device is in charge, and the session can move again.
    Heals,
    /// A failure before the decision leaves the source as it was.
    Untouched,
    /// Who is not in charge acts for nothing.
    Passive,
    /// No panic, no blame for the honest, no journal that does not restore.
    Sound,
}

type Checked = Result<(), (Rule, &'static str)>;

impl Snapshot {
    pub(super) fn check(&self) -> Checked {
        for lineage in &self.truth.lineages {
            let here = self.nodes.iter().filter(|node| node.generation() == lineage.generation);
            ensure(here.filter(|node| node.acts()).count() <= 1, Rule::OneOwner, "two devices act")?;
        }
        for node in &self.nodes {
            self.check_node(node)?;
        }
        self.check_untouched()?;
        self.check_copies()?;
        self.check_branches()
    }

    fn check_node(&self, node: &Node) -> Checked {
        if !node.acts() {
            return Ok(());
        }
        let lineage = self.truth.of(node.generation());
        let Some(lineage) = lineage.filter(|lineage| lineage.active == Some(node.at)) else {
            return Err((Rule::Passive, "a device acts that is not in charge"));
        };
        // What was seized is put in its place before anything is done with it.
        ensure(node.log() == lineage.committed, Rule::AllTurns, "the owner lacks committed turns")
    }

    /// The owner that the disks name thinks so too, with power.
    fn check_untouched(&self) -> Checked {
        let active = self.truth.newest().active;
        let Some(owner) = active.and_then(|at| self.nodes.get(usize::from(at))) else { return Ok(()) };
        let thinks = match owner.standing() {
            Some(Standing::InCharge | Standing::Leaving(_) | Standing::Arriving) | None => true,
            // It lost what it received before it put it in its place.
            Some(Standing::PayloadMissing) => !owner.acts(),
            Some(Standing::ReleasedTo(_) | Standing::Elsewhere(_) | Standing::SeizedBy(_) | Standing::Unconfirmed) => {
                false
            }
        };
        ensure(thinks, Rule::Untouched, "the owner thinks that it is not")?;
        let leaving = owner.custodian.as_ref().and_then(|custodian| custodian.leaving(*SESSION));
        let open = leaving.is_none_or(|source| !matches!(source.phase(), SourcePhase::Committed));
        ensure(open, Rule::Untouched, "an attempt is committed that no record names")
    }

    fn check_copies(&self) -> Checked {
        let whole = self.nodes.iter().map(|node| self.copies(node)).sum::<usize>();
        ensure(whole > 0, Rule::Copies, "no disk has every committed turn")?;
        for node in &self.nodes {
            let Some(handoff) = released(node) else { continue };
            let pinned = node.disk.captured.contains_key(&handoff);
            ensure(pinned, Rule::Copies, "the source lets its copy go before the new owner acts")?;
            let staged = self.nodes.iter().any(|other| holds(other, handoff));
            let newest = node.generation() == self.truth.newest().generation;
            let enough = !newest || !staged || whole >= 2 || self.spoiled();
            ensure(enough, Rule::Copies, "one copy between Staged and Retired")?;
        }
        Ok(())
    }

    /// A device that seized goes on with what lies aside until it is put in its place.
    fn copies(&self, node: &Node) -> usize {
        let seized = node.disk.aside.iter().filter(|_| self.truth.newest().generation > 0);
        let all = node.disk.log.iter().chain(node.disk.captured.values()).chain(node.disk.received.values());
        all.chain(seized).filter(|turns| **turns == self.truth.newest().committed).count()
    }

    /// After a seize the turns of the older generations exist, in what goes on or beside it.
    fn check_branches(&self) -> Checked {
        let (newest, older) = self.truth.lineages.split_last().ok_or((Rule::Sound, "no lineage"))?;
        for lineage in older {
            let kept = |turns: &Vec<u64>| turns.starts_with(&lineage.committed);
            let mut disks = self.nodes.iter().map(|node| &node.disk);
            let there = disks.any(|disk| {
                let copies = disk.log.iter().chain(&disk.aside).chain(&disk.branches);
                copies.chain(disk.captured.values()).chain(disk.received.values()).any(kept)
            });
            ensure(there || kept(&newest.committed), Rule::AllTurns, "turns of a seized owner are lost")?;
        }
        Ok(())
    }
}

/// The handoff of a release that its source still answers for.
fn released(node: &Node) -> Option<HandoffId> {
    let custodian = node.custodian.as_ref()?;
    let Some(Standing::ReleasedTo(_)) = custodian.standing(*SESSION) else { return None };
    match custodian.chain(*SESSION).map(|chain| chain.last())? {
        Custody::Release(release) => Some(release.handoff),
        Custody::Genesis(_) | Custody::Seize(_) => None,
    }
}

/// Whether a device says that the payload of this handoff is durable here.
fn holds(node: &Node, wanted: HandoffId) -> bool {
    let arriving = node.custodian.as_ref().and_then(|custodian| custodian.arriving(*SESSION));
    arriving.is_some_and(|arriving| {
        arriving.attempt().handoff == wanted && matches!(arriving.phase(), DestinationPhase::Staged { .. })
    })
}

fn ensure(holds: bool, rule: Rule, what: &'static str) -> Checked {
    if holds { Ok(()) } else { Err((rule, what)) }
}
