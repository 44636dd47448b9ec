//! Frames on a stream: read and written so that a cancelled call loses nothing.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use cede_wire::frame::{FrameTooLong, HEADER_BYTES, Header};
use quinn::{ReadError, RecvStream, SendStream, StoppedError, WriteError};

use crate::closing::Closed;
use crate::limits::BODY_AHEAD_BYTES;
use crate::link::{Breach, LinkError};

/// Reads frames. What a cancelled call had read stays here for the next one.
pub(crate) struct FrameReader {
    stream: RecvStream,
    most_bytes: usize,
    head: [u8; HEADER_BYTES],
    head_bytes: usize,
    open: Option<(Header, Vec<u8>)>,
}

impl FrameReader {
    pub(crate) fn new(stream: RecvStream, most_bytes: usize) -> Self {
        Self { stream, most_bytes, head: [0; HEADER_BYTES], head_bytes: 0, open: None }
    }

    /// Sets the longest body from now on.
    pub(crate) fn allow(&mut self, most_bytes: usize) {
        self.most_bytes = most_bytes;
    }

    /// The next frame; none at the end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<(Header, Vec<u8>)>, LinkError> {
        if self.open.is_none() {
            match self.header().await? {
                Some(header) => self.open = Some((header, Vec::with_capacity(ahead(header)))),
                None => return Ok(None),
            }
        }
        self.body().await?;
        self.head_bytes = 0;
        Ok(self.open.take())
    }

    async fn header(&mut self) -> Result<Option<Header>, LinkError> {
        while let Some(rest @ [_, ..]) = self.head.get_mut(self.head_bytes..) {
            match self.stream.read(rest).await.map_err(read_error)? {
                Some(bytes) => self.head_bytes += bytes,
                None if self.head_bytes == 0 => return Ok(None),
                None => return Err(Breach::FrameCut.into()),
            }
        }
        let header = Header::from_bytes(self.head).map_err(|FrameTooLong(bytes)| Breach::FrameTooLong(bytes))?;
        if header.length as usize > self.most_bytes {
            return Err(Breach::FrameTooLong(header.length).into());
        }
        Ok(Some(header))
    }

    async fn body(&mut self) -> Result<(), LinkError> {
        let Some((header, body)) = &mut self.open else { return Ok(()) };
        while let missing @ 1.. = (header.length as usize).saturating_sub(body.len()) {
            match self.stream.read_chunk(missing, true).await.map_err(read_error)? {
                Some(chunk) => body.extend_from_slice(&chunk.bytes),
                None => return Err(Breach::FrameCut.into()),
            }
        }
        Ok(())
    }
}

/// Writes frames. What a cancelled call had not written goes out before the next one.
pub(crate) struct FrameWriter {
    stream: SendStream,
    waiting: Vec<u8>,
    written: usize,
}

impl FrameWriter {
    pub(crate) fn new(stream: SendStream) -> Self {
        Self { stream, waiting: Vec::new(), written: 0 }
    }

    /// Sends a whole frame: header and body.
    pub(crate) async fn send(&mut self, frame: Vec<u8>) -> Result<(), LinkError> {
        self.flush().await?;
        self.waiting = frame;
        self.written = 0;
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), LinkError> {
        while let Some(rest @ [_, ..]) = self.waiting.get(self.written..) {
            self.written += self.stream.write(rest).await.map_err(write_error)?;
        }
        self.waiting = Vec::new();
        self.written = 0;
        Ok(())
    }

    /// Ends the stream after all that was sent.
    pub(crate) async fn finish(&mut self) -> Result<(), LinkError> {
        self.flush().await?;
        self.stream.finish().map_err(|_| LinkError::Finished)
    }

    /// Waits until the peer has everything of a finished stream.
    pub(crate) async fn delivered(&mut self) -> Result<(), LinkError> {
        match self.stream.stopped().await {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err(LinkError::Stopped),
            Err(StoppedError::ConnectionLost(lost)) => Err(Closed::from(lost).into()),
            Err(StoppedError::ZeroRttRejected) => Err(LinkError::Finished),
        }
    }

    /// Sends a frame that must fit into what the peer takes at once; never waits.
    pub(crate) fn send_now(&mut self, frame: Vec<u8>) -> Result<(), LinkError> {
        let mut sending = pin!(self.send(frame));
        match sending.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(sent) => sent,
            Poll::Pending => Err(LinkError::Stopped),
        }
    }
}

impl Drop for FrameWriter {
    /// A frame of which a part is out must not look like the end of the stream.
    fn drop(&mut self) {
        if self.written < self.waiting.len() {
            let _already_closed = self.stream.reset(GIVEN_UP);
        }
    }
}

fn ahead(header: Header) -> usize {
    (header.length as usize).min(BODY_AHEAD_BYTES)
}

pub(crate) fn read_error(error: ReadError) -> LinkError {
    match error {
        ReadError::Reset(_) => LinkError::Cut,
        ReadError::ConnectionLost(lost) => Closed::from(lost).into(),
        ReadError::ClosedStream | ReadError::IllegalOrderedRead | ReadError::ZeroRttRejected => LinkError::Finished,
    }
}

pub(crate) fn write_error(error: WriteError) -> LinkError {
    match error {
        WriteError::Stopped(_) => LinkError::Stopped,
        WriteError::ConnectionLost(lost) => Closed::from(lost).into(),
        WriteError::ClosedStream | WriteError::ZeroRttRejected => LinkError::Finished,
    }
}

/// The code of a stream that its sender gave up.
pub(crate) const GIVEN_UP: quinn::VarInt = quinn::VarInt::from_u32(1);
