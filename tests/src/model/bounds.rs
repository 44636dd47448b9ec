//! How much may happen.

use core::fmt;
use core::str::FromStr;

/// What is left of everything that a person, chance or time may do. Each step of a kind takes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bounds {
    /// Devices of the mesh.
    pub devices: u8,
    /// Moves that an operator begins.
    pub offers: u8,
    /// Moves that an operator withdraws, or declines.
    pub refusals: u8,
    /// Power failures, between any two outputs.
    pub crashes: u8,
    /// Letters that are lost.
    pub losses: u8,
    /// Letters that come twice, or late.
    pub doubles: u8,
    /// Whether what is on a line outlasts it. Else it is lost with the line, as with a connection.
    pub outlast: bool,
    /// Lines that part.
    pub cuts: u8,
    /// Devices that wait for their next deadline.
    pub wakes: u8,
    /// Devices that sleep past all of their deadlines.
    pub sleeps: u8,
    /// Turns that the owner's agent commits.
    pub turns: u8,
    /// Turns that it commits in spite of a freeze.
    pub sneaks: u8,
    /// Rounds that travel while the session works.
    pub rounds: u8,
    /// Payloads that a disk loses.
    pub spoils: u8,
    /// Certificates that a third hand carries, at any time.
    pub carries: u8,
    /// Sessions that an operator seizes. A second one could meet the first, which this mesh does not judge.
    pub seizes: u8,
    /// Whether devices tell each other at every new line what they know. Else those letters are all lost.
    pub gossip: bool,
}

impl Bounds {
    /// Two devices and one move, and nothing that goes wrong.
    pub const CALM: Self = Self {
        devices: 2,
        offers: 1,
        refusals: 0,
        crashes: 0,
        losses: 0,
        doubles: 0,
        outlast: false,
        cuts: 0,
        wakes: 0,
        sleeps: 0,
        turns: 0,
        sneaks: 0,
        rounds: 0,
        spoils: 0,
        carries: 0,
        seizes: 0,
        gossip: false,
    };

    fn counts(&mut self) -> [(&'static str, &mut u8); 15] {
        [
            ("devices", &mut self.devices),
            ("offers", &mut self.offers),
            ("refusals", &mut self.refusals),
            ("crashes", &mut self.crashes),
            ("losses", &mut self.losses),
            ("doubles", &mut self.doubles),
            ("cuts", &mut self.cuts),
            ("wakes", &mut self.wakes),
            ("sleeps", &mut self.sleeps),
            ("turns", &mut self.turns),
            ("sneaks", &mut self.sneaks),
            ("rounds", &mut self.rounds),
            ("spoils", &mut self.spoils),
            ("carries", &mut self.carries),
            ("seizes", &mut self.seizes),
        ]
    }
}

/// `offers=2,crashes=1,outlast`: what differs from [`Bounds::CALM`].
impl FromStr for Bounds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut bounds = Self::CALM;
        for part in text.split(',').filter(|part| !part.is_empty()) {
            match part {
                "outlast" => {
                    bounds.outlast = true;
                    continue;
                }
                "gossip" => {
                    bounds.gossip = true;
                    continue;
                }
                _ => {}
            }
            let (name, number) = part.split_once('=').ok_or_else(|| format!("not a bound: {part}"))?;
            let number = number.parse().map_err(|_| format!("not a number: {part}"))?;
            let bound = bounds.counts().into_iter().find(|(known, _)| *known == name);
            *bound.ok_or_else(|| format!("no such bound: {name}"))?.1 = number;
        }
        Ok(bounds)
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = *self;
        let said = all.counts().into_iter().filter(|(_, number)| **number > 0).map(|(name, n)| format!("{name}={n}"));
        let flags = [(self.outlast, "outlast"), (self.gossip, "gossip")];
        let flags = flags.into_iter().filter(|(set, _)| *set).map(|(_, name)| name.to_owned());
        f.write_str(&said.chain(flags).collect::<Vec<_>>().join(","))
    }
}
