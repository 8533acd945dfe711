//! The index of values behind a shard's samples: whoever knows what the values are makes the entries.

use std::fmt;

use crate::error::Result;
use crate::format::columns::Scratch;
use crate::format::encoding::Encoding;
use crate::format::layout::{Layout, ShardFormat};
use crate::format::trailer::{TRAILER_BYTES_MAX, TrailerWriter};

/// Appends the entry of one value, or nothing.
pub type Entries<'a> = Box<dyn FnMut(&[u8], &mut Vec<u8>) + 'a>;

/// Makes indexes of values.
pub trait ValueIndex: fmt::Debug + Send + Sync {
    /// Whether columns of this encoding get an index.
    fn covers(&self, encoding: &Encoding) -> bool;

    /// What makes the entries of one shard.
    fn entries(&self) -> Entries<'_>;
}

/// The [`trailer`](crate::format::trailer) of a shard of these samples: nothing where no value gets an entry, and nothing
/// but for MDS, the only format that has room for one.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] for bytes that are no sample of `layout`; [`crate::ErrorKind::Config`] for an index of
/// 4 GiB and more.
pub fn trailer_of<'a>(
    index: &dyn ValueIndex,
    layout: &Layout,
    samples: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<u8>> {
    let covered = |place: &usize| index.covers(&layout.columns[*place].encoding);
    let columns: Vec<usize> = (0..layout.columns.len()).filter(covered).collect();
    if columns.is_empty() || layout.format != ShardFormat::Mds {
        return Ok(Vec::new());
    }
    let mut trailer = TrailerWriter::new(&columns);
    let (mut entries, mut scratch) = (index.entries(), Scratch::default());
    for sample in samples {
        let values = layout.split(sample, &mut scratch)?;
        for (number, column) in columns.iter().enumerate() {
            trailer.push(number, |out| entries(values.get(*column), out))?;
        }
    }
    Ok(trailer.finish())
}

/// `trailer`, unless readers would refuse it or the shard with it: a shard is then one without an index, which costs speed
/// only. `samples_end` is the size in bytes of the shard's file without it.
pub fn trailer_that_fits(trailer: Vec<u8>, samples_end: u64) -> Vec<u8> {
    let bytes = trailer.len() as u64;
    if fits(bytes, samples_end) {
        return trailer;
    }
    log::warn!(
        "a shard gets no index of its values: {bytes} bytes behind {samples_end} are too many. Make smaller shards"
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
    fn a_trailer_that_makes_itself_or_its_shard_unreadable_is_left_out() {
        let max = u64::from(u32::MAX);
        assert!(fits(0, max) && fits(1, max - 1) && fits(TRAILER_BYTES_MAX, 0));
        assert!(!fits(1, max) && !fits(2, max - 1) && !fits(TRAILER_BYTES_MAX + 1, 0) && !fits(1, u64::MAX));
        assert_eq!(trailer_that_fits(vec![7], max - 1), [7]);
        assert!(trailer_that_fits(vec![7], max).is_empty());
    }
}
