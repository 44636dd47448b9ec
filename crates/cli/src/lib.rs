//! `cede`: the person's hand on the local control socket, and the demo.
//!
//! It decides how a question is typed and how an answer looks. It refuses to know sessions, trees, keys and
//! peers: it talks to the daemon of the same person through one socket, and only `up` and `demo` know that there is a
//! daemon to start.
//!
//! One contract: **data goes to the standard output, talk to the standard error, the exit code says which kind of end
//! it was, and no text of a peer reaches the terminal unescaped.**
//!
//! The loop of every command:
//! 1. [`args`] reads the command line;
//! 2. [`places`] says where the daemon's socket is;
//! 3. [`verbs`] makes one request of it;
//! 4. [`client`] asks, and reads lines;
//! 5. [`show`] turns a line into a [`page`];
//! 6. [`terminal`] prints it, or the line itself with `--json`.

mod args;
mod client;
mod cockpit;
mod config;
#[cfg(feature = "decoders")]
pub mod decoders;
mod demo;
mod fault;
mod interrupt;
mod limits;
mod mcp;
mod page;
mod places;
mod progress;
mod show;
mod terminal;
mod tty;
mod units;
mod up;
mod verbs;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use cede_wire::control::{Failure, ReplyBody, exit};
use clap::Parser;

use crate::args::{Cli, Global};
use crate::terminal::Terminal;

/// Runs the command of this process.
pub fn main() -> ExitCode {
    let code = match Cli::try_parse() {
        Ok(cli) => run(cli),
        Err(error) => not_understood(&error),
    };
    ExitCode::from(code)
}

fn run(cli: Cli) -> u8 {
    let terminal = Terminal::new(&cli.global);
    let ended = verbs::run(cli, &terminal).and_then(|code| match code {
        exit::OK => terminal.written().map(|()| code),
        _ => Ok(code),
    });
    ended.unwrap_or_else(|failure| {
        terminal.fail(&failure);
        failure.exit
    })
}

/// Help and version are answers; the rest is a wrong command line, also in JSON where that was asked for.
fn not_understood(error: &clap::Error) -> u8 {
    if error.exit_code() == 0 {
        return match error.print().and_then(|()| std::io::stdout().flush()) {
            Err(why) if why.kind() != ErrorKind::BrokenPipe => {
                Terminal::new(&Global::default()).fail(&terminal::unwritten(&why.to_string()));
                exit::FAILED
            }
            Ok(()) | Err(_) => exit::OK,
        };
    }
    let json = std::env::args_os().any(|argument| argument == "--json");
    if json {
        let terminal = Terminal::new(&Global { json, ..Global::default() });
        terminal.reply(&ReplyBody::Failed(usage_failure(error)));
    } else {
        let _closed = error.print();
    }
    exit::USAGE
}

fn usage_failure(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    let what = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: ")).unwrap_or_default();
    fault::local(exit::USAGE, what, tip, "cede --help")
}
