//! tests

pub mod carrier_contract;
