//! A person is called when a question waits, by real programs and a real server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;

use cede_wire::control::notify::{Notice, NotifyRequest, Sink, SinkSummary};

use super::*;

#[path = "buttons.rs"]
mod buttons;

/// A server that says this to everyone; what it was sent, by path.
struct Server {
    url: String,
    taken: Arc<Mutex<Vec<(String, String)>>>,
}

impl Server {
    fn new(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let taken = Arc::new(Mutex::new(Vec::new()));
        let kept = taken.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let (mut path, mut length) = (String::new(), 0);
                for line in stream.by_ref().lines() {
                    let line = line.unwrap().to_lowercase();
                    path = line.strip_prefix("post ").map_or(path, |rest| rest.replace(" http/1.1", ""));
                    length = line.strip_prefix("content-length: ").map_or(length, |text| text.parse().unwrap());
                    if line.is_empty() {
                        break;
                    }
                }
                let mut body = vec![0; length];
                stream.read_exact(&mut body).unwrap();
                kept.lock().unwrap().push((path, String::from_utf8(body).unwrap()));
                let _gone = stream.get_mut().write_all(answer.as_bytes());
            }
        });
        Self { url, taken }
    }

    fn taken(&self) -> Vec<(String, String)> {
        self.taken.lock().unwrap().clone()
    }
}

const GOOD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const BAD: &str = "HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

fn typed(device: &Device, arguments: &[&str]) -> String {
    let output = device.typed(arguments);
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(output.status.success(), "{arguments:?}: {said}");
    said
}

fn sinks(device: &Device) -> Vec<SinkSummary> {
    match device.ask(Command::Notify(NotifyRequest::List)).unwrap() {
        Answer::Sinks { sinks } => sinks,
        other => panic!("{other:?}"),
    }
}

fn program(place: &Path, name: &str, script: &str) -> PathBuf {
    let path = place.join(name);
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    path
}

