//! What OpenCode exports, brought into a form that grows only at its end: one line for each message.
//!
//! The order of keys in an export depends on how the message came into the database; here they are sorted, so the
//! same conversation has the same bytes on every device. Message by message: an export may be a gibibyte.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::adapter::limits::{MESSAGE_BYTES, RECORD_BYTES};
use crate::adapter::{AgentError, durable, lines};

/// The parts of an exported session.
pub(super) const INFO: &str = "info.json";
pub(super) const MESSAGES: &str = "messages.jsonl";

/// Takes an export apart: the session's row into `info`, its messages into `messages`. Returns the user's turns.
pub(super) fn take_apart(export: &Path, directory: &Path) -> Result<u64, AgentError> {
    durable::ensure_directory(directory)?;
    let input = File::open(export).map_err(|error| durable::world("open", export, &error))?;
    let to = directory.join(MESSAGES);
    let output = File::create(&to).map_err(|error| durable::world("write", &to, &error))?;
    let mut parts = Parts { messages: BufWriter::new(output), info: None, turns: 0 };
    let mut reader = serde_json::Deserializer::from_reader(BufReader::new(input));
    let read = parts.deserialize(&mut reader).and_then(|()| reader.end());
    let damaged = |what: String| AgentError::Damaged { what, file: export.display().to_string() };
    read.map_err(|error| damaged(format!("the export does not decode: {error}")))?;
    parts.messages.flush().map_err(|error| durable::world("write", &to, &error))?;
    let info = parts.info.ok_or_else(|| damaged("the export has no session in it".to_owned()))?;
    let to = directory.join(INFO);
    std::fs::write(&to, format!("{}\n", sorted(info))).map_err(|error| durable::world("write", &to, &error))?;
    Ok(parts.turns)
}

struct Parts {
    messages: BufWriter<File>,
    info: Option<Value>,
    turns: u64,
}

impl<'de> DeserializeSeed<'de> for &mut Parts {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Parts {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an exported session")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "info" => self.info = Some(map.next_value()?),
                "messages" => map.next_value_seed(Messages(self))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

struct Messages<'a>(&'a mut Parts);

impl<'de> DeserializeSeed<'de> for Messages<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Messages<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(message) = list.next_element::<Value>()? {
            if message.pointer("/info/role").and_then(Value::as_str) == Some("user") {
                self.0.turns += 1;
            }
            writeln!(self.0.messages, "{}", sorted(message)).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

/// The same value with the keys of its objects in order.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut pairs: Vec<(String, Value)> = map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(Map::from_iter(pairs))
        }
        Value::Array(list) => Value::Array(list.into_iter().map(sorted).collect()),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain,
    }
}

/// Puts the parts together again as a file that OpenCode imports.
pub(super) fn put_together(directory: &Path, import: &Path) -> Result<(), AgentError> {
    let write = || -> io::Result<()> {
        let info = std::fs::read(directory.join(INFO))?;
        let mut messages = BufReader::new(File::open(directory.join(MESSAGES))?);
        let mut output = BufWriter::new(File::create(import)?);
        output.write_all(b"{\"info\":")?;
        output.write_all(&info)?;
        output.write_all(b",\"messages\":[")?;
        copy_lines(&mut messages, &mut output)?;
        output.write_all(b"]}\n")?;
        output.flush()
    };
    write().map_err(|error| durable::world("write", import, &error))
}

fn copy_lines(from: &mut impl io::BufRead, to: &mut impl Write) -> io::Result<()> {
    let mut first = true;
    while !from.fill_buf()?.is_empty() {
        if !first {
            to.write_all(b",")?;
        }
        first = false;
        loop {
            let buffer = from.fill_buf()?;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(buffer.len(), |at| at + 1);
            to.write_all(buffer.get(..used).unwrap_or_default())?;
            from.consume(used);
            if end.is_some() || used == 0 {
                break;
            }
        }
    }
    Ok(())
}

/// What an arrived session says of itself, checked line by line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrived {
    /// The session's id.
    pub(super) id: String,
    /// The session that started it.
    pub(super) parent: Option<String>,
    /// The ids of its messages.
    pub(super) messages: BTreeSet<String>,
}

/// As much of a message as is checked: the rest may be a peer's 200 MiB and is passed over, not held in memory.
#[derive(Deserialize)]
struct Message {
    info: MessageInfo,
}

#[derive(Deserialize)]
struct MessageInfo {
    id: String,
    #[serde(rename = "sessionID")]
    session: String,
}

