//! What OpenCode wrote, read from files.

use std::collections::BTreeSet;
use std::path::Path;

use cede_wire::session::{NativeId, SessionInfo};

use super::Parts;
use super::canonical;
use super::database::Database;
use crate::adapter::{AgentError, Conversation};

/// Takes an export apart into a directory; gives the turns.
///
/// # Errors
/// [`AgentError`].
pub fn take_apart(export: &Path, directory: &Path) -> Result<u64, AgentError> {
    canonical::take_apart(export, directory)
}

/// Puts the parts in a directory together for an import.
///
/// # Errors
/// [`AgentError`].
pub fn put_together(directory: &Path, import: &Path) -> Result<(), AgentError> {
    canonical::put_together(directory, import)
}

/// The id and the messages of the parts in a directory, checked as those of an arrival are.
///
/// # Errors
/// [`AgentError`].
pub fn arrived(directory: &Path) -> Result<(String, BTreeSet<String>), AgentError> {
    canonical::read(directory).map(|arrived| (arrived.id, arrived.messages))
}

/// Every session that a database lists, as if no OpenCode ran.
///
/// # Errors
/// [`AgentError`].
pub fn listed(database: &Path) -> Result<Vec<SessionInfo>, AgentError> {
    let Some(database) = Database::open(database)? else { return Ok(Vec::new()) };
    Ok(database.sessions()?.into_iter().filter_map(|found| super::info(found, &[])).collect())
}

/// The provider that the last message of a session names.
///
/// # Errors
/// [`AgentError`].
pub fn provider(database: &Path, native: &NativeId) -> Result<Option<String>, AgentError> {
    Database::open(database)?.map_or(Ok(None), |database| database.provider(native))
}

/// The conversation of a session in a database.
pub fn conversation(database: &Path, native: &NativeId) -> Conversation {
    Conversation::parts(Parts::new(database.to_owned(), native.clone()))
}

/// Puts a fence into a database, as for a session that nobody uses.
///
/// # Errors
/// [`AgentError`].
pub fn fence(database: &Path, native: &NativeId, text: &str) -> Result<(), AgentError> {
    let Some(mut database) = Database::open_to_fence(database)? else { return Ok(()) };
    let family = database.family(native)?;
    database.fence(native, &family, text, |_| Ok(()))
}

/// Takes the fence down.
///
/// # Errors
/// [`AgentError`].
pub fn lift(database: &Path, native: &NativeId) -> Result<(), AgentError> {
    Database::open_to_fence(database)?.map_or(Ok(()), |database| database.lift(native))
}
