//! Object of a store that is read from front to back, with jumps.

use super::requests::peek;
use crate::error::{Error, Result};
use crate::format::ReadAt;
use crate::store::{FetchRequest, Peek, Remote, Version};
use std::cell::RefCell;

/// Bytes that are fetched at once. A reader that jumps farther skips the bytes between.
const WINDOW_BYTES: u64 = 8 << 20;

/// Bytes that are fetched with the length.
const FRONT_BYTES: usize = 256 << 10;

/// Object of a store, with one window of it in memory.
pub(super) struct RemoteFile<'a> {
    remote: &'a Remote,
    key: &'a str,
    bytes: u64,
    version: Option<Version>,
    window: RefCell<ReadWindow>,
    /// Called after each request.
    progress: &'a dyn Fn(),
}

struct ReadWindow {
    start: u64,
    content: Vec<u8>,
}

impl<'a> RemoteFile<'a> {
    /// Opens the object `key` of `remote`.
    ///
    /// # Errors
    ///
    /// Errors of the store.
    pub(super) fn open(remote: &'a Remote, key: &'a str, progress: &'a dyn Fn()) -> Result<Self> {
        let Peek { front, len, version, .. } = peek(remote, key, FRONT_BYTES)?;
        let window = RefCell::new(ReadWindow { start: 0, content: front });
        Ok(Self { remote, key, bytes: len, version, window, progress })
    }

    /// Version of the content, if the store has one.
    pub(super) fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    fn fetch(&self, start: u64, bytes: u64) -> Result<Vec<u8>> {
        let request = FetchRequest::try_new(self.key, bytes)?;
        let request = FetchRequest { start, object_len: Some(self.bytes), version: self.version.clone(), ..request };
        let content = self.remote.fetch(request)?.wait()?.into();
        (self.progress)();
        Ok(content)
    }
}

impl ReadAt for RemoteFile<'_> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        let end = offset.saturating_add(into.len() as u64);
        if end > self.bytes {
            return Err(Error::format(format!("the file ends at byte {} of {end}", self.bytes)));
        }
        let mut window = self.window.borrow_mut();
        if offset < window.start || end > window.start + window.content.len() as u64 {
            // Without ranges, each request would receive all bytes before it again.
            let window_bytes = if self.remote.has_ranges() { WINDOW_BYTES } else { u64::MAX };
            let bytes = window_bytes.max(into.len() as u64).min(self.bytes - offset);
            *window = ReadWindow { start: offset, content: self.fetch(offset, bytes)? };
        }
        into.copy_from_slice(&window.content[(offset - window.start) as usize..][..into.len()]);
        Ok(())
    }
}
