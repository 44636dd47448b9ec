//! What a forced take-over would mean, in plain words.

use cede_wire::control::SeizePlan;

use crate::page::{Page, plain, strong};
use crate::units::ago;

/// The question before `cede take --force`.
pub(crate) fn page(plan: &SeizePlan, now: u64) -> Page {
    let title = if plan.title.is_empty() { String::new() } else { format!(" ({})", plan.title) };
    let mut page = Page::default();
    page.line([plain("Take "), strong(plan.session.short()), plain(format!("{title} from {}", plan.owner))]);
    page.gap();
    let lines = [
        format!("Its owner is {}, {}.", plan.owner, seen(plan, now)),
        format!("If {} is only asleep or offline, it still acts for this session: until it hears of this,", plan.owner),
        "two devices may act. Is it gone for good?".to_owned(),
        String::new(),
        // A plain directory has no turns.
        match plan.turn {
            0 => format!("This device would go on with {}.", plan.copy),
            turn => format!("This device would go on from turn {turn}: {}.", plan.copy),
        },
        format!("Left out: {}.", plan.left_behind),
        format!("Should {} come back, it stops and keeps that on a branch of its own.", plan.owner),
    ];
    for line in lines {
        page.line([plain(line)]);
    }
    if plan.votes > 0 {
        let voters = plan.voters.join(", ");
        page.line([plain(format!("Other devices that must agree: {} of {voters}.", plan.votes))]);
    }
    page
}

fn seen(plan: &SeizePlan, now: u64) -> String {
    match plan.owner_seen_unix_ms {
        _ if plan.owner_connected => {
            format!("which is connected now: cede take {} asks it, and loses nothing", plan.session.short())
        }
        Some(at) => format!("last seen {}", ago(at, now)),
        None => "not seen since this daemon started".to_owned(),
    }
}
