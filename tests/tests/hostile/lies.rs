//! A device that seals what it was not asked for, may less than it asks, or looks when the fence goes up.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use cede_agent::adapter::{Surroundings, adapters};
use cede_tests::devices::claude;
use cede_wire::control::{MoveRequest, exit};
use cede_wire::member::{Member, MemberChange, MemberEntry};

use super::*;

/// A gift whose chunks are sent by `send`; how it ended, and nothing of it is here.
fn refused_gift(payload: Option<Payload>, send: &mut Sending<'_>) -> (Refusal, String) {
    let mut devices = Devices::friends(CEDE);
    let mut liar = Liar::among(&mut devices);
    let mut gift = liar.invent("gift", 1);
    gift.payload = payload.unwrap_or(gift.payload);
    liar.offer(&gift);
    let accept = liar.hear_accept();
    let end = liar.serve_with(&gift, &accept, send);
    let PeerMessage::Refuse { refusal, detail, .. } = end else { panic!("no refusal: {end:?}") };
    println!("{refusal}: {detail}");
    wait_until("nothing of it is left", || std::fs::read_dir(&devices.a.home).unwrap().next().is_none());
    assert!(devices.a.status().moves.is_empty() && devices.a.status().sessions.iter().all(|known| !known.here));
    unharmed(&devices.a);
    (refusal, detail)
}

/// Shows: S-7, J-9, T-3
#[test]
fn chunk_that_was_altered_before_it_was_sealed_ends_the_move() {
    let (refusal, _) = refused_gift(None, &mut |liar, keys, bytes| {
        let mut other = bytes.to_vec();
        other[0] ^= 1;
        let sealed = liar.sealed(keys, ChunkId::of(bytes), &other);
        liar.send_stream(sealed);
    });
    assert_eq!(refusal, Refusal::IntegrityFailed);
}

/// Shows: S-6, T-3
#[test]
fn stream_that_was_altered_after_it_was_sealed_ends_the_move() {
    let (refusal, _) = refused_gift(None, &mut |liar, keys, bytes| {
        let mut sealed = liar.sealed(keys, ChunkId::of(bytes), bytes);
        let last = sealed.len() - 1;
        sealed[last] ^= 1;
        liar.send_stream(sealed);
    });
    assert_eq!(refusal, Refusal::IntegrityFailed);
}

/// Shows: H-14
#[test]
fn last_round_with_a_name_that_nobody_approved_is_refused() {
    for (name, mode) in [("run-me", 0o755), (".profile", 0o644), ("Makefile", 0o644)] {
        let key = SessionKey { agent: AgentKind::Files, native: NativeId::parse("gift").unwrap() };
        let payload = Payload::named(&key, b"the gift", 8, (name, mode));
        let (refusal, detail) = refused_gift(Some(payload), &mut |liar, keys, bytes| liar.send_chunk(keys, bytes));
        assert_eq!(refusal, Refusal::Unauthorized);
        assert!(detail.contains(name), "{detail}");
    }
}

