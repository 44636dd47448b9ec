//! What a way to call may be, and how it is named without its secret.

use std::net::IpAddr;

use cede_wire::control::notify::Sink;
use ureq::http::Uri;

use crate::limits;

/// Where a way goes, as it may be shown: the path of an address is often its password.
pub(super) fn place(sink: &Sink) -> String {
    match sink {
        Sink::Desktop => NOTIFY_SEND.to_owned(),
        Sink::Command { argv } => match argv.len() {
            0 | 1 => argv.concat(),
            more => format!("{} and {} arguments", argv.first().map_or("", String::as_str), more - 1),
        },
        Sink::Webhook { url } | Sink::Ntfy { url, .. } => match url.parse::<Uri>() {
            Ok(uri) => {
                let port = uri.port_u16().map_or_else(String::new, |port| format!(":{port}"));
                format!("{}://{}{port}/…", uri.scheme_str().unwrap_or(""), uri.host().unwrap_or(""))
            }
            Err(_) => "an address that cannot be read".to_owned(),
        },
    }
}

/// Whether it can be kept; the reason why not.
pub(super) fn check(sink: &Sink) -> Result<(), String> {
    match sink {
        Sink::Desktop => Ok(()),
        Sink::Command { argv } => check_command(argv),
        Sink::Webhook { url } => check_address(url).map(|_| ()),
        Sink::Ntfy { url, buttons } => {
            let path = check_address(url)?;
            let topic = path.trim_matches('/');
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            let fits = !topic.is_empty() && topic.chars().all(plain);
            if !fits {
                return Err("an ntfy address ends with one topic: https://ntfy.sh/<topic>".to_owned());
            }
            if *buttons && !stays_private(url) {
                return Err("buttons need https://: whoever is on the way could press them".to_owned());
            }
            Ok(())
        }
    }
}

/// The server of an address: what stands before the topic.
pub(super) fn server(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    Some(format!("{}://{}", uri.scheme_str()?, uri.authority()?))
}

/// Whether nobody on the way reads along: TLS, or this machine itself.
fn stays_private(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    let host = uri.host().unwrap_or("").trim_matches(['[', ']']);
    let here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    uri.scheme_str() == Some("https") || here
}

fn check_command(argv: &[String]) -> Result<(), String> {
    let bytes: usize = argv.iter().map(String::len).sum();
    if argv.first().is_none_or(String::is_empty) {
        return Err("the program is missing".to_owned());
    }
    if argv.iter().any(|word| word.contains('\0')) || bytes > limits::CALL_WORDS_BYTES {
        return Err(format!("the command is longer than {} bytes, or has a zero in it", limits::CALL_WORDS_BYTES));
    }
    Ok(())
}

/// The path of an address that can be posted to.
fn check_address(url: &str) -> Result<String, String> {
    if url.len() > limits::CALL_WORDS_BYTES {
        return Err(format!("the address is longer than {} bytes", limits::CALL_WORDS_BYTES));
    }
    let uri: Uri = url.parse().map_err(|_| "the address cannot be read".to_owned())?;
    if !matches!(uri.scheme_str(), Some("https" | "http")) || uri.host().is_none_or(str::is_empty) {
        return Err("the address begins with neither https:// nor http://".to_owned());
    }
    if uri.authority().is_some_and(|whole| whole.as_str().contains('@')) {
        return Err("a name or a password in front of the host is not sent; put the secret into the path".to_owned());
    }
    Ok(uri.path().to_owned())
}

/// The program that shows notifications of the desktop.
pub(super) const NOTIFY_SEND: &str = "notify-send";

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(url: &str) -> Sink {
        Sink::Webhook { url: url.to_owned() }
    }

    fn ntfy(url: &str, buttons: bool) -> Sink {
        Sink::Ntfy { url: url.to_owned(), buttons }
    }

    /// Shows: L-16
    #[test]
    fn buttons_are_refused_where_somebody_on_the_way_could_press_them() {
        for url in ["https://ntfy.sh/t", "http://127.0.0.1:8080/t", "http://localhost/t", "http://[::1]:80/t"] {
            assert_eq!(check(&ntfy(url, true)), Ok(()), "{url}");
        }
        for url in
            ["http://ntfy.sh/t", "http://192.168.1.7/t", "http://localhost.example/t", "http://127.0.0.1.example/t"]
        {
            assert!(check(&ntfy(url, true)).is_err() && check(&ntfy(url, false)).is_ok(), "{url}");
        }
        assert_eq!(server("https://ntfy.example:8443/t").as_deref(), Some("https://ntfy.example:8443"));
    }

    #[test]
    fn secret_of_an_address_is_not_shown() {
        for url in ["https://hooks.example:8443/T0/s3cret?key=s3cret", "http://h/s3cret"] {
            assert!(check(&hook(url)).is_ok(), "{url}");
            assert!(!place(&hook(url)).contains("s3cret"), "{}", place(&hook(url)));
        }
        assert_eq!(place(&hook("https://hooks.example:8443/T0/x")), "https://hooks.example:8443/…");
        let argv = vec!["/bin/call".to_owned(), "--key".to_owned(), "s3cret".to_owned()];
        assert_eq!(place(&Sink::Command { argv }), "/bin/call and 2 arguments");
    }

    #[test]
    fn what_cannot_be_called_is_refused() {
        for url in ["", "ftp://h/x", "https://", "h/x", "https://ada:pw@h/x", "https://h/\u{1b}", "file:///etc/passwd"]
        {
            assert!(check(&hook(url)).is_err(), "{url:?}");
        }
        for url in ["https://ntfy.sh", "https://ntfy.sh/a/b", "https://ntfy.sh/a%20b"] {
            assert!(check(&ntfy(url, false)).is_err(), "{url:?}");
        }
        assert!(check(&ntfy("https://ntfy.sh/my_topic-1", false)).is_ok());
        for argv in [Vec::new(), vec![String::new()], vec!["a\0b".to_owned()], vec!["x".repeat(10_000)]] {
            assert!(check(&Sink::Command { argv: argv.clone() }).is_err(), "{argv:?}");
        }
    }
}
