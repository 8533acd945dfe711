//! Survey of a tar: it is read once, and unpacked before if it is compressed.

use crate::catalog::pass::Survey;
use crate::error::Result;
use crate::format::tar::{FieldCounts, count_fields};
use crate::format::{Compression, Layout, ReadAt};
use crate::sources::tars::Packing;

/// Survey of tars.
pub(super) struct TarSurvey;

impl Survey for TarSurvey {
    type Counts = FieldCounts;

    const NOUN: &'static str = "tar";
    const PACKED_BYTES_MAX: u64 = 4 << 30;
    const RAW_BYTES_MAX: u64 = 8 << 30;

    fn compression_by_name(&self, name: &str) -> Result<Option<Compression>> {
        Ok(match Packing::of(name)? {
            Some(Packing::Compressed(compression)) => Some(compression),
            Some(Packing::Plain) | None => None,
        })
    }

    fn raw_name(&self, name: &str) -> String {
        raw_name(name)
    }

    fn count(&self, file: &dyn ReadAt) -> Result<FieldCounts> {
        count_fields(file)
    }

    fn layout(&self, counts: &FieldCounts) -> (u64, Layout) {
        (counts.samples, Layout::tar(counts))
    }
}

/// Name of a tar in the cache: "a.tar" for "a.tar", "a.tar.gz" and "a.tgz".
pub(super) fn raw_name(name: &str) -> String {
    if Packing::is_plain(name) {
        return name.to_owned();
    }
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    if stem.to_ascii_lowercase().ends_with(".tar") { stem.to_owned() } else { format!("{stem}.tar") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compressed_tar_is_unpacked_under_the_name_without_its_compression() {
        for (name, raw) in [("a/0.tar.gz", "a/0.tar"), ("0.tar", "0.tar"), ("0.tgz", "0.tar"), ("0.TAR.zst", "0.TAR")] {
            assert_eq!(raw_name(name), raw);
        }
    }
}
