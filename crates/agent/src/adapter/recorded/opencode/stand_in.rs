//! A database as OpenCode 1.18 makes it, written without OpenCode: for recorded sessions on a machine that has none.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::{Batch, Connection, OptionalExtension};

use crate::adapter::limits::RECORD_BYTES;
use crate::adapter::{AgentError, Surroundings, durable};

/// OpenCode's database in the hands of somebody else.
#[derive(Debug)]
pub(in crate::adapter::recorded) struct StandIn {
    connection: Connection,
    file: PathBuf,
}

const SCHEMA: &str = include_str!("schema.sql");
const IMPORT: &str = include_str!("import.sql");
const EXPORT: &str = include_str!("export.sql");

impl StandIn {
    /// Answers as OpenCode's program does when it is asked to export, import or delete a session.
    ///
    /// # Errors
    /// [`AgentError`]; nothing was imported or deleted.
    pub(in crate::adapter::recorded) fn answer(
        around: &Surroundings,
        workdir: &Path,
        arguments: &[&str],
    ) -> Result<String, AgentError> {
        match arguments {
            ["export", id] => Self::open(around)?.export(id),
            ["import", file] => {
                let export = read(&workdir.join(file))?;
                Self::open(around)?.import(&export, workdir).map(|()| "imported\n".to_owned())
            }
            ["session", "delete", id] => Self::open(around)?.delete(id).map(|()| "deleted\n".to_owned()),
            _ => Err(said("this stand-in only exports, imports and deletes recorded sessions".to_owned())),
        }
    }

    /// Opens the database; makes it where there is none.
    pub(super) fn open(around: &Surroundings) -> Result<Self, AgentError> {
        durable::ensure_directory(&around.opencode_data)?;
        let file = around.opencode_data.join("opencode.db");
        let opened = Connection::open(&file).and_then(|mut connection| prepare(&mut connection).map(|()| connection));
        let connection = opened.map_err(|error| failed("open", &file, &error))?;
        Ok(Self { connection, file })
    }

    /// Takes an exported session in, as one of `workdir`.
    pub(super) fn import(&mut self, export: &str, workdir: &Path) -> Result<(), AgentError> {
        let directory = workdir.to_string_lossy();
        let values = [export, directory.as_ref()];
        let imported = self.connection.transaction().and_then(|transaction| {
            let mut batch = Batch::new(&transaction, IMPORT);
            while let Some(mut statement) = batch.next()? {
                for (at, value) in (1..=statement.parameter_count()).zip(values) {
                    statement.raw_bind_parameter(at, value)?;
                }
                statement.raw_execute()?;
            }
            transaction.commit()
        });
        imported.map_err(|error| failed("import into", &self.file, &error))
    }

    fn export(&self, id: &str) -> Result<String, AgentError> {
        let found = self.connection.query_row(EXPORT, [id], |row| row.get(0)).optional();
        let found: Option<String> = found.map_err(|error| failed("export from", &self.file, &error))?;
        found.ok_or_else(|| said(format!("no such session: {id}")))
    }

    fn delete(&self, id: &str) -> Result<(), AgentError> {
        let deleted = self.connection.execute("delete from session where id = ?1", [id]);
        match deleted.map_err(|error| failed("delete from", &self.file, &error))? {
            0 => Err(said(format!("no such session: {id}"))),
            _ => Ok(()),
        }
    }
}

fn prepare(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    let transaction = connection.transaction()?;
    if !transaction.table_exists(None, "migration")? {
        transaction.execute_batch(SCHEMA)?;
    }
    transaction.commit()
}

fn read(file: &Path) -> Result<String, AgentError> {
    let mut text = String::new();
    let opened = File::open(file);
    let read = opened.and_then(|file| file.take(RECORD_BYTES as u64 + 1).read_to_string(&mut text));
    read.map_err(|error| durable::world("read", file, &error))?;
    if text.len() > RECORD_BYTES {
        return Err(said(format!("longer than a recorded session: {}", file.display())));
    }
    Ok(text)
}

fn said(text: String) -> AgentError {
    AgentError::Program { program: "opencode", text }
}

fn failed(doing: &str, file: &Path, error: &rusqlite::Error) -> AgentError {
    AgentError::World { doing: format!("{doing} {}", file.display()), why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use cede_wire::session::{Activity, AgentKind};
    use serde_json::Value;

    use super::*;
    use crate::adapter::opencode::OpenCodeAdapter;
    use crate::adapter::recorded::{Story, plant};
    use crate::adapter::{Adapter, CannotResume};

    struct Bare {
        place: tempfile::TempDir,
        around: Surroundings,
    }

    /// A home without a program in its PATH.
    fn bare() -> Bare {
        let place = tempfile::tempdir().unwrap();
        let around = Surroundings::plain(place.path(), &place.path().join("state"), place.path().into());
        Bare { place, around }
    }

    #[test]
    fn recorded_session_is_planted_and_listed_without_the_program() {
        let Bare { place, around } = bare();
        let native = plant(AgentKind::OpenCode, &around, place.path(), [7; 16], &Story::example("p", "m")).unwrap();
        let adapter = OpenCodeAdapter::new(&around);
        let [info] = adapter.discover().unwrap().try_into().unwrap();
        assert_eq!((info.key.native, info.turns, info.version.as_str()), (native.clone(), 2, "1.18.33"));
        assert_eq!(info.directory, place.path().to_str().unwrap());
        assert!(matches!(info.activity, Activity::Idle { .. }), "{:?}", info.activity);
        let need = adapter.requirement(&native).unwrap();
        assert_eq!(need.provider.as_deref(), Some("p"));
        let refused = adapter.check(&need);
        assert!(matches!(refused, Err(CannotResume::NotInstalled { .. })), "planting makes no OpenCode: {refused:?}");
    }

    #[test]
    fn what_was_imported_is_exported_and_goes_when_it_is_deleted() {
        let (Bare { place, around }, other) = (bare(), bare());
        let native = plant(AgentKind::OpenCode, &around, place.path(), [7; 16], &Story::example("p", "m")).unwrap();
        let ask = |around: &Surroundings, words: &[&str]| StandIn::answer(around, place.path(), words);
        let export = ask(&around, &["export", native.as_str()]).unwrap();
        std::fs::write(place.path().join("export.json"), &export).unwrap();
        for _ in 0..2 {
            ask(&other.around, &["import", "export.json"]).unwrap();
            let [one, two] = [&export, &ask(&other.around, &["export", native.as_str()]).unwrap()]
                .map(|text| serde_json::from_str::<Value>(text).unwrap());
            assert_eq!(one, two);
            assert_eq!(one["messages"].as_array().unwrap().len(), 4);
            assert_eq!(one["messages"][1]["parts"][0]["state"]["status"], "completed");
        }
        ask(&other.around, &["session", "delete", native.as_str()]).unwrap();
        for words in [&["export", native.as_str()][..], &["session", "delete", native.as_str()], &["run"]] {
            assert!(matches!(ask(&other.around, words), Err(AgentError::Program { .. })), "{words:?}");
        }
        let left = StandIn::open(&other.around).unwrap().connection;
        let rows: i64 = left.query_row("select count(*) from part", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 0);
    }
}
