//! The QUIC carrier's types, as the contract sees them.

use cede_carrier::closing::{CloseReason, Closed};
use cede_carrier::link::control::{ControlReceiver, ControlSender};
use cede_carrier::link::data::{DataReceiver, DataSender};
use cede_carrier::link::{Link, LinkError};
use cede_wire::id::DeviceKey;
use cede_wire::message::{Hello, PeerMessage};

use super::{NodeDataReceiver, NodeDataSender, NodeLink, NodeReceiver, NodeSender};

impl NodeLink for Link {
    type Sender = ControlSender;
    type Receiver = ControlReceiver;
    type DataSender = DataSender;
    type DataReceiver = DataReceiver;

    fn peer(&self) -> DeviceKey {
        Link::peer(self)
    }
    fn hello(&self) -> Hello {
        Link::hello(self).clone()
    }
    fn version(&self) -> u16 {
        Link::version(self)
    }
    fn control(&self) -> (ControlSender, ControlReceiver) {
        self.take_control().unwrap()
    }
    async fn open_data(&self) -> Result<DataSender, LinkError> {
        Link::open_data(self).await
    }
    async fn accept_data(&self) -> Result<DataReceiver, LinkError> {
        Link::accept_data(self).await
    }
    fn exporter(&self, label: &[u8]) -> [u8; 32] {
        Link::exporter(self, label).unwrap()
    }
    fn close(&self, reason: CloseReason) {
        Link::close(self, reason);
    }
    async fn closed(&self) -> Closed {
        Link::closed(self).await
    }
}

impl NodeSender for ControlSender {
    async fn send(&mut self, message: &PeerMessage) -> Result<(), LinkError> {
        ControlSender::send(self, message).await
    }
    async fn finish(self) -> Result<(), LinkError> {
        ControlSender::finish(self).await
    }
}

impl NodeReceiver for ControlReceiver {
    async fn recv(&mut self) -> Result<Option<PeerMessage>, LinkError> {
        ControlReceiver::recv(self).await
    }
}

impl NodeDataSender for DataSender {
    async fn write_all(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        DataSender::write_all(self, bytes).await
    }
    fn finish(self) -> Result<(), LinkError> {
        DataSender::finish(self)
    }
}

impl NodeDataReceiver for DataReceiver {
    async fn read(&mut self) -> Result<Option<Vec<u8>>, LinkError> {
        Ok(self.read_chunk(64 << 10).await?.map(|bytes| bytes.to_vec()))
    }
}
