//! Names and words: paths of a payload, identities, pairing words, announcements.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use cede_carrier::discovery::{self, Announcement};
use cede_mesh::name::{clean, is_name};
use cede_mesh::pairing::Words;
use cede_wire::canonical::{decode, encode};
use cede_wire::catalog::Oid;
use cede_wire::id::{ApprovalId, DeviceId, HandoffId, MeshId, SessionId};
use cede_wire::limits::{COMPONENT_BYTES, PATH_BYTES, PATH_DEPTH};
use cede_wire::path::{RelPath, escape};
use cede_wire::session::NativeId;

/// The system's own reading of an accepted path: it stays below the directory that it is joined to, and no part of it
/// is a git directory to git itself, on any file system.
pub(super) fn stays_below(path: &[u8]) {
    let root = Path::new("/srv/root");
    let joined = root.join(OsStr::from_bytes(path));
    let mut below = joined.components().skip(root.components().count());
    assert!(joined.starts_with(root) && below.clone().next().is_some(), "{joined:?} is not below {root:?}");
    assert!(below.all(|part| matches!(part, Component::Normal(_))), "{joined:?} has a part that moves");
    assert!(path.len() <= PATH_BYTES && !path.contains(&0));
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    assert!(parts.len() <= PATH_DEPTH && parts.iter().all(|part| (1..=COMPONENT_BYTES).contains(&part.len())));
    assert!(!parts.iter().any(|part| is_git_on_ntfs(part) || is_git_on_hfs(part)), "{joined:?} enters a git directory");
}

/// As git's own `is_ntfs_dotgit` reads a name; a backslash ends it and begins the next.
fn is_git_on_ntfs(part: &[u8]) -> bool {
    part.split(|byte| *byte == b'\\').any(|name| {
        let rest = [&b".git"[..], b"git~1"].iter().find_map(|git| {
            let start = name.get(..git.len())?;
            start.eq_ignore_ascii_case(git).then(|| &name[git.len()..])
        });
        rest.is_some_and(|rest| rest.iter().find(|byte| !b" .".contains(byte)).is_none_or(|byte| *byte == b':'))
    })
}

/// As git's own `is_hfs_dotgit` reads it.
fn is_git_on_hfs(part: &[u8]) -> bool {
    let ignored = |c: &char| matches!(*c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let text = String::from_utf8_lossy(part);
    text.chars().filter(|c| !ignored(c)).collect::<String>().eq_ignore_ascii_case(".git")
}

pub(super) fn is_plain(shown: &str) -> bool {
    shown.chars().all(|c| {
        !c.is_control()
            && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    })
}

pub(super) fn path(bytes: &[u8]) {
    assert!(is_plain(&escape(bytes)), "{:?}", escape(bytes));
    match RelPath::parse(bytes) {
        Ok(path) => {
            stays_below(bytes);
            assert_eq!(path.as_bytes(), bytes);
            assert_eq!(decode::<RelPath>(&encode(&path)), Ok(path));
        }
        Err(error) => {
            assert!(is_plain(&error.to_string()));
            assert!(decode::<RelPath>(&encode(&bytes.to_vec())).is_err(), "refused as text, accepted as bytes");
        }
    }
}

pub(super) fn names(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let text = text.as_ref();
    if let Some(native) = NativeId::parse(text) {
        assert!(!text.starts_with('-') && text.len() <= 128);
        assert_eq!(Path::new("/x").join(native.as_str()).parent(), Some(Path::new("/x")), "{text:?}");
        assert!(!text.chars().any(|c| c.is_whitespace() || c.is_control() || "'\"$`;&|*?\\".contains(c)), "{text:?}");
    }
    macro_rules! reads_back {
        ($($id:ty),*) => { $(if let Ok(id) = text.parse::<$id>() { assert_eq!(id.to_string(), text); })* };
    }
    reads_back!(DeviceId, SessionId, HandoffId, MeshId, ApprovalId);
    if let Some(oid) = Oid::parse(text) {
        assert_eq!(oid.to_string(), text.to_ascii_lowercase());
    }
    let name = clean(text);
    assert!(is_name(&name), "{name:?}");
    assert_eq!(clean(&name), name);
    assert!(is_name(text) || text != name, "{text:?}");
}

pub(super) fn pairing_words(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Words::parse(&text) {
        Ok(words) => {
            let shown = words.show();
            assert!(Words::parse(&shown).is_ok_and(|again| again == words));
            assert_eq!(
                shown.split('-').count(),
                text.split(|c: char| !c.is_ascii_alphabetic()).filter(|w| !w.is_empty()).count()
            );
            assert!(
                !format!("{words:?}").contains(shown.split('-').next().unwrap()),
                "the words are in the debug text"
            );
        }
        Err(error) => {
            let said = error.to_string();
            assert!(is_plain(&said) && said.len() < 200, "{said:?}");
        }
    }
}

/// An announcement is `name \0 port \0 key=value \0 …`; a hint comes of it only for our mesh, and never for ourselves.
pub(super) fn discovery(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.split('\0');
    let name: String = parts.next().unwrap_or_default().chars().take(60).collect();
    let port = parts.next().and_then(|text| text.parse().ok()).unwrap_or(bytes.len() as u16);
    let txt: Vec<(&str, &str)> = parts.filter_map(|pair| pair.split_once('=')).take(8).collect();
    let ours = Announcement { device: DeviceId::new([2; 32]), mesh: MeshId::new([9; 32]), port: 1 };
    let many: Vec<IpAddr> = (0..=bytes.len() as u8 % 40).map(|last| Ipv4Addr::new(10, 0, 0, last).into()).collect();
    let addresses = [&many[..], &[Ipv6Addr::LOCALHOST.into()]].concat();
    let hints = discovery::hints(&ours, &name, &txt, &addresses, port);
    assert!(hints.len() <= cede_carrier::limits::HINT_ADDRESSES);
    let of_our_mesh = txt.iter().any(|(key, value)| key.eq_ignore_ascii_case("m") && *value == ours.mesh.short());
    assert!(hints.is_empty() || (of_our_mesh && port != 0), "{hints:?}");
    assert!(!hints.iter().any(|hint| hint.may_be(&ours.device) || hint.address.port() != port), "{hints:?}");
}
