//! What reaches a person through the command, and what a person or an agent beside it writes.

use cede_cli::decoders;
use cede_daemon::decoders as daemon;
use cede_wire::control::notify::Sink;

use super::words::is_plain;

/// Nothing that a daemon answers draws anything but letters.
pub(super) fn answer_shown(bytes: &[u8]) {
    if let Some(shown) = decoders::shown(bytes, 1_800_000_000_000) {
        assert!(shown.lines().all(is_plain), "{shown:?}");
    }
}

/// The first line is what was typed, the others are answers: the screen has its size and holds letters alone, and no key
/// that was pressed before anybody could read is a yes.
pub(super) fn cockpit_screen(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let typed = lines.next().unwrap_or_default();
    let lines: Vec<&[u8]> = lines.collect();
    let size = (40 + (bytes.len() % 100) as u16, 12 + (bytes.len() % 37) as u16);
    let (rows, yes) = decoders::screen(&lines, &typed[..typed.len().min(64)], size);
    assert!(!yes, "a yes came before anybody could read");
    assert_eq!(rows.len(), usize::from(size.1));
    for row in &rows {
        assert!(is_plain(row), "{row:?}");
    }
}

/// Keys are told apart wherever the bytes are cut; what was pasted is none; what is not for the command itself reaches the
/// program.
pub(super) fn typed_keys(bytes: &[u8]) {
    let (whole, waits) = decoders::keys(&[bytes]);
    assert!(whole.len() <= bytes.len() && waits < 32, "{waits} bytes wait");
    let (before, after) = bytes.split_at(bytes.len() / 2);
    assert_eq!(decoders::keys(&[before, after]), (whole, waits), "cut in the middle they are other keys");
    let pasted: Vec<u8> = bytes.iter().copied().filter(|byte| *byte != 0x1b).collect();
    let (none, _) = decoders::keys(&[&[b"\x1b[200~", &pasted[..], b"\x1b[201~"].concat()]);
    assert_eq!(none, Vec::<String>::new(), "pasted text is a key");
    let (program, own) = decoders::typed(&[bytes]);
    assert!(program.len() <= bytes.len() && own <= bytes.len() / 2);
    if !bytes.iter().any(|byte| matches!(byte, 0x1b | 0x1d)) {
        assert_eq!((program.as_slice(), own), (bytes, 0));
    }
}

/// An agent's call: what it is answered is bounded, and no text in it acts on a terminal.
pub(super) fn tool_call(bytes: &[u8]) {
    let Some((text, json)) = decoders::called(bytes) else { return };
    assert!(text.lines().all(is_plain), "{text:?}");
    assert!(json.len() <= (16 << 10) + 24 * bytes.len(), "{} bytes for {}", json.len(), bytes.len());
}

pub(super) fn configuration(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    match decoders::configuration(text) {
        Ok(Some(time)) => assert!(!time.is_zero(), "no time for a question"),
        Ok(None) => {}
        Err(why) => assert!(why.starts_with("line ") && !why.contains('\n'), "{why:?}"),
    }
}

/// The list of ways to call: each is one that could have been added, and none is shown with its secret.
pub(super) fn ways(bytes: &[u8]) {
    let Ok(ways) = daemon::ways(bytes) else { return };
    assert!(ways.len() <= 8);
    for (name, sink, shown) in ways {
        assert!(!name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
        match sink {
            Sink::Desktop => {}
            Sink::Command { argv } => {
                assert!(!argv[0].is_empty() && argv.iter().all(|word| !word.contains('\0')), "{argv:?}");
                let number = argv.len() - 1;
                assert!(shown == argv[0] || shown == format!("{} and {number} arguments", argv[0]), "{shown:?}");
            }
            Sink::Webhook { url } | Sink::Ntfy { url, buttons: _ } => is_without_secret(&url, &shown),
        }
    }
}

/// Scheme, host and port are shown, and nothing else of an address.
fn is_without_secret(url: &str, shown: &str) {
    let (scheme, rest) = url.split_once("://").expect("an address");
    assert!(matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https"), "{url:?}");
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    assert!(!authority.contains('@') && is_plain(shown), "{url:?}");
    let host = shown.split_once("://").and_then(|(_, host)| host.strip_suffix("/…")).expect("a place");
    let port = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let host = port.map_or(host, |(host, _)| host);
    assert!(!host.is_empty() && authority.starts_with(host), "{shown:?} of {url:?}");
}
