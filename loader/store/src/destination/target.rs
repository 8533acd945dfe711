//! Trait of the schemes: single exchanges, without retries.

use super::payload::Payload;
use crate::Error;
use crate::context::ThreadContext;
use crate::failure::Failure;
use async_trait::async_trait;
use std::time::SystemTime;

/// Object or folder of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// Key relative to the destination. The key of a folder ends with a slash.
    pub key: String,
    /// Bytes of the object; 0 for a folder.
    pub size: u64,
    /// Entity tag as the store has it in its listings, without quotation marks.
    pub etag: Option<String>,
    /// Time of the last change.
    pub modified: Option<SystemTime>,
}

impl ListedEntry {
    pub(crate) fn folder(key: String) -> Self {
        Self { key, size: 0, etag: None, modified: None }
    }

    /// Returns true for a folder, which only a listing of one level has.
    pub fn is_folder(&self) -> bool {
        self.key.ends_with('/')
    }
}

/// Page of a listing, and the token of the next one.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) entries: Vec<ListedEntry>,
    /// Empty objects by which some tools mark a folder: their keys end with a slash.
    pub(crate) markers: Vec<ListedEntry>,
    pub(crate) next: Option<String>,
    /// The store has sent an entry, also one that is left out here, or ends one of several folders.
    pub(crate) has_moved: bool,
}

impl Page {
    /// Makes a page of objects and folders with the store's own keys, which begin with `root`, the destination's
    /// folder. It is sorted, and does not have that folder itself.
    pub(crate) fn below(
        root: &str,
        objects: impl Iterator<Item = ListedEntry>,
        folders: impl Iterator<Item = String>,
        next: Option<String>,
    ) -> Self {
        let (mut objects, mut folders) = (objects.peekable(), folders.peekable());
        let has_moved = objects.peek().is_some() || folders.peek().is_some();
        let relative = |entry: ListedEntry| {
            let key = entry.key.strip_prefix(root).filter(|key| !key.is_empty())?.to_owned();
            Some(ListedEntry { key, ..entry })
        };
        let (markers, objects): (Vec<_>, Vec<_>) =
            objects.filter_map(relative).partition(|object| object.is_folder() && object.size == 0);
        let mut entries = objects;
        entries.extend(folders.map(ListedEntry::folder).filter_map(relative));
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        Self { entries, markers, next: next.filter(|next| !next.is_empty()), has_moved }
    }
}

/// Request for a page.
#[derive(Clone, Debug)]
pub(crate) struct ListRequest {
    /// Start of the keys, relative to the destination; it may end in the middle of a name.
    pub(crate) prefix: String,
    /// All levels, or objects and folders of the prefix's own.
    pub(crate) is_recursive: bool,
    pub(crate) next: Option<String>,
}

/// Entity tag of an object as the store has it in its listings, without quotation marks; `None` if it has none.
pub(crate) type ObjectTag = Option<String>;

/// Part of an upload that the store has confirmed.
#[derive(Clone, Debug)]
pub(crate) struct StoredPart {
    /// From 1.
    pub(crate) number: u32,
    pub(crate) len: u64,
    /// Name of the part, or its entity tag.
    pub(crate) tag: String,
    /// Digest of the bytes in base 64, where the store computes one of the whole object from the digests of its parts.
    pub(crate) digest: Option<String>,
}

/// State of an object that a write depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// There is no object.
    Absent,
    /// The object has this version, as [`Destination::version`](super::Destination::version) returned it.
    Version(String),
}

/// Result of a conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conditional {
    Stored,
    /// The object is not as expected, and stays as it is.
    Unexpected,
    /// The store has no such writes.
    Unsupported,
}

/// Position of a part in its object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartAt<'a> {
    /// The upload, as [`Target::begin`] named it.
    pub(crate) upload: &'a str,
    /// From 1.
    pub(crate) number: u32,
    /// Offset of the part's first byte.
    pub(crate) offset: u64,
}

impl PartAt<'_> {
    /// Returns the part at this position, after the store has confirmed it.
    pub(crate) fn stored(&self, payload: &Payload, tag: String) -> StoredPart {
        StoredPart { number: self.number, len: payload.len(), tag, digest: None }
    }
}

fn in_one_request() -> Failure {
    Failure::permanent(Error::internal("this store takes an object in one request"))
}

/// Folder of one scheme that objects are written to. Its methods run on a fetch thread, and each may be called again
/// with the same arguments when its response was lost. A store that takes objects in one request has none of the
/// methods of uploads in parts.
#[async_trait(?Send)]
pub(crate) trait Target: Send + Sync {
    /// Returns the most parts of an object. 0: the store takes objects in one request.
    fn parts_max(&self) -> u64 {
        0
    }

    /// Computes the digests that a request with `payload` has. It does not run on the thread of the exchanges, for
    /// which the digests of large bodies would take too long.
    fn prepare(&self, _payload: &Payload) {}

    /// Stores an object in one request.
    async fn put(&self, context: &ThreadContext, key: &str, payload: &Payload) -> Result<ObjectTag, Failure>;

    /// Stores an object in one request if it is as expected.
    async fn put_if(
        &self,
        _context: &ThreadContext,
        _key: &str,
        _payload: &Payload,
        _expected: &Expected,
    ) -> Result<Conditional, Failure> {
        Ok(Conditional::Unsupported)
    }

    /// Returns the version of an object for [`put_if`](Self::put_if); `None` if it does not exist.
    async fn version(&self, context: &ThreadContext, key: &str) -> Result<Option<String>, Failure> {
        Ok(self.find(context, key).await?.map(|entry| entry.etag.unwrap_or_default()))
    }

    /// Begins an upload in parts, and returns its name.
    async fn begin(&self, _context: &ThreadContext, _key: &str) -> Result<String, Failure> {
        Err(in_one_request())
    }

    /// Stores a part.
    async fn put_part(
        &self,
        _context: &ThreadContext,
        _key: &str,
        _at: PartAt<'_>,
        _payload: &Payload,
    ) -> Result<StoredPart, Failure> {
        Err(in_one_request())
    }

    /// Joins the parts to an object, which appears with that.
    async fn complete(
        &self,
        _context: &ThreadContext,
        _key: &str,
        _upload: &str,
        _parts: &[StoredPart],
    ) -> Result<ObjectTag, Failure> {
        Err(in_one_request())
    }

    /// Returns the object if it consists of `parts`. Called when the upload does not exist any more: the store may have
    /// joined it, and its response may be lost.
    async fn joined(
        &self,
        _context: &ThreadContext,
        _key: &str,
        _parts: &[StoredPart],
    ) -> Result<Option<ListedEntry>, Failure> {
        Ok(None)
    }

    /// Removes the parts of an upload. One that does not exist is no error.
    async fn abort(&self, _context: &ThreadContext, _key: &str, _upload: &str) -> Result<(), Failure> {
        Err(in_one_request())
    }

    /// Returns the names of unfinished uploads of this object.
    async fn unfinished(&self, _context: &ThreadContext, _key: &str) -> Result<Vec<String>, Failure> {
        Ok(Vec::new())
    }

    async fn list(&self, context: &ThreadContext, request: &ListRequest) -> Result<Page, Failure>;

    /// Returns the description of an object; `None` if it does not exist.
    async fn find(&self, context: &ThreadContext, key: &str) -> Result<Option<ListedEntry>, Failure>;

    /// Removes an object. One that does not exist is no error.
    async fn delete(&self, context: &ThreadContext, key: &str) -> Result<(), Failure>;
}
