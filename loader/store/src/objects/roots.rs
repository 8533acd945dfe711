//! Roots of objects: buckets, containers, servers, the file system.

use super::listing::{ObjectEntry, ObjectListing, located};
use crate::{
    Destination, Encoded, Expected, FetchMemory, FetchRequest, FetchTicket, KeyForm, Peek, Remote, RemoteLocation,
    StoreConfig, Stores, Upload, Version, redact, split_object,
};
use bytes::{Bytes, BytesMut};
use forebay_core::clock::Clock;
use forebay_core::error::{Context as _, Error, Result};
use forebay_core::stats::Stats;
use forebay_core::sync::{Arc, Mutex};
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

/// Roots that stay open for reading, and for writing. URLs of web servers may name any number of hosts.
const ROOTS_MAX: usize = 1024;

/// Objects of all stores, over one set of fetch threads. Roots stay open, with their credentials and connections.
pub struct Objects {
    stores: Stores,
    remotes: Mutex<HashMap<RemoteLocation, Remote>>,
    destinations: Mutex<HashMap<RemoteLocation, Destination>>,
}

/// Object at its root.
struct Located<T> {
    root: T,
    key: String,
}

impl Objects {
    /// Starts the fetch threads.
    ///
    /// # Errors
    ///
    /// As [`Stores::new`].
    pub fn new(config: StoreConfig) -> Result<Self> {
        let stores = Stores::new(config, &Arc::new(Stats::default()), Clock::system())?;
        Ok(Self { stores, remotes: Mutex::default(), destinations: Mutex::default() })
    }

    fn remote(&self, url: &str) -> Result<Located<Remote>> {
        let (location, name, key) = split_object(url)?;
        let key = key_of_object(key, url)?;
        Ok(Located {
            key,
            root: opened(&self.remotes, location, |location, keys| self.stores.open_location(location, &name, keys))?,
        })
    }

    fn destination(&self, location: RemoteLocation, name: &str) -> Result<Destination> {
        opened(&self.destinations, location, |location, keys| self.stores.open_location_to_write(location, name, keys))
    }

    fn object(&self, url: &str) -> Result<Located<Destination>> {
        let (location, name, key) = split_object(url)?;
        Ok(Located { key: key_of_object(key, url)?, root: self.destination(location, &name)? })
    }

    /// Lists the objects with addresses that start with `prefix`: one that ends with a slash names a folder.
    /// `is_recursive` includes the objects in folders; without it, folders are entries.
    ///
    /// # Errors
    ///
    /// `Config` and `Unsupported` for addresses that cannot be listed. The listing returns the errors of the store.
    pub fn list(&self, prefix: &str, is_recursive: bool) -> Result<ObjectListing> {
        let (location, name, key) = split_object(prefix)?;
        let destination = self.destination(location, &name)?;
        Ok(ObjectListing::new(name.into(), destination.list(&key, is_recursive)?))
    }

    /// Returns an object as listings have it; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Errors of the store; `Unsupported` for web servers.
    pub fn find(&self, url: &str) -> Result<Option<ObjectEntry>> {
        let (location, name, key) = split_object(url)?;
        let key = key_of_object(key, url)?;
        let found = self.destination(location, &name)?.find(&key)?;
        Ok(found.map(|entry| located(&name, entry)))
    }

