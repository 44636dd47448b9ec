//! The meeting place: clock, event loop, wiring, lifecycle.
