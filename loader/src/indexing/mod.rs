//! Row indexes in data sets: written with a new data set, or added to a copy.
//!
//! * [`JpegRows`] — the [`ValueIndex`] of `jpeg` columns: [`decode::jpeg`](crate::decode::jpeg) makes the entries,
//!   [`format::trailer`](crate::format::trailer) defines their storage;
//! * [`IndexedCopy`] — copy of a data set, shard by shard, with indexes.

mod copy;
#[cfg(test)]
mod tests;

use crate::decode::jpeg::RowIndexer;
use crate::format::Encoding;
use crate::format::writer::{EntryWriter, ValueIndex};

pub use copy::{CopiedShard, IndexedCopy};

/// Row index for every value of a `jpeg` column that can have one.
#[derive(Clone, Copy, Debug, Default)]
pub struct JpegRows;

impl ValueIndex for JpegRows {
    fn covers(&self, encoding: &Encoding) -> bool {
        *encoding == Encoding::Jpeg
    }

    fn entry_writer(&self) -> EntryWriter<'_> {
        let mut indexer = RowIndexer::default();
        Box::new(move |value, out| {
            // A value without an entry is decoded in the ordinary way.
            let _ = indexer.append(value, out);
        })
    }
}
