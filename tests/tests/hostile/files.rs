//! A device that sends files other than it says, or under names that leave their place.

use cede_seal::exchange::TransferContext;
use cede_wire::canonical::encode;
use cede_wire::id::TransferId;
use cede_wire::transfer::{Shown, ShownPath, TransferAccept, TransferKey, TransferMessage, TransferOffer};
use serde::Serialize;

use super::*;

/// A catalog as its bytes are, with paths that no honest program makes.
#[derive(Serialize)]
struct RawCatalog {
    entries: Vec<RawEntry>,
}

#[derive(Serialize)]
struct RawEntry {
    place: Place,
    path: Vec<u8>,
    body: Body,
}

const CONTENT: &[u8] = b"what is in each of them";

fn file(path: &str, mode: u32) -> RawEntry {
    let size = CONTENT.len() as u64;
    let body = Body::File { mode, mtime: Mtime { seconds: 7, nanos: 0 }, size, chunks: vec![chunk(CONTENT)] };
    RawEntry { place: Place::Tree, path: path.as_bytes().to_vec(), body }
}

fn shown(paths: &[&str], executables: &[&str]) -> Shown {
    let line = |path: &&str| ShownPath { path: (*path).to_owned(), files: 1, bytes: CONTENT.len() as u64 };
    Shown {
        files: paths.len() as u64,
        bytes: (paths.len() * CONTENT.len()) as u64,
        paths: paths.iter().map(line).collect(),
        executables: executables.iter().map(|path| (*path).to_owned()).collect(),
        dotfiles: Vec::new(),
        configuration_as_code: Vec::new(),
    }
}

/// One sending: what is shown, what is sent, and the bytes that are sent for the content.
struct Parcel {
    number: u8,
    shown: Shown,
    entries: Vec<RawEntry>,
    content: Vec<u8>,
}

impl Parcel {
    fn honest(number: u8, paths: &[&str]) -> Self {
        let entries = paths.iter().map(|path| file(path, 0o644)).collect();
        Self { number, shown: shown(paths, &[]), entries, content: CONTENT.to_vec() }
    }
}

impl Liar {
    fn say_of_files(&mut self, message: TransferMessage) {
        self.say(PeerMessage::Transfer(Box::new(message)));
    }

    /// Offers, and serves what is asked for until the end: the receiver's refusal, or none for a receipt.
    fn send(&mut self, parcel: Parcel) -> Option<(Refusal, String)> {
        let catalog = encode(&RawCatalog { entries: parcel.entries });
        let offer = TransferOffer {
            mesh: self.mesh,
            transfer: TransferId::new([parcel.number; 16]),
            source: self.local.device(),
            destination: self.victim.device(),
            note: String::new(),
            root: Hash::of(&catalog),
            catalog: vec![chunk(&catalog)],
            shown: parcel.shown,
            offered_at_unix_ms: 0,
        };
        let signed = self.local.sign(&offer).unwrap();
        let hash = signed.hash();
        self.say_of_files(TransferMessage::Offer(signed));
        let mut keys = None;
        loop {
            let message = self.hear("a word about files", |message| match message {
                PeerMessage::Transfer(message) => Some(*message),
                _ => None,
            });
            match message {
                TransferMessage::Accept(accept) => {
                    let accept = verify(&accept).unwrap().into_parts().0;
                    if accept.transfer == offer.transfer {
                        keys = Some(self.exchange(&offer, hash, &accept));
                    }
                }
                TransferMessage::Need { transfer, of, bitmap, .. }
                    if transfer == offer.transfer && bitmap.contains(&1) =>
                {
                    let keys = keys.as_ref().unwrap();
                    let (id, bytes) = match of {
                        NeedOf::Catalog => (ChunkId::of(&catalog), catalog.as_slice()),
                        NeedOf::Payload => (ChunkId::of(CONTENT), parcel.content.as_slice()),
                    };
                    let sealed = self.sealed(keys, id, bytes);
                    self.send_stream(sealed);
                }
                TransferMessage::End { transfer, refusal, detail } if transfer == offer.transfer => {
                    println!("{refusal}: {detail}");
                    return Some((refusal, detail));
                }
                TransferMessage::Received(receipt) if verify(&receipt).unwrap().transfer == offer.transfer => {
                    return None;
                }
                _ => {}
            }
        }
    }

