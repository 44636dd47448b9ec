//! The local control protocol.
