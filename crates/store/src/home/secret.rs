//! Files that only we may read: keys.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use rustix::fs::OFlags;
use zeroize::Zeroizing;

use super::{Home, SECRETS};
use crate::disk::{self, DiskFault, while_doing};
use crate::limits::{NAME_CHARS, SECRET_BYTES};

/// Secret bytes. They are wiped when dropped.
pub type Secret = Zeroizing<Vec<u8>>;

/// Why a secret was not read or written. What was there is there still.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Caller: names are made of `a-z`, `0-9` and `-`.
    #[error("not a name for a secret: {0:?}")]
    Name(String),
    /// World: others may read it, so it may be known to them.
    #[error("others may read the secret {name} (mode {mode:03o}); run `chmod 600` on it, or replace it if it was seen")]
    TooOpen {
        /// Its name.
        name: String,
        /// Its permission bits.
        mode: u32,
    },
    /// World: it belongs to another user, or is no plain file.
    #[error("the secret {0} is not a plain file of ours; move it away")]
    NotOurs(String),
    /// Caller, or a damaged file: longer than any secret is.
    #[error("the secret {0} is too long")]
    TooLong(String),
    /// World: the disk said no.
    #[error("the secret was not read or written")]
    Disk(#[from] DiskFault),
}

impl Home {
    /// Reads a secret, `None` when there is none of this name. Source: SPEC J-13.
    ///
    /// # Errors
    /// [`SecretError`]; nothing was changed.
    pub fn secret(&self, name: &str) -> Result<Option<Secret>, SecretError> {
        check_name(name)?;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
        let file = match options.open(self.path(SECRETS).join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(while_doing("open a secret")(error).into()),
        };
        let found = file.metadata().map_err(while_doing("look at a secret"))?;
        if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
            return Err(SecretError::NotOurs(name.to_owned()));
        }
        if found.mode() & 0o177 != 0 {
            return Err(SecretError::TooOpen { name: name.to_owned(), mode: found.mode() & 0o777 });
        }
        // Room for the longest, so that no shorter copy is left behind by a buffer that grew.
        let mut bytes = Zeroizing::new(Vec::with_capacity(SECRET_BYTES + 2));
        file.take(SECRET_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(while_doing("read a secret"))?;
        if bytes.len() > SECRET_BYTES { Err(SecretError::TooLong(name.to_owned())) } else { Ok(Some(bytes)) }
    }

    /// Puts a secret in the place of the one of this name. It is durable when this returns.
    ///
    /// # Errors
    /// [`SecretError`]; the one before is in place.
    pub fn put_secret(&self, name: &str, bytes: &[u8]) -> Result<(), SecretError> {
        check_name(name)?;
        if bytes.len() > SECRET_BYTES {
            return Err(SecretError::TooLong(name.to_owned()));
        }
        Ok(disk::replace_file(&self.path(SECRETS), name, bytes)?)
    }

    /// Removes a secret, unless there is none. Its name is gone when this returns; a disk may keep old blocks, so what
    /// must be beyond recovery needs a disk that is encrypted.
    ///
    /// # Errors
    /// [`SecretError`]; it is in place.
    pub fn remove_secret(&self, name: &str) -> Result<(), SecretError> {
        check_name(name)?;
        disk::remove_file(&self.path(SECRETS).join(name))?;
        Ok(disk::sync_dir(&self.path(SECRETS))?)
    }
}

fn check_name(name: &str) -> Result<(), SecretError> {
    if is_name(name) { Ok(()) } else { Err(SecretError::Name(name.chars().take(NAME_CHARS).collect())) }
}

fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=NAME_CHARS).contains(&name.len()) && name.bytes().all(plain)
}
