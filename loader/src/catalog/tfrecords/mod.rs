//! TensorFlow's record files as the shards of a stream.
//!
//! Their index is made of the indexes that other programs left next to them, by `indexed`, or of one [`pass`](super::pass) over the
//! files with their `survey`. It stays in the stream's folder on local disk.

mod indexed;
mod survey;

use super::cache_folder::unfinished;
use super::file_versions::{Condition, check, remove_outdated, with_versions};
use super::found_files::{FoundFile, names_of};
use super::index_origin::IndexOrigin;
use super::opening::{Files, OpenFiles, Opening};
use super::pass::{FRONT_BYTES, Pass, Surveyed};
use super::pass_journal::PassJournal;
use super::stream::IndexedStream;
use crate::error::{Context, Error, Result};
use crate::format::tfrecord::{FeatureCounts, compression_of};
use crate::format::{INDEX_BASENAME, Index, Layout, Shard};
use crate::io::read_up_to_at;
use crate::sources::tfrecords::raw_name;
use crate::store::Remote;
use crate::sync::Arc;
use std::borrow::Cow;
use std::collections::HashSet;
use std::path::PathBuf;
use survey::RecordSurvey;

/// File with the features of its records.
type RecordFile = Surveyed<FeatureCounts>;

/// Opener of TensorFlow's record files.
pub(super) struct Opener;

impl OpenFiles for Opener {
    fn open(&self, at: &Opening<'_>, files: Files) -> Result<IndexedStream> {
        let names = files.into_names()?;
        let cache = at.list_cache(&names.listed().join("\n"))?;
        let (root, folder, condition) = (at.root.to_owned(), at.folder(), at.condition());
        let records = TfRecords { root, folder, files: at.find(Files::Named(names))?, cache: cache.clone(), condition };
        at.install(cache, &records)
    }
}

/// Record files by their names.
struct TfRecords {
    /// Address of their folder, with secrets.
    root: String,
    /// That folder, if it is on this machine.
    folder: Option<PathBuf>,
    files: Vec<FoundFile>,
    /// Folder of the index, and of copies of the files if they are not read in place.
    cache: PathBuf,
    condition: Condition,
}

impl IndexOrigin for TfRecords {
    fn files(&self) -> &[FoundFile] {
        &self.files
    }

    fn reads_in_place(&self) -> bool {
        self.files.iter().all(|file| raw_name(&file.name) == file.name) && !self.is_first_compressed()
    }

    fn fetch(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Vec<u8>> {
        remove_outdated(&self.cache, &self.files, self.folder.as_deref());
        let indexed = if self.condition.ignore_counts || !self.reads_in_place() {
            None
        } else {
            indexed::files(remote, &self.files)?
        };
        let journal = PassJournal::open(unfinished().ok().as_deref(), &self.root, &names_of(&self.files));
        let files = self.counted(remote, indexed.unwrap_or_default(), journal, progress)?;
        Ok(with_versions(&self.index(files)?, &self.files, self.condition.ignore_counts, None))
    }

    fn parse(&self, bytes: &[u8], name: &str) -> Result<Index> {
        let index = Index::parse(bytes, &format!("{name}/{INDEX_BASENAME}"))?;
        check(&index, bytes, &self.files, self.condition)?;
        Ok(index)
    }

    fn identity<'a>(&self, index: &Index, _: &'a [u8]) -> Cow<'a, [u8]> {
        // Without the versions: a copy of the files has others.
        index.to_json().into_bytes().into()
    }
}