/// Reads the parts and checks that they belong together.
pub(super) fn read(directory: &Path) -> Result<Arrived, AgentError> {
    let bad = |what: &str| AgentError::BadArrival(format!("{what}: {}", directory.display()));
    let info = std::fs::read(directory.join(INFO)).map_err(|_| bad("no session row"))?;
    if info.len() > RECORD_BYTES {
        return Err(bad("the session row is too long"));
    }
    let info: Value = serde_json::from_slice(&info).map_err(|_| bad("the session row does not decode"))?;
    let text = |name: &str| info.get(name).and_then(Value::as_str).map(str::to_owned);
    let id = text("id").ok_or_else(|| bad("the session row has no id"))?;
    let mut arrived = Arrived { parent: text("parentID"), messages: BTreeSet::new(), id };
    let file = directory.join(MESSAGES);
    let mut reader = BufReader::new(File::open(&file).map_err(|_| bad("no messages"))?);
    while let Some(line) = lines::next(&mut reader, MESSAGE_BYTES).map_err(|e| durable::world("read", &file, &e))? {
        if !line.whole {
            return Err(bad("a message is too long"));
        }
        let message: Message = serde_json::from_slice(&line.head).map_err(|_| bad("a message does not decode"))?;
        if message.info.session != arrived.id {
            return Err(bad("a message of another session"));
        }
        arrived.messages.insert(message.info.id);
    }
    Ok(arrived)
}

#[cfg(test)]
mod tests {
    use super::read as read_parts;
    use super::*;

    fn apart(text: &str) -> (tempfile::TempDir, Result<u64, AgentError>) {
        let place = tempfile::tempdir().unwrap();
        let export = place.path().join("export");
        std::fs::write(&export, text).unwrap();
        let turns = take_apart(&export, &place.path().join("s"));
        (place, turns)
    }

    const ONE: &str = r#"{"info":{"id":"s","z":1,"a":{"y":1.5,"b":[{"d":2,"c":3}]}},"extra":[1],"messages":[
        {"info":{"role":"user","id":"m1","sessionID":"s"},"parts":[]},
        {"parts":[],"info":{"id":"m2","role":"assistant","sessionID":"s"}}]}"#;

    #[test]
    fn order_of_keys_does_not_change_the_bytes() {
        let other = r#"{"messages":[{"parts":[],"info":{"sessionID":"s","id":"m1","role":"user"}},
            {"info":{"role":"assistant","sessionID":"s","id":"m2"},"parts":[]}],"info":{"a":{"b":[{"c":3,"d":2}],"y":1.5},"z":1,"id":"s"}}"#;
        let (one, turns) = apart(ONE);
        let (two, _) = apart(other);
        assert_eq!(turns, Ok(1));
        for part in [INFO, MESSAGES] {
            let read = |place: &tempfile::TempDir| std::fs::read_to_string(place.path().join("s").join(part)).unwrap();
            assert_eq!(read(&one), read(&two));
        }
    }

    #[test]
    fn parts_put_together_are_taken_apart_to_the_same_bytes() {
        let (place, _) = apart(ONE);
        let import = place.path().join("import");
        put_together(&place.path().join("s"), &import).unwrap();
        take_apart(&import, &place.path().join("t")).unwrap();
        let read = |part: &str| std::fs::read(place.path().join(part).join(MESSAGES)).unwrap();
        assert_eq!(read("s"), read("t"));
        let arrived = read_parts(&place.path().join("t")).unwrap();
        assert_eq!((arrived.id.as_str(), arrived.messages.len()), ("s", 2));
    }

    #[test]
    fn numbers_keep_their_value_on_every_way() {
        let numbers = "[0.1,1e23,0.011245399999999999,123456789.12345679,5e-324,1.7976931348623157e308,-0.0]";
        let (place, turns) = apart(&ONE.replacen("\"parts\":[]", &format!("\"parts\":{numbers}"), 1));
        assert_eq!(turns, Ok(1));
        let written = std::fs::read_to_string(place.path().join("s").join(MESSAGES)).unwrap();
        let first: Value = serde_json::from_str(written.lines().next().unwrap()).unwrap();
        let read: Vec<f64> = serde_json::from_value(first["parts"].clone()).unwrap();
        assert_eq!(read.iter().map(|n| n.to_bits()).collect::<Vec<_>>(), NUMBERS.map(f64::to_bits));
    }

    const NUMBERS: [f64; 7] = [0.1, 1e23, 0.011_245_4, 123_456_789.123_456_79, 5e-324, f64::MAX, -0.0];

    #[test]
    fn cut_export_is_refused() {
        assert!(matches!(apart(&ONE[..ONE.len() - 9]).1, Err(AgentError::Damaged { .. })));
        assert!(matches!(apart("{}").1, Err(AgentError::Damaged { .. })));
        assert!(matches!(apart(&format!("{ONE}{{")).1, Err(AgentError::Damaged { .. })));
    }

    #[test]
    fn message_of_another_session_is_refused() {
        let (place, _) = apart(&ONE.replacen("\"sessionID\":\"s\"", "\"sessionID\":\"t\"", 1));
        assert!(matches!(read_parts(&place.path().join("s")), Err(AgentError::BadArrival(_))));
    }
}
