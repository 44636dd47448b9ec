//! OpenCode's database: read to describe, written only to put a fence up or take it down.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};
use serde_json::Value;

use cede_wire::session::{AgentKind, NativeId};

use crate::adapter::limits::{CLOSURE_FILES, RECORD_BYTES, SESSIONS};
use crate::adapter::{AgentError, durable};

/// The database, open.
#[derive(Debug)]
pub(super) struct Database {
    connection: Connection,
    file: PathBuf,
}

/// A session's row with what belongs to it counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) directory: String,
    pub(super) version: String,
    pub(super) updated_unix_ms: u64,
    pub(super) turns: u64,
    pub(super) bytes: u64,
    /// When the newest message was begun that has no end.
    pub(super) unfinished_since: Option<u64>,
    /// Tool calls without a result.
    pub(super) dangling: u64,
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    pub(super) id: String,
    /// Of a message of the person, and not of the agent.
    pub(super) of_person: bool,
    /// Its message is the newest of the agent and has no end.
    pub(super) grows: bool,
    /// What it is; null where it is none, or too long.
    pub(super) data: Value,
    /// Its bytes, where they are too many to be read.
    pub(super) too_long: u64,
}

/// In the order in which they were begun, which is that of two indexes: no part is read to find its place.
const PARTS: &str = "
    with newest(id) as (select id from message where session_id = ?1
        and iif(json_valid(data), json_extract(data, '$.role'), null) = 'assistant'
        order by time_created desc, id desc limit 1)
    select p.id, iif(json_valid(m.data), json_extract(m.data, '$.role'), '') = 'user',
        m.id = (select id from newest)
            and iif(json_valid(m.data), json_extract(m.data, '$.time.completed'), null) is null,
        iif(octet_length(p.data) <= ?4, p.data, null), octet_length(p.data)
    from message m cross join part p on p.message_id = m.id
    where m.session_id = ?1 order by m.time_created, m.id, p.id limit ?3 offset ?2";

/// The tables that a new turn writes to.
const FENCED: [&str; 2] = ["message", "part"];

/// Rows that hold no JSON say nothing; to SQLite they are an error of the whole question, of every session in it.
const DESCRIBE: &str = "
    select s.id, s.title, s.directory, s.version, s.time_updated,
        (select count(*) from message m where m.session_id = s.id
            and iif(json_valid(m.data), json_extract(m.data, '$.role'), null) = 'user'),
        (select coalesce(sum(octet_length(m.data)), 0) from message m where m.session_id = s.id)
            + (select coalesce(sum(octet_length(p.data)), 0) from part p where p.session_id = s.id),
        (select iif(json_valid(m.data), json_extract(m.data, '$.role'), '') || ':' || m.time_created from message m
            where m.session_id = s.id
                and iif(json_valid(m.data), json_extract(m.data, '$.time.completed'), null) is null
                and m.id = (select max(id) from message where session_id = s.id)),
        (select count(*) from part p where p.session_id = s.id
            and p.message_id = (select max(id) from message where session_id = s.id)
            and iif(json_valid(p.data), json_extract(p.data, '$.state.status'), null) in ('running', 'pending'))
    from session s";

impl Database {
    /// Opens it for reading. `None` where OpenCode never ran.
    pub(super) fn open(file: &Path) -> Result<Option<Self>, AgentError> {
        Self::open_with(file, OpenFlags::SQLITE_OPEN_READ_ONLY)
    }

