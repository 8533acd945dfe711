//! Tars of a list or a folder, for a program that makes their index.

use super::survey::TarSurvey;
use crate::catalog::cache_folder::unfinished;
use crate::catalog::found_files::{self, FoundFile};
use crate::catalog::parallel::in_threads;
use crate::catalog::pass::{Pass, Surveyed};
use crate::catalog::requests::peek;
use crate::catalog::unpacked_file::Unpacking;
use crate::clock::Clock;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::{Index, Shard};
use crate::sources::tables::folder::has_tables;
use crate::sources::tars::TAR;
use crate::sources::{ShardNames, kind_of_folder, names_of_kind, shard_names};
use crate::stats::Stats;
use crate::store::{StoreConfig, Stores, Version, local_folder, redact};
use crate::sync::{Arc, AtomicU64, Ordering};
use std::path::Path;

/// Tars of a remote folder, to make an index of them.
pub struct TarSet {
    root: String,
    pass: Pass<TarSurvey>,
    read: AtomicU64,
    samples: AtomicU64,
}

impl TarSet {
    /// Opens the tars of `list`, such as `s3://bucket/train-{000..146}.tar`, or all of a folder, with separate fetch
    /// threads.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for a text that is no list of tars, and for a folder without any; as
    /// [`Stores::new`] and [`Stores::open`]; errors of the store; [`crate::ErrorKind::Format`] for a file that is no
    /// tar file, with its name.
    pub fn of_list(list: &str, config: StoreConfig) -> Result<Self> {
        let no_tars = || {
            let message = "neither a list nor a folder of tars: their names end in .tar, .tar.gz or the like";
            Err(Error::config(message).with("list", redact(list)))
        };
        let stores = Stores::new(config, &Arc::new(Stats::default()), Clock::system())?;
        let (root, files) = match shard_names(list)? {
            Some(ShardNames { kind, root, names }) if kind == &TAR => {
                let all = || stores.files_below(&root);
                let files = found_files::find(names, local_folder(&root).as_deref(), all)?;
                (root, files)
            }
            Some(_) => return no_tars(),
            None => {
                let entries = stores.files_below(list)?;
                let names = entries.iter().map(|entry| entry.key.clone()).collect::<Vec<_>>();
                let names = names_of_kind(&TAR, &names)?;
                if names.is_empty() {
                    return no_tars();
                }
                let files = found_files::listed(names, local_folder(list).as_deref(), &entries)?;
                (list.to_owned(), files)
            }
        };
        Self::open(&stores, root, &files, unfinished().as_deref())
    }

    /// Opens the tars `files` of `root`. An interrupted pass keeps its results in the folder `unfinished`.
    fn open(stores: &Stores, root: String, files: &[FoundFile], unfinished: Option<&Path>) -> Result<Self> {
        let remote = stores.open(&root)?;
        let pass = Pass::new(TarSurvey, &remote, &root, files, unfinished, false, Unpacking::new(None))?;
        Ok(Self { root, pass, read: AtomicU64::new(0), samples: AtomicU64::new(0) })
    }

    /// Returns true if `list` names tars, or has a mistake.
    pub fn is_list(list: &str) -> bool {
        shard_names(list).map_or(true, |found| found.is_some_and(|found| found.kind == &TAR))
    }

    /// Returns true if `list` is a folder of tars: its first files have them, and no further ones that a data set may
    /// be made of.
    ///
    /// # Errors
    ///
    /// As [`Stores::new`] and [`Stores::open_destination`]; errors of the listing.
    pub fn is_folder(list: &str, config: StoreConfig) -> Result<bool> {
        if !matches!(shard_names(list), Ok(None)) {
            return Ok(false);
        }
        let stores = Stores::new(config, &Arc::new(Stats::default()), Clock::system())?;
        let page = stores.open_destination(list)?.list("", true)?.next_page()?.unwrap_or_default();
        let names: Vec<String> = page.into_iter().map(|entry| entry.key).collect();
        let are_tars = matches!(kind_of_folder(&names), Ok(Some(kind)) if kind == &TAR);
        Ok(are_tars && !has_tables(&names) && !names.iter().any(|name| name.contains(".mds")))
    }

    /// Address of their folder.
    pub fn root(&self) -> &str {
        &self.root
    }

    fn names(&self) -> &[String] {
        self.pass.names()
    }

    /// Number of tars.
    pub fn tars(&self) -> usize {
        self.names().len()
    }

    /// Tars that [`index`](Self::index) has read, and their samples.
    pub fn progress(&self) -> (u64, u64) {
        (self.read.load(Ordering::Relaxed), self.samples.load(Ordering::Relaxed))
    }