/// Shows: P-6, H-4
#[test]
fn member_that_was_given_nothing_is_served_nothing() {
    let mut devices = Devices::friends(CEDE);
    let (tree, id) = adopted(&devices.b);
    let before = evidence(&tree);
    let mesh = devices.b.status().mesh.unwrap();
    devices.a.stop();
    wait_until("the link ends", || devices.b.status().peers.iter().all(|peer| !peer.connected));
    // The administrator adds a device that may nothing; no command of ours does.
    let mut administrator = Liar::dial(&devices.b, identity(&devices.a), mesh, 0);
    let log = administrator.hear("the log", |message| match message {
        PeerMessage::Members(entries) => Some(entries),
        _ => None,
    });
    let phone = || LocalDevice::from_secret(&[3; 32]);
    let member = Member { key: phone().key(), name: "phone".to_owned(), capabilities: Vec::new() };
    let (index, prev, by) = (log.len() as u64, log.last().map(Signed::hash), administrator.local.device());
    let entry = MemberEntry { index, prev, by, change: MemberChange::Add(member) };
    let entry = administrator.local.sign(&entry).unwrap();
    administrator.say(PeerMessage::Members(vec![entry]));
    wait_until("it is a member", || devices.b.status().peers.iter().any(|peer| peer.name == "phone"));

    let mut phone = Liar::dial(&devices.b, phone(), mesh, index + 1);
    phone.say(PeerMessage::SessionsQuery);
    let listed = phone.hear("a listing", |message| match message {
        PeerMessage::Sessions(listed) => Some(listed),
        _ => None,
    });
    assert_eq!(listed, [], "what there is is not its business");
    phone.say(PeerMessage::Take { request: 1, session: id, wait: false, carry_only: false });
    let answer = phone.hear("an answer", |message| match message {
        PeerMessage::TakeAnswer { answer, .. } => Some(answer),
        _ => None,
    });
    assert_eq!(answer.unwrap_err().0, Refusal::NotGranted);
    let gift = phone.invent("gift", 1);
    phone.offer(&gift);
    assert_eq!(phone.hear_refusal().0, Refusal::NotGranted);
    assert!(devices.b.status().approvals.is_empty(), "nobody is asked");
    let failure = devices.b.to("phone", id).unwrap_err();
    assert_eq!((failure.exit, failure.refusal), (exit::REFUSED, Some(Refusal::NotGranted)));
    assert_eq!(failure.now_at.as_deref(), Some("server"));
    assert_eq!((evidence(&tree), state(&devices.b, id).as_str()), (before, "in charge here"));
}

/// Writes turns until the fence puts another file in the transcript's place, as an agent does that nobody told.
fn write_turns(home: PathBuf, planted: claude::Planted, tree: PathBuf) -> std::thread::JoinHandle<usize> {
    let file = claude::place(&home, &planted).unwrap();
    let number = move || std::fs::metadata(&file).map(|found| found.ino()).ok();
    let first = number();
    std::thread::spawn(move || {
        let written = (3..500).take_while(|turn| {
            std::thread::sleep(Duration::from_millis(10));
            number() == first && {
                claude::add_turn(&home, &planted, &tree, *turn);
                true
            }
        });
        written.count()
    })
}

/// Shows: A-2, H-13
#[test]
fn fence_is_up_before_the_last_round_is_captured() {
    let mut devices = Devices::friends(CEDE);
    let tree = devices.a.home.join("project");
    dirty(&tree);
    let planted = claude::plant(&devices.a.home, &tree, 3);
    let around =
        Surroundings::plain(&devices.a.home, &devices.a.state().join("agents"), std::env::var_os("PATH").unwrap());
    let claude_code = adapters(&around).into_iter().find(|adapter| adapter.agent() == AgentKind::ClaudeCode).unwrap();
    let native = NativeId::parse(&planted.native).unwrap();
    let mut liar = Liar::among(&mut devices);
    let request = MoveRequest { carry_only: true, ..request("server", planted.id) };
    let _moving = devices.a.open(Command::To(request)).unwrap();
    let offer = liar.accept();
    let writer = write_turns(devices.a.home.clone(), planted.clone(), tree);
    let last = loop {
        let manifest = liar.hear_manifest();
        if manifest.last {
            break manifest;
        }
        assert!(!claude_code.is_fenced(&native).unwrap(), "the session works while rounds travel");
        std::thread::sleep(Duration::from_millis(50));
        liar.say(PeerMessage::RoundComplete { handoff: offer.handoff, round: manifest.round });
    };
    assert!(claude_code.is_fenced(&native).unwrap());
    let turns = writer.join().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let behind_the_fence = claude_code.capture(&native, scratch.path()).unwrap().head;
    println!("{turns} turns when the fence went up; {last:?}");
    assert_eq!(last.head, behind_the_fence, "what was written before the fence is in the last round");
    assert!(turns > 0 && last.head.turn > offer.head.turn, "{:?} {:?}", last.head, offer.head);
}
