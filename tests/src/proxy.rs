//! A line of datagrams that can be cut: it stands between two devices, in user space, and forwards or drops.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::devices::trees::Numbers;

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
    weather: Mutex<(Weather, Numbers)>,
    ended: AtomicBool,
    forwarded: AtomicU64,
    forwarded_bytes: AtomicU64,
    dropped: AtomicU64,
}

/// What a line does to datagrams, each as a chance in a thousand.
#[derive(Debug, Clone, Copy, Default)]
pub struct Weather {
    /// It is gone.
    pub lose: u64,
    /// It arrives twice.
    pub double: u64,
    /// It arrives after those that were sent later.
    pub late: u64,
}

/// What happens to one datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Lost,
    Once,
    Twice,
    Later(Duration),
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
            weather: Mutex::new((Weather::default(), Numbers(1))),
            ended: AtomicBool::new(false),
            forwarded: AtomicU64::new(0),
            forwarded_bytes: AtomicU64::new(0),
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

    /// Treats datagrams so from now on, as the seed says.
    pub fn weather(&self, weather: Weather, seed: u64) {
        *self.line.weather.lock().unwrap_or_else(PoisonError::into_inner) = (weather, Numbers(seed));
    }

    /// Forgets every path, as a NAT that restarts: whoever speaks next comes from another address.
    pub fn rebind(&self) {
        self.line.backs.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Bytes of the datagrams that passed.
    pub fn bytes(&self) -> u64 {
        self.line.forwarded_bytes.load(Ordering::Relaxed)
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
            let back = self.back(from);
            self.carry(&back, &datagram[..length], self.target);
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
            self.carry(&self.front, &datagram[..length], to);
        }
    }

    /// A datagram that is lost here is lost as on any line.
    fn carry(&self, from: &UdpSocket, datagram: &[u8], to: SocketAddr) {
        let fate = self.fate();
        let count = if fate == Fate::Lost { &self.dropped } else { &self.forwarded };
        count.fetch_add(1, Ordering::Relaxed);
        if fate != Fate::Lost {
            self.forwarded_bytes.fetch_add(datagram.len() as u64, Ordering::Relaxed);
        }
        match fate {
            Fate::Lost => {}
            Fate::Once => drop(from.send_to(datagram, to)),
            Fate::Twice => {
                let _lost = from.send_to(datagram, to);
                let _lost = from.send_to(datagram, to);
            }
            Fate::Later(wait) => {
                let (socket, datagram) = (from.try_clone().unwrap(), datagram.to_vec());
                std::thread::spawn(move || {
                    std::thread::sleep(wait);
                    let _lost = socket.send_to(&datagram, to);
                });
            }
        }
    }

    fn fate(&self) -> Fate {
        if self.cut.load(Ordering::SeqCst) {
            return Fate::Lost;
        }
        let mut now = self.weather.lock().unwrap_or_else(PoisonError::into_inner);
        let (weather, numbers) = &mut *now;
        if weather.lose + weather.double + weather.late == 0 {
            return Fate::Once;
        }
        let chance = numbers.below(1_000);
        if chance < weather.lose {
            Fate::Lost
        } else if chance < weather.lose + weather.double {
            Fate::Twice
        } else if chance < weather.lose + weather.double + weather.late {
            Fate::Later(Duration::from_millis(1 + numbers.below(60)))
        } else {
            Fate::Once
        }
    }
}
