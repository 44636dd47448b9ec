//! The control socket: what a command asks, and what a daemon answers.

use cede_wire::control::terminal::ViewerSays;
use cede_wire::control::{Reply, ReplyBody, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What was understood once is understood again, and as the same.
fn read<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<T>(bytes) else { return };
    let line = serde_json::to_vec(&value).unwrap();
    assert!(!line.contains(&b'\n'), "an answer of two lines");
    assert_eq!(serde_json::from_slice::<T>(&line).unwrap(), value);
}

/// The daemon's own reader takes what is a request of this version, and answers the rest in one line.
pub(super) fn request(bytes: &[u8]) {
    read::<Request>(bytes);
    match cede_daemon::decoders::question(bytes) {
        Ok(request) => assert_eq!(serde_json::from_slice::<Request>(bytes).ok(), Some(request)),
        Err(failure) => {
            let line = serde_json::to_vec(&Reply::new(ReplyBody::Failed(failure))).unwrap();
            assert!(!line.contains(&b'\n') && line.len() <= 1_024 + 8 * bytes.len(), "{} bytes", line.len());
        }
    }
}

pub(super) fn reply(bytes: &[u8]) {
    read::<Reply>(bytes);
}

pub(super) fn viewer_says(bytes: &[u8]) {
    read::<ViewerSays>(bytes);
}
