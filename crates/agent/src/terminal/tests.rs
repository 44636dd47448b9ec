use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::*;

/// How long anything may take before a test calls it stuck.
const PATIENCE: Duration = Duration::from_secs(20);

struct Hosted {
    terminal: Terminal,
    news: Receiver<()>,
}

fn order(command: &[&str]) -> Order {
    let variables =
        [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("TERM", "xterm"), ("SECRET", "s3"), ("LANG", "C.UTF-8")];
    Order {
        command: command.iter().map(OsString::from).collect(),
        directory: std::env::temp_dir(),
        environment: variables.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        marks: vec![("CEDE_SESSION".into(), "a1".into())],
        size: Size::new(24, 80),
    }
}

fn host(command: &[&str]) -> Hosted {
    let (tell, news) = channel();
    let told = Mutex::new(tell);
    let terminal = Terminal::start(&order(command), move || {
        let _over = told.lock().unwrap().send(());
    });
    Hosted { terminal: terminal.unwrap(), news }
}

fn sh(script: &str) -> Hosted {
    host(&["sh", "-c", script])
}

impl Hosted {
    fn wait(&self, what: &str, mut done: impl FnMut() -> bool) {
        let until = Instant::now() + PATIENCE;
        while !done() {
            assert!(Instant::now() < until, "{what}");
            let _timeout = self.news.recv_timeout(Duration::from_millis(50));
        }
    }

    fn see(&self, viewer: &mut Viewer, wanted: &str) -> String {
        let mut seen = String::new();
        self.wait(&format!("waiting for {wanted:?}"), || {
            while let Some(frame) = viewer.next(4_096) {
                seen.push_str(&String::from_utf8_lossy(&frame.bytes));
            }
            seen.contains(wanted)
        });
        seen
    }

    fn ended(&self) -> End {
        self.wait("the end", || self.terminal.end().is_some());
        self.terminal.end().unwrap()
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        self.terminal.kill();
    }
}

/// Shows: D-1
#[test]
fn what_is_typed_arrives_and_what_is_written_is_seen_by_all_viewers() {
    let hosted = host(&["cat"]);
    let (mut one, mut two) = (hosted.terminal.view(None), hosted.terminal.view(None));
    hosted.terminal.type_in("grüße 漢字\n".as_bytes()).unwrap();
    // The terminal echoes it, and then the program writes it.
    hosted.see(&mut one, "grüße 漢字\r\ngrüße 漢字");
    hosted.see(&mut two, "grüße 漢字\r\ngrüße 漢字");
    hosted.terminal.type_in(b"\x04").unwrap();
    assert_eq!(hosted.ended(), End::Code(0));
}

/// Shows: D-2
#[test]
fn child_has_a_session_of_its_own_and_only_the_listed_environment() {
    let hosted = sh("env; ps -o sid=,pgid= -p $$ 2>/dev/null || cut -d' ' -f6,5 /proc/$$/stat; tty; echo end");
    let mut viewer = hosted.terminal.view(None);
    let seen = hosted.see(&mut viewer, "end\r\n");
    assert!(seen.contains("CEDE_SESSION=a1") && seen.contains("TERM=xterm") && seen.contains("/dev/pts/"), "{seen}");
    assert!(!seen.contains("SECRET"), "{seen}");
    let pid = hosted.terminal.pid().to_string();
    let ids = seen.lines().find(|line| line.split_whitespace().all(|id| id == pid) && !line.is_empty());
    assert!(ids.is_some(), "{pid}: {seen}");
}

/// Shows: D-1
#[test]
fn end_is_told_with_code_or_signal_after_the_last_output() {
    let hosted = sh("printf last; exit 7");
    assert_eq!(hosted.ended(), End::Code(7));
    assert!(hosted.see(&mut hosted.terminal.view(None), "last").contains("last"));
    assert_eq!(sh("kill -TERM $$").ended(), End::Signal(15));
    let hosted = sh("sleep 1000");
    hosted.terminal.kill();
    assert_eq!(hosted.ended(), End::Signal(9));
}

/// Shows: D-1
#[test]
fn program_that_leaves_somebody_behind_has_ended_all_the_same() {
    let hosted = sh("trap '' HUP; sleep 30 & printf gone");
    assert_eq!(hosted.ended(), End::Code(0));
}

/// Shows: D-6
#[test]
fn hang_up_reaches_what_runs_in_the_foreground() {
    let hosted = host(&["sh", "-ic", "sleep 1000; echo not reached"]);
    std::thread::sleep(Duration::from_millis(200));
    hosted.terminal.hang_up();
    hosted.ended();
}

/// Shows: D-1
#[test]
fn resize_is_told_to_the_program() {
    let hosted = sh("trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done");
    let mut viewer = hosted.terminal.view(None);
    hosted.see(&mut viewer, "ready");
    hosted.terminal.resize(Size::new(40, 132));
    hosted.see(&mut viewer, "40 132");
    assert_eq!(hosted.ended(), End::Code(0));
    assert_eq!(hosted.terminal.size(), Size::new(40, 132));
}

/// Shows: D-4
#[test]
fn slow_viewer_holds_back_neither_the_program_nor_another_viewer() {
    let lines = 200_000;
    let hosted = sh(&format!("seq {lines}; echo over"));
    let mut slow = hosted.terminal.view(None);
    slow.next(16);
    let mut quick = hosted.terminal.view(None);
    hosted.see(&mut quick, "over");
    assert_eq!(hosted.ended(), End::Code(0), "nobody waited for the slow one");
    let (mut lost, mut seen) = (0, String::new());
    while let Some(frame) = slow.next(4_096) {
        lost += frame.fresh.unwrap_or(0);
        seen.push_str(&String::from_utf8_lossy(&frame.bytes));
    }
    assert!(lost > 100_000, "{lost}");
    assert!(seen.contains("over"));
}

/// Shows: D-4
#[test]
fn typing_to_a_program_that_does_not_read_is_refused_and_not_kept_for_ever() {
    let hosted = sh("stty raw; echo ready; sleep 1000");
    hosted.see(&mut hosted.terminal.view(None), "ready");
    let paste = vec![b'x'; limits::TYPED_PIECE_BYTES];
    let taken = (0..1_000).take_while(|_| hosted.terminal.type_in(&paste).is_ok()).count();
    assert!(taken <= limits::TYPED_PIECES + 2, "{taken}");
    hosted.terminal.kill();
    assert_eq!(hosted.ended(), End::Signal(9), "a blocked writer keeps nobody");
}

#[test]
fn command_that_cannot_start_says_so() {
    let start = |order: &Order| Terminal::start(order, || {}).err().map(|error| error.to_string());
    assert_eq!(start(&order(&["/no/such/program"])).as_deref(), Some("the command does not start"));
    assert!(matches!(Terminal::start(&order(&[]), || {}), Err(StartError::Command)));
    assert!(matches!(Terminal::start(&order(&vec!["x"; limits::COMMAND_WORDS + 1]), || {}), Err(StartError::Command)));
    let nowhere = Order { directory: "/no/such/place".into(), ..order(&["sh"]) };
    assert!(matches!(Terminal::start(&nowhere, || {}), Err(StartError::Spawn(_))));
}
