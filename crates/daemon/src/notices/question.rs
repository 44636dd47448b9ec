//! A whole question as text, for a call whose buttons answer it: what is not in it is not answered with yes. Source: SPEC L-16.

use cede_wire::authority::Reach;
use cede_wire::control::ApprovalSummary;
use cede_wire::control::decisions::AskedFor;
use cede_wire::handoff::{Disposition, InventoryItem};
use cede_wire::shown::{mixes_scripts, plain};
use cede_wire::transfer::ShownPath;

use crate::limits;

/// Everything that is asked; the reason why a call cannot show it.
pub(super) fn whole(question: &ApprovalSummary) -> Result<String, &'static str> {
    // Every field is named, so that none that comes later is forgotten.
    let ApprovalSummary {
        id: _,
        device: _,
        kind,
        title,
        agent,
        directory,
        inventory,
        executables,
        dotfiles,
        configuration_as_code,
        limit_bytes,
        expires_in_s: _,
        turns,
        secret_looking,
        asks,
        files,
        note,
        at,
        held: _,
    } = question;
    if !secret_looking.is_empty() {
        return Err("files that look like secrets would leave");
    }
    if (asks.is_none() && inventory.is_empty()) || (kind == "file" && files.is_empty()) {
        return Err("what it is made of was not counted yet");
    }
    let looks_alike = |asks: &AskedFor| asks.lines.iter().any(|(_, value)| mixes_scripts(value));
    if [title, note, directory].into_iter().any(|said| mixes_scripts(said)) || asks.as_ref().is_some_and(looks_alike) {
        return Err("some letters only look like those of another script");
    }
    let mut lines: Vec<String> = at.iter().map(|at| format!("asked at {at}")).collect();
    lines.extend(asks.iter().flat_map(wanted));
    lines.extend(title.split('\n').filter(|line| !line.is_empty()).map(|line| format!("| {}", plain(line))));
    lines.extend(agent.map(|agent| format!("{}, {turns} turns", agent.name())));
    lines.extend((!directory.is_empty()).then(|| format!("in {}", plain(directory))));
    lines.extend((*limit_bytes > 0).then(|| format!("never more than {limit_bytes} bytes")));
    lines.extend((!note.is_empty()).then(|| format!("they say: {}", plain(note))));
    lines.extend(inventory.iter().map(item));
    lines.extend(files.iter().map(file));
    let lists = [
        ("executable", executables),
        ("name begins with a dot", dotfiles),
        ("run by tools unasked", configuration_as_code),
    ];
    for (class, paths) in lists {
        lines.extend(paths.iter().map(|path| format!("{class}: {}", plain(path))));
    }
    let text = lines.join("\n");
    if text.len() > limits::CALL_SHOWN_BYTES {
        return Err("it is longer than a call");
    }
    Ok(text)
}

fn wanted(asks: &AskedFor) -> Vec<String> {
    let AskedFor { capability, reach, locality: _, session, lines, content: _, held, hash: _ } = asks;
    let reach = match reach {
        Reach::Connection => "a yes lasts until the connection ends",
        Reach::Request => "a yes is for this once",
    };
    let session = session.map_or_else(String::new, |session| format!(", from its session {}", session.short()));
    let kept = if *held { "; kept for you by a rule" } else { "" };
    let first = format!("{}{session}; {reach}{kept}", capability.name());
    std::iter::once(first)
        .chain(lines.iter().map(|(name, value)| format!("{}: {}", plain(name), plain(value))))
        .collect()
}

fn item(item: &InventoryItem) -> String {
    let InventoryItem { what, disposition, count, bytes, note } = item;
    let becomes = match disposition {
        Disposition::Transferred => "travels",
        Disposition::Rehydrated => "is made anew",
        Disposition::Stays => "stays",
        Disposition::NeverTravels => "never travels",
    };
    let note = if note.is_empty() { String::new() } else { format!(" ({})", plain(note)) };
    format!("{} {becomes}: {count}, {bytes} bytes{note}", plain(what))
}

fn file(file: &ShownPath) -> String {
    let ShownPath { path, files, bytes } = file;
    let files = if *files == 1 { String::new() } else { format!("{files} files, ") };
    format!("{} ({files}{bytes} bytes)", plain(path))
}

#[cfg(test)]
mod tests {
    use cede_wire::authority::Locality;
    use cede_wire::id::{ApprovalId, Hash};
    use cede_wire::member::Capability;

    use super::*;

    fn task() -> ApprovalSummary {
        ApprovalSummary {
            id: ApprovalId::new([7; 8]),
            device: "laptop".into(),
            kind: "delegate".into(),
            title: "run the migration tests\u{1b}[2J\nand say how it went".into(),
            agent: None,
            directory: String::new(),
            inventory: Vec::new(),
            executables: Vec::new(),
            dotfiles: Vec::new(),
            configuration_as_code: Vec::new(),
            limit_bytes: 0,
            expires_in_s: 60,
            turns: 0,
            secret_looking: Vec::new(),
            asks: Some(AskedFor {
                capability: Capability::Delegate,
                reach: Reach::Request,
                locality: Locality::AnotherHost,
                session: None,
                lines: vec![("directory".into(), "/srv/app".into()), ("minutes".into(), "20".into())],
                content: None,
                held: false,
                hash: Hash::of(b"all of it"),
            }),
            files: Vec::new(),
            note: String::new(),
            at: None,
            held: false,
        }
    }

    /// Shows: L-16, U-8
    #[test]
    fn call_with_a_yes_shows_all_of_the_question_and_no_control() {
        let lines = [
            "delegate; a yes is for this once",
            "directory: /srv/app",
            "minutes: 20",
            "| run the migration tests\\u{1b}[2J",
            "| and say how it went",
        ];
        assert_eq!(whole(&task()).unwrap(), lines.join("\n"));
    }

    /// Shows: L-16
    #[test]
    fn what_a_call_cannot_show_has_no_yes() {
        let long = ApprovalSummary { title: "word ".repeat(1_000), ..task() };
        let secret = ApprovalSummary { secret_looking: vec![".env".into()], ..task() };
        let uncounted = ApprovalSummary { asks: None, kind: "give".into(), ..task() };
        let nameless = ApprovalSummary { kind: "file".into(), ..task() };
        let alike = ApprovalSummary { title: "p\u{430}ypal".into(), ..task() };
        for question in [long, secret, uncounted, nameless, alike] {
            assert!(whole(&question).is_err(), "{question:?}");
        }
    }
}
