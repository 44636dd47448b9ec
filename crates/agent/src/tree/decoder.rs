//! The records of a repository and what the git program prints, read from bytes.

use std::io::Cursor;

use super::repository;
use super::state::{ObjectFormat, State, index_from_bytes, index_to_bytes};

/// The state of a repository as a peer sends it; gives the bytes that it stands for.
///
/// # Errors
/// Why it is refused.
pub fn state(bytes: &[u8]) -> Result<Vec<u8>, String> {
    State::from_bytes(bytes).map(|state| state.to_bytes())
}

/// An index as a peer sends it; gives its paths and the bytes that it stands for.
///
/// # Errors
/// Why it is refused.
pub fn index(bytes: &[u8]) -> Result<(Vec<Vec<u8>>, Vec<u8>), String> {
    let entries = index_from_bytes(bytes, ObjectFormat::Sha1)?;
    let again = index_to_bytes(&entries);
    Ok((entries.into_iter().map(|entry| entry.path).collect(), again))
}

/// The lines of `ls-files --stage --debug`; gives the paths.
///
/// # Errors
/// Why the repository is refused.
pub fn listing(bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut from = Cursor::new(bytes);
    let mut paths = Vec::new();
    while let Some((entry, _)) = repository::index_line(&mut from).map_err(|refusal| refusal.to_string())? {
        paths.push(entry.path);
    }
    Ok(paths)
}

/// The pairs of `config -z --list`.
pub fn settings(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    repository::settings(bytes)
}

/// The address of a remote, where it is one that travels, and without its secrets.
pub fn address(text: &str) -> Option<String> {
    let bare = super::state::without_user(text);
    super::state::is_carried_url(bare.as_bytes()).then_some(bare)
}
