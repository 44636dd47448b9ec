//! The control socket: what a command asks, and what a daemon answers.

use cede_wire::control::terminal::ViewerSays;
use cede_wire::control::{Reply, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What was understood once is understood again, and as the same.
fn read<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<T>(bytes) else { return };
    let line = serde_json::to_vec(&value).unwrap();
    assert!(!line.contains(&b'\n'), "an answer of two lines");
    assert_eq!(serde_json::from_slice::<T>(&line).unwrap(), value);
}

pub(super) fn request(bytes: &[u8]) {
    read::<Request>(bytes);
}

pub(super) fn reply(bytes: &[u8]) {
    read::<Reply>(bytes);
}

pub(super) fn viewer_says(bytes: &[u8]) {
    read::<ViewerSays>(bytes);
}
