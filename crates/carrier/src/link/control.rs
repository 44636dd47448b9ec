//! The control stream: messages, in order, in both directions.

use std::sync::Arc;

use cede_wire::message::PeerMessage;

use crate::closing::CloseReason;
use crate::framing::{FrameReader, FrameWriter};
use crate::limits::UNKNOWN_FRAMES;
use crate::link::line::Line;
use crate::link::{Breach, LinkError};

/// The sending half. Dropping it ends the stream in this direction.
pub struct ControlSender {
    writer: FrameWriter,
    _line: Arc<Line>,
}

impl ControlSender {
    pub(crate) fn new(writer: FrameWriter, line: Arc<Line>) -> Self {
        Self { writer, _line: line }
    }

    /// Sends a message; waits while the peer does not read. If the call is cancelled, the message either goes out whole
    /// with the next one or not at all.
    ///
    /// # Errors
    /// [`LinkError::TooLong`]: nothing was sent. [`LinkError::Closed`] and [`LinkError::Stopped`]: whether it arrived is
    /// not known.
    pub async fn send(&mut self, message: &PeerMessage) -> Result<(), LinkError> {
        let frame = message.to_frame().map_err(|_| LinkError::TooLong)?;
        self.writer.send(frame).await
    }

    /// Says that no more messages follow; the peer may still send its own.
    ///
    /// # Errors
    /// [`LinkError`]; whether what was sent before arrived is not known.
    pub async fn finish(mut self) -> Result<(), LinkError> {
        self.writer.finish().await
    }
}

/// The receiving half.
pub struct ControlReceiver {
    reader: FrameReader,
    line: Arc<Line>,
    unknown: u32,
}

impl ControlReceiver {
    pub(crate) fn new(reader: FrameReader, line: Arc<Line>) -> Self {
        Self { reader, line, unknown: 0 }
    }

    /// The next message; none when the peer has said that no more follow. Kinds of a newer version are skipped. It can be
    /// cancelled and called again. Source: SPEC C-5.
    ///
    /// # Errors
    /// [`LinkError::Protocol`]: the link is closed. [`LinkError::Closed`], [`LinkError::Cut`]: no more messages come.
    pub async fn recv(&mut self) -> Result<Option<PeerMessage>, LinkError> {
        let received = self.known().await;
        if let Err(LinkError::Protocol(breach)) = &received {
            tracing::warn!(peer = %self.line.peer().short(), %breach, "closing a link");
            self.line.close(CloseReason::Protocol);
        }
        received
    }

    async fn known(&mut self) -> Result<Option<PeerMessage>, LinkError> {
        while let Some((header, body)) = self.reader.next().await? {
            if let Some(message) = PeerMessage::from_frame(header, &body).map_err(Breach::from)? {
                self.unknown = 0;
                return Ok(Some(message));
            }
            self.unknown += 1;
            if self.unknown > UNKNOWN_FRAMES {
                return Err(Breach::OnlyUnknownKinds.into());
            }
        }
        Ok(None)
    }
}