    /// Returns the size of an object; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    pub fn size(&self, url: &str) -> Result<Option<u64>> {
        Ok(self.find(url)?.map(|entry| entry.size))
    }

    /// Removes objects, objects of one root in parallel. An object that does not exist is no error.
    ///
    /// # Errors
    ///
    /// The first failure; some of the objects may be gone by then.
    pub fn remove<'a>(&self, urls: impl IntoIterator<Item = &'a str>) -> Result<()> {
        let mut by_root: HashMap<String, (Destination, Vec<String>)> = HashMap::new();
        for url in urls {
            let Located { root, key } = self.object(url)?;
            by_root.entry(root.name().to_owned()).or_insert_with(|| (root, Vec::new())).1.push(key);
        }
        by_root.values().try_for_each(|(root, keys)| root.delete(keys.iter().map(String::as_str)))
    }

    /// Starts an object that is written piece by piece, of at most `len_max` bytes if that is known. It appears when it
    /// is finished.
    ///
    /// # Errors
    ///
    /// As [`Destination::upload`].
    pub fn upload(&self, url: &str, len_max: Option<u64>) -> Result<Upload> {
        let object = self.object(url)?;
        object.root.upload(&object.key, len_max)
    }

    /// Stores an object in one request if it is as expected, as [`Destination::put_if`].
    ///
    /// # Errors
    ///
    /// As [`Destination::put_if`].
    pub fn put_if(&self, url: &str, bytes: Bytes, expected: Expected) -> Result<bool> {
        let object = self.object(url)?;
        object.root.put_if(&object.key, bytes, expected)
    }

    /// Returns the version of an object for [`put_if`](Self::put_if); `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Errors of the store.
    pub fn version(&self, url: &str) -> Result<Option<String>> {
        let object = self.object(url)?;
        object.root.version(&object.key)
    }

    /// Returns false for an object of a store without ranges, which sends each range with all bytes before it.
    ///
    /// # Errors
    ///
    /// Errors of an address that cannot be opened.
    pub fn has_ranges(&self, url: &str) -> Result<bool> {
        Ok(self.remote(url)?.root.has_ranges())
    }

    /// Starts to fetch the first bytes, the length and the version of an object, as [`Remote::peek`].
    ///
    /// # Errors
    ///
    /// As [`Remote::peek`].
    pub fn peek(&self, url: &str, bytes: usize, ended: impl FnOnce(Result<Peek>) + Send + 'static) -> Result<()> {
        let object = self.remote(url)?;
        object.root.peek(&object.key, bytes, ended)
    }

    /// Starts to fetch like [`peek`](Self::peek), an object that may be stored with an encoding, which the caller
    /// unpacks.
    ///
    /// # Errors
    ///
    /// As [`Remote::peek`].
    pub fn peek_as_stored(
        &self,
        url: &str,
        bytes: usize,
        ended: impl FnOnce(Result<Peek>) + Send + 'static,
    ) -> Result<()> {
        let object = self.remote(url)?;
        object.root.peek_encoded((&object.key, Encoded::AsStored), bytes, ended)
    }

    /// Fetches a range of an object, if wanted only of a `version`, and waits for it.
    ///
    /// # Errors
    ///
    /// Errors of the store; `Checksum` for an object that ends before the range, `Stale` for a different version.
    pub fn read_range(&self, url: &str, range: Range<u64>, version: Option<Version>) -> Result<BytesMut> {
        let len = range.end.saturating_sub(range.start);
        let mut request = FetchRequest::try_new("", len)?;
        (request.start, request.object_len, request.version) = (range.start, None, version);
        self.fetch(url, request)?.wait()
    }

    /// Starts to fetch an object, or a range of it, into the memory of `request`, and replaces its key.
    ///
    /// # Errors
    ///
    /// As [`Remote::fetch`].
    pub fn fetch<M: FetchMemory>(&self, url: &str, mut request: FetchRequest<M>) -> Result<FetchTicket<M>> {
        let object = self.remote(url)?;
        request.key = object.key;
        object.root.fetch(request)
    }

    /// Ends the fetch threads; reads and uploads in flight fail as closed.
    pub fn close(&self) {
        self.stores.close();
    }
}

/// Returns true for the address of a whole bucket, container, volume or server, rather than a folder in one.
///
/// # Errors
///
/// `Config` and `Unsupported` for a text that is no address.
pub fn is_root(url: &str) -> Result<bool> {
    let (_, _, key) = split_object(url)?;
    Ok(key.trim_matches('/').is_empty())
}

/// Returns the root at `location`, which `open` opens the first time.
fn opened<T: Clone>(
    roots: &Mutex<HashMap<RemoteLocation, T>>,
    location: RemoteLocation,
    open: impl FnOnce(RemoteLocation, KeyForm) -> Result<T>,
) -> Result<T> {
    let mut roots = roots.lock();
    if let Some(root) = roots.get(&location) {
        return Ok(root.clone());
    }
    let root = open(location.clone(), location.key_form())?;
    if roots.len() >= ROOTS_MAX {
        // Work in flight has its own references.
        roots.clear();
    }
    roots.insert(location, root.clone());
    Ok(root)
}

fn key_of_object(key: String, url: &str) -> Result<String> {
    if key.is_empty() || key.ends_with('/') {
        return Err(Error::config("this is the address of a folder: pass the address of an object"))
            .context("url", || redact(url));
    }
    Ok(key)
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").field("roots", &self.remotes.lock().len()).finish_non_exhaustive()
    }
}
