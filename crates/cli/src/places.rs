//! Where the daemon of this person keeps its state, its socket and its configuration.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cede_wire::control::{Failure, exit};

use crate::fault;
use crate::limits::SOCKET_PATH_BYTES;

/// The three places. Every path is absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    /// Directory of the state, 0700.
    pub(crate) state: PathBuf,
    /// The control socket, 0600.
    pub(crate) socket: PathBuf,
    /// The configuration, which need not exist.
    pub(crate) config: PathBuf,
    /// Notes about states, kept apart from each of them: never below one, so that a copy takes none along.
    pub(crate) notes: PathBuf,
    /// Where files lie that came, unless the configuration says another place.
    pub(crate) received: PathBuf,
}

/// Why there is no place for anything. Nothing was touched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlacesError {
    /// Neither `CEDE_HOME` nor `HOME` says where.
    #[error("HOME is not set")]
    NoHome,
    /// The path of the socket is longer than the system takes.
    #[error("the path of the control socket has {bytes} bytes, the system takes {SOCKET_PATH_BYTES}")]
    SocketTooLong {
        /// Its length.
        bytes: usize,
    },
    /// A relative directory was named and the present one is unknown.
    #[error("the present directory is gone")]
    NoPresent,
}

impl Places {
    /// Resolves the places: `home` (`--home`, else `CEDE_HOME`) holds everything, else the XDG directories do.
    ///
    /// # Errors
    /// [`PlacesError`]; nothing was touched.
    pub(crate) fn resolve(
        home: Option<&Path>,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, PlacesError> {
        let home = home.map(Path::to_owned).or_else(|| variable("CEDE_HOME").map(PathBuf::from));
        let places = match home.filter(|home| !home.as_os_str().is_empty()) {
            Some(home) => {
                let below = Self::below(&std::path::absolute(&home).map_err(|_| PlacesError::NoPresent)?);
                let notes = states(variable).map_or(below.notes, |states| states.join(NOTES));
                Self { notes, ..below }
            }
            None => Self::from_xdg(variable)?,
        };
        let bytes = places.socket.as_os_str().len();
        if bytes > SOCKET_PATH_BYTES { Err(PlacesError::SocketTooLong { bytes }) } else { Ok(places) }
    }

    /// Everything in one directory. The state is one of its own: the store refuses one with foreign files in it.
    pub(crate) fn below(home: &Path) -> Self {
        let (socket, config, notes) = (home.join("cede.sock"), home.join("config.toml"), home.join("notes"));
        Self { state: home.join("state"), socket, config, notes, received: home.join("received") }
    }

    fn from_xdg(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, PlacesError> {
        let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = absolute("HOME").ok_or(PlacesError::NoHome)?;
        let states = states(variable).ok_or(PlacesError::NoHome)?;
        let (state, notes) = (states.join("cede"), states.join(NOTES));
        let config = absolute("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")).join("cede/config.toml");
        let socket = absolute("XDG_RUNTIME_DIR").unwrap_or_else(|| state.clone()).join("cede.sock");
        Ok(Self { state, socket, config, notes, received: home.join("Downloads/cede") })
    }
}

/// Where programs of this person keep their states.
fn states(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))
}

const NOTES: &str = "cede-notes";

impl From<PlacesError> for Failure {
    fn from(error: PlacesError) -> Self {
        let cure = match &error {
            PlacesError::NoHome => "export HOME=…, or name a directory: cede --home DIR",
            PlacesError::SocketTooLong { .. } => "name a shorter directory: cede --home DIR, or CEDE_HOME=DIR",
            PlacesError::NoPresent => "go to a directory that exists: cd",
        };
        fault::local(exit::FAILED, "there is no place for the daemon's files", &error.to_string(), cure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(set: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<OsString> {
        move |name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
    }

    #[test]
    fn cede_home_holds_everything() {
        let places = Places::resolve(Some(Path::new("/h")), &variables(&[("HOME", "/home/ada")])).unwrap();
        assert_eq!(
            places,
            Places {
                state: "/h/state".into(),
                socket: "/h/cede.sock".into(),
                config: "/h/config.toml".into(),
                notes: "/home/ada/.local/state/cede-notes".into(),
                received: "/h/received".into(),
            }
        );
    }

    #[test]
    fn relative_home_is_made_absolute() {
        let places = Places::resolve(Some(Path::new("h")), &variables(&[])).unwrap();
        assert_eq!(places.state, std::env::current_dir().unwrap().join("h/state"));
    }

    #[test]
    fn xdg_directories_are_the_default() {
        let places = Places::resolve(None, &variables(&[("HOME", "/home/ada"), ("XDG_RUNTIME_DIR", "/run/user/7")]));
        let expected = Places {
            state: "/home/ada/.local/state/cede".into(),
            socket: "/run/user/7/cede.sock".into(),
            config: "/home/ada/.config/cede/config.toml".into(),
            notes: "/home/ada/.local/state/cede-notes".into(),
            received: "/home/ada/Downloads/cede".into(),
        };
        assert_eq!(places, Ok(expected));
    }

    #[test]
    fn socket_lies_with_the_state_where_there_is_no_runtime_directory() {
        let set = variables(&[("HOME", "/home/ada"), ("XDG_STATE_HOME", "/s"), ("XDG_RUNTIME_DIR", "relative")]);
        assert_eq!(Places::resolve(None, &set).unwrap().socket, Path::new("/s/cede/cede.sock"));
    }

    #[test]
    fn empty_home_counts_as_none() {
        assert_eq!(Places::resolve(Some(Path::new("")), &variables(&[])), Err(PlacesError::NoHome));
    }

    #[test]
    fn socket_path_that_the_system_would_cut_is_refused() {
        let home = format!("/{}", "x".repeat(100));
        let error = Places::resolve(Some(Path::new(&home)), &variables(&[])).unwrap_err();
        assert_eq!(error, PlacesError::SocketTooLong { bytes: 111 });
    }
}
