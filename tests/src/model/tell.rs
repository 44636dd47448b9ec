//! A path in words, for the person who looks for the fault.

use super::mesh::Mesh;
use super::node::SESSION;
use super::snapshot::Snapshot;
use super::step::{Step, What};

impl Mesh {
    /// One line of a path: what happens, and how the devices stand before it.
    pub fn tell(&self, now: &Snapshot, step: Option<Step>) -> String {
        let standings: Vec<String> = now.nodes.iter().map(|node| standing(now, node.at)).collect();
        let what = step.map_or_else(String::new, |step| words(now, step));
        let broken = now.broken().map_or_else(String::new, |(rule, what)| format!("   broken: {rule:?}: {what}"));
        format!("  [{}] {what}{broken}\n", standings.join(" | "))
    }
}

fn standing(now: &Snapshot, at: u8) -> String {
    let node = now.node(at);
    let Some(custodian) = &node.custodian else { return format!("{at} no power") };
    let phase = custodian.leaving(*SESSION).map(|source| format!(" {:?}", source.phase()));
    let arriving = custodian.arriving(*SESSION).map(|arriving| {
        let phase = format!("{:?}", arriving.phase());
        format!(" +{}", phase.chars().take_while(|c| c.is_alphanumeric()).collect::<String>())
    });
    let acts = if node.acts() { " acts" } else { "" };
    format!("{at} {:?}{}{}{acts}", node.standing(), phase.unwrap_or_default(), arriving.unwrap_or_default())
}

fn words(now: &Snapshot, step: Step) -> String {
    let what = match step.what {
        What::Deliver { letter, again } => {
            let letter = now.flight.get(usize::from(letter)).map(super::letter::Letter::words).unwrap_or_default();
            format!("{letter}{}", if again { ", and will come again" } else { "" })
        }
        What::Lose { letter } => {
            let letter = now.flight.get(usize::from(letter)).map(super::letter::Letter::words).unwrap_or_default();
            format!("{letter} is lost")
        }
        What::Work { at, task, ship } => {
            let task = now.node(at).tasks.get(usize::from(task)).map(|task| format!("{task:?}")).unwrap_or_default();
            let task: String = task.chars().take_while(|c| c.is_alphanumeric()).collect();
            format!("{at} does {task}{}", if ship { " with a round" } else { "" })
        }
        other => format!("{other:?}"),
    };
    step.fails_after.map_or(what.clone(), |after| format!("{what}; the power fails after {after}"))
}
