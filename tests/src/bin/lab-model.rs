//! A model server for the laboratory: speaks the three protocols that the agents speak, says what the prompt tells
//! it to, and writes every request down.
//!
//! `lab-model LOG` prints its port and serves loopback until its standard input closes.

use std::io::{Read, Write};

fn main() -> std::io::Result<()> {
    let log = std::env::args_os().nth(1).unwrap_or_else(|| "model.log".into());
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    println!("{}", listener.local_addr()?.port());
    std::io::stdout().flush()?;
    std::thread::spawn(move || cede_tests::lab::model::serve(&listener, log.as_ref()));
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
