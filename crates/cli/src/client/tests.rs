use std::os::unix::net::UnixListener;

use super::*;

/// Serves one connection: reads the request, answers with `bytes`, closes.
fn serving(bytes: Vec<u8>) -> (tempfile::TempDir, Client, std::thread::JoinHandle<String>) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("cede.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut asked).unwrap();
        let _closed = stream.write_all(&bytes);
        asked
    });
    let client = Client::new(&socket);
    (directory, client, server)
}

/// What the daemon of a test does next.
pub(crate) enum Step {
    /// Accepts a connection, reads its request, answers with these lines.
    Accept(Vec<ReplyBody>),
    /// Answers with one more line on an earlier connection.
    More(usize, ReplyBody),
}

/// A daemon that follows a script; what it was asked comes back when it has ended.
pub(crate) fn scripted(steps: Vec<Step>) -> (tempfile::TempDir, Client, std::thread::JoinHandle<Vec<Command>>) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("cede.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let server = std::thread::spawn(move || {
        let (mut streams, mut asked) = (Vec::new(), Vec::new());
        for step in steps {
            let (stream, bodies) = match step {
                Step::Accept(bodies) => {
                    let stream = listener.accept().unwrap().0;
                    asked.push(request(&stream));
                    streams.push(stream);
                    (streams.last_mut().unwrap(), bodies)
                }
                Step::More(index, body) => (&mut streams[index], vec![body]),
            };
            bodies.into_iter().for_each(|body| stream.write_all(&line(body)).unwrap());
        }
        asked
    });
    let client = Client::new(&socket);
    (directory, client, server)
}

fn request(stream: &UnixStream) -> Command {
    let mut asked = String::new();
    BufReader::new(stream.try_clone().unwrap()).read_line(&mut asked).unwrap();
    serde_json::from_str::<Request>(&asked).unwrap().command
}

fn line(body: ReplyBody) -> Vec<u8> {
    let mut line = serde_json::to_vec(&Reply::new(body)).unwrap();
    line.push(b'\n');
    line
}

fn said(text: &str) -> Answer {
    Answer::Said { text: text.to_owned() }
}

/// Shows: L-2
#[test]
fn request_is_one_line_with_its_schema() {
    let (_directory, client, server) = serving(line(ReplyBody::Done(said("stopping"))));
    assert_eq!(client.ask(Command::Stop), Ok(said("stopping")));
    assert_eq!(server.join().unwrap(), "{\"schema\":\"cede.control/1\",\"command\":\"stop\"}\n");
}

#[test]
fn failure_of_the_daemon_is_the_failure_of_the_command() {
    let failure = fault::local(4, "no", "because", "");
    let (_directory, client, _server) = serving(line(ReplyBody::Failed(failure.clone())));
    assert_eq!(client.ask(Command::Status), Err(failure));
}

#[test]
fn missing_and_left_over_sockets_mean_no_daemon() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("cede.sock");
    for _ in 0..2 {
        let failure = Client::new(&socket).ask(Command::Status).unwrap_err();
        assert_eq!((failure.exit, failure.cure.as_str()), (exit::NO_DAEMON, "start it: cede up"));
        drop(UnixListener::bind(&socket));
    }
}

/// Shows: L-2, L-4
#[test]
fn other_version_is_named_on_both_sides() {
    let (_directory, client, _server) = serving(b"{\"schema\":\"cede.control/9\",\"reply\":\"new\"}\n".to_vec());
    let failure = client.ask(Command::Status).unwrap_err();
    assert_eq!(failure.exit, exit::VERSION);
    assert_eq!(failure.why, "this command speaks cede.control/1, the daemon speaks cede.control/9");
}

#[test]
fn answer_cut_in_a_line_is_no_answer() {
    let mut bytes = line(ReplyBody::Done(said("half")));
    bytes.truncate(bytes.len() - 3);
    let (_directory, client, _server) = serving(bytes);
    let mut answers = client.open(Command::Status, None).unwrap();
    assert_eq!(answers.next(), Err(AskError::Ended));
}

/// Shows: L-2
#[test]
fn endless_line_is_refused_at_the_bound() {
    let (_directory, client, _server) = serving(vec![b'x'; CONTROL_LINE_BYTES + 10]);
    let mut answers = client.open(Command::Status, None).unwrap();
    assert_eq!(answers.next(), Err(AskError::TooLong));
}

#[test]
fn garbage_is_refused_and_named() {
    for bad in [&b"hello\n"[..], b"{}\n", b"{\"schema\":\"cede.control/1\",\"reply\":\"unknown\"}\n", b"\xff\n"] {
        let (_directory, client, _server) = serving(bad.to_vec());
        let mut answers = client.open(Command::Status, None).unwrap();
        assert!(matches!(answers.next(), Err(AskError::Garbled(_))), "{bad:?}");
    }
}

/// Shows: L-4
#[test]
fn silent_daemon_is_a_timeout() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("cede.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    let mut answers = Client::new(&socket).open(Command::Status, Some(Duration::from_millis(20))).unwrap();
    let error = answers.next().unwrap_err();
    assert_eq!(error, AskError::TimedOut);
    assert_eq!(Failure::from(error).exit, exit::TIMEOUT);
}
