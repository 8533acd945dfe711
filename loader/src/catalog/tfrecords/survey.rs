//! Survey of record files: by the indexes next to them, or each is read once, and unpacked before if it is compressed.

use super::indexed;
use crate::catalog::found_files::FoundFile;
use crate::catalog::pass::{Survey, Surveyed};
use crate::catalog::unpacked_file::UnpackLimits;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::tfrecord::{FeatureCounts, compression_of, count_features, count_whole_records};
use crate::format::{Compression, Index, Layout, ReadAt, Shard};
use crate::sources::tfrecords::{RecordIndex, raw_name};
use crate::store::Remote;
use crate::sync::Arc;
use std::collections::HashSet;

/// Most bytes of a file: offsets have 32 bits.
const BYTES_MAX: u64 = u32::MAX as u64;

/// End of the name of an unpacked file, if the name of the compressed one has none for its compression.
const UNPACKED: &str = ".unpacked";

/// Survey of record files.
#[derive(Clone, Copy)]
pub(super) struct RecordSurvey {
    /// The files are not compressed, as far as their names and the first of them show.
    pub(super) are_plain: bool,
    /// Shards are the files themselves, so none of them may be compressed.
    pub(super) is_in_place: bool,
}

impl Survey for RecordSurvey {
    type Counts = FeatureCounts;

    const KIND: &'static str = "tfrecord";
    const NOUN: &'static str = "file";
    const HAS_INDEX: bool = false;
    const LIMITS: UnpackLimits = UnpackLimits { packed_bytes: BYTES_MAX, raw_bytes: BYTES_MAX };

    fn known(
        &self,
        remote: &Remote,
        _: &str,
        files: &[FoundFile],
        ignore_counts: bool,
    ) -> Result<Vec<Option<Surveyed<FeatureCounts>>>> {
        if ignore_counts || !self.are_plain {
            return Ok(Vec::new());
        }
        let (indexes, features) = indexed::find(remote, files)?;
        let file = |(index, file): (Option<RecordIndex>, &FoundFile)| {
            let RecordIndex { records, bytes, .. } = index?;
            Some(Surveyed::known(self, &file.name, bytes, features.of_samples(records)))
        };
        Ok(indexes.into_iter().zip(files).map(file).collect())
    }

    fn announced(count: usize, ignore_counts: bool) -> String {
        let why = if ignore_counts { "ignore_counts" } else { "they have no index next to them (.idx)" };
        format!("{count} TFRecord files are read once to count their records: {why}")
    }

