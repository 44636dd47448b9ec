//! The samples of files that are sent.

use cede_wire::id::TransferId;
use cede_wire::transfer::{FileCatalog, Shown, ShownPath, TransferMessage, TransferRecord};

use super::*;

fn transfer() -> TransferId {
    TransferId::new([0x5e; 16])
}

fn offer() -> TransferOffer {
    TransferOffer {
        mesh: mesh(),
        transfer: transfer(),
        source: source(),
        destination: destination(),
        note: "as you asked".to_owned(),
        root: root(),
        catalog: vec![chunk(b"catalog of files")],
        shown: Shown {
            files: 3,
            bytes: 70_000,
            paths: vec![
                ShownPath { path: "gr\u{fc}\u{df}e/".to_owned(), files: 2, bytes: 300 },
                ShownPath { path: "run.sh".to_owned(), files: 1, bytes: 69_700 },
            ],
            executables: vec!["run.sh".to_owned()],
            dotfiles: vec!["gr\u{fc}\u{df}e/.env".to_owned()],
            configuration_as_code: Vec::new(),
        },
        offered_at_unix_ms: 1_800_000_000_000,
    }
}

fn accept() -> TransferAccept {
    TransferAccept {
        transfer: transfer(),
        source: source(),
        destination: destination(),
        offer: signed(&offer()).hash(),
        exchange_key: [0x11; 32],
    }
}

fn exchange() -> TransferKey {
    TransferKey {
        transfer: transfer(),
        source: source(),
        destination: destination(),
        offer: signed(&offer()).hash(),
        accepted_key: [0x11; 32],
        exchange_key: [0x22; 32],
    }
}

fn receipt() -> TransferReceipt {
    let place = "/home/ada/Downloads/cede/laptop/run.sh".to_owned();
    TransferReceipt { transfer: transfer(), source: source(), destination: destination(), root: root(), place }
}

/// One of each kind, in the order of their numbers.
pub(super) fn records() -> Vec<Record> {
    let (transfer, offer, at_unix_ms) = (transfer(), signed(&offer()).hash(), 1_800_000_000_000);
    let records = [
        TransferRecord::Queued { transfer, to: destination(), offer, at_unix_ms },
        TransferRecord::Approved { transfer, from: source(), offer, at_unix_ms },
        TransferRecord::Received { transfer, peer: destination(), going: true, place: receipt().place },
        TransferRecord::Ended {
            transfer,
            peer: source(),
            going: false,
            refusal: Refusal::Cancelled,
            detail: "withdrawn on laptop".to_owned(),
        },
    ];
    records.into_iter().map(|record| Record::Transfer(Box::new(record))).collect()
}

/// The same of messages.
pub(super) fn messages() -> Vec<PeerMessage> {
    let messages = [
        TransferMessage::Offer(signed(&offer())),
        TransferMessage::Accept(signed(&accept())),
        TransferMessage::Key(signed(&exchange())),
        TransferMessage::Need {
            transfer: transfer(),
            accepted_key: [0x11; 32],
            of: NeedOf::Payload,
            bitmap: vec![0b101, 0],
        },
        TransferMessage::Received(signed(&receipt())),
        TransferMessage::End {
            transfer: transfer(),
            refusal: Refusal::Declined,
            detail: "the operator there said no".to_owned(),
        },
        TransferMessage::Waits { transfer: transfer(), detail: "there is no room for it there".to_owned() },
    ];
    messages.into_iter().map(|message| PeerMessage::Transfer(Box::new(message))).collect()
}

/// What a list of kinds does not show: the kinds within, what is signed, and the catalog.
pub(super) fn all() -> Vec<Vector> {
    let path = |path: &str| RelPath::parse(path.as_bytes()).unwrap();
    let file = Body::File { mode: 0o755, mtime: Mtime { seconds: 7, nanos: 9 }, size: 4, chunks: vec![chunk(b"file")] };
    let entry = |place, name: &str, body: &Body| Entry { place, path: path(name), body: body.clone() };
    let folder = Body::Directory { mode: 0o755 };
    let catalog = FileCatalog { entries: vec![entry(Place::Tree, "d", &folder), entry(Place::Tree, "d/f", &file)] };
    let unordered = FileCatalog { entries: catalog.entries.iter().rev().cloned().collect() };
    let mut all = vec![
        named("file catalog", "F-4", "FileCatalog", &catalog),
        named("transfer offer", "F-3", "TransferOffer", &offer()),
        named("transfer accept", "F-3", "TransferAccept", &accept()),
        named("transfer key", "F-6", "TransferKey", &exchange()),
        named("transfer receipt", "F-8", "TransferReceipt", &receipt()),
        refused(
            "file catalog out of order",
            "F-4",
            "FileCatalog",
            &unordered.to_bytes(),
            "the bytes are not a FileCatalog",
        ),
    ];
    for (number, record) in records().iter().enumerate().skip(1) {
        all.push(named(&format!("record of transfers {number}"), "F-9", "Record", record));
    }
    for (number, said) in messages().iter().enumerate().skip(1) {
        let vector = message(said);
        all.push(Vector { name: format!("message of transfers {number}"), ..vector });
    }
    all
}
