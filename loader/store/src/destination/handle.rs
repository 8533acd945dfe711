//! Destinations: remote folders that objects are written to.

use super::budget::Budget;
use super::calls::Calls;
use super::job::retried;
use super::listing::Listing;
use super::payload::Payload;
use super::target::{Conditional, Expected, ListRequest, ListedEntry, Target};
use super::upload::{Division, Upload, UploadTicket};
use crate::Result;
use crate::key::KeyForm;
use crate::threads::FetchThreads;
use bytes::Bytes;
use forebay_core::error::Context as _;
use forebay_core::sync::Arc;
use std::collections::VecDeque;
use std::fmt;

/// Remote folder that objects are written to. Cheap to clone: clones share the bounds of the bytes and the requests in
/// flight, and keep the fetch threads alive.
#[derive(Clone)]
pub struct Destination {
    calls: Calls,
    budget: Arc<Budget>,
    is_root: bool,
}

impl Destination {
    pub(crate) fn new(
        threads: Arc<FetchThreads>,
        target: Arc<dyn Target>,
        name: &str,
        (keys, is_root): (KeyForm, bool),
    ) -> Self {
        let budget = Budget::new(threads.queues.context.config.upload_bytes as u64);
        Self { calls: Calls::new(threads, target, name, keys), budget, is_root }
    }

    /// Returns a clone. Its [`cancel`](Self::cancel) ends its uploads, and the uploads of its own clones.
    #[must_use]
    pub fn cancellable(&self) -> Self {
        Self { calls: self.calls.cancellable(), ..self.clone() }
    }

    /// Ends the uploads in flight, without waiting for that, and rejects further ones as
    /// [`Closed`](crate::ErrorKind::Closed). The parts of those that are not joined yet are removed.
    pub fn cancel(&self) {
        self.calls.cancel().set();
        self.budget.wake();
    }

    /// Returns its address, without secrets.
    pub fn name(&self) -> &str {
        self.calls.name()
    }

    /// Returns true for a whole bucket, container or volume, rather than a folder in one.
    pub fn is_root(&self) -> bool {
        self.is_root
    }

    /// Starts to upload an object that consists of `pieces`, and returns as soon as the rest of its bytes fits into the
    /// bound of the bytes in flight. The object appears when all of it is stored.
    ///
    /// # Errors
    ///
    /// `Config` for a key that is not a relative path; `Closed` after the stores were closed. The ticket returns the
    /// errors of the upload.
    pub fn put(&self, key: &str, pieces: Vec<Bytes>) -> Result<UploadTicket> {
        let len = pieces.iter().map(|piece| piece.len() as u64).sum();
        let mut upload = self.upload(key, Some(len))?;
        upload.write_all(pieces)?;
        upload.start_finish()
    }

    /// Starts an object that is written piece by piece. `len_max`, its largest length, decides the size of its parts.
    /// The parts of a longer object, and of one without it, grow after half of the parts that the store allows.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn upload(&self, key: &str, len_max: Option<u64>) -> Result<Upload> {
        let job = self.calls.job(key)?;
        let config = self.calls.config();
        // Two of the largest are in flight.
        let part_bytes_max = config.upload_bytes as u64 / 2;
        let division = Division { parts_max: job.target.parts_max(), len_max: len_max.unwrap_or(0), part_bytes_max };
        let part_bytes = division.part_bytes(config.upload_part_bytes as u64);
        Upload::start(self.calls.queues(), job, self.budget.clone(), part_bytes, division)
    }

    /// Stores an object in one request if it is as expected, and returns false if it is not. Stores without conditional
    /// writes, or without names of versions, store it in any case; a folder compares the version before the write, and
    /// nothing in between. After a response that was lost, the object may be there although this returns false.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn put_if(&self, key: &str, bytes: Bytes, expected: Expected) -> Result<bool> {
        let job = self.calls.job(key)?;
        let payload = Payload::new(vec![bytes]);
        let stored = self.calls.queues().call(async move |context| {
            let is_unnamed = matches!(&expected, Expected::Version(version) if version.is_empty());
            let once = async |_| {
                let target = &job.target;
                let stored = if is_unnamed {
                    Conditional::Unsupported
                } else {
                    target.put_if(&context, &job.key, &payload, &expected).await?
                };
                match stored {
                    Conditional::Stored => Ok(true),
                    Conditional::Unexpected => Ok(false),
                    Conditional::Unsupported => target.put(&context, &job.key, &payload).await.map(|_| true),
                }
            };
            retried(&context, &job, "put", once).await
        })?;
        self.calls.wait(stored)
    }

    /// Returns the version of an object for [`put_if`](Self::put_if); `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Errors of the store.
    pub fn version(&self, key: &str) -> Result<Option<String>> {
        let job = self.calls.job(key)?;
        let found = self.calls.queues().call(async move |context| {
            retried(&context, &job, "find", async |_| job.target.version(&context, &job.key).await).await
        })?;
        self.calls.wait(found)
    }

    /// Lists the objects with keys that start with `prefix`, in the store's order. `is_recursive` includes objects in
    /// folders; without it, folders are entries. Pages are fetched as they are needed.
    ///
    /// # Errors
    ///
    /// `Config` for a prefix that is no start of a relative path. The iterator returns the errors of the store, and
    /// ends.
    pub fn list(&self, prefix: &str, is_recursive: bool) -> Result<Listing> {
        self.calls.keys().check_prefix(prefix).context("destination", || self.calls.name())?;
        Listing::start(self.calls.clone(), ListRequest { prefix: prefix.to_owned(), is_recursive, next: None })
    }

    /// Returns the description of an object; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Errors of the store.
    pub fn find(&self, key: &str) -> Result<Option<ListedEntry>> {
        let job = self.calls.job(key)?;
        let found = self.calls.queues().call(async move |context| {
            retried(&context, &job, "find", async |_| job.target.find(&context, &job.key).await).await
        })?;
        self.calls.wait(found)
    }

    /// Checks that [`delete`](Self::delete) accepts a key, such as one of a listing.
    ///
    /// # Errors
    ///
    /// `Config` for a key that is not a relative path: programs may have made such objects.
    pub fn check_key(&self, key: &str) -> Result<()> {
        self.calls.job(key).map(drop)
    }

    /// Removes objects, in any order. Keys without an object are no error.
    ///
    /// # Errors
    ///
    /// The first failure; some of the objects may be gone by then.
    pub fn delete<'a>(&self, keys: impl IntoIterator<Item = &'a str>) -> Result<()> {
        // Twice the requests in flight keep all of them busy.
        let ahead = 2 * self.calls.config().uploads_in_flight;
        let mut pending = VecDeque::new();
        for key in keys {
            let job = self.calls.job(key)?;
            pending.push_back(self.calls.queues().call(async move |context| {
                retried(&context, &job, "delete", async |_| job.target.delete(&context, &job.key).await).await
            })?);
            if pending.len() >= ahead
                && let Some(oldest) = pending.pop_front()
            {
                self.calls.wait(oldest)?;
            }
        }
        pending.into_iter().try_for_each(|removed| self.calls.wait(removed))
    }

    /// Returns the most bytes that waited for the store's confirmation at once.
    pub fn bytes_in_flight_peak(&self) -> u64 {
        self.budget.peak()
    }

    /// Collects a whole listing.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub fn list_all(&self, prefix: &str) -> Result<Vec<ListedEntry>> {
        self.list(prefix, true)?.collect()
    }
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Destination").field("name", &self.calls.name()).finish_non_exhaustive()
    }
}
