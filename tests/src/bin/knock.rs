//! Knocks at a daemon's control socket as whoever runs it, and prints what comes back.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use cede_wire::control::{Command, Request};

fn main() -> std::io::Result<()> {
    let socket = std::env::args_os().nth(1).unwrap_or_default();
    let mut stream = UnixStream::connect(socket)?;
    println!("connected");
    // The daemon may have hung up already.
    let _sent = writeln!(stream, "{}", serde_json::to_string(&Request::new(Command::Status))?);
    let mut answer = String::new();
    let _cut = stream.read_to_string(&mut answer);
    println!("{answer}");
    Ok(())
}
