//! A stand-in for an ntfy server on the loopback: topics that are published to and streamed, as far as calls need them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde::Deserialize;

/// What was published.
#[derive(Debug, Clone)]
pub struct Published {
    /// The topic.
    pub topic: String,
    /// The text.
    pub message: String,
    /// The buttons.
    pub actions: Vec<Action>,
}

/// A button.
#[derive(Debug, Clone, Deserialize)]
pub struct Action {
    /// What is to be done: always `http` here.
    pub action: String,
    /// What stands on it.
    pub label: String,
    /// How.
    pub method: String,
    /// Where to.
    pub url: String,
    /// With what.
    pub body: String,
    /// Whether the call goes away then.
    pub clear: bool,
}

#[derive(Default)]
struct State {
    published: Vec<Published>,
    /// Readings of a topic that began, and those that stand.
    begun: usize,
    listening: usize,
    /// What every reader of a topic is sent at first, and whether that goes on for ever.
    mischief: Option<(Vec<u8>, bool)>,
}

/// The server.
#[derive(Clone)]
pub struct Ntfy {
    /// Its address.
    pub url: String,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Ntfy {
    /// Begins to serve, until the tests end.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let served = Self { url, state: Arc::default() };
        let server = served.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                // Whoever hangs up in the middle is gone.
                std::thread::spawn(move || drop(server.serve(stream)));
            }
        });
        served
    }

    /// Everything that was published to a topic.
    pub fn on(&self, topic: &str) -> Vec<Published> {
        let published = &self.state.0.lock().unwrap().published;
        published.iter().filter(|one| one.topic == topic).cloned().collect()
    }

    /// Readings that began, and those that stand.
    pub fn readings(&self) -> (usize, usize) {
        let state = self.state.0.lock().unwrap();
        (state.begun, state.listening)
    }

    /// What every reader is sent first from now on; again and again for ever with `endless`.
    pub fn misbehave(&self, bytes: &[u8], endless: bool) {
        self.state.0.lock().unwrap().mischief = Some((bytes.to_vec(), endless));
    }

    /// Behaves again.
    pub fn behave(&self) {
        self.state.0.lock().unwrap().mischief = None;
    }

    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        let mut first = String::new();
        stream.read_line(&mut first)?;
        let (mut actions, mut length) = (Vec::new(), 0);
        for line in stream.by_ref().lines() {
            let line = line?;
            if line.is_empty() {
                break;
            }
            let Some((name, value)) = line.split_once(": ") else { continue };
            match name.to_lowercase().as_str() {
                "content-length" => length = value.parse().unwrap_or(0),
                "actions" => actions = serde_json::from_str(value).unwrap(),
                _ => {}
            }
        }
        let mut words = first.split(' ');
        let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or("").trim_start_matches('/'));
        if method == "GET" {
            return self.stream(path, stream.into_inner());
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        let message = String::from_utf8_lossy(&body).into_owned();
        self.state.0.lock().unwrap().published.push(Published { topic: path.to_owned(), message, actions });
        self.state.1.notify_all();
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    }

    fn stream(&self, path: &str, mut stream: TcpStream) -> std::io::Result<()> {
        let (topic, query) = path.split_once("/json?since=").unwrap_or((path, "all"));
        let since = query.strip_prefix("id").and_then(|number| number.parse::<usize>().ok());
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        let mischief = {
            let mut state = self.state.0.lock().unwrap();
            (state.begun, state.listening) = (state.begun + 1, state.listening + 1);
            state.mischief.clone()
        };
        let streamed = self.follow(topic, since.map_or(0, |id| id + 1), mischief, &mut stream);
        self.state.0.lock().unwrap().listening -= 1;
        streamed
    }

    fn follow(
        &self,
        topic: &str,
        mut next: usize,
        mischief: Option<(Vec<u8>, bool)>,
        stream: &mut TcpStream,
    ) -> std::io::Result<()> {
        chunk(stream, b"{\"id\":\"open\",\"time\":1,\"event\":\"open\"}\n")?;
        if let Some((bytes, endless)) = mischief {
            chunk(stream, &bytes)?;
            if endless {
                loop {
                    chunk(stream, &bytes)?;
                }
            }
        }
        loop {
            let lines: Vec<String> = {
                let state = self.state.0.lock().unwrap();
                let (state, _) = self.state.1.wait_timeout(state, Duration::from_millis(200)).unwrap();
                let fresh = state.published.iter().enumerate().skip(next).filter(|(_, one)| one.topic == topic);
                let lines = fresh.map(|(id, one)| line(id, one)).collect();
                next = state.published.len();
                lines
            };
            // A line that says nothing shows whether anybody still listens.
            chunk(stream, b"{\"id\":\"k\",\"event\":\"keepalive\"}\n")?;
            for line in lines {
                chunk(stream, line.as_bytes())?;
            }
        }
    }
}

impl Published {
    /// The button with this on it.
    pub fn button(&self, label: &str) -> Option<&Action> {
        self.actions.iter().find(|action| action.label == label)
    }
}

impl Action {
    /// What a phone does when it is pressed.
    pub fn press(&self) {
        assert_eq!((self.action.as_str(), self.method.as_str(), self.clear), ("http", "POST", true));
        self.press_with(&self.body);
    }

    /// The same with another token.
    pub fn press_with(&self, body: &str) {
        let (host, topic) = self.url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        let head = format!("POST /{topic} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

fn line(id: usize, one: &Published) -> String {
    let (topic, message) = (&one.topic, &one.message);
    let said = serde_json::json!({ "id": format!("id{id}"), "time": 1, "event": "message", "topic": topic, "message": message });
    format!("{said}\n")
}

fn chunk(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(&[format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat())?;
    stream.flush()
}