/// Shows: L-13, L-14
#[test]
fn question_that_waits_calls_by_every_way_and_says_what_to_type() {
    let server = Server::new(GOOD);
    let place = tempfile::tempdir().unwrap();
    let (heard, shown) = (place.path().join("heard"), place.path().join("shown"));
    program(
        place.path(),
        "notify-send",
        &format!("#!/bin/sh\nfor word; do echo \"$word\"; done > {}\n", shown.display()),
    );
    let script = program(place.path(), "call", &format!("#!/bin/sh\ncat > {}.new; mv {0}.new {0}\n", heard.display()));
    let devices = Devices::with(CEDE, &|device| {
        let old = device.path.clone().into_string().unwrap();
        device.path = format!("{}:{old}", place.path().display()).into();
    });
    let devices = devices.joined();
    let (a, b) = (&devices.a, &devices.b);
    typed(b, &["notify", "add", "desktop"]);
    typed(b, &["notify", "add", "command", "--", script.to_str().unwrap()]);
    typed(b, &["notify", "add", "webhook", &format!("{}/s3cret-hook", server.url)]);
    typed(b, &["notify", "add", "ntfy", &format!("{}/s3cret-topic", server.url), "--name", "phone"]);
    let listed = typed(b, &["notify"]);
    println!("{listed}");
    assert!(!listed.contains("s3cret") && listed.contains("phone"), "{listed}");
    let (_, id) = adopted(a);
    let asked = a.open(Command::To(request("server", id))).unwrap();
    let begun = Instant::now();
    let waiting = question(b);
    wait_until("everyone was called", || server.taken().len() == 2 && heard.exists() && shown.exists());
    assert!(begun.elapsed() >= Duration::from_millis(1_800), "{:?}", begun.elapsed());
    let notice: Notice = serde_json::from_slice(&std::fs::read(&heard).unwrap()).unwrap();
    assert_eq!((notice.event.as_str(), notice.from.as_str(), notice.asks.as_str()), ("question", "laptop", "receive"));
    assert_eq!((notice.device.as_str(), notice.digits.clone()), ("server", waiting.id.short()));
    let by = |path: &str| server.taken().into_iter().find(|(taken, _)| taken == path).unwrap().1;
    let posted: Notice = serde_json::from_str(&by("/s3cret-hook")).unwrap();
    assert_eq!(Notice { expires_in_s: notice.expires_in_s, ..posted }, notice);
    wait_until("the desktop was told", || std::fs::read_to_string(&shown).unwrap().contains("cede deny"));
    let all = [by("/s3cret-hook"), by("/s3cret-topic"), std::fs::read_to_string(&shown).unwrap()];
    for one in &all {
        assert!(one.contains("laptop wants to hand a session over") && one.contains(&notice.allow), "{one}");
        // Neither titles nor paths: others may look on.
        assert!(!one.contains("project") && !one.contains("/home"), "{one}");
    }
    let words: Vec<&str> = notice.allow.split(' ').skip(1).collect();
    assert_eq!(typed(b, &words), "allowed\n");
    assert!(matches!(asked.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
    wait_until("all is said to be well", || sinks(b).iter().all(|one| (one.state.as_str(), one.told) == ("ok", 1)));
    assert_eq!(b.status().warnings, [""; 0]);
}

/// Shows: L-13
#[test]
fn question_that_is_answered_at_once_calls_nobody() {
    let server = Server::new(GOOD);
    let devices = Devices::paired(CEDE);
    let hook = Sink::Webhook { url: server.url.clone() };
    devices.b.ask(Command::Notify(NotifyRequest::Add { name: None, sink: hook })).unwrap();
    let (_, id) = adopted(&devices.a);
    let asked = devices.a.open(Command::To(request("server", id))).unwrap();
    decide(&devices.b, &question(&devices.b), false);
    refused(asked.end(&mut |_| {}).unwrap());
    // What a rule keeps for later calls nobody either.
    let hold = Command::SetRule {
        device: "laptop".to_owned(),
        capability: cede_wire::member::Capability::Handoff,
        rule: cede_wire::authority::Rule::Hold,
        seconds: None,
    };
    devices.b.ask(hold).unwrap();
    let asked = devices.a.open(Command::To(request("server", id))).unwrap();
    assert!(question(&devices.b).held);
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(server.taken(), []);
    decide(&devices.b, &question(&devices.b), true);
    assert!(matches!(asked.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
}

#[test]
fn ways_that_are_added_at_once_are_all_kept() {
    let mut devices = Devices::strangers(CEDE);
    let add = |number: u16| {
        let sink = Sink::Webhook { url: format!("http://127.0.0.1:{number}") };
        devices.b.ask(Command::Notify(NotifyRequest::Add { name: Some(format!("way-{number}")), sink })).unwrap();
    };
    std::thread::scope(|scope| (1..=6).for_each(|number| drop(scope.spawn(move || add(number)))));
    assert_eq!(sinks(&devices.b).len(), 6);
    devices.b.kill();
    devices.b.start();
    assert_eq!(sinks(&devices.b).len(), 6);
}

/// Shows: L-15
#[test]
fn way_that_fails_is_said_and_holds_nothing_up() {
    let (bad, good) = (Server::new(BAD), Server::new(GOOD));
    // One that takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let devices = Devices::paired(CEDE);
    let b = &devices.b;
    typed(b, &["notify", "add", "webhook", &format!("{}/s3cret", bad.url), "--name", "broken"]);
    let silent_url = format!("http://{}/s3cret", silent.local_addr().unwrap());
    typed(b, &["notify", "add", "webhook", &silent_url, "--name", "silent"]);
    typed(b, &["notify", "add", "webhook", &format!("{}/s3cret", good.url), "--name", "works"]);
    let (_, id) = adopted(&devices.a);
    let asked = devices.a.open(Command::To(request("server", id))).unwrap();
    let waiting = question(b);
    wait_until("the one that works was called", || good.taken().len() == 1);
    wait_until("the one that fails is known", || b.status().warnings.len() == 1);
    let begun = Instant::now();
    decide(b, &waiting, true);
    assert!(matches!(asked.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
    assert!(begun.elapsed() < Duration::from_secs(8), "nobody waits for the silent one: {:?}", begun.elapsed());
    let status = typed(b, &["status"]);
    assert!(status.contains("calls by broken do not go through: the server answered 500"), "{status}");
    let doctor = String::from_utf8(b.typed(&["doctor"]).stdout).unwrap();
    assert!(
        doctor.contains("broken (webhook, http://127.0.0.1:") && doctor.contains("cede notify test broken"),
        "{doctor}"
    );
    let tried = b.typed(&["notify", "test", "broken"]);
    let said = String::from_utf8(tried.stdout).unwrap();
    assert_eq!(tried.status.code(), Some(1), "{said}");
    assert!(said.contains("failing"), "{said}");
    typed(b, &["notify", "remove", "broken"]);
    assert!(!typed(b, &["status"]).contains("broken"));
    for text in [status, doctor, said, b.log()] {
        assert!(!text.contains("s3cret"), "{text}");
    }
}

/// Shows: L-14
#[test]
fn ways_are_kept_for_their_user_only_and_outlive_a_restart() {
    let mut devices = Devices::paired(CEDE);
    let server = Server::new(GOOD);
    let mut add = devices.b.command(&["notify", "add", "ntfy", "-"]);
    add.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut add = add.spawn().unwrap();
    writeln!(add.stdin.take().unwrap(), "{}/s3cret", server.url).unwrap();
    assert!(add.wait().unwrap().success());
    let kept = devices.b.state().join("secrets/notify");
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    devices.b.kill();
    devices.b.start();
    assert_eq!(sinks(&devices.b).len(), 1);
    let said = typed(&devices.b, &["notify", "test"]);
    assert!(said.contains("ok"), "{said}");
    assert_eq!(server.taken()[0].1, "server calls you like this when a question waits");
    let twice = devices.b.typed(&["notify", "add", "desktop", "--name", "ntfy"]);
    assert!(String::from_utf8_lossy(&twice.stderr).contains("ntfy is there already"));
    for wrong in
        [&["notify", "add", "webhook", "ftp://h/x"][..], &["notify", "remove", "nobody"], &["notify", "add", "command"]]
    {
        assert_eq!(devices.b.typed(wrong).status.code(), Some(2), "{wrong:?}");
    }
    // A list that cannot be read is said, and not written over.
    devices.b.stop();
    std::fs::write(&kept, b"nonsense").unwrap();
    devices.b.start();
    assert!(devices.b.status().warnings.iter().any(|line| line.contains("nobody is called")));
    assert_eq!(devices.b.typed(&["notify", "add", "desktop"]).status.code(), Some(1));
    assert_eq!(std::fs::read(&kept).unwrap(), b"nonsense");
}
