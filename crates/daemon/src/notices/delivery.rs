//! One call by one way. Bounded in time whatever the other side does; reasons never repeat an address.

use std::io::Read;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cede_wire::control::notify::{Notice, Sink};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Error};

use super::address::NOTIFY_SEND;

/// Makes the call. `actions`: the text and the buttons of one that has buttons.
pub(super) async fn deliver(
    sink: &Sink,
    notice: &Notice,
    actions: Option<(String, String)>,
    time: Duration,
) -> Result<(), String> {
    match sink {
        Sink::Desktop => run(&desktop(notice), Vec::new(), time).await,
        Sink::Command { argv } => run(argv, json(notice)?, time).await,
        Sink::Webhook { url } => post(url.clone(), JSON, None, json(notice)?, time).await,
        Sink::Ntfy { url, .. } => {
            let (text, actions) = match actions {
                Some((text, actions)) => (text, Some(actions)),
                None => (sentence(notice), None),
            };
            post(url.clone(), NTFY, actions, text.into_bytes(), time).await
        }
    }
}

fn json(notice: &Notice) -> Result<Vec<u8>, String> {
    let mut line = serde_json::to_vec(notice).map_err(|error| error.to_string())?;
    line.push(b'\n');
    Ok(line)
}

/// What a person reads: who asks for what, and what to type.
fn sentence(notice: &Notice) -> String {
    let text = cede_wire::path::escape_rest(&notice.text);
    if notice.digits.is_empty() {
        return text;
    }
    format!("{text}. On {}: {}; then {} or {}", notice.device, notice.look, notice.allow, notice.deny)
}

fn desktop(notice: &Notice) -> Vec<String> {
    // Servers of notifications read the body as markup.
    let body = sentence(notice).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    [NOTIFY_SEND, "--app-name=cede", "--urgency=critical", "--", TITLE, &body].map(str::to_owned).to_vec()
}

/// Runs a program without a shell, in a group of its own that ends with the time it has.
async fn run(argv: &[String], input: Vec<u8>, time: Duration) -> Result<(), String> {
    let Some((program, arguments)) = argv.split_first() else { return Err("the program is missing".to_owned()) };
    let mut command = Command::new(program);
    command.args(arguments).current_dir("/").process_group(0).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("{program} does not start: {}", error.kind()))?;
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let ended = tokio::time::timeout(time, feed(&mut child, &input)).await;
    match ended {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("{program} ended with {status}")),
        Ok(Err(error)) => Err(format!("{program} was lost: {}", error.kind())),
        Err(_) => {
            // What it began goes with it; one that is gone already is what is wanted.
            let _gone = group.map(|group| kill_process_group(group, Signal::KILL));
            Err(format!("{program} did not end within {} s", time.as_secs()))
        }
    }
}

async fn feed(child: &mut Child, input: &[u8]) -> std::io::Result<ExitStatus> {
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not want to hear it may still succeed.
        let _deaf = stdin.write_all(input).await;
    }
    child.wait().await
}

type Headers = &'static [(&'static str, &'static str)];

const JSON: Headers = &[("Content-Type", "application/json")];
const NTFY: Headers = &[("Content-Type", "text/plain; charset=utf-8"), ("Title", TITLE), ("Priority", "high")];

async fn post(
    url: String,
    headers: Headers,
    actions: Option<String>,
    body: Vec<u8>,
    time: Duration,
) -> Result<(), String> {
    let posted = tokio::task::spawn_blocking(move || {
        let actions = actions.as_deref().map(|actions| ("Actions", actions));
        let headers = headers.iter().copied().chain(actions);
        let request = headers.fold(agent(time).post(&url), |request, (name, value)| request.header(name, value));
        let response = request.send(&body[..]).map_err(|error| reason(&error, time))?;
        let status = response.status();
        if status.is_success() { Ok(()) } else { Err(format!("the server answered {}", status.as_u16())) }
    });
    posted.await.unwrap_or_else(|_| Err("fault of ours: the call ended without a result".to_owned()))
}

