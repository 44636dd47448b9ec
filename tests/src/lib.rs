//! tests

pub mod carrier_contract;
pub mod devices;
pub mod proxy;
pub mod world;
