//! Listings of objects with their URLs.

use crate::{Error, Result};
use crate::{ListedEntry, Listing};
use forebay_core::sync::Arc;
use std::time::SystemTime;

/// Object, or folder of a listing of one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectEntry {
    /// Address of the object. The address of a folder ends with a slash.
    pub url: String,
    /// Bytes of the object; 0 for a folder.
    pub size: u64,
    /// Entity tag as the store has it in its listings, without quotation marks.
    pub etag: Option<String>,
    /// Time of the last change.
    pub modified: Option<SystemTime>,
}

/// Objects with URLs that start with a prefix, in the store's order. Pages are fetched as they are needed.
#[derive(Debug)]
pub struct ObjectListing {
    root: Arc<str>,
    listing: Listing,
}

impl ObjectListing {
    pub(super) fn new(root: Arc<str>, listing: Listing) -> Self {
        Self { root, listing }
    }

    /// Includes the empty objects by which some tools mark a folder: their addresses end with a slash.
    #[must_use]
    pub fn with_markers(self) -> Self {
        Self { listing: self.listing.with_markers(), ..self }
    }

    /// Returns the rest of the current page, or the next page; none at the end.
    ///
    /// # Errors
    ///
    /// The failure of the store; the listing ends with it.
    pub fn next_page(&mut self) -> Result<Option<Vec<ObjectEntry>>> {
        let page = self.listing.next_page()?;
        Ok(page.map(|page| page.into_iter().map(|entry| located(&self.root, entry)).collect()))
    }
}

/// Returns an entry with its address.
pub(super) fn located(root: &str, entry: ListedEntry) -> ObjectEntry {
    let ListedEntry { key, size, etag, modified } = entry;
    ObjectEntry { url: format!("{root}{key}"), size, etag, modified }
}

impl Iterator for ObjectListing {
    type Item = Result<ObjectEntry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.listing.next().map(|entry| entry.map(|entry| located(&self.root, entry)))
    }
}
