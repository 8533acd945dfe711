//! Survey of a record file: it is read once, and unpacked before if it is compressed.

use crate::catalog::pass::Survey;
use crate::error::{Error, ErrorKind, Result};
use crate::format::tfrecord::{FeatureCounts, compression_of, count_features};
use crate::format::{Compression, Layout, ReadAt};
use crate::sources::tfrecords::raw_name;

/// Most bytes of a file: offsets are of 32 bits.
const BYTES_MAX: u64 = u32::MAX as u64;

/// End of the name of an unpacked file, if that of the compressed one has none for its compression.
const UNPACKED: &str = ".unpacked";

/// Survey of record files.
pub(super) struct RecordSurvey {
    /// Shards are the files themselves, so none of them may be compressed.
    pub(super) is_in_place: bool,
}

impl Survey for RecordSurvey {
    type Counts = FeatureCounts;

    const NOUN: &'static str = "file";
    const PACKED_BYTES_MAX: u64 = BYTES_MAX;
    const RAW_BYTES_MAX: u64 = BYTES_MAX;

    fn compression_by_front(&self, front: &[u8]) -> Result<Option<Compression>> {
        let compression = compression_of(front);
        if self.is_in_place && compression.is_some() {
            let message = "the file is compressed, and the first one is not: read them as two streams";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(compression)
    }

    fn raw_name(&self, name: &str) -> String {
        let raw = raw_name(name);
        if raw == name { format!("{name}{UNPACKED}") } else { raw.to_owned() }
    }

    fn check_bytes(&self, bytes: u64) -> Result<()> {
        if bytes <= BYTES_MAX {
            return Ok(());
        }
        let message =
            format!("a TFRecord file of {bytes} bytes; those of more than 4 GiB are not read: write smaller ones");
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    fn count(&self, file: &dyn ReadAt) -> Result<FeatureCounts> {
        count_features(file)
    }

    fn layout(&self, counts: &FeatureCounts) -> (u64, Layout) {
        (counts.samples, Layout::tfrecord(counts))
    }

    fn is_complete(&self, counts: &FeatureCounts) -> bool {
        !counts.is_partial()
    }
}