    fn compression(&self, _: &str, front: Option<&[u8]>) -> Result<Option<Compression>> {
        let compression = front.and_then(compression_of);
        if self.is_in_place && compression.is_some() {
            let message = "the file is compressed, but the first one of the list is not: read them as two streams";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(compression)
    }

    fn raw_name(&self, name: &str) -> String {
        let raw = raw_name(name);
        if raw == name { format!("{name}{UNPACKED}") } else { raw.to_owned() }
    }

    fn check_bytes(&self, bytes: u64) -> Result<()> {
        if bytes > BYTES_MAX {
            let message =
                format!("a TFRecord file of {bytes} bytes; files of more than 4 GiB are not read: write smaller ones");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(())
    }

    fn count(&self, file: &dyn ReadAt, accepts_damage: bool) -> Result<FeatureCounts> {
        if accepts_damage { count_whole_records(file) } else { count_features(file) }
    }

    fn damaged(&self, counts: &FeatureCounts) -> u64 {
        counts.damaged
    }

    fn layout(&self, counts: &FeatureCounts) -> (u64, Layout, bool) {
        (counts.samples + counts.damaged, Layout::tfrecord(counts), !counts.is_partial())
    }

    fn is_of(&self, layout: &Layout) -> bool {
        layout.format.name() == "tfrecord"
    }

    fn index(&self, files: Vec<Surveyed<FeatureCounts>>) -> Result<Index> {
        let (mut all, mut raw_names) = (FeatureCounts::default(), HashSet::new());
        for Surveyed { entry, counts, .. } in &files {
            let name = &entry.zip_data.as_ref().unwrap_or(&entry.raw_data).basename;
            let kept = if counts.is_none() { FeatureCounts::of_layout(&entry.layout, entry.samples) } else { None };
            let counts =
                counts.as_ref().or(kept.as_ref()).ok_or_else(|| Error::internal("an entry of different files"))?;
            all.merge(counts).context("file", || name)?;
            if !raw_names.insert(&entry.raw_data.basename) {
                let message = "a file is in the list as it is and compressed: leave one of them out";
                return Err(Error::config(message).with("file", name));
            }
        }
        // All shards have one layout: a feature is optional if any record of any file lacks it.
        let layout = Arc::new(Layout::tfrecord(&all));
        let shards = files.into_iter().map(|file| Shard { layout: layout.clone(), ..file.entry }).collect();
        Ok(Index { shards })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::found_files;
    use crate::catalog::pass::Pass;
    use crate::catalog::unpacked_file::Unpacking;
    use crate::clock::Clock;
    use crate::sources::Names;
    use crate::stats::Stats;
    use crate::store::{StoreConfig, Stores};
    use std::path::Path;
    use std::time::{SystemTime, UNIX_EPOCH};

    const NAMES: [&str; 3] =
        ["set.tfrecord-00000-of-00003", "set.tfrecord-00001-of-00003", "set.tfrecord-00002-of-00003"];

    /// Folder with TensorFlow's files.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/tfrecord");
        for name in NAMES {
            std::fs::copy(made.join(name), folder.path().join(name)).unwrap();
        }
        folder
    }

    /// Pass that continues the last one over the files of `folder`.
    fn pass(folder: &Path) -> Pass<RecordSurvey> {
        let root = folder.display().to_string();
        let stores = Stores::new(StoreConfig::default(), &Arc::new(Stats::default()), Clock::system()).unwrap();
        let names = Names::Listed(NAMES.map(str::to_owned).to_vec());
        let found = found_files::find(names, Some(folder), || Ok(Vec::new())).unwrap();
        let (survey, remote) = (RecordSurvey { are_plain: true, is_in_place: true }, stores.open(&root).unwrap());
        let unpacking = Unpacking::new(None);
        Pass::new(survey, &remote, &root, &found, Some(&folder.join("unfinished")), false, unpacking).unwrap()
    }

    fn index(folder: &Path) -> Result<Index> {
        pass(folder).index(&|_| (), &|| ())
    }

    fn set_time(path: &Path, time: SystemTime) {
        std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn a_pass_that_was_stopped_continues_with_files_that_are_the_same() {
        let folder = folder();
        let folder = folder.path();
        let whole = index(folder).unwrap();
        assert_eq!(whole.samples(), 18);
        let stopped_after = |number: usize| drop(pass(folder).file(number, &|| ()).unwrap());
        stopped_after(0);
        stopped_after(2);
        // A new content of the same size and time: it is not read again.
        for name in [NAMES[0], NAMES[2]] {
            let path = folder.join(name);
            let found = std::fs::metadata(&path).unwrap();
            std::fs::write(&path, vec![7; found.len() as usize]).unwrap();
            set_time(&path, found.modified().unwrap());
        }
        assert_eq!(index(folder).unwrap(), whole);
        let e = index(folder).expect_err("the pass is complete");
        assert!(e.to_string().contains("does not match its CRC"), "{e}");
        // A file that was written again is read, and one of a different size.
        let bytes = std::fs::read(folder.join(NAMES[1])).unwrap();
        std::fs::write(folder.join(NAMES[0]), &bytes).unwrap();
        std::fs::write(folder.join(NAMES[2]), &bytes).unwrap();
        stopped_after(0);
        assert_eq!(index(folder).unwrap().samples(), 21);
        stopped_after(0);
        std::fs::write(folder.join(NAMES[0]), vec![7; bytes.len()]).unwrap();
        set_time(&folder.join(NAMES[0]), UNIX_EPOCH);
        let e = index(folder).expect_err("damaged");
        assert!(e.to_string().contains("does not match its CRC"), "{e}");
        std::fs::write(folder.join(NAMES[0]), b"").unwrap();
        assert_eq!(index(folder).unwrap().samples(), 14);
    }

    #[test]
    fn a_pass_shows_its_progress_within_each_file() {
        let parts = crate::sync::AtomicUsize::new(0);
        let count = || {
            parts.fetch_add(1, crate::sync::Ordering::Relaxed);
        };
        pass(folder().path()).index(&|_| (), &count).unwrap();
        assert_eq!(parts.into_inner(), 3);
    }
}
