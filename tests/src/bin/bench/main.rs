//! `cargo xtask bench`: how long a move takes, what it costs, and what `rsync` over ssh needs for the same bytes.
//!
//! Two real daemons on this machine, connected over the loopback. Both sides of the comparison end with everything
//! durable. Figures are for this machine and this minute; the ratios are what to look at.

mod approvals;
mod case;
mod measure;
mod messages;
mod rsync;
mod sessions;
mod soak;
mod status;
mod window;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use case::{Case, Figures};
use measure::mib;
use sessions::{Kind, Shape};

const USAGE: &str = "\
usage: cargo xtask bench [--full] [--files N] [--bytes N] [--only plain|git|small|window|resume|messages|status|soak|approvals] [--program PATH] [--place DIR]
  --full          100,000 files with 1 GiB, a transcript of 64 MiB; a repository of 20,000 files
  --files, --bytes  the size of the plain tree
  --program       the `cede` to measure; default: the one beside this program
  --place         where everything is written; default: the system's directory for temporary files
Status and soak are measured where they are named alone; CEDE_SOAK_MINUTES says how long the soak takes.";

/// What can be measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Move(Kind),
    Window,
    Resume,
    Messages,
    Status,
    Soak,
    Approvals,
}

/// What to measure.
#[derive(Debug)]
struct Wanted {
    full: bool,
    files: Option<u64>,
    bytes: Option<u64>,
    only: Option<What>,
    program: PathBuf,
}

impl What {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "window" => Some(Self::Window),
            "resume" => Some(Self::Resume),
            "messages" => Some(Self::Messages),
            "status" => Some(Self::Status),
            "soak" => Some(Self::Soak),
            "approvals" => Some(Self::Approvals),
            kind => Kind::parse(kind).map(Self::Move),
        }
    }
}

impl Wanted {
    fn has(&self, what: What) -> bool {
        self.only.is_none_or(|only| only == what)
    }
}

fn main() -> ExitCode {
    let wanted = match wanted() {
        Ok(wanted) => wanted,
        Err(text) => {
            println!("{text}\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    println!("measured: {}", wanted.program.display());
    let shapes = shapes(&wanted).into_iter().filter(|shape| wanted.has(What::Move(shape.kind)));
    for shape in shapes {
        // What it leaves is removed after its figures are shown.
        let case = Case::new(&wanted.program, shape);
        print(&case.run());
    }
    if wanted.has(What::Window) {
        window::window(&wanted.program);
    }
    if wanted.has(What::Resume) {
        window::resume(&wanted.program);
    }
    if wanted.has(What::Messages) {
        messages::messages(&wanted.program);
    }
    if wanted.only == Some(What::Status) {
        status::status(&wanted.program);
        status::revoked(&wanted.program);
    }
    if wanted.only == Some(What::Soak) {
        soak::soak(&wanted.program);
    }
    if wanted.only == Some(What::Approvals) {
        approvals::approvals(&wanted.program);
    }
    ExitCode::SUCCESS
}

fn shapes(wanted: &Wanted) -> Vec<Shape> {
    let mib = 1 << 20;
    let (files, bytes, transcript) =
        if wanted.full { (100_000, 960 * mib, 64 * mib) } else { (20_000, 150 * mib, 8 * mib) };
    let (git_files, git_bytes) = if wanted.full { (20_000, 150 * mib) } else { (5_000, 40 * mib) };
    let (files, bytes) = (wanted.files.unwrap_or(files), wanted.bytes.unwrap_or(bytes));
    vec![
        Shape { kind: Kind::Small, files: 40, bytes: mib / 4, transcript: mib / 16 },
        Shape { kind: Kind::Git, files: git_files, bytes: git_bytes, transcript: 4 * mib },
        Shape { kind: Kind::Plain, files, bytes, transcript },
    ]
}

fn wanted() -> Result<Wanted, String> {
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join("cede")));
    let mut wanted = Wanted { full: false, files: None, bytes: None, only: None, program: beside.unwrap_or_default() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--full" {
            wanted.full = true;
            continue;
        }
        let value = arguments.next().ok_or(format!("{argument} needs a value"))?;
        let number = || value.replace('_', "").parse().map_err(|_| format!("not a number: {value}"));
        match argument.as_str() {
            "--files" => wanted.files = Some(number()?),
            "--bytes" => wanted.bytes = Some(number()?),
            "--only" => wanted.only = Some(What::parse(&value).ok_or(format!("no such case: {value}"))?),
            "--program" => wanted.program = PathBuf::from(value),
            "--place" => tempfile::env::override_temp_dir(Path::new(&value)).map_err(|_| "--place twice")?,
            other => return Err(format!("unknown: {other}")),
        }
    }
    // The daemons run elsewhere.
    match wanted.program.canonicalize() {
        Ok(program) if program.is_file() => Ok(Wanted { program, ..wanted }),
        _ => Err(format!("no program at {}", wanted.program.display())),
    }
}

fn print(figures: &Figures) {
    println!(
        "{:<44}{:>9}{:>9}{:>10}{:>10}{:>9}{:>9}{:>9}{:>9}",
        "", "s", "pause ms", "sent MiB", "rsync s", "ratio", "cpu s", "src MiB", "dst MiB"
    );
    for row in &figures.rows {
        let (rsync, ratio) = match row.rsync_s {
            Some(rsync) => (format!("{rsync:.2}"), format!("{:.2}", row.seconds / rsync)),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let (sent, (source, destination)) = (mib(row.sent), row.peak_mib);
        println!(
            "{:<44}{:>9.2}{:>9}{sent:>10.2}{rsync:>10}{ratio:>9}{:>9.2}{source:>9.0}{destination:>9.0}",
            row.name, row.seconds, row.pause_ms, row.cpu_s
        );
    }
    figures.notes.iter().for_each(|note| println!("{note}"));
    println!();
}