    fn exchange(&mut self, offer: &TransferOffer, hash: Hash, accept: &TransferAccept) -> HandoffKeys {
        let secret = ExchangeSecret::from_random([9; 32]);
        let key = TransferKey {
            transfer: offer.transfer,
            source: offer.source,
            destination: offer.destination,
            offer: hash,
            accepted_key: accept.exchange_key,
            exchange_key: secret.public(),
        };
        let key = self.local.sign(&key).unwrap();
        self.say_of_files(TransferMessage::Key(key));
        let context = TransferContext {
            mesh: offer.mesh,
            transfer: offer.transfer,
            offer: hash,
            source: offer.source,
            destination: offer.destination,
            source_exchange_key: secret.public(),
            destination_exchange_key: accept.exchange_key,
        };
        HandoffKeys::derive_for_files(&secret, &accept.exchange_key, &context).unwrap()
    }
}

fn received(device: &Device) -> Vec<String> {
    cede_tests::devices::trees::names(&device.cede_home.join("received/server"))
}

/// Shows: F-2, F-4, F-7, S-7
#[test]
fn files_under_false_names_or_with_other_bytes_never_get_a_place() {
    let mut devices = Devices::friends(CEDE);
    let mut liar = Liar::among(&mut devices);
    let a = &devices.a;
    let mut number = 0;
    for path in ["../x", "/etc/x", "a/../../x", "a/.git/config", ".GIT/hooks/x", "a//b", "."] {
        number += 1;
        let (refusal, _) = liar.send(Parcel::honest(number, &[path])).expect(path);
        assert_eq!(refusal, Refusal::PayloadUndecodable, "{path}");
    }
    let link = Body::Symlink { target: b"/etc/passwd".to_vec() };
    let link = RawEntry { place: Place::Tree, path: b"l".to_vec(), body: link };
    let spoken = RawEntry { place: Place::Transcript, ..file("a", 0o644) };
    let lies = [
        ("a link", vec![file("f", 0o644), link], shown(&["f"], &[]), Refusal::PayloadUndecodable),
        ("a place of sessions", vec![spoken], shown(&["a"], &[]), Refusal::PayloadUndecodable),
        (
            "a file below a file",
            vec![file("f", 0o644), file("f/g", 0o644)],
            shown(&["f", "f/g"], &[]),
            Refusal::PayloadUndecodable,
        ),
        ("twice", vec![file("f", 0o644), file("f", 0o644)], shown(&["f", "f"], &[]), Refusal::PayloadUndecodable),
        ("another name", vec![file("evil", 0o644)], shown(&["good"], &[]), Refusal::Unauthorized),
        ("one more file", vec![file("f", 0o644), file("g", 0o644)], shown(&["f"], &[]), Refusal::Unauthorized),
        ("an executable", vec![file("run", 0o755)], shown(&["run"], &[]), Refusal::Unauthorized),
        ("a hidden file", vec![file(".profile", 0o644)], shown(&[".profile"], &[]), Refusal::Unauthorized),
    ];
    for (what, entries, shown, expected) in lies {
        number += 1;
        let (refusal, _) = liar.send(Parcel { number, shown, entries, content: CONTENT.to_vec() }).expect(what);
        assert_eq!(refusal, expected, "{what}");
    }
    number += 1;
    let mut altered = Parcel::honest(number, &["f"]);
    altered.content[0] ^= 1;
    assert_eq!(liar.send(altered).expect("other bytes").0, Refusal::IntegrityFailed);
    wait_until("nothing of it is left", || {
        received(a).is_empty() && cede_tests::devices::trees::names(&a.state().join("stages")).is_empty()
    });
    assert_eq!(cede_tests::devices::trees::names(&a.home), [""; 0]);
    // Names that only case tells apart are two files here: the file system is the judge.
    number += 1;
    assert_eq!(liar.send(Parcel::honest(number, &["README", "readme"])), None);
    assert_eq!(received(a).len(), 1);
    unharmed(a);
}

/// Shows: F-10
#[test]
fn offers_of_files_beyond_what_may_wait_are_refused_and_the_operator_is_asked_about_few() {
    let mut devices = Devices::paired(CEDE);
    let mut liar = Liar::among(&mut devices);
    let mesh = liar.mesh;
    for number in 0..100_u8 {
        let offer = TransferOffer {
            mesh,
            transfer: TransferId::new([number; 16]),
            source: liar.local.device(),
            destination: liar.victim.device(),
            note: String::new(),
            root: Hash::of(&[number]),
            catalog: vec![chunk(&[number])],
            shown: shown(&["f"], &[]),
            offered_at_unix_ms: 0,
        };
        let signed = liar.local.sign(&offer).unwrap();
        liar.say_of_files(TransferMessage::Offer(signed));
    }
    let mut refused = 0;
    while refused < 90 {
        liar.hear("a refusal", |message| match message {
            PeerMessage::Transfer(message) => matches!(*message, TransferMessage::End { .. }).then_some(()),
            _ => None,
        });
        refused += 1;
    }
    assert!(devices.a.status().approvals.len() <= 3, "{}", devices.a.status().approvals.len());
    unharmed(&devices.a);
}
