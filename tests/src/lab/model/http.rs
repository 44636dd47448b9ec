//! As much HTTP as the agents need.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

/// A request whose body is JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// `GET` or `POST`.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The body; null for none.
    pub body: Value,
}

/// Reads a request. `None` where the other side closed before it said anything.
pub fn read(stream: &TcpStream) -> io::Result<Option<Request>> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (mut length, mut chunked) = (0, false);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "transfer-encoding" => chunked = value.contains("chunked"),
            _ => {}
        }
    }
    let mut body = Vec::new();
    if chunked {
        read_chunks(&mut reader, &mut body)?;
    } else {
        reader.take(length).read_to_end(&mut body)?;
    }
    Ok(Some(Request { method, path, body: serde_json::from_slice(&body).unwrap_or_default() }))
}

fn read_chunks(reader: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(io::Error::other)?;
        reader.by_ref().take(size).read_to_end(body)?;
        reader.read_line(&mut String::new())?;
        if size == 0 {
            return Ok(());
        }
    }
}

/// Answers with one JSON value.
pub fn reply(stream: &mut TcpStream, status: u16, body: &Value) -> io::Result<()> {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes())
}

/// Begins a stream of events.
pub fn begin(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
}

/// Sends an event; its name is its type where it has one.
pub fn event(stream: &mut TcpStream, event: &Value) -> io::Result<()> {
    let name = event.get("type").and_then(Value::as_str).map(|name| format!("event: {name}\n")).unwrap_or_default();
    stream.write_all(format!("{name}data: {event}\n\n").as_bytes())
}
