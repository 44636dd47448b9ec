//! What is kept of a sending of files beside the journal: what is sent or where it will lie, and the offer.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cede_agent::bundle;
use cede_seal::verify::{Verified, verify};
use cede_wire::audit::AuditOf;
use cede_wire::canonical::{decode, encode};
use cede_wire::id::TransferId;
use cede_wire::transfer::TransferOffer;
use serde::{Deserialize, Serialize};

use crate::context::Context;

/// Durable before the journal speaks of the transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TransferPlan {
    pub(crate) transfer: TransferId,
    pub(crate) title: String,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) note: String,
    /// What the sender left out, in words.
    pub(crate) left_out: String,
    pub(crate) at_unix_ms: u64,
    /// Sender: the files and folders.
    pub(crate) roots: Vec<PathBuf>,
    /// Receiver: the directory in which it will lie, and beside it the one where it is written first.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) staging: Option<PathBuf>,
    /// Receiver: the name of the folder of several.
    pub(crate) together: String,
    /// Receiver: the place that was chosen, as bytes. It is taken with the next step.
    pub(crate) place: Option<Vec<u8>>,
    /// Receiver: the number by which the file system knows what takes that place.
    #[serde(default)]
    pub(crate) inode: Option<u64>,
    /// Receiver: how the yes is named in the record, where it was asked for.
    #[serde(default)]
    pub(crate) of: Option<AuditOf>,
}

impl TransferPlan {
    fn directory(context: &Context, transfer: TransferId) -> PathBuf {
        context.place("transfers", &transfer.to_string())
    }

    /// Writes the plan so that it survives a crash.
    pub(crate) fn save(&self, context: &Context) -> io::Result<()> {
        put(&Self::directory(context, self.transfer), "plan.json", &serde_json::to_vec(self)?)
    }

    pub(crate) fn save_offer(&self, context: &Context, offer: &Verified<TransferOffer>) -> io::Result<()> {
        put(&Self::directory(context, self.transfer), "offer", &encode(offer.signed()))
    }

    pub(crate) fn save_catalog(&self, context: &Context, catalog: &[u8]) -> io::Result<()> {
        put(&Self::directory(context, self.transfer), "catalog", catalog)
    }

    pub(crate) fn load(context: &Context, transfer: TransferId) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(Self::directory(context, transfer).join("plan.json")).ok()?).ok()
    }

    /// The offer of a transfer that did not end, from the state directory of a daemon that wakes.
    pub(crate) fn load_offer(state: &Path, transfer: TransferId) -> Option<Verified<TransferOffer>> {
        let bytes = std::fs::read(state.join("transfers").join(transfer.to_string()).join("offer")).ok()?;
        verify(&decode(&bytes).ok()?).ok()
    }

    pub(crate) fn load_catalog(context: &Context, transfer: TransferId) -> io::Result<Vec<u8>> {
        std::fs::read(Self::directory(context, transfer).join("catalog"))
    }

    /// Every transfer of which something is kept.
    pub(crate) fn all(context: &Context) -> Vec<TransferId> {
        let found = std::fs::read_dir(context.place("transfers", "")).into_iter().flatten().flatten();
        found.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    /// Forgets everything but what people are told.
    pub(crate) fn discard_parts(&self, context: &Context) {
        let directory = Self::directory(context, self.transfer);
        for name in ["offer", "catalog"] {
            // What is gone already is what is wanted.
            let _ = std::fs::remove_file(directory.join(name));
        }
        if let Some(staging) = &self.staging {
            let _ = std::fs::remove_dir_all(staging);
        }
    }

    /// Takes what was put in its place out of it: it was withdrawn at that moment. Something else that stands there stays, also
    /// what gets its number later: the plan knows no place after this. True: the plan is to be saved.
    pub(crate) fn take_back(&mut self) -> io::Result<bool> {
        if let Some(place) = self.placed() {
            match place.symlink_metadata()?.is_dir() {
                true => std::fs::remove_dir_all(place)?,
                false => std::fs::remove_file(place)?,
            }
        }
        self.inode = None;
        Ok(self.place.take().is_some())
    }

    /// Chooses the place for `from`. Durable when this returns; it takes it with the next step.
    pub(crate) fn choose(&mut self, context: &Context, from: &Path, place: &Path) -> io::Result<()> {
        self.place = Some(place.as_os_str().as_bytes().to_vec());
        self.inode = Some(from.symlink_metadata()?.ino());
        self.save(context)
    }

    /// The chosen place, where what was to take it stands there.
    pub(crate) fn placed(&self) -> Option<&Path> {
        let there = |place: &&Path| place.symlink_metadata().is_ok_and(|there| Some(there.ino()) == self.inode);
        self.chosen().filter(there)
    }

    /// The place, where what was to take it stands there as a whole. Durable when this returns. Blocks.
    pub(crate) fn stands(&self) -> Option<String> {
        let (place, folder, staging) = (self.placed()?, self.folder.as_deref()?, self.staging.as_deref()?);
        if !bundle::is_spent(staging) {
            return None;
        }
        let stands = bundle::finish(folder, staging, &self.together, Some(place), &mut |_, _| Ok(()));
        Some(stands.ok()?.display().to_string())
    }

    /// Forgets it.
    pub(crate) fn remove(context: &Context, transfer: TransferId) {
        let _ = std::fs::remove_dir_all(Self::directory(context, transfer));
    }

    pub(crate) fn chosen(&self) -> Option<&Path> {
        self.place.as_deref().map(|place| Path::new(OsStr::from_bytes(place)))
    }
}

