//! Remote folders as destinations of a writer's files.
//!
//! Shards are uploaded while the next ones are written. [`put`](Sink::put) returns as soon as the rest of a file fits
//! into the bound of the bytes in flight ([`StoreConfig::upload_bytes`](crate::store::StoreConfig::upload_bytes)).
//! [`finish`](Sink::finish) waits for all files, compares a listing with them, and uploads the index last. Without it,
//! uploads in flight end, their parts are removed, and there is no index.
//!
//! **Replacing a data set.** Shards of the new data set have the names of old ones, so the old index must not exist
//! when the first of them is stored. A destination is emptied in this order: the whole listing is read, and each of its
//! keys is checked; the index is removed; then the remaining objects are. A failure before the removal of the index
//! leaves the old data set as it was, and one after it leaves no index. So at each moment there is the old data set,
//! none, or the new one, and never a mixture that a reader takes for a data set.

use crate::error::{Error, ErrorKind, Result};
use crate::format::INDEX_BASENAME;
use crate::format::writer::Sink;
use crate::store::{Destination, ListedEntry, UploadTicket};
use crate::sync::Mutex;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};

/// Most uploads in flight, so that many small files do not wait without a bound.
const UPLOADS_MAX: usize = 256;

/// Folder of a store as a destination.
#[derive(Debug)]
pub struct RemoteDir {
    destination: Destination,
    state: Mutex<UploadState>,
}

#[derive(Debug, Default)]
struct UploadState {
    /// Files in flight, oldest first.
    uploads: VecDeque<(String, UploadTicket)>,
    /// Every file so far.
    files: BTreeMap<String, File>,
}

#[derive(Clone, Debug)]
struct File {
    size: u64,
    /// Entity tag, once the file is stored, if the store has one.
    etag: Option<String>,
}

impl UploadState {
    /// Takes the outcome of a file's upload.
    fn stored(&mut self, name: &str, outcome: Result<Option<String>>) -> Result<()> {
        let etag = outcome?;
        if let Some(file) = self.files.get_mut(name) {
            file.etag = etag;
        }
        Ok(())
    }
}

impl RemoteDir {
    /// Takes `destination`, which must be empty. With `overwrite` it is emptied, its index first.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for a destination that is not empty, and with `overwrite` for a whole bucket and for
    /// objects that cannot be removed, before anything is; failures of the store.
    pub fn create(destination: Destination, overwrite: bool) -> Result<Self> {
        let mut listing = destination.list("", true)?;
        if let Some(first) = listing.next().transpose()? {
            if !overwrite {
                let message = "Directory is not empty: name a new or an empty one, or pass exist_ok, which empties it";
                return Err(Error::config(message).with("directory", destination.name()).with("file", first.key));
            }
            if destination.is_root() {
                let message =
                    "a whole bucket, container or volume is not emptied: name a folder in it, or empty it yourself";
                return Err(Error::config(message).with("directory", destination.name()));
            }
            let mut entries = listing.collect::<Result<Vec<_>>>()?;
            entries.push(first);
            empty(&destination, &entries)?;
        }
        // An interrupted writer ends its own uploads only.
        Ok(Self { destination: destination.cancellable(), state: Mutex::default() })
    }

    /// Returns the destination.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// Compares the sizes and the entity tags of all files with those in a listing.
    fn check(&self) -> Result<()> {
        let mut missing = self.state.lock().files.clone();
        for entry in self.destination.list("", true)? {
            let entry = entry?;
            let Some(File { size, etag }) = missing.remove(&entry.key) else { continue };
            if size != entry.size {
                let message =
                    format!("the store has {} bytes of a file of {size}: write the data set again", entry.size);
                return Err(self.changed(message, &entry.key));
            }
            if let (Some(etag), Some(listed)) = (etag, entry.etag)
                && etag != listed
                && !self.has_tag(&entry.key, &etag)?
            {
                let message = "a different program has replaced a file: write the data set again, and let only one \
                               program write to this folder";
                return Err(self.changed(message.to_owned(), &entry.key));
            }
        }
        match missing.first_key_value() {
            Some((file, _)) => {
                let message = "a file that was stored is gone: look for a program that removes files there";
                Err(self.changed(message.to_owned(), file))
            }
            None => Ok(()),
        }
    }

    /// Requests a file's entity tag: a store may have tags of a different form in its listings.
    fn has_tag(&self, file: &str, etag: &str) -> Result<bool> {
        let found = self.destination.find(file)?;
        Ok(found.is_some_and(|found| found.etag.is_none_or(|found| found == etag)))
    }

    fn changed(&self, message: String, file: &str) -> Error {
        Error::new(ErrorKind::Checksum, message).with("file", file).with("directory", self.destination.name())
    }
}

/// Removes the objects of a destination, its index first. Rejects keys that cannot be removed before the first removal.
fn empty(destination: &Destination, entries: &[ListedEntry]) -> Result<()> {
    for entry in entries {
        destination.check_key(&entry.key).map_err(|error| {
            error.with("hint", "nothing was removed: remove this object yourself, or name a different folder")
        })?;
    }
    destination.delete([INDEX_BASENAME])?;
    destination.delete(entries.iter().map(|entry| &*entry.key).filter(|key| *key != INDEX_BASENAME))
}

impl Sink for RemoteDir {
    fn put(&self, basename: &str, pieces: &[Bytes]) -> Result<()> {
        // The remaining workers do not wait for this file's room.
        let upload = self.destination.put(basename, pieces.to_vec())?;
        let oldest = {
            let mut state = self.state.lock();
            let size = pieces.iter().map(|piece| piece.len() as u64).sum();
            state.files.insert(basename.to_owned(), File { size, etag: None });
            state.uploads.push_back((basename.to_owned(), upload));
            let mut ended = Vec::new();
            state.uploads.retain_mut(|(name, upload)| match upload.poll() {
                None => true,
                Some(outcome) => {
                    ended.push((std::mem::take(name), outcome));
                    false
                }
            });
            ended.into_iter().try_for_each(|(name, outcome)| state.stored(&name, outcome))?;
            if state.uploads.len() > UPLOADS_MAX { state.uploads.pop_front() } else { None }
        };
        oldest.map_or(Ok(()), |(name, upload)| {
            let outcome = upload.wait();
            self.state.lock().stored(&name, outcome)
        })
    }

    fn finish(&self, index: &[u8]) -> Result<()> {
        loop {
            let Some((name, upload)) = self.state.lock().uploads.pop_front() else { break };
            let outcome = upload.wait();
            self.state.lock().stored(&name, outcome)?;
        }
        self.check()?;
        self.destination.put(INDEX_BASENAME, vec![Bytes::copy_from_slice(index)])?.wait().map(drop)
    }

    fn cancel(&self) {
        self.destination.cancel();
    }
}

impl Drop for RemoteDir {
    fn drop(&mut self) {
        // All uploads end at the same time; then each is waited for, before the destination goes with its threads.
        self.destination.cancel();
        self.state.get_mut().uploads.clear();
    }
}
