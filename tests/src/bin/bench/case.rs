//! One session: there, back and there again.

use std::path::{Path, PathBuf};
use std::time::Instant;

use cede_tests::devices::{Device, Devices, request};
use cede_wire::control::{MoveReport, MoveRequest};
use cede_wire::id::SessionId;

use crate::measure::{cpu_seconds, forget_peak, mib, peak_mib};
use crate::rsync::Rsync;
use crate::sessions::{Session, Shape};

/// A case that is set up.
pub struct Case {
    /// Ends first: removing the trees takes a while.
    rsync: Result<Rsync, String>,
    devices: Devices,
    session: Session,
}

/// What a case gave.
#[derive(Debug, Default)]
pub struct Figures {
    pub rows: Vec<Row>,
    pub notes: Vec<String>,
}

/// One move.
#[derive(Debug)]
pub struct Row {
    pub name: String,
    pub seconds: f64,
    pub pause_ms: u64,
    pub sent: u64,
    pub rsync_s: Option<f64>,
    /// Of both daemons and of what they ran.
    pub cpu_s: f64,
    /// Since the daemons started, or since the last move where the system lets one forget: source, destination.
    pub peak_mib: (f64, f64),
}

impl Case {
    /// Starts two daemons that know each other, and makes the session on the first.
    pub fn new(program: &Path, shape: Shape) -> Self {
        println!("{}: {} files, {:.0} MiB", shape.kind.name(), shape.files, mib(shape.bytes + shape.transcript));
        let devices = Devices::friends(&program.display().to_string());
        let session = Session::make(&devices.a, shape);
        let rsync = Rsync::start(devices.root.path());
        Self { rsync, devices, session }
    }

    /// Moves it as a person would who changes devices all the time.
    pub fn run(&self) -> Figures {
        let mut figures = Figures::default();
        let (a, b) = (&self.devices.a, &self.devices.b);
        let name = self.session.shape.kind.name();
        let tree = self.session.tree.clone();
        let rsynced = self.rsync_to("first", &mut figures);
        let (row, report) = self.go(format!("{name}: first move"), (a, b), rsynced);
        figures.rows.push(row);
        let there = PathBuf::from(directory(b, self.session.id));
        note_resting();
        figures.rows.push(self.go(format!("{name}: back, nothing changed"), (b, a), None).0);
        note_resting();
        let rsynced = self.rsync_to("again", &mut figures);
        figures.rows.push(self.go(format!("{name}: there again, nothing changed"), (a, b), rsynced).0);
        let changed = self.session.change(&there, 1);
        note_resting();
        let (row, _) = self.go(format!("{name}: back, 1 % changed"), (b, a), None);
        note_limit(name, changed, row.sent, &mut figures);
        figures.rows.push(row);
        let changed = self.session.change(&tree, 2);
        note_resting();
        let rsynced = self.rsync_to("changed", &mut figures);
        let (row, _) = self.go(format!("{name}: there again, 1 % changed"), (a, b), rsynced);
        note_limit(name, changed, row.sent, &mut figures);
        figures.rows.push(row);
        figures.notes.extend(report.notes.iter().map(|note| format!("{name}: {note}")));
        figures
    }

    fn go(&self, name: String, (from, to): (&Device, &Device), rsync_s: Option<f64>) -> (Row, MoveReport) {
        let pids = (from.pid(), to.pid());
        forget_peak(pids.0);
        forget_peak(pids.1);
        let before = cpu_seconds(pids.0) + cpu_seconds(pids.1);
        let began = Instant::now();
        let id = self.session.id;
        let request = MoveRequest {
            carry_only: self.session.is_carried(),
            confirm_large: true,
            confirm_secrets: true,
            ..request(&to.name, id)
        };
        let report = from.move_with(request).unwrap_or_else(|failure| panic!("{name}: {failure:?}"));
        let seconds = began.elapsed().as_secs_f64();
        let cpu_s = cpu_seconds(pids.0) + cpu_seconds(pids.1) - before;
        let peak_mib = (peak_mib(pids.0), peak_mib(pids.1));
        (Row { name, seconds, pause_ms: report.pause_ms, sent: report.bytes_sent, rsync_s, cpu_s, peak_mib }, report)
    }

    /// The same bytes by `rsync -a --delete` over ssh, durable.
    fn rsync_to(&self, what: &str, figures: &mut Figures) -> Option<f64> {
        match &self.rsync {
            Ok(rsync) => Some(rsync.copy(&self.session.parts())),
            Err(why) => {
                if what == "first" {
                    figures.notes.push(format!("skipped: no comparison: {why}"));
                }
                None
            }
        }
    }
}

fn directory(device: &Device, id: SessionId) -> String {
    device.session(id).expect("the session is known").directory
}

/// A file that was just written is hashed again; a person is slower than that.
fn note_resting() {
    std::thread::sleep(std::time::Duration::from_millis(2_500));
}

/// The way back may cost what changed, a twentieth of it, and 256 KiB.
fn note_limit(name: &str, changed: u64, sent: u64, figures: &mut Figures) {
    let limit = changed + changed / 20 + (256 << 10);
    let word = if sent <= limit { "within" } else { "ABOVE" };
    figures.notes.push(format!(
        "{name}: {:.2} MiB changed, {:.2} MiB sent: {word} the limit of {:.2} MiB",
        mib(changed),
        mib(sent),
        mib(limit)
    ));
}
