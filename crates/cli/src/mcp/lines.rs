//! JSON-RPC on two streams, a message a line: what is no message is answered, and ends nothing.
//!
//! The library's own transport says nothing to a line that is no JSON, lest two sides answer each other for ever.
//! JSON-RPC 2.0 wants an answer; here a run of such lines gets a bounded number of them.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use rmcp::model::ErrorCode;
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;

use crate::limits::{MCP_LINE_BYTES, MCP_UNREADABLE};

/// The agent's end of the streams.
pub(super) struct Lines<R, W> {
    input: BufReader<R>,
    /// What came of a line whose end did not come yet.
    line: Vec<u8>,
    /// The rest of a line that is too long is not kept.
    skipping: bool,
    /// An answer that is not written yet.
    owed: Option<Vec<u8>>,
    /// Answers to what was no message since the last one that was.
    unreadable: usize,
    output: Arc<Mutex<Output<W>>>,
}

struct Output<W> {
    /// None: it is closed.
    stream: Option<W>,
    /// Whoever writes may be taken off in the middle of a line: the next one writes its rest first.
    rest: VecDeque<u8>,
}

enum Line {
    Whole,
    TooLong,
    End,
}

impl<R: AsyncRead + Unpin, W> Lines<R, W> {
    pub(super) fn new(input: R, output: W) -> Self {
        let output = Output { stream: Some(output), rest: VecDeque::new() };
        Self {
            input: BufReader::new(input),
            line: Vec::new(),
            skipping: false,
            owed: None,
            unreadable: 0,
            output: Arc::new(Mutex::new(output)),
        }
    }

    /// The next line, in `line`. Whoever waits here may be taken off at any moment and lose nothing.
    async fn read(&mut self) -> Line {
        loop {
            let Ok(came) = self.input.fill_buf().await else { return Line::End };
            if came.is_empty() {
                // A last line may lack its end.
                return if self.line.is_empty() { Line::End } else { Line::Whole };
            }
            let end = came.iter().position(|byte| *byte == b'\n');
            let (take, was_skipping) = (end.map_or(came.len(), |end| end + 1), self.skipping);
            let fits = self.line.len() + take <= MCP_LINE_BYTES;
            if fits && !was_skipping {
                self.line.extend_from_slice(came.get(..take).unwrap_or_default());
            }
            self.input.consume(take);
            self.skipping = end.is_none() && (was_skipping || !fits);
            if !fits && !was_skipping {
                self.line.clear();
                return Line::TooLong;
            }
            if end.is_some() && !was_skipping {
                return Line::Whole;
            }
        }
    }

    fn owe(&mut self, answer: Value) {
        self.unreadable += 1;
        if self.unreadable <= MCP_UNREADABLE {
            self.owed = Some(format!("{answer}\n").into_bytes());
        }
    }
}

impl<W: AsyncWrite + Unpin> Output<W> {
    async fn write(&mut self, line: Vec<u8>) -> io::Result<()> {
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        self.rest.extend(line);
        stream.write_all_buf(&mut self.rest).await?;
        stream.flush().await
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(&mut self, message: TxJsonRpcMessage<RoleServer>) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let output = self.output.clone();
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            output.lock().await.write(line).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if self.owed.is_some() {
                let output = self.output.clone();
                let mut output = output.lock().await;
                // Taken only now: until here nobody has it if this is taken off.
                output.write(self.owed.take().unwrap_or_default()).await.ok()?;
            }
            match self.read().await {
                Line::End => return None,
                Line::TooLong => self.owe(too_long()),
                Line::Whole => {
                    let read = message(&self.line);
                    self.line.clear();
                    match read {
                        Read::Message(message) => {
                            self.unreadable = 0;
                            return Some(*message);
                        }
                        Read::Nothing => {}
                        Read::Wrong(answer) => self.owe(answer),
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output.lock().await.stream = None;
        Ok(())
    }
}

/// What a line is.
enum Read {
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    /// To be answered with this.
    Wrong(Value),
    /// Of what nobody is to answer: an empty line, a notification, an answer.
    Nothing,
}

fn message(line: &[u8]) -> Read {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Read::Nothing;
    }
    if let Ok(message) = serde_json::from_slice(line) {
        return Read::Message(Box::new(message));
    }
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        return Read::Wrong(error(ErrorCode::PARSE_ERROR, "Parse error: the line is no JSON", &Value::Null));
    };
    let has = |name: &str| value.get(name).is_some();
    let notification = value.get("method").is_some_and(Value::is_string) && !has("id");
    let answer = !has("method") && (has("result") || has("error"));
    if notification || answer {
        return Read::Nothing;
    }
    let id = value.get("id").filter(|id| id.is_string() || id.is_i64() || id.is_u64()).unwrap_or(&Value::Null);
    let named = value.get("method").is_some_and(Value::is_string) && !id.is_null();
    if named
        && value.get("jsonrpc").is_some_and(|version| version == "2.0")
        && value.get("params").is_some_and(|params| !params.is_object())
    {
        return Read::Wrong(error(ErrorCode::INVALID_PARAMS, "Invalid params: they are no object", id));
    }
    let why = if value.is_array() { "batches are not read" } else { "it is no request of JSON-RPC 2.0" };
    Read::Wrong(error(ErrorCode::INVALID_REQUEST, &format!("Invalid Request: {why}"), id))
}

fn too_long() -> Value {
    let why = format!("Parse error: a line has at most {MCP_LINE_BYTES} bytes, and the rest of this one was not read");
    error(ErrorCode::PARSE_ERROR, &why, &Value::Null)
}

fn error(code: ErrorCode, message: &str, id: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code.0, "message": message } })
}
