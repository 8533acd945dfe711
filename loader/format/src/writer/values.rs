//! Index of values after a shard's samples. An implementation of [`ValueIndex`] creates the entries.

use std::fmt;

use crate::columns::Scratch;
use crate::encoding::Encoding;
use crate::layout::Layout;
use crate::trailer::{TRAILER_BYTES_MAX, TrailerWriter};
use forebay_core::error::Result;

/// Appends the entry of one value, or nothing.
pub type EntryWriter<'a> = Box<dyn FnMut(&[u8], &mut Vec<u8>) + 'a>;

/// Source of value indexes.
pub trait ValueIndex: fmt::Debug + Send + Sync {
    /// Returns true if columns of this encoding get an index.
    fn covers(&self, encoding: &Encoding) -> bool;

    /// Returns a function that makes the entries of one shard.
    fn entry_writer(&self) -> EntryWriter<'_>;
}

/// Makes the [`trailer`](crate::trailer) of a shard with these samples. It is empty if no value gets an entry,
/// and for all formats but MDS, which have no room for one.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] for bytes that are not a sample of `layout`; [`crate::ErrorKind::Config`] for an index
/// of 4 GiB and more.
pub fn trailer_of<'a>(
    index: &dyn ValueIndex,
    layout: &Layout,
    samples: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<u8>> {
    let covered = |place: &usize| index.covers(&layout.columns[*place].encoding);
    let columns: Vec<usize> = (0..layout.columns.len()).filter(covered).collect();
    if columns.is_empty() || !layout.format.has_trailer() {
        return Ok(Vec::new());
    }
    let mut trailer = TrailerWriter::new(&columns);
    let (mut write_entry, mut scratch) = (index.entry_writer(), Scratch::default());
    for sample in samples {
        let values = layout.split(sample, &mut scratch)?;
        for (number, column) in columns.iter().enumerate() {
            trailer.push(number, |out| write_entry(values.get(*column), out))?;
        }
    }
    Ok(trailer.finish())
}

/// Returns `trailer`, unless readers would reject it or its shard: the shard then has no index, which only costs speed.
/// `samples_end` is the size in bytes of the shard's file without it.
pub fn trailer_that_fits(trailer: Vec<u8>, samples_end: u64) -> Vec<u8> {
    let bytes = trailer.len() as u64;
    if fits(bytes, samples_end) {
        return trailer;
    }
    log::warn!(
        "a shard is written without an index of its values, whose {bytes} bytes do not fit after byte {samples_end}: \
         write smaller shards"
    );
    Vec::new()
}

fn fits(trailer: u64, samples_end: u64) -> bool {
    trailer <= TRAILER_BYTES_MAX && samples_end.saturating_add(trailer) <= u64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailer_that_would_be_unreadable_is_omitted() {
        let max = u64::from(u32::MAX);
        assert!(fits(0, max) && fits(1, max - 1) && fits(TRAILER_BYTES_MAX, 0));
        assert!(!fits(1, max) && !fits(2, max - 1) && !fits(TRAILER_BYTES_MAX + 1, 0) && !fits(1, u64::MAX));
        assert_eq!(trailer_that_fits(vec![7], max - 1), [7]);
        assert!(trailer_that_fits(vec![7], max).is_empty());
    }
}