/// What an address has to say, to be read until `time` is over. Blocks.
pub(super) fn get(url: &str, time: Duration) -> Result<impl Read + use<>, String> {
    let response = agent(time).get(url).call().map_err(|error| reason(&error, time))?;
    let status = response.status();
    if !status.is_success() {
        return Err(format!("the server answered {}", status.as_u16()));
    }
    Ok(response.into_body().into_reader())
}

/// No redirects, no proxy, no cookies: what is called is what the person named.
fn agent(time: Duration) -> Agent {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let found = rustls_native_certs::load_native_certs();
    let roots: Vec<Certificate<'static>> =
        found.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
    let tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(provider)
        .root_certs(RootCerts::new_with_certs(&roots))
        .build();
    let config = Agent::config_builder()
        .timeout_global(Some(time))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .user_agent("cede")
        .http_status_as_error(false)
        .tls_config(tls)
        .build();
    config.new_agent()
}

/// Why a post failed, without the address.
#[expect(clippy::wildcard_enum_match_arm, reason = "faults of the client, which may become more")]
fn reason(error: &Error, time: Duration) -> String {
    match error {
        Error::Timeout(_) => format!("no answer within {} s", time.as_secs()),
        Error::HostNotFound => "the host was not found".to_owned(),
        Error::ConnectionFailed => "no connection".to_owned(),
        Error::Io(error) => format!("no connection: {}", error.kind()),
        Error::Tls(_) | Error::Rustls(_) => "the server's certificate or its TLS is not accepted".to_owned(),
        _ => "the answer was not understood".to_owned(),
    }
}

