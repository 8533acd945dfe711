//! Row indexes in data sets: what a writer puts behind the samples of its shards, and data sets that get it afterwards.
//!
//! * [`JpegRows`] — the [`ValueIndex`] of `jpeg` columns: [`decode::jpeg`](crate::decode::jpeg) makes the entries,
//!   [`format::trailer`](crate::format::trailer) says how they are stored;
//! * [`IndexedCopy`] — a data set copied shard by shard, with indexes.

mod copy;
#[cfg(test)]
mod tests;

use crate::decode::jpeg::RowIndexer;
use crate::format::Encoding;
use crate::format::writer::{Entries, ValueIndex};

pub use copy::{CopiedShard, IndexedCopy};

/// A row index for every value of a `jpeg` column that can have one.
#[derive(Clone, Copy, Debug, Default)]
pub struct JpegRows;

impl ValueIndex for JpegRows {
    fn covers(&self, encoding: &Encoding) -> bool {
        *encoding == Encoding::Jpeg
    }

    fn entries(&self) -> Entries<'_> {
        let mut indexer = RowIndexer::default();
        Box::new(move |value, out| {
            // A value that gets none is decoded as it always was.
            let _ = indexer.append(value, out);
        })
    }
}
