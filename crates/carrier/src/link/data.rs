//! Data streams: bytes in one direction, several at once.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use quinn::{RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::closing::Closed;
use crate::framing::{GIVEN_UP, read_error, write_error};
use crate::link::LinkError;
use crate::link::line::Line;

/// Sends bytes. It must be finished: one that is dropped before looks cut off to the peer, never complete. Source:
/// SPEC C-7.
pub struct DataSender {
    stream: SendStream,
    finished: bool,
    _line: Arc<Line>,
}

impl DataSender {
    pub(crate) async fn open(line: &Arc<Line>) -> Result<Self, LinkError> {
        let stream = line.connection().open_uni().await.map_err(Closed::from)?;
        Ok(Self { stream, finished: false, _line: Arc::clone(line) })
    }

    /// Sends all of the bytes; waits while the peer does not read.
    ///
    /// # Errors
    /// [`LinkError`]; how much arrived is not known.
    pub async fn write_all(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        self.stream.write_all(bytes).await.map_err(write_error)
    }

    /// The same without copying them.
    ///
    /// # Errors
    /// [`LinkError`]; how much arrived is not known.
    pub async fn write_chunk(&mut self, bytes: Bytes) -> Result<(), LinkError> {
        self.stream.write_chunk(bytes).await.map_err(write_error)
    }

    /// Says that all was sent. Returns at once; the bytes still travel while the link is open.
    ///
    /// # Errors
    /// [`LinkError::Stopped`] or [`LinkError::Finished`]; the peer has not seen the end.
    pub fn finish(mut self) -> Result<(), LinkError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), LinkError> {
        self.finished = true;
        self.stream.finish().map_err(|_| LinkError::Finished)
    }
}

impl AsyncWrite for DataSender {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(Pin::new(&mut self.stream), cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(Pin::new(&mut self.stream), cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.end().map_err(io::Error::other))
    }
}

impl Drop for DataSender {
    fn drop(&mut self) {
        if !self.finished {
            let _already_closed = self.stream.reset(GIVEN_UP);
        }
    }
}

/// Receives bytes. Dropping it tells the sender to stop.
pub struct DataReceiver {
    stream: RecvStream,
    _line: Arc<Line>,
}

impl DataReceiver {
    pub(crate) async fn accept(line: &Arc<Line>) -> Result<Self, LinkError> {
        let stream = line.connection().accept_uni().await.map_err(Closed::from)?;
        line.expect_bulk();
        Ok(Self { stream, _line: Arc::clone(line) })
    }

    /// The next bytes, at most so many; none at the end that the sender declared. It can be cancelled and called again.
    ///
    /// # Errors
    /// [`LinkError::Cut`]: the sender gave up, what came is incomplete. [`LinkError::Closed`].
    pub async fn read_chunk(&mut self, most_bytes: usize) -> Result<Option<Bytes>, LinkError> {
        let chunk = self.stream.read_chunk(most_bytes, true).await.map_err(read_error)?;
        Ok(chunk.map(|chunk| chunk.bytes))
    }
}

impl AsyncRead for DataReceiver {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        AsyncRead::poll_read(Pin::new(&mut self.stream), cx, into)
    }
}
