//! tests

pub mod anyone;
pub mod carrier_contract;
pub mod devices;
#[cfg(target_os = "linux")]
pub mod disk;
pub mod fuzz;
pub mod lab;
pub mod mail;
pub mod model;
pub mod ntfy;
pub mod proxy;
pub mod shaken;
pub mod tracer;
pub mod world;