    /// Opens it for putting a fence up or taking it down; what is committed is on the disk.
    pub(super) fn open_to_fence(file: &Path) -> Result<Option<Self>, AgentError> {
        let database = Self::open_with(file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        if let Some(database) = &database {
            let set = database.connection.pragma_update(None, "synchronous", "full");
            set.map_err(|error| failed("prepare", file, &error))?;
        }
        Ok(database)
    }

    fn open_with(file: &Path, flags: OpenFlags) -> Result<Option<Self>, AgentError> {
        if !durable::is_there(file)? {
            return Ok(None);
        }
        let opened = Connection::open_with_flags(file, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX);
        let connection = opened.map_err(|error| failed("open", file, &error))?;
        let patient = connection.busy_timeout(std::time::Duration::from_secs(10));
        patient.map_err(|error| failed("open", file, &error))?;
        Ok(Some(Self { connection, file: file.to_owned() }))
    }

    /// The newest sessions that no other session started.
    pub(super) fn sessions(&self) -> Result<Vec<Session>, AgentError> {
        let query = format!("{DESCRIBE} where s.parent_id is null order by s.time_updated desc limit ?1");
        let found = self.all(&query, params![SESSIONS as i64], |row| Ok(session(row)))?;
        Ok(found.into_iter().filter_map(readable).collect())
    }

    /// One session.
    pub(super) fn session(&self, native: &NativeId) -> Result<Session, AgentError> {
        let query = format!("{DESCRIBE} where s.id = ?1");
        let found = self.connection.query_row(&query, [native.as_str()], session).optional();
        let unknown = || AgentError::Unknown { agent: AgentKind::OpenCode, native: native.clone() };
        found.map_err(|error| self.failed("read", &error))?.ok_or_else(unknown)
    }

    /// The session that started this one; `Some(None)` where none did, `None` where this one is not here.
    pub(super) fn parent(&self, id: &str) -> Result<Option<Option<String>>, AgentError> {
        let query = "select parent_id from session where id = ?1";
        let found = self.connection.query_row(query, [id], |row| row.get(0)).optional();
        found.map_err(|error| self.failed("read", &error))
    }

    /// The session and those that it started, itself first.
    pub(super) fn family(&self, native: &NativeId) -> Result<Vec<String>, AgentError> {
        let query = "
            with recursive family(id, depth) as (
                select id, 0 from session where id = ?1
                union select s.id, family.depth + 1 from session s join family on s.parent_id = family.id
                    where family.depth < 64)
            select id from family order by depth, id limit ?2";
        let id = |row: &Row<'_>| Ok(row.get::<_, String>(0).ok());
        let ids = self.all(query, params![native.as_str(), CLOSURE_FILES as i64], id)?;
        // An id that is none would leave its quotes in a statement.
        Ok(ids.into_iter().flatten().filter(|id| NativeId::parse(id).is_some()).collect())
    }

    /// The model provider of the last message.
    pub(super) fn provider(&self, native: &NativeId) -> Result<Option<String>, AgentError> {
        let query = "
            select coalesce(json_extract(data, '$.providerID'), json_extract(data, '$.model.providerID'))
            from message where session_id = ?1 and json_valid(data) order by id desc limit 1";
        let found = self.connection.query_row(query, [native.as_str()], |row| row.get(0)).optional();
        found.map(Option::flatten).map_err(|error| self.failed("read", &error))
    }

    /// The ids of a session's messages.
    pub(super) fn messages(&self, id: &str) -> Result<BTreeSet<String>, AgentError> {
        let ids = self.all("select id from message where session_id = ?1", params![id], |row| row.get(0))?;
        Ok(ids.into_iter().collect())
    }

    /// How many parts a conversation has.
    pub(super) fn count_parts(&self, native: &NativeId) -> Result<u64, AgentError> {
        let query = "select count(*) from message m join part p on p.message_id = m.id where m.session_id = ?1";
        let count: i64 = self
            .connection
            .query_row(query, [native.as_str()], |row| row.get(0))
            .map_err(|error| self.failed("read", &error))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// So many parts of a conversation from a place on, in their order.
    pub(super) fn parts(&self, native: &NativeId, from: u64, most: u64) -> Result<Vec<Part>, AgentError> {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let values = params![native.as_str(), number(from), number(most), RECORD_BYTES as i64];
        self.all(PARTS, values, part)
    }

    /// True where the fence stands.
    pub(super) fn is_fenced(&self, native: &NativeId) -> Result<bool, AgentError> {
        let query = "select count(*) from sqlite_master where type = 'trigger' and name = ?1";
        let count: i64 = self
            .connection
            .query_row(query, [trigger("message", native)], |row| row.get(0))
            .map_err(|error| self.failed("read", &error))?;
        Ok(count > 0)
    }

    /// Refuses new messages of these sessions, with the text as the reason. `may` looks at the session once nobody
    /// else can write.
    pub(super) fn fence(
        &mut self,
        native: &NativeId,
        family: &[String],
        text: &str,
        may: impl FnOnce(&Session) -> Result<(), AgentError>,
    ) -> Result<(), AgentError> {
        self.run("begin immediate")?;
        let raised = self.session(native).and_then(|found| may(&found)).and_then(|()| self.raise(native, family, text));
        self.run(if raised.is_ok() { "commit" } else { "rollback" })?;
        raised
    }

    fn raise(&self, native: &NativeId, family: &[String], text: &str) -> Result<(), AgentError> {
        let ids: Vec<String> = family.iter().map(|id| format!("'{id}'")).collect();
        let (ids, text) = (ids.join(", "), text.replace('\'', "''"));
        for table in FENCED {
            let name = trigger(table, native);
            self.run(&format!(
                "drop trigger if exists \"{name}\"; create trigger \"{name}\" before insert on {table} \
                 when new.session_id in ({ids}) begin select raise(abort, '{text}'); end"
            ))?;
        }
        Ok(())
    }

    /// Takes the fence down.
    pub(super) fn lift(&self, native: &NativeId) -> Result<(), AgentError> {
        let drops = FENCED.map(|table| format!("drop trigger if exists \"{}\";", trigger(table, native)));
        self.run(&format!("begin immediate; {} commit", drops.concat()))
    }

    /// Moves what OpenCode's own programs committed from the log into the database, and to the disk.
    pub(super) fn settle(&self) -> Result<(), AgentError> {
        let checkpoint = self.connection.query_row("pragma wal_checkpoint(full)", [], |_| Ok(()));
        checkpoint.map_err(|error| self.failed("sync", &error))?;
        let sync = |file: &Path| std::fs::File::open(file).and_then(|file| file.sync_all());
        let log = self.file.with_extension("db-wal");
        let synced = sync(&self.file).and_then(|()| if log.exists() { sync(&log) } else { Ok(()) });
        synced.map_err(|error| durable::world("sync", &self.file, &error))
    }

    fn run(&self, statements: &str) -> Result<(), AgentError> {
        self.connection.execute_batch(statements).map_err(|error| self.failed("write", &error))
    }

    fn all<T>(
        &self,
        query: &str,
        values: impl rusqlite::Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, AgentError> {
        let prepared = self.connection.prepare(query);
        let rows = prepared.and_then(|mut statement| statement.query_map(values, read)?.collect());
        rows.map_err(|error| self.failed("read", &error))
    }

    fn failed(&self, doing: &str, error: &rusqlite::Error) -> AgentError {
        failed(doing, &self.file, error)
    }
}

fn session(row: &Row<'_>) -> rusqlite::Result<Session> {
    let number = |at| row.get::<_, Option<i64>>(at).map(|n| n.and_then(|n| u64::try_from(n).ok()).unwrap_or(0));
    let open: Option<String> = row.get(7)?;
    let unfinished_since = open.and_then(|text| text.rsplit_once(':')?.1.parse().ok());
    Ok(Session {
        id: row.get(0)?,
        title: row.get(1)?,
        directory: row.get(2)?,
        version: row.get(3)?,
        updated_unix_ms: number(4)?,
        turns: number(5)?,
        bytes: number(6)?,
        unfinished_since,
        dangling: number(8)?,
    })
}

fn part(row: &Row<'_>) -> rusqlite::Result<Part> {
    let data: Option<String> = row.get(3).unwrap_or_default();
    let bytes = row.get::<_, Option<i64>>(4)?.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0);
    Ok(Part {
        id: row.get::<_, String>(0).unwrap_or_default(),
        of_person: row.get::<_, Option<bool>>(1)?.unwrap_or(false),
        grows: row.get::<_, Option<bool>>(2)?.unwrap_or(false),
        too_long: if bytes > RECORD_BYTES as u64 { bytes } else { 0 },
        data: data.and_then(|data| serde_json::from_str(&data).ok()).unwrap_or(Value::Null),
    })
}

/// A row that OpenCode would not have written hides none of the others.
fn readable(found: rusqlite::Result<Session>) -> Option<Session> {
    found.inspect_err(|error| tracing::debug!(%error, "a session of OpenCode was passed over")).ok()
}

fn trigger(table: &str, native: &NativeId) -> String {
    format!("cede_fence_{table}_{native}")
}

fn failed(doing: &str, file: &Path, error: &rusqlite::Error) -> AgentError {
    AgentError::World { doing: format!("{doing} {}", file.display()), why: error.to_string() }
}
