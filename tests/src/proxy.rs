//! A line of datagrams that can be cut: it stands between two devices, in user space, and forwards or drops.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// One direction's door: what is sent to its address reaches the target, answers come back the same way.
#[derive(Debug)]
pub struct Proxy {
    /// The address that stands for the target.
    pub address: SocketAddr,
    line: Arc<Line>,
}

#[derive(Debug)]
struct Line {
    target: SocketAddr,
    front: UdpSocket,
    /// One socket towards the target for each that sends to the front, as a NAT has.
    backs: Mutex<BTreeMap<SocketAddr, Arc<UdpSocket>>>,
    cut: AtomicBool,
    ended: AtomicBool,
    forwarded: AtomicU64,
    dropped: AtomicU64,
}

/// How often the threads look whether they should end.
const LOOK: Duration = Duration::from_millis(100);
/// Longest datagram.
const DATAGRAM: usize = 65_536;

impl Proxy {
    /// Opens a door to `target` on loopback.
    pub fn to(target: &str) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").unwrap();
        front.set_read_timeout(Some(LOOK)).unwrap();
        let address = front.local_addr().unwrap();
        let line = Arc::new(Line {
            target: target.parse().unwrap(),
            front,
            backs: Mutex::new(BTreeMap::new()),
            cut: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            forwarded: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        });
        let running = line.clone();
        std::thread::spawn(move || running.forward());
        Self { address, line }
    }

    /// Drops everything from now on, or lets it pass again.
    pub fn cut(&self, cut: bool) {
        self.line.cut.store(cut, Ordering::SeqCst);
    }

    /// Datagrams that passed, and that did not.
    pub fn counts(&self) -> (u64, u64) {
        (self.line.forwarded.load(Ordering::Relaxed), self.line.dropped.load(Ordering::Relaxed))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.line.ended.store(true, Ordering::SeqCst);
    }
}

impl Line {
    fn forward(self: &Arc<Self>) {
        let mut datagram = vec![0; DATAGRAM];
        while !self.ended.load(Ordering::SeqCst) {
            let Ok((length, from)) = self.front.recv_from(&mut datagram) else { continue };
            if self.passes() {
                let back = self.back(from);
                // A datagram that is lost here is lost as on any line.
                let _lost = back.send_to(&datagram[..length], self.target);
            }
        }
    }

    fn back(self: &Arc<Self>, from: SocketAddr) -> Arc<UdpSocket> {
        let mut backs = self.backs.lock().unwrap_or_else(PoisonError::into_inner);
        let line = self.clone();
        let open = || {
            let back = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
            back.set_read_timeout(Some(LOOK)).unwrap();
            let answers = back.clone();
            std::thread::spawn(move || line.answer(&answers, from));
            back
        };
        backs.entry(from).or_insert_with(open).clone()
    }

    fn answer(&self, back: &UdpSocket, to: SocketAddr) {
        let mut datagram = vec![0; DATAGRAM];
        while !self.ended.load(Ordering::SeqCst) {
            let Ok((length, _)) = back.recv_from(&mut datagram) else { continue };
            if self.passes() {
                let _lost = self.front.send_to(&datagram[..length], to);
            }
        }
    }

    fn passes(&self) -> bool {
        let cut = self.cut.load(Ordering::SeqCst);
        let count = if cut { &self.dropped } else { &self.forwarded };
        count.fetch_add(1, Ordering::Relaxed);
        !cut
    }
}
