//! Bytes that files occupy on disk. A file system has room in blocks, so that a small file takes more than its length.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of a block where the file system reports none that is one: some network file systems report the largest
/// request.
const USUAL_BYTES: u64 = 4096;

/// Largest block of a file system: XFS and Btrfs have blocks of up to 64 KiB.
const BYTES_MAX: u64 = 64 << 10;

/// Bytes of the units in which `stat` counts the blocks of a file.
const STAT_BYTES: u64 = 512;

/// Blocks of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks(u64);

impl Blocks {
    /// Counts lengths alone, for tests with files of a few bytes.
    #[cfg(test)]
    pub(crate) const OF_BYTES: Self = Self(1);

    /// Returns the blocks of the file system of `folder`, which need not exist yet.
    pub(crate) fn of(folder: &Path) -> Self {
        let found = folder.ancestors().find_map(|folder| rustix::fs::statvfs(folder).ok());
        Self::reported(found.map_or(0, |found| found.f_frsize))
    }

    fn reported(bytes: u64) -> Self {
        let is_block = bytes.is_power_of_two() && (STAT_BYTES..=BYTES_MAX).contains(&bytes);
        Self(if is_block { bytes } else { USUAL_BYTES })
    }

    /// Bytes on disk of a file of `bytes` bytes.
    pub(crate) fn of_file(self, bytes: u64) -> u64 {
        bytes.div_ceil(self.0).saturating_mul(self.0)
    }

    /// Bytes on disk of the list of names in `folder`; 0 if it does not exist.
    pub(crate) fn of_folder(self, folder: &Path) -> u64 {
        let counted = || std::fs::metadata(folder).map_or(0, |found| found.blocks().saturating_mul(STAT_BYTES));
        if self.0 == 1 { 0 } else { counted() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_occupies_whole_blocks() {
        let blocks = Blocks::reported(4096);
        assert_eq!([0, 1, 700, 4096, 4097].map(|bytes| blocks.of_file(bytes)), [0, 4096, 4096, 4096, 8192]);
        assert_eq!(blocks.of_file(u64::MAX), u64::MAX);
        assert_eq!(Blocks::OF_BYTES.of_file(700), 700);
    }

    #[test]
    fn a_size_that_is_no_block_is_taken_for_the_usual_one() {
        assert_eq!([512, 1024, 4096, 65_536].map(Blocks::reported), [512, 1024, 4096, 65_536].map(Blocks));
        for other in [0, 1, 511, 5000, 1 << 17, 1 << 20, u64::MAX] {
            assert_eq!(Blocks::reported(other), Blocks(USUAL_BYTES), "{other}");
        }
    }

    #[test]
    fn a_written_file_occupies_what_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (blocks, path) = (Blocks::of(folder.path()), folder.path().join("shard"));
        for bytes in [1, 700, 5000] {
            std::fs::write(&path, vec![7; bytes]).unwrap();
            std::fs::File::open(&path).unwrap().sync_all().unwrap();
            let on_disk = std::fs::metadata(&path).unwrap().blocks() * STAT_BYTES;
            assert!(blocks.of_file(bytes as u64) >= on_disk, "{bytes} {on_disk} {blocks:?}");
        }
        assert_eq!(Blocks::of(&folder.path().join("a/b")), blocks);
    }
}
