//! Conversion of one shard's samples to its raw files.

use crate::index::{ShardSettings, config};
use crate::table::offset_table;
use forebay_core::error::Result;

/// Parts of a shard's files that are the same for all shards of a data set.
pub(super) struct Frame {
    /// Settings as JSON, which follow the offsets.
    config: Vec<u8>,
    /// Bytes before the first sample, such as a row of column names, if the offsets are in a separate file.
    head: Vec<u8>,
    is_split: bool,
}

impl Frame {
    pub(super) fn new(settings: &ShardSettings<'_>) -> Self {
        Self {
            config: config(settings).into_bytes(),
            head: settings.layout.format.head(&settings.layout.columns),
            is_split: settings.layout.format.is_split(),
        }
    }

    /// Bytes that count against the size limit before the first sample. The reference counts the header of MDS, but
    /// neither the row of names nor the offsets' file.
    pub(super) fn limit_bytes(&self) -> u64 {
        if self.is_split { 0 } else { 8 + self.config.len() as u64 }
    }

    /// Bytes that count per sample in addition to its own: its offset, if that is in the same file.
    pub(super) fn limit_bytes_per_sample(&self) -> u64 {
        if self.is_split { 0 } else { 4 }
    }

    /// Size of the data file of `samples` samples with `bytes` bytes in total.
    pub(super) fn data_file_bytes(&self, samples: u64, bytes: u64) -> u64 {
        let front = if self.is_split { self.head.len() as u64 } else { 8 + 4 * samples + self.config.len() as u64 };
        front + bytes
    }
}

/// Samples of the shard under construction.
#[derive(Default)]
pub(super) struct Samples {
    pub(super) bytes: Vec<u8>,
    pub(super) sizes: Vec<u32>,
}

/// Raw files of a shard: the data file, and the one with the offsets if the format keeps it separately. The data file
/// is in pieces, so that the samples need not be copied after their header: the header, the samples, and the trailer.
pub(super) type RawFiles = ([Vec<u8>; 3], Option<Vec<u8>>);

impl Samples {
    /// Returns the raw files of a shard with these samples and `trailer`.
    pub(super) fn into_files(self, frame: &Frame, trailer: Vec<u8>) -> Result<RawFiles> {
        let count = self.sizes.len() as u64;
        let end = frame.data_file_bytes(count, self.bytes.len() as u64);
        let table = offset_table(&self.sizes, end - self.bytes.len() as u64, &frame.config)?;
        Ok(if frame.is_split {
            ([frame.head.clone(), self.bytes, trailer], Some(table))
        } else {
            ([table, self.bytes, trailer], None)
        })
    }
}

/// Splits `bytes` into consecutive samples of these sizes.
///
/// # Panics
///
/// If the sizes exceed the bytes.
pub fn split_by_sizes<'a>(bytes: &'a [u8], sizes: &'a [u32]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = bytes;
    sizes.iter().map(move |size| {
        let (sample, after) = rest.split_at(*size as usize);
        rest = after;
        sample
    })
}
