//! A stand-in for OpenCode in the demo's homes, on a machine that has none: its sessions go in and out through its own
//! program, so without one nothing of it could be shown. It does what [`cede_daemon::recorded`] can do, and no more.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use cede_daemon::{Surroundings, recorded};
use cede_wire::control::{Failure, exit};

use crate::args::StandIn;
use crate::demo::homes::cannot;
use crate::fault;

/// Where the programs of the demo's homes are.
#[derive(Debug)]
pub(super) struct Programs {
    /// The search path.
    pub(super) path: OsString,
    /// True: the `opencode` in it is the stand-in.
    pub(super) stands_in: bool,
}

impl Programs {
    /// The person's own programs, and below `root` a stand-in for OpenCode where it is missing.
    pub(super) fn of(root: &Path) -> Result<Self, Failure> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        if Surroundings::plain(root, root, path.clone()).find("opencode").is_some() {
            return Ok(Self { path, stands_in: false });
        }
        let directory = root.join(NAME);
        write(&directory).map_err(|error| cannot("write a stand-in for OpenCode", &error))?;
        let path = std::env::join_paths(std::env::split_paths(&path).chain([directory]));
        let path = path.map_err(|error| cannot("extend PATH", &std::io::Error::other(error)))?;
        Ok(Self { path, stands_in: true })
    }
}

/// The directory beside the homes.
const NAME: &str = "stand-ins";

/// A script that finds this program beside it, so that no path needs quotes.
fn write(directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir(directory)?;
    symlink(std::env::current_exe()?, directory.join("cede"))?;
    let script = directory.join("opencode");
    std::fs::write(&script, "#!/bin/sh\nexec \"${0%/*}/cede\" demo opencode \"${0%/*}\" \"$@\"\n")?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))
}

/// Answers as the agent's program.
///
/// # Errors
/// It was asked for something else, or outside of a home of the demo.
pub(super) fn answer(stand_in: &StandIn) -> Result<u8, Failure> {
    let StandIn::OpenCode { place, arguments } = stand_in;
    let home = home_of_the_demo(place)?;
    let here = std::env::current_dir().map_err(|error| cannot("find its directory", &error))?;
    let around = Surroundings::plain(&home, &home, OsString::new());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let said = recorded::answer_as_opencode(&around, &here, &arguments);
    let said = said.map_err(|error| fault::local(exit::FAILED, &error.to_string(), "", ""))?;
    std::io::stdout().write_all(said.as_bytes()).map_err(|error| cannot("write", &error))?;
    Ok(exit::OK)
}

/// The home directory, if it lies beside the stand-in: a person's own sessions are never touched.
fn home_of_the_demo(place: &Path) -> Result<PathBuf, Failure> {
    let home = std::env::var_os("HOME").unwrap_or_default();
    let found = place.canonicalize().and_then(|place| Ok((place, Path::new(&home).canonicalize()?)));
    let beside = |place: &Path, home: &Path| place.parent().is_some_and(|root| home.starts_with(root));
    match found {
        Ok((place, home)) if place.ends_with(NAME) && place.join("opencode").is_file() && beside(&place, &home) => {
            Ok(home)
        }
        Ok(_) | Err(_) => {
            let why = "HOME is not one that the demo made";
            Err(fault::local(exit::USAGE, "OpenCode's stand-in works in the demo only", why, "cede demo"))
        }
    }
}
