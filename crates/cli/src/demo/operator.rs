//! The demo's stand-in for a person at the other device: it reads each question and says yes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use cede_wire::control::{Answer, ApprovalSummary, Command};

use crate::client::Client;
use crate::demo::homes::Device;
use crate::demo::story::{Said, Story};
use crate::limits::OPERATOR_LOOKS;

/// Answers questions until it is dropped.
#[derive(Debug)]
pub(super) struct Operator {
    done: Arc<AtomicBool>,
    looking: Option<JoinHandle<()>>,
}

impl Operator {
    /// An operator in front of this device.
    pub(super) fn of(device: &Device, story: &Story<'_>) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let (client, name, said, until) = (device.client.clone(), device.name, story.said(), done.clone());
        let looking = std::thread::spawn(move || {
            while !until.load(Ordering::SeqCst) {
                answer_all(&client, name, &said);
                std::thread::sleep(OPERATOR_LOOKS);
            }
        });
        Self { done, looking: Some(looking) }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.done.store(true, Ordering::SeqCst);
        if let Some(looking) = self.looking.take() {
            let _ended = looking.join();
        }
    }
}

fn answer_all(client: &Client, name: &str, said: &Said) {
    let Ok(Answer::Approvals { approvals }) = client.ask(Command::Approvals) else { return };
    for approval in approvals {
        if client.ask(Command::Decide { approval: approval.id.to_string(), yes: true }).is_ok() {
            said.add(question_and_answer(name, &approval));
        }
    }
}

fn question_and_answer(name: &str, approval: &ApprovalSummary) -> String {
    let verb = if approval.kind == "give" { "take" } else { "hand over" };
    format!("{name} was asked: {} wants to {verb} \"{}\"; the demo said yes", approval.device, approval.title)
}
