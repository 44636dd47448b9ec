//! `cede take --force`: says what it means, and takes only the session's id for a yes.

use cede_wire::control::{Answer, Command, Failure, SeizePlan, exit};

use crate::fault;
use crate::show::moves::Sides;
use crate::show::seizing;
use crate::verbs::{FEW, Hand, moving, now};

/// Takes a session over without its owner.
pub(crate) fn take(hand: &Hand<'_>, session: String, yes: Option<String>) -> Result<u8, Failure> {
    let Answer::SeizePlan(plan) = hand.client.ask(Command::SeizePlan { session })? else {
        return Err(fault::unexpected_answer());
    };
    let typed = yes.or_else(|| asked(hand, &plan));
    if !typed.as_deref().is_some_and(|typed| means(typed, &plan)) {
        // Who cannot be asked reads what it means in the answer.
        if hand.terminal.json {
            hand.show(Answer::SeizePlan(plan.clone()), FEW);
        }
        return Err(not_meant(&plan, typed.as_deref()));
    }
    let sides = Sides { source: plan.owner.clone(), destination: "this device".to_owned() };
    let id = plan.session.to_string();
    let answer = moving::watched(hand, &sides, id.clone(), Command::Seize { session: id })?;
    hand.show(answer, FEW);
    Ok(exit::OK)
}

fn asked(hand: &Hand<'_>, plan: &SeizePlan) -> Option<String> {
    hand.terminal.talk(&seizing::page(plan, now()));
    hand.terminal.type_in(&format!("If {} is gone for good, type {}:", plan.owner, plan.session.short()))
}

fn means(typed: &str, plan: &SeizePlan) -> bool {
    let typed = typed.trim();
    typed == plan.session.short() || typed == plan.session.to_string()
}

fn not_meant(plan: &SeizePlan, typed: Option<&str>) -> Failure {
    let id = plan.session.short();
    let why = match typed {
        Some(typed) if !typed.trim().is_empty() => format!("{} is not {id}", typed.trim()),
        Some(_) | None => format!(
            "two devices may act for it until {} hears of this, so the session's id is the only yes",
            plan.owner
        ),
    };
    let cure = format!("if {} is gone for good: cede take --force {id} --yes {id}", plan.owner);
    fault::local(exit::PENDING, "the session was not taken over", &why, &cure)
}
