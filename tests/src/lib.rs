//! tests

pub mod carrier_contract;
pub mod world;