fn put(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let (file, temporary) = (directory.join(name), directory.join(format!("{name}.new")));
    let mut out = File::create(&temporary)?;
    out.write_all(bytes)?;
    out.sync_all()?;
    std::fs::rename(&temporary, &file)?;
    File::open(directory)?.sync_all()?;
    directory.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::super::view::unknown;
    use super::*;

    fn plan(from: &Path, place: &Path) -> TransferPlan {
        let place = Some(place.as_os_str().as_bytes().to_vec());
        TransferPlan { place, inode: Some(from.symlink_metadata().unwrap().ino()), ..unknown(TransferId::new([7; 16])) }
    }

    /// Shows: F-8
    #[test]
    fn what_took_its_place_before_a_death_stands_there() {
        let root = tempfile::tempdir().unwrap();
        let [staging, place] = ["staging", "f"].map(|name| root.path().join(name));
        std::fs::create_dir(&staging).unwrap();
        std::fs::write(staging.join("f"), "theirs").unwrap();
        let (folder, begun) = (Some(root.path().to_owned()), Some(staging.clone()));
        let plan = TransferPlan { folder, staging: begun, ..plan(&staging.join("f"), &place) };
        assert_eq!(plan.stands(), None);
        std::fs::rename(staging.join("f"), &place).unwrap();
        assert_eq!(plan.stands(), Some(place.display().to_string()));
        std::fs::write(root.path().join("mine"), "mine").unwrap();
        std::fs::rename(root.path().join("mine"), &place).unwrap();
        assert_eq!(plan.stands(), None, "another file");
    }

    /// Shows: F-12
    #[test]
    fn what_was_put_in_its_place_is_taken_back_and_what_stands_there_by_then_is_not() {
        let root = tempfile::tempdir().unwrap();
        let [staging, place, kept] = ["staging", "f", "kept"].map(|name| root.path().join(name));
        for from in [staging.join("f"), staging.clone()] {
            std::fs::create_dir_all(&staging).unwrap();
            std::fs::write(staging.join("f"), "theirs").unwrap();
            let mut plan = plan(&from, &place);
            std::fs::rename(&from, &place).unwrap();
            assert!(plan.take_back().unwrap() && !place.exists());
        }
        std::fs::write(&kept, "mine").unwrap();
        let mut withdrawn = plan(&kept, &place);
        assert!(withdrawn.take_back().unwrap());
        // Numbers of files that are gone are given out again.
        std::fs::rename(&kept, &place).unwrap();
        assert!(!withdrawn.take_back().unwrap());
        std::fs::write(&kept, "other").unwrap();
        assert!(plan(&kept, &place).take_back().unwrap());
        assert_eq!(std::fs::read(&place).unwrap(), b"mine");
    }
}