    /// Returns an index of all tars with their versions, as JSON. At most `threads` tars are read at a time; a run that
    /// was stopped continues.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a file that is no tar file, with its name; errors of the store.
    pub fn index(&self, threads: usize) -> Result<String> {
        let numbers: Vec<usize> = (0..self.tars()).collect();
        let found = in_threads(threads, &numbers, |number| {
            let found = self.entry(*number)?;
            // Relaxed: figures for people.
            self.samples.fetch_add(found.0.samples, Ordering::Relaxed);
            self.read.fetch_add(1, Ordering::Relaxed);
            Ok(found)
        })?;
        let (shards, versions): (Vec<Shard>, Vec<Option<String>>) = found.into_iter().unzip();
        let mut text = Index { shards }.to_json();
        if versions.iter().any(Option::is_some) {
            let versions: Vec<String> = versions.into_iter().map(Option::unwrap_or_default).collect();
            // At the end: they are at the start of the indexes of lists that are kept in caches.
            text.truncate(text.len() - 1);
            text.push_str(&format!(", \"versions\": {}}}", serde_json::json!(versions)));
        }
        // Checked as a whole: names are unique.
        Index::parse(text.as_bytes(), "the index")?;
        Ok(text)
    }

    /// Returns the entry of tar `number` in the index, and the version of the tar, if the store has one. The tar is
    /// read, unless a file of counts has its number of samples or an earlier run, which was stopped, has read it. Of a
    /// tar that is not read the version may be absent, with a warning. Entries are kept until [`end`](Self::end).
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a file that is no tar file, with its name; errors of the store.
    fn entry(&self, number: usize) -> Result<(Shard, Option<String>)> {
        let Surveyed { entry, version, .. } = self.pass.file(number, &|| ())?;
        if !self.pass.is_counted(number) {
            return Ok((entry, version));
        }
        let name = &self.names()[number];
        match peek(self.pass.remote(), name, 1) {
            Ok(found) => Ok((entry, found.version.as_ref().map(Version::to_string))),
            Err(e) if e.kind() == ErrorKind::NotFound => Err(e).context("tar", || name),
            Err(e) => {
                // The entry is complete without it.
                log::warn!("the index has no version of the tar {name}: {e}");
                Ok((entry, None))
            }
        }
    }

    /// Removes the entries that are kept, since the index is complete.
    pub fn end(&self) {
        self.pass.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Names;
    use crate::sync::AtomicUsize;

    /// Folder of two tars, and of entries that are kept.
    fn two_tars() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in ["0.tar", "1.tar"] {
            let mut tar = tar::Builder::new(std::fs::File::create(folder.path().join(name)).unwrap());
            let content = vec![0; 1 << 20];
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            tar.append_data(&mut header, "0.bin", &*content).unwrap();
            tar.finish().unwrap();
        }
        folder
    }

    fn opened(folder: &Path) -> TarSet {
        let stores = Stores::new(StoreConfig::default(), &Arc::new(Stats::default()), Clock::system()).unwrap();
        let root = folder.display().to_string();
        let names = Names::Listed(["0.tar", "1.tar"].map(str::to_owned).to_vec());
        let files = found_files::find(names, Some(folder), || Ok(Vec::new())).unwrap();
        TarSet::open(&stores, root, &files, Some(&folder.join("unfinished"))).unwrap()
    }

    /// Returns the number of parts that are read for the index.
    fn parts(set: &TarSet) -> usize {
        let parts = AtomicUsize::new(0);
        let count = || {
            parts.fetch_add(1, Ordering::Relaxed);
        };
        let index = set.pass.index(&|_| (), &count).unwrap();
        assert_eq!(index.samples(), 2);
        parts.load(Ordering::Relaxed)
    }

    #[test]
    fn a_pass_shows_its_progress_within_each_tar() {
        // For each tar one after the end of its front, and one at its end.
        assert_eq!(parts(&opened(two_tars().path())), 4);
    }

    #[test]
    fn a_version_that_cannot_be_requested_is_absent_but_a_tar_must_exist() {
        let folder = two_tars();
        std::fs::write(folder.path().join("sizes.json"), r#"{"0.tar": 1, "1.tar": 1}"#).unwrap();
        let set = opened(folder.path());
        assert!(set.pass.is_known(0) && set.pass.is_known(1));
        assert!(set.entry(1).unwrap().1.is_some());
        let tar = folder.path().join("1.tar");
        std::fs::remove_file(&tar).unwrap();
        let missing = set.entry(1).unwrap_err();
        assert_eq!((missing.kind(), missing.to_string().contains("1.tar")), (ErrorKind::NotFound, true));
        std::os::unix::fs::symlink("1.tar", &tar).unwrap();
        let (entry, version) = set.entry(1).unwrap();
        assert_eq!((entry.samples, version), (1, None));
    }

    #[test]
    fn a_pass_that_was_stopped_continues_with_tars_that_are_the_same() {
        let folder = two_tars();
        opened(folder.path()).entry(1).unwrap();
        let continued = opened(folder.path());
        assert_eq!([0, 1].map(|number| continued.pass.is_known(number)), [false, true]);
        assert_eq!(parts(&continued), 3);
        assert!(!opened(folder.path()).pass.is_known(1), "the index is complete");
        opened(folder.path()).entry(1).unwrap();
        let tar = folder.path().join("1.tar");
        let whole = std::fs::read(&tar).unwrap();
        // Written again, with the same bytes: a different file.
        std::fs::remove_file(&tar).unwrap();
        std::fs::write(&tar, &whole).unwrap();
        std::fs::File::options().write(true).open(&tar).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(parts(&opened(folder.path())), 4);
        opened(folder.path()).entry(1).unwrap();
        std::fs::write(&tar, [whole, vec![0; 512]].concat()).unwrap();
        assert_eq!(parts(&opened(folder.path())), 4);
    }
}