/// The title of every call: it names nobody.
const TITLE: &str = "cede: a question waits";

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::time::Instant;

    use super::*;

    fn notice() -> Notice {
        Notice {
            schema: cede_wire::control::notify::NOTICE_SCHEMA.into(),
            event: "question".into(),
            device: "laptop".into(),
            from: "server".into(),
            at: None,
            asks: "receive".into(),
            digits: "7c7c7c7c".into(),
            text: "server <b>&\u{1b}[2J wants to hand a session over".into(),
            look: "cede approvals".into(),
            allow: "cede allow 7c7c7c7c".into(),
            deny: "cede deny 7c7c7c7c".into(),
            expires_in_s: 60,
        }
    }

    fn words(script: &str) -> Sink {
        Sink::Command { argv: ["sh", "-c", script].map(str::to_owned).to_vec() }
    }

    const TIME: Duration = Duration::from_secs(5);

    /// A server that takes one request and says this; what it was sent comes back.
    fn server(answer: &'static str) -> (String, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/s3cret", listener.local_addr().unwrap());
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut taken = Vec::new();
            let mut buffer = [0; 4096];
            while !String::from_utf8_lossy(&taken).contains("7c7c7c7c\n") && !taken.ends_with(b"7c7c7c7c") {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => break,
                    Ok(read) => taken.extend_from_slice(&buffer[..read]),
                }
                if taken.ends_with(b"}\n") {
                    break;
                }
            }
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(taken).unwrap()
        });
        (url, served)
    }

    #[tokio::test]
    async fn program_hears_the_notice_and_its_end_is_the_outcome() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("heard");
        deliver(&words(&format!("cat > {}", file.display())), &notice(), None, TIME).await.unwrap();
        let heard: Notice = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        assert_eq!(heard, notice());
        assert_eq!(deliver(&words("exec 0<&-; exit 0"), &notice(), None, TIME).await, Ok(()), "it need not listen");
        let failed = deliver(&words("exit 3"), &notice(), None, TIME).await.unwrap_err();
        assert_eq!(failed, "sh ended with exit status: 3");
        let missing = Sink::Command { argv: vec!["/no/such/program".into()] };
        let failed = deliver(&missing, &notice(), None, TIME).await.unwrap_err();
        assert_eq!(failed, "/no/such/program does not start: entity not found");
    }

    #[tokio::test]
    async fn program_that_does_not_end_is_ended_with_what_it_began() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("pid");
        let begun = Instant::now();
        let script = format!("sleep 1000 & echo $! > {}; wait", file.display());
        let failed = deliver(&words(&script), &notice(), None, Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(failed, "sh did not end within 1 s");
        assert!(begun.elapsed() < Duration::from_secs(4));
        let pid = std::fs::read_to_string(file).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        while !state().is_empty() && !state().contains(") Z ") {
            assert!(begun.elapsed() < Duration::from_secs(10), "{} lives on", pid.trim());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn hook_is_posted_to_and_its_answer_is_the_outcome() {
        let (url, served) = server("HTTP/1.1 204 No Content\r\n\r\n");
        deliver(&Sink::Webhook { url }, &notice(), None, TIME).await.unwrap();
        let taken = served.join().unwrap();
        assert!(taken.starts_with("POST /s3cret HTTP/1.1\r\n"), "{taken}");
        assert!(taken.to_lowercase().contains("content-type: application/json\r\n"), "{taken}");
        let body = taken.split("\r\n\r\n").nth(1).unwrap();
        assert_eq!(serde_json::from_str::<Notice>(body).unwrap(), notice());
        for answer in
            ["HTTP/1.1 500 No\r\n\r\n", "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", "nonsense"]
        {
            let (url, served) = server(answer);
            let failed = deliver(&Sink::Webhook { url }, &notice(), None, TIME).await.unwrap_err();
            served.join().unwrap();
            assert!(!failed.contains("s3cret") && !failed.contains("127.0.0.1"), "{failed}");
        }
    }

    #[tokio::test]
    async fn server_that_does_not_answer_costs_its_time_and_no_more() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/s3cret", listener.local_addr().unwrap());
        let begun = Instant::now();
        let failed =
            deliver(&Sink::Webhook { url: url.clone() }, &notice(), None, Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(failed, "no answer within 1 s");
        assert!(begun.elapsed() < Duration::from_secs(4));
        drop(listener);
        let failed = deliver(&Sink::Webhook { url }, &notice(), None, TIME).await.unwrap_err();
        assert!(failed.starts_with("no connection") && !failed.contains("s3cret"), "{failed}");
    }

    #[tokio::test]
    async fn server_whose_certificate_nobody_vouches_for_is_not_told() {
        let (url, served) = server("no TLS");
        let hook = Sink::Webhook { url: url.replace("http:", "https:") };
        let failed = deliver(&hook, &notice(), None, Duration::from_secs(1)).await.unwrap_err();
        assert!(!failed.contains("s3cret"), "{failed}");
        let taken = served.join();
        assert!(taken.is_err() || !taken.unwrap().contains("server"));
    }

    #[tokio::test]
    async fn ntfy_gets_a_sentence_with_what_to_type() {
        let (url, served) = server("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        deliver(&Sink::Ntfy { url, buttons: false }, &notice(), None, TIME).await.unwrap();
        let taken = served.join().unwrap();
        assert!(taken.to_lowercase().contains("title: cede: a question waits\r\n"), "{taken}");
        assert!(taken.ends_with(
            "server <b>&\\u{1b}[2J wants to hand a session over. On laptop: cede approvals; then cede allow 7c7c7c7c or \
             cede deny 7c7c7c7c"
        ));
    }

    #[test]
    fn desktop_is_told_without_markup_and_without_options() {
        let argv = desktop(&notice());
        assert_eq!(argv[..4], ["notify-send", "--app-name=cede", "--urgency=critical", "--"]);
        assert!(argv[5].starts_with("server &lt;b&gt;&amp;\\u{1b}[2J wants"), "{argv:?}");
    }
}
