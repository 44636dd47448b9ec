//! `config.toml`: what `cede up` takes where the command line says nothing.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cede_wire::control::{Failure, exit};
use serde::{Deserialize, Deserializer};

use crate::fault;
use crate::units;

/// The configuration. Every key may be missing; a key that is not here is an error.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Where peers reach this device.
    pub(crate) listen: Option<SocketAddr>,
    /// Its name, where it has none yet.
    pub(crate) name: Option<String>,
    /// Announce this device and look for others on the local network.
    pub(crate) discovery: Option<bool>,
    /// What to log.
    pub(crate) log: Option<String>,
    /// How long a question waits for the operator.
    #[serde(default, deserialize_with = "time")]
    pub(crate) questions_expire: Option<Duration>,
    /// Where files lie that came, absolute.
    pub(crate) received: Option<PathBuf>,
    /// Most bytes that are taken in one sending of files.
    #[serde(default, deserialize_with = "amount")]
    pub(crate) receive_limit: Option<u64>,
}

/// Why the configuration was not taken. Nothing was started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    /// It is there and cannot be read.
    #[error("{0}")]
    World(String),
    /// It is not what it should be.
    #[error("line {line}: {what}")]
    Wrong {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it, and what would be right.
        what: String,
    },
}

impl Config {
    /// Reads it; a missing file says nothing.
    ///
    /// # Errors
    /// [`ConfigError`]; nothing was started.
    pub(crate) fn read(file: &Path) -> Result<Self, ConfigError> {
        match std::fs::read_to_string(file) {
            Ok(text) => Self::parse(&text),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(ConfigError::World(error.to_string())),
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            ConfigError::Wrong { line, what: error.message().replace('\n', " ") }
        })
    }
}

impl ConfigError {
    /// The failure, with the file's name.
    pub(crate) fn failure(&self, file: &Path) -> Failure {
        let what = format!("the configuration {} cannot be taken", file.display());
        fault::local(exit::FAILED, &what, &self.to_string(), "correct it, or move it away")
    }
}

fn time<'a, D: Deserializer<'a>>(source: D) -> Result<Option<Duration>, D::Error> {
    units::duration(&String::deserialize(source)?).map(Some).map_err(serde::de::Error::custom)
}

fn amount<'a, D: Deserializer<'a>>(source: D) -> Result<Option<u64>, D::Error> {
    units::amount(&String::deserialize(source)?).map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_file_says_nothing() {
        assert_eq!(Config::read(Path::new("/not/there")), Ok(Config::default()));
    }

    #[test]
    fn every_key_is_taken() {
        let text = "listen = \"127.0.0.1:4242\"\nname = \"laptop\"\ndiscovery = false\nlog = \"debug\"\nquestions_expire = \"5m\"\nreceived = \"/in\"\nreceive_limit = \"20GB\"\n";
        let config = Config::parse(text).unwrap();
        assert_eq!(config.questions_expire, Some(Duration::from_secs(300)));
        assert_eq!((config.received, config.receive_limit), (Some("/in".into()), Some(20_000_000_000)));
        assert_eq!(config.listen, "127.0.0.1:4242".parse().ok());
        assert_eq!(
            (config.name.as_deref(), config.discovery, config.log.as_deref()),
            (Some("laptop"), Some(false), Some("debug"))
        );
    }

    #[test]
    fn unknown_key_is_an_error_that_lists_the_known_ones() {
        let error = Config::parse("name = \"laptop\"\nlisen = \"127.0.0.1:1\"\n").unwrap_err();
        insta::assert_snapshot!(error, @"line 2: unknown field `lisen`, expected one of `listen`, `name`, `discovery`, `log`, `questions_expire`, `received`, `receive_limit`");
    }

    #[test]
    fn time_without_its_unit_is_named_with_its_line() {
        let error = Config::parse("questions_expire = \"5\"\n").unwrap_err();
        insta::assert_snapshot!(error, @"line 1: expected a time of a second or more, like 90s, 5m, 1h or 7d");
    }

    #[test]
    fn wrong_value_is_named_with_its_line() {
        let error = Config::parse("\n\nlisten = \"everywhere\"\n").unwrap_err();
        insta::assert_snapshot!(error, @"line 3: invalid socket address syntax");
    }
}
