//! Trees there and back, with real git and real file systems.

mod fidelity;
mod hostile;
mod lab;
mod refusals;
mod returning;
mod rounds;
