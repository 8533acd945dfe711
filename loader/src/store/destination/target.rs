//! Trait of the schemes: single exchanges, without retries.

use super::payload::Payload;
use crate::store::context::ThreadContext;
use crate::store::failure::Failure;
use async_trait::async_trait;
use std::time::SystemTime;

/// Object or folder of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Key relative to the destination. That of a folder ends with a slash.
    pub key: String,
    /// Bytes of the object; 0 for a folder.
    pub size: u64,
    /// Entity tag as the store has it in its listings, without quotation marks.
    pub etag: Option<String>,
    /// Time of the last change.
    pub modified: Option<SystemTime>,
}

impl Entry {
    pub(crate) fn folder(key: String) -> Self {
        Self { key, size: 0, etag: None, modified: None }
    }

    /// Returns true for a folder, which only a listing of one level has.
    pub fn is_folder(&self) -> bool {
        self.key.ends_with('/')
    }
}

/// Page of a listing, and the place of the next one.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) entries: Vec<Entry>,
    pub(crate) next: Option<String>,
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

/// Bounds of a store's uploads in parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartLimits {
    /// Most parts of an object. 0: the store takes objects in one request only.
    pub(crate) count_max: u64,
}

/// Part of an upload that the store has confirmed.
#[derive(Clone, Debug)]
pub(crate) struct StoredPart {
    /// From 1.
    pub(crate) number: u32,
    pub(crate) len: u64,
    /// Name of the part, or its entity tag.
    pub(crate) tag: String,
}

/// Place of a part in its object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartAt<'a> {
    /// The upload, as [`Target::begin`] named it.
    pub(crate) upload: &'a str,
    /// From 1.
    pub(crate) number: u32,
    /// Offset of the part's first byte.
    pub(crate) offset: u64,
}

/// Folder of one scheme that objects are written to. Its methods run on a fetch thread, and each may be called again
/// with the same arguments when its response was lost.
#[async_trait(?Send)]
pub(crate) trait Target: Send + Sync {
    fn part_limits(&self) -> PartLimits;

    /// Computes the digests that a request with `payload` has, on the caller's thread.
    fn prepare(&self, _payload: &Payload) {}

    /// Stores an object in one request.
    async fn put(&self, context: &ThreadContext, key: &str, payload: &Payload) -> Result<(), Failure>;

    /// Begins an upload in parts, and returns its name.
    async fn begin(&self, context: &ThreadContext, key: &str) -> Result<String, Failure>;

    /// Stores a part, and returns its tag.
    async fn put_part(
        &self,
        context: &ThreadContext,
        key: &str,
        at: PartAt<'_>,
        payload: &Payload,
    ) -> Result<String, Failure>;

    /// Joins the parts to an object, which appears with that.
    async fn complete(
        &self,
        context: &ThreadContext,
        key: &str,
        upload: &str,
        parts: &[StoredPart],
    ) -> Result<(), Failure>;

    /// Removes the parts of an upload. One that does not exist is no error.
    async fn abort(&self, context: &ThreadContext, key: &str, upload: &str) -> Result<(), Failure>;

    /// Returns the names of unfinished uploads of this object.
    async fn unfinished(&self, _context: &ThreadContext, _key: &str) -> Result<Vec<String>, Failure> {
        Ok(Vec::new())
    }

    async fn list(&self, context: &ThreadContext, request: &ListRequest) -> Result<Page, Failure>;

    /// Returns the size of an object; `None` if it does not exist.
    async fn size(&self, context: &ThreadContext, key: &str) -> Result<Option<u64>, Failure>;

    /// Removes an object. One that does not exist is no error.
    async fn delete(&self, context: &ThreadContext, key: &str) -> Result<(), Failure>;
}