impl TfRecords {
    /// Returns true if the first of the files on this machine is compressed, whatever its name: others are then, too.
    fn is_first_compressed(&self) -> bool {
        let (Some(folder), Some(file)) = (&self.folder, self.files.first()) else { return false };
        let mut front = [0; FRONT_BYTES];
        // A file that cannot be read is an error when it is counted.
        let path = folder.join(&file.name);
        let opened = std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file);
        let read = opened
            .and_then(|_| std::fs::File::open(&path).ok())
            .and_then(|file| read_up_to_at(file, &mut front, 0).ok());
        read.is_some_and(|bytes| compression_of(&front[..bytes]).is_some())
    }

    /// Reads the files once that are not in `indexed`, but for those in `journal`.
    fn counted(
        &self,
        remote: &Remote,
        mut indexed: Vec<Option<RecordFile>>,
        journal: PassJournal,
        progress: &(dyn Fn() + Sync),
    ) -> Result<Vec<RecordFile>> {
        indexed.resize_with(self.files.len(), || None);
        let survey = RecordSurvey { is_in_place: self.folder.is_some() && self.reads_in_place() };
        let pass = Pass::new(survey, remote.clone(), names_of(&self.files), journal);
        let numbers: Vec<usize> = (0..self.files.len()).filter(|number| indexed[*number].is_none()).collect();
        let all = numbers.iter().filter(|number| !pass.is_known(**number)).count();
        if all > 0 {
            let why =
                if self.condition.ignore_counts { "ignore_counts" } else { "they have no index next to them (.idx)" };
            log::warn!("{all} TFRecord files are read once to count their records: {why}");
        }
        let mut read = pass.files(&numbers, &|_| (), progress)?.into_iter();
        let files = indexed.into_iter().filter_map(|file| file.or_else(|| read.next())).collect();
        pass.end();
        Ok(files)
    }

    /// Returns the index of `files`, which have the names in their order.
    fn index(&self, files: Vec<RecordFile>) -> Result<Index> {
        let mut all = FeatureCounts::default();
        let mut raw_names = HashSet::new();
        for (RecordFile { entry, counts, .. }, FoundFile { name, .. }) in files.iter().zip(&self.files) {
            let kept = if counts.is_none() { FeatureCounts::of_layout(&entry.layout, entry.samples) } else { None };
            let counts = counts.as_ref().or(kept.as_ref());
            let counts = counts.ok_or_else(|| Error::internal("an entry of another format was kept"))?;
            all.merge(counts).context("file", || name)?;
            if !raw_names.insert(entry.raw_data.basename.clone()) {
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

    fn files(folder: &Path) -> (TfRecords, Remote) {
        let root = folder.display().to_string();
        let stores = Stores::new(StoreConfig::default(), &Arc::new(Stats::default()), Clock::system()).unwrap();
        let remote = stores.open(&root).unwrap();
        let names = Names::Listed(NAMES.map(str::to_owned).to_vec());
        let found = found_files::find(names, Some(folder), || Ok(Vec::new())).unwrap();
        let (folder, cache) = (Some(folder.to_owned()), folder.join("cache"));
        let condition = Condition { ignore_counts: false, is_verified: false };
        (TfRecords { root, folder, files: found, cache, condition }, remote)
    }

    fn set_time(path: &Path, time: SystemTime) {
        std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    fn kept(files: &TfRecords, folder: &Path) -> PassJournal {
        PassJournal::open(Some(&folder.join("unfinished")), &files.root, &names_of(&files.files))
    }

    #[test]
    fn a_pass_that_was_stopped_continues_with_files_that_are_the_same() {
        let folder = folder();
        let (files, remote) = files(folder.path());
        let none = || PassJournal::open(None, &files.root, &names_of(&files.files));
        let whole = files.index(files.counted(&remote, Vec::new(), none(), &|| ()).unwrap()).unwrap();
        assert_eq!(whole.samples(), 18);
        let of_stopped_pass = |number: usize| {
            let journal = kept(&files, folder.path());
            let pass = Pass::new(RecordSurvey { is_in_place: true }, remote.clone(), names_of(&files.files), journal);
            pass.file(number, &|| ()).unwrap();
        };
        of_stopped_pass(0);
        of_stopped_pass(2);
        // Another content of the same size and time: it is not read again.
        for name in [NAMES[0], NAMES[2]] {
            let path = folder.path().join(name);
            let found = std::fs::metadata(&path).unwrap();
            std::fs::write(&path, vec![7; found.len() as usize]).unwrap();
            set_time(&path, found.modified().unwrap());
        }
        let continued = files.counted(&remote, Vec::new(), kept(&files, folder.path()), &|| ()).unwrap();
        assert_eq!(files.index(continued).unwrap(), whole);
        let e = files
            .counted(&remote, Vec::new(), kept(&files, folder.path()), &|| ())
            .err()
            .expect("the pass is complete");
        assert!(e.to_string().contains("does not match its CRC"), "{e}");
        // A file that was written again is read, and one of another size.
        let bytes = std::fs::read(folder.path().join(NAMES[1])).unwrap();
        std::fs::write(folder.path().join(NAMES[0]), &bytes).unwrap();
        std::fs::write(folder.path().join(NAMES[2]), &bytes).unwrap();
        of_stopped_pass(0);
        let same = files.counted(&remote, Vec::new(), kept(&files, folder.path()), &|| ()).unwrap();
        assert_eq!(files.index(same).unwrap().samples(), 21);
        of_stopped_pass(0);
        std::fs::write(folder.path().join(NAMES[0]), vec![7; bytes.len()]).unwrap();
        set_time(&folder.path().join(NAMES[0]), UNIX_EPOCH);
        let e = files.counted(&remote, Vec::new(), kept(&files, folder.path()), &|| ()).err().expect("damaged");
        assert!(e.to_string().contains("does not match its CRC"), "{e}");
        std::fs::write(folder.path().join(NAMES[0]), b"").unwrap();
        let smaller = files.counted(&remote, Vec::new(), kept(&files, folder.path()), &|| ()).unwrap();
        assert_eq!(files.index(smaller).unwrap().samples(), 14);
    }

    #[test]
    fn a_pass_shows_its_progress_within_each_file() {
        let folder = folder();
        let (files, remote) = files(folder.path());
        let parts = crate::sync::AtomicUsize::new(0);
        let count = || {
            parts.fetch_add(1, crate::sync::Ordering::Relaxed);
        };
        files
            .counted(&remote, Vec::new(), PassJournal::open(None, &files.root, &names_of(&files.files)), &count)
            .unwrap();
        assert_eq!(parts.into_inner(), 3);
    }
}
