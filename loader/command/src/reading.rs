//! Bytes of one object, fetched ahead of their use.

use crate::STOPPED_EVERY;
use forebay_loader::Result;
use forebay_loader::contents::{Ahead, ContentLimits, Event, Packing, Wanted, stored};
use forebay_loader::error::Context as _;
use forebay_loader::objects::{ObjectEntry, Objects};
use forebay_loader::store::{UploadBuffer, redact};
use forebay_loader::sync::Arc;

/// Object that is read.
pub(crate) struct Reading {
    ahead: Ahead<UploadBuffer>,
    url: String,
}

/// Progress of a reading.
pub(crate) enum Piece {
    /// Nothing has arrived in a short time.
    None,
    /// The object exists.
    Begin,
    /// The next bytes.
    Bytes(UploadBuffer),
    /// All bytes were returned.
    End,
}

impl Reading {
    /// Starts to read the object at `url` from the byte `first` on, with at most `ahead_bytes` in flight or ready. If
    /// `entry` is given, the object must still be as it was listed there.
    ///
    /// # Errors
    ///
    /// When the system refuses a thread.
    pub(crate) fn start(
        objects: &Arc<Objects>,
        url: &str,
        entry: Option<&ObjectEntry>,
        first: u64,
        ahead_bytes: u64,
    ) -> Result<Self> {
        let ahead = stored(objects.clone(), ContentLimits::of_bytes(ahead_bytes))?;
        ahead.push(Wanted {
            url: url.to_owned(),
            len: entry.map(|entry| entry.size),
            packing: Packing::Plain,
            start: first,
            version: None,
            listed_tag: entry.and_then(|entry| entry.etag.clone()),
        })?;
        Ok(Self { ahead, url: url.to_owned() })
    }

    /// Waits a short time for more.
    ///
    /// # Errors
    ///
    /// The failure of the store, with the address.
    pub(crate) fn next(&self) -> Result<Piece> {
        let event = self.ahead.next(STOPPED_EVERY).context("url", || redact(&self.url))?;
        Ok(match event {
            None => Piece::None,
            Some(Event::Begin(_)) => Piece::Begin,
            Some(Event::Item(bytes)) => Piece::Bytes(bytes),
            Some(Event::End) => Piece::End,
        })
    }
}
