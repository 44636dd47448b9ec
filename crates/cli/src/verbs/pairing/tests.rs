use cede_wire::id::MeshId;

use super::*;
use crate::args::Global;
use crate::client::tests::{Step, scripted};
use crate::show::samples;
use crate::terminal::Terminal;

fn words() -> ReplyBody {
    let (words, command) = ("amber-river".into(), "cede pair amber-river --at h:1".into());
    ReplyBody::Pairing(PairingEvent::Words { words, command, expires_in_s: 600 })
}

fn compare(confirm_here: bool) -> ReplyBody {
    ReplyBody::Pairing(PairingEvent::Compare { comparison: "12-34".into(), name: "server".into(), confirm_here })
}

fn paired() -> ReplyBody {
    ReplyBody::Done(Answer::Paired { device: samples::device("server", false), mesh: MeshId::new([1; 32]) })
}

fn said() -> ReplyBody {
    ReplyBody::Done(Answer::Said { text: "answered".into() })
}

fn alone(yes: bool) -> Pair {
    Pair { words: Vec::new(), at: None, name: None, yes, expires: None }
}

fn quiet() -> Terminal {
    Terminal::new(&Global { quiet: true, no_input: true, ..Global::default() })
}

#[test]
fn device_is_not_welcome_because_nobody_looked() {
    let (_directory, client, daemon) =
        scripted(vec![Step::Accept(vec![words(), compare(true)]), Step::Accept(vec![said()])]);
    let terminal = quiet();
    let failure = show_words(&Hand { client, terminal: &terminal }, &alone(false)).unwrap_err();
    assert_eq!(failure.exit, exit::REFUSED);
    assert!(failure.cure.contains("cede pair --yes"), "{}", failure.cure);
    assert_eq!(daemon.join().unwrap(), [Command::Pair { expires_in_s: None }, Command::PairConfirm { accept: false }]);
}

#[test]
fn yes_on_the_command_line_welcomes_unseen() {
    let steps = vec![Step::Accept(vec![words(), compare(true)]), Step::Accept(vec![said()]), Step::More(0, paired())];
    let (_directory, client, daemon) = scripted(steps);
    let terminal = quiet();
    assert_eq!(show_words(&Hand { client, terminal: &terminal }, &alone(true)), Ok(exit::OK));
    assert_eq!(daemon.join().unwrap(), [Command::Pair { expires_in_s: None }, Command::PairConfirm { accept: true }]);
}

#[test]
fn device_that_joins_leaves_the_answer_to_the_trusted_one() {
    let (_directory, client, daemon) = scripted(vec![Step::Accept(vec![compare(false), paired()])]);
    let terminal = quiet();
    let words = vec!["amber".into(), "river".into()];
    let pair = Pair { words, at: Some("h:1".into()), ..alone(false) };
    assert_eq!(join(&Hand { client, terminal: &terminal }, &pair), Ok(exit::OK));
    let asked = Command::PairWith { words: "amber river".into(), address: Some("h:1".into()), name: None };
    assert_eq!(daemon.join().unwrap(), [asked]);
}
