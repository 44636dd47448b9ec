//! `proto/NUMBERS.md`, for the tests that hold the code against it.

use serde::de::DeserializeOwned;

use crate::{audit, authority, handoff, letter, message, record, session, task, transfer};

const PAGE: &str = include_str!("../../../proto/NUMBERS.md");

/// Numbers and names in the table that follows a heading.
pub(crate) fn table(heading: &str) -> Vec<(u16, &'static str)> {
    let (_, below) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap();
    let rows = below.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.split('|').map(str::trim).skip(1));
    cells.filter_map(|mut row| Some((row.next()?.parse().ok()?, row.next()?))).collect()
}

/// Numbers and names of a list in a sentence, from behind these words to the full stop.
pub(crate) fn sentence(words: &str) -> Vec<(u16, &'static str)> {
    let (_, behind) = PAGE.split_once(&format!("{words}: ")).unwrap();
    let (list, _) = behind.split_once('.').unwrap();
    let items = list.split(',').filter_map(|item| item.trim().split_once(' '));
    items.filter_map(|(number, name)| Some((number.parse().ok()?, name))).collect()
}

/// The variant with this number, with zeros, empty lists and nones in it; none where no variant has the number.
pub(crate) fn of_zeros<T: DeserializeOwned>(number: u16) -> Option<T> {
    let mut bytes = [0; 512];
    bytes[0] = u8::try_from(number).unwrap();
    postcard::take_from_bytes(&bytes).ok().map(|(value, _)| value)
}

/// The name of a value's variant.
pub(crate) fn variant(value: &impl core::fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.split([' ', '(']).next().unwrap().to_owned()
}

/// Whether every word is one, and none is said twice.
pub(crate) fn tell_apart<'a>(words: impl IntoIterator<Item = &'a str>) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    words.into_iter().all(|word| !word.is_empty() && seen.insert(word))
}

#[test]
#[cfg_attr(miri, ignore = "to look through the page so often takes the interpreter minutes")]
fn every_list_of_the_page_is_as_long_as_its_enum() {
    for (words, numbers) in [
        ("What became of a letter", numbers::<letter::LetterState>()),
        ("(why", numbers::<letter::GoneWhy>()),
        ("Room", numbers::<letter::LetterRoom>()),
        ("Status in a StatusAnswer", numbers::<message::HandoffStatus>()),
        ("Standing answers in PolicySet", numbers::<record::PeerPolicy>()),
        ("Reasons in Doubted", numbers::<record::Doubt>()),
        ("What decided", numbers::<audit::DecidedBy>()),
        ("What came to a call's topic", numbers::<audit::Press>()),
        ("Which request", numbers::<audit::AuditOf>()),
        ("Outcomes", numbers::<audit::AuditOutcome>()),
        ("Acts", numbers::<audit::AuditAct>()),
        ("Keyboard", numbers::<audit::KeyboardChange>()),
        ("Activity", numbers::<session::Activity>()),
        ("\nRules", numbers::<authority::Rule>()),
        ("How far a yes reaches", numbers::<authority::Reach>()),
        ("Where a peer is", numbers::<authority::Locality>()),
        ("Dispositions in an inventory", numbers::<handoff::Disposition>()),
        ("In a Transfer frame", numbers::<transfer::TransferMessage>()),
        ("In a Transfer record", numbers::<transfer::TransferRecord>()),
        ("How a task ended", numbers::<task::TaskOutcome>()),
        ("In a Task record", numbers::<task::TaskRecord>()),
    ] {
        let listed: Vec<u16> = sentence(words).into_iter().map(|(number, _)| number).collect();
        assert_eq!(listed, (0..numbers as u16).collect::<Vec<_>>(), "{words}");
    }
}

fn numbers<T: DeserializeOwned>() -> usize {
    (0..).map_while(of_zeros::<T>).count()
}
