//! What peers last said of their sessions, so that `cede ls` and `cede take` know of them while they are away.
//!
//! It lives in the index and only there: what is lost is told again at the next contact.

use std::sync::{Mutex, PoisonError};

use cede_store::home::Home;
use cede_store::index::{Index, IndexCondition, IndexError};
use cede_wire::canonical::{decode, encode};
use cede_wire::id::DeviceId;
use cede_wire::message::ListedSession;

/// The number of the rows' form: raised when it changes, so that older rows are thrown away.
const LAYOUT: u32 = 1;
const TREE: &str = "peers-sessions";

/// The last listings. Without an index, none.
pub(crate) struct Listings(Mutex<Option<Index>>);

impl Listings {
    /// Opens the index. A device without one works as well; it only knows less of peers that are away.
    pub(crate) fn open(home: &Home) -> Self {
        match Index::open(home, LAYOUT) {
            Ok((index, condition)) => {
                if let IndexCondition::Rebuild(why) = condition {
                    tracing::debug!(?why, "the index begins anew");
                }
                Self(Mutex::new(Some(index)))
            }
            Err(error) => {
                tracing::warn!(%error, "there is no index: sessions of absent peers are not listed");
                Self(Mutex::new(None))
            }
        }
    }

    /// A peer said what it has: that is all it has. Blocks.
    pub(crate) fn replace(&self, device: DeviceId, listed: &[ListedSession]) {
        let replaced = self.with(|index| {
            let tree = index.tree(TREE)?;
            let mut rows: Vec<_> = tree.scan(device.as_bytes(), None)?.into_iter().map(|row| (row.0, None)).collect();
            for one in listed {
                let key = [&device.as_bytes()[..], &one.info.key.id().as_bytes()[..]].concat();
                rows.retain(|(known, _)| *known != key);
                rows.push((key, Some(encode(one))));
            }
            rows.chunks(cede_store::limits::INDEX_SCAN_ROWS).try_for_each(|rows| tree.put_all(rows))
        });
        if let Some(Err(error)) = replaced {
            tracing::debug!(%error, "a listing was not kept");
        }
    }

    /// What a peer said last. Blocks.
    pub(crate) fn of(&self, device: DeviceId) -> Vec<ListedSession> {
        let rows = self.with(|index| index.tree(TREE)?.scan(device.as_bytes(), None));
        let rows = rows.and_then(Result::ok).unwrap_or_default();
        rows.into_iter().filter_map(|row| decode(&row.1).ok()).collect()
    }

    /// Ends in order, so that the next start finds the rows.
    pub(crate) fn close(&self) {
        let index = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(error)) = index.map(Index::close) {
            tracing::debug!(%error, "the index begins anew at the next start");
        }
    }

    fn with<T>(&self, work: impl FnOnce(&Index) -> Result<T, IndexError>) -> Option<Result<T, IndexError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(work)
    }
}

#[cfg(test)]
mod tests {
    use cede_wire::custody::FencingToken;
    use cede_wire::session::{Activity, AgentKind, NativeId, SessionInfo, SessionKey};

    use super::*;

    fn listed(native: &str) -> ListedSession {
        let key = SessionKey { agent: AgentKind::Codex, native: NativeId::parse(native).unwrap() };
        let info = SessionInfo {
            key,
            title: "t".to_owned(),
            directory: "/d".to_owned(),
            turns: 1,
            bytes: 2,
            version: "1.0.0".to_owned(),
            updated_unix_ms: 3,
            activity: Activity::Idle { evidence: String::new() },
        };
        ListedSession { info, owner: DeviceId::new([7; 32]), token: FencingToken::FIRST }
    }

    #[test]
    fn last_listing_of_a_peer_replaces_the_one_before_and_survives_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("state");
        let peer = DeviceId::new([7; 32]);
        let listings = Listings::open(&Home::open(&place).unwrap());
        listings.replace(peer, &[listed("a"), listed("b")]);
        listings.replace(peer, &[listed("b")]);
        listings.close();
        drop(listings);
        let listings = Listings::open(&Home::open(&place).unwrap());
        assert_eq!(listings.of(peer), vec![listed("b")]);
        assert_eq!(listings.of(DeviceId::new([8; 32])), vec![]);
    }
}
