//! Figures of this machine, printed. `cargo test --release -p cede-store -- --ignored --nocapture figures`

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use cede_wire::id::{ChunkId, DeviceId, HandoffId};
use cede_wire::record::Record;

use crate::home::Home;
use crate::journal::{CommitError, Journal};

#[test]
#[ignore = "prints figures"]
fn figures_of_the_journal() {
    for threads in [1, 16] {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(&dir.path().join("home")).unwrap();
        let (journal, _) = Journal::open(&home).unwrap();
        let begin = Instant::now();
        let mut times: Vec<Duration> = std::thread::scope(|scope| {
            let work =
                || (0..3_000).map(|_| timed(|| assert!(journal.commit(vec![record()]).is_ok()))).collect::<Vec<_>>();
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let rate = times.len() as f64 / begin.elapsed().as_secs_f64();
        times.sort();
        let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        println!("journal, {threads} threads: {rate:.0} durable commits/s, p50 {p50:?}, p99 {p99:?}");
    }
    pipelined();
}

fn pipelined() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(&dir.path().join("home")).unwrap();
    let (journal, _) = Journal::open(&home).unwrap();
    let (told, answers) = channel();
    let begin = Instant::now();
    let (mut sent, mut done) = (0, 0);
    while done < 300_000 {
        while sent < 300_000 && sent - done < 1_000 {
            let told = told.clone();
            journal.submit(vec![record()], move |answer| told.send(answer.map(drop)).unwrap());
            sent += 1;
        }
        assert_ne!(answers.recv().unwrap(), Err(CommitError::Busy));
        done += 1;
    }
    println!("journal, 1,000 in flight: {:.0} durable commits/s", f64::from(done) / begin.elapsed().as_secs_f64());
}

#[test]
#[ignore = "prints figures"]
fn figures_of_a_stage() {
    let mut chunk = vec![0x5a; 64 << 10];
    let mut numbered = |number: u64| {
        chunk[..8].copy_from_slice(&number.to_le_bytes());
        chunk.clone()
    };
    let ids: Vec<_> = (0..16_384).map(|number| ChunkId::of(&numbered(number))).collect();
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(&dir.path().join("home")).unwrap();
    let stage = home.stage(HandoffId::new([7; 16])).unwrap();
    let put = timed(|| {
        for (number, id) in ids.iter().enumerate() {
            stage.put(id, &numbered(number as u64)).unwrap();
            if number % 1_024 == 1_023 {
                stage.sync().unwrap();
            }
        }
    });
    println!("stage: 1 GiB in 64 KiB chunks, put and synced every 64 MiB, in {put:?}");
    drop(stage);
    let listed = timed(|| assert_eq!(home.stage(HandoffId::new([7; 16])).unwrap().chunks(), 16_384));
    std::fs::remove_file(home.dir().join("stages").join(HandoffId::new([7; 16]).to_string()).join("extents")).unwrap();
    let hashed = timed(|| assert_eq!(home.stage(HandoffId::new([7; 16])).unwrap().chunks(), 16_384));
    let stage = home.stage(HandoffId::new([7; 16])).unwrap();
    let read = timed(|| {
        let mut bytes = Vec::new();
        ids.iter().for_each(|id| stage.read(id, &mut bytes).unwrap());
    });
    println!("stage: opened in {listed:?} by its list, in {hashed:?} without; read and verified in {read:?}");
}

fn timed(work: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    work();
    begin.elapsed()
}

/// About 256 bytes.
fn record() -> Record {
    Record::AddressSeen { device: DeviceId::new([7; 32]), address: "a".repeat(210) }
}
