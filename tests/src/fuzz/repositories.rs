//! A repository as data, as a peer sends it, and what the git program prints of one that somebody prepared.

use cede_agent::tree::decoder;

use super::words;

/// The first byte says which reader.
pub(super) fn repository(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 5 {
        0 => state(bytes),
        1 => index(bytes),
        2 => listing(bytes),
        3 => settings(bytes),
        _ => address(&String::from_utf8_lossy(bytes)),
    }
}

fn state(bytes: &[u8]) {
    match decoder::state(bytes) {
        Ok(again) => assert_eq!(again, bytes, "another encoding was accepted"),
        Err(why) => assert!(!why.contains(['\n', '\u{1b}', '\0']) && why.len() < 2_000, "{why:?}"),
    }
}

fn index(bytes: &[u8]) {
    match decoder::index(bytes) {
        Ok((paths, again)) => {
            assert_eq!(again, bytes, "another encoding was accepted");
            assert!(paths.windows(2).all(|two| two[0] < two[1]));
            paths.iter().for_each(|path| words::stays_below(path));
        }
        Err(why) => assert!(!why.contains(['\n', '\u{1b}', '\0']), "{why:?}"),
    }
}

fn listing(bytes: &[u8]) {
    match decoder::listing(bytes) {
        Ok(paths) => assert!(paths.iter().all(|path| !path.contains(&0))),
        Err(why) => assert!(!why.contains(['\n', '\u{1b}', '\0']), "{why:?}"),
    }
}

fn settings(bytes: &[u8]) {
    for (key, value) in decoder::settings(bytes) {
        assert!(!key.contains(['\n', '\0']) && !value.contains(&0), "{key:?}");
    }
}

/// An address that travels runs nothing, is no option, and holds no password.
fn address(text: &str) {
    let Some(bare) = decoder::address(text) else { return };
    assert!(!bare.starts_with('-') && !bare.contains("::") && !bare.chars().any(char::is_control), "{bare:?}");
    assert_eq!(decoder::address(&bare).as_ref(), Some(&bare), "cleaned twice is another address");
    if let Some((scheme, rest)) = bare.split_once("://") {
        let host = rest.split('/').next().unwrap_or_default();
        let user = host.rsplit_once('@').map(|(user, _)| user);
        assert!(user.is_none() || scheme == "ssh", "{bare:?} has a user");
        assert!(user.is_none_or(|user| !user.contains(':')), "{bare:?} has a password");
        assert!(!rest.starts_with('-'), "{bare:?}");
    }
}
