//! Remote folders as destinations of a writer's files.
//!
//! Shards are uploaded while the next ones are written. [`put`](Sink::put) returns as soon as the rest of a file fits
//! into the bound of the bytes in flight ([`StoreConfig::upload_bytes`](crate::store::StoreConfig::upload_bytes)).
//! [`finish`](Sink::finish) waits for all files, compares a listing with them, and uploads the index last. Without it,
//! uploads in flight end, their parts are removed, and there is no index.

use crate::error::{Error, ErrorKind, Result};
use crate::format::INDEX_BASENAME;
use crate::format::writer::Sink;
use crate::store::{Destination, UploadTicket};
use crate::sync::Mutex;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};

/// Most uploads in flight, so that many small files do not wait without a bound.
const UPLOADS_MAX: usize = 256;

/// Folder of a store as a destination.
#[derive(Debug)]
pub struct RemoteDir {
    destination: Destination,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    uploads: VecDeque<UploadTicket>,
    /// Size of every file so far.
    files: BTreeMap<String, u64>,
}

impl RemoteDir {
    /// Takes `destination`, which must be empty. With `overwrite` it is emptied, its index first.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for a destination that is not empty, with `overwrite` for a whole bucket; failures of the
    /// store.
    pub fn create(destination: Destination, overwrite: bool) -> Result<Self> {
        let mut listing = destination.list("", true)?;
        if let Some(first) = listing.next().transpose()? {
            if !overwrite {
                return Err(Error::config("Directory is not empty: name a new or an empty one, or pass exist_ok")
                    .with("directory", destination.name())
                    .with("file", first.key));
            }
            if destination.is_root() {
                let message =
                    "a whole bucket, container or volume is not emptied: name a folder in it, or empty it yourself";
                return Err(Error::config(message).with("directory", destination.name()));
            }
            // Without its index, a partly removed data set does not look complete.
            destination.delete([INDEX_BASENAME])?;
            let rest = listing.collect::<Result<Vec<_>>>()?;
            let keys = rest.iter().chain([&first]).map(|entry| &*entry.key);
            destination.delete(keys.filter(|key| *key != INDEX_BASENAME))?;
        }
        Ok(Self { destination, state: Mutex::default() })
    }

    /// Returns the destination.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// Compares the sizes of all files with those in a listing.
    fn check(&self) -> Result<()> {
        let mut missing = self.state.lock().files.clone();
        for entry in self.destination.list("", true)? {
            let entry = entry?;
            if let Some(size) = missing.remove(&entry.key)
                && size != entry.size
            {
                let message =
                    format!("the store has {} bytes of a file of {size}: write the data set again", entry.size);
                return Err(self.changed(message, &entry.key));
            }
        }
        match missing.first_key_value() {
            Some((file, _)) => {
                let message = "a file that was stored is gone: look for another program that removes files there";
                Err(self.changed(message.to_owned(), file))
            }
            None => Ok(()),
        }
    }

    fn changed(&self, message: String, file: &str) -> Error {
        Error::new(ErrorKind::Checksum, message).with("file", file).with("directory", self.destination.name())
    }
}

impl Sink for RemoteDir {
    fn put(&self, basename: &str, pieces: &[Bytes]) -> Result<()> {
        // Other workers do not wait for this file's room.
        let upload = self.destination.put(basename, pieces.to_vec())?;
        let oldest = {
            let mut state = self.state.lock();
            state.files.insert(basename.to_owned(), pieces.iter().map(|piece| piece.len() as u64).sum());
            state.uploads.push_back(upload);
            let mut failed = None;
            state.uploads.retain_mut(|upload| match upload.poll() {
                None => true,
                Some(outcome) => {
                    failed = failed.take().or(outcome.err());
                    false
                }
            });
            if let Some(error) = failed {
                return Err(error);
            }
            if state.uploads.len() > UPLOADS_MAX { state.uploads.pop_front() } else { None }
        };
        oldest.map_or(Ok(()), UploadTicket::wait)
    }

    fn finish(&self, index: &[u8]) -> Result<()> {
        loop {
            let Some(upload) = self.state.lock().uploads.pop_front() else { break };
            upload.wait()?;
        }
        self.check()?;
        self.destination.put(INDEX_BASENAME, vec![Bytes::copy_from_slice(index)])?.wait()
    }
}

impl Drop for RemoteDir {
    fn drop(&mut self) {
        // All of them end at the same time; then each is waited for, before the destination goes with its threads.
        let mut uploads = std::mem::take(&mut self.state.get_mut().uploads);
        uploads.iter_mut().for_each(UploadTicket::cancel);
        drop(uploads);
    }
}
