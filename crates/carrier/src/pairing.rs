//! A link between two devices that do not trust each other yet: frames, in order, and nothing else.

use std::net::SocketAddr;
use std::sync::Arc;

use cede_wire::frame::Header;
use cede_wire::id::DeviceKey;
use cede_wire::limits::FRAME_BODY_BYTES;

use crate::closing::{CloseReason, Closed};
use crate::framing::{FrameReader, FrameWriter};
use crate::link::line::Line;
use crate::link::{Breach, LinkError};

/// A pairing link. Its peer has proved a key, and nothing says yet whose key that is. Dropping it closes it.
pub struct PairLink {
    line: Arc<Line>,
    reader: FrameReader,
    writer: FrameWriter,
}

impl PairLink {
    pub(crate) fn new(line: Arc<Line>, reader: FrameReader, writer: FrameWriter) -> Self {
        Self { line, reader, writer }
    }

    /// The key that the peer proved.
    pub fn peer(&self) -> DeviceKey {
        self.line.peer()
    }

    /// Where the peer is, now. For logs at DEBUG only.
    pub fn remote_addr(&self) -> SocketAddr {
        self.line.connection().remote_address()
    }

    /// Sends a frame; waits while the peer does not read.
    ///
    /// # Errors
    /// [`LinkError::TooLong`]: nothing was sent. [`LinkError::Closed`]: whether it arrived is not known.
    pub async fn send_frame(&mut self, kind: u16, body: &[u8]) -> Result<(), LinkError> {
        self.writer.send(frame(kind, body)?).await
    }

    /// The next frame, its kind and body; none when the peer has said that no more follow. It can be cancelled and called
    /// again.
    ///
    /// # Errors
    /// [`LinkError::Protocol`]: the link is closed. [`LinkError::Closed`], [`LinkError::Cut`]: no more frames come.
    pub async fn recv_frame(&mut self) -> Result<Option<(u16, Vec<u8>)>, LinkError> {
        let received = self.reader.next().await;
        if let Err(LinkError::Protocol(_)) = received {
            self.line.close(CloseReason::Protocol);
        }
        Ok(received?.map(|(header, body)| (header.kind, body)))
    }

    /// Waits until the peer has everything that was sent, then closes the link.
    ///
    /// # Errors
    /// [`LinkError`]; whether the last frames arrived is not known.
    pub async fn finish(mut self) -> Result<(), LinkError> {
        self.writer.finish().await?;
        let delivered = self.writer.delivered().await;
        self.line.close(CloseReason::Done);
        delivered
    }

    /// Bytes that only the two ends of this very connection can know. The same label gives both the same bytes.
    ///
    /// # Errors
    /// [`LinkError::Closed`].
    pub fn exporter(&self, label: &[u8]) -> Result<[u8; 32], LinkError> {
        self.line.exporter(label)
    }

    /// Ends the link now. What was sent and is not yet read may be lost.
    pub fn close(&self, reason: CloseReason) {
        self.line.close(reason);
    }

    /// Waits until the link has ended.
    pub async fn closed(&self) -> Closed {
        self.line.closed().await
    }
}

impl core::fmt::Debug for PairLink {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PairLink").field("peer", &self.peer()).finish_non_exhaustive()
    }
}

/// Sends the opening frame, which shows the peer that there is a stream, and us that it took it.
pub(crate) async fn send_opening(writer: &mut FrameWriter) -> Result<(), LinkError> {
    writer.send(frame(OPENING_KIND, &[])?).await
}

/// Reads the peer's opening frame.
pub(crate) async fn read_opening(reader: &mut FrameReader) -> Result<(), LinkError> {
    match reader.next().await? {
        Some((header, _)) if header.kind == OPENING_KIND => Ok(()),
        Some(_) | None => Err(Breach::NoGreeting.into()),
    }
}

fn frame(kind: u16, body: &[u8]) -> Result<Vec<u8>, LinkError> {
    if body.len() > FRAME_BODY_BYTES {
        return Err(LinkError::TooLong);
    }
    let mut frame = Header { kind, length: body.len() as u32 }.to_bytes().to_vec();
    frame.extend_from_slice(body);
    Ok(frame)
}

/// The frame that opens a pairing link, empty, once in each direction. Source: `proto/NUMBERS.md`.
const OPENING_KIND: u16 = 63;
