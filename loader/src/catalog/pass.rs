//! Pass over files that have no index: each is read once, in several threads, and a pass that was stopped is continued.
//! A kind of files has a [`Survey`] of one file.

use super::again::again;
use super::found_files::{FoundFile, names_of};
use super::parallel::in_parallel;
use super::pass_journal::PassJournal;
use super::remote_file::RemoteFile;
use super::requests::peek;
use super::unpacked_file::{UnpackLimits, Unpacking};
use crate::error::{Context, Result};
use crate::format::{Compression, Digests, FileInfo, Index, Layout, ReadAt, Shard};
use crate::store::{Remote, Version};
use crate::sync::{AtomicUsize, Ordering};
use std::path::Path;

/// Bytes at the front of a file that show its compression.
pub(super) const FRONT_BYTES: usize = 12;

/// Survey of a kind of files. Each file is a shard.
pub(super) trait Survey: Sync {
    /// Samples of a file, with their fields.
    type Counts: Clone + Send + Sync;

    /// Name of the kind, which is kept with an index.
    const KIND: &'static str;

    /// Noun for a file, also in the context of errors.
    const NOUN: &'static str;

    /// True if the index next to the files may have their entries.
    const HAS_INDEX: bool;

    /// Most bytes of a compressed file, and of the same file when it is unpacked.
    const LIMITS: UnpackLimits;

    /// Checks the names of `files` in `remote`, which has the address `root`. Returns the files that are known by
    /// counts that came with them, or an empty list for none.
    fn known(
        &self,
        remote: &Remote,
        root: &str,
        files: &[FoundFile],
        ignore_counts: bool,
    ) -> Result<Vec<Option<Surveyed<Self::Counts>>>>;

    /// Message before `count` files are read.
    fn announced(count: usize, ignore_counts: bool) -> String;

    /// Returns the compression of a file: by its name, for one that is read as a whole, or by its first
    /// [`FRONT_BYTES`].
    fn compression(&self, name: &str, front: Option<&[u8]>) -> Result<Option<Compression>>;

    /// Name of a compressed file in the cache, where it is unpacked.
    fn raw_name(&self, name: &str) -> String;

    /// Checks the size of a file that is not compressed.
    fn check_bytes(&self, _bytes: u64) -> Result<()> {
        Ok(())
    }

    /// Counts the samples of a file, which is read from front to back. Damage of single samples is an error unless it
    /// is accepted.
    fn count(&self, file: &dyn ReadAt, accepts_damage: bool) -> Result<Self::Counts>;

    /// Number of samples that are damaged.
    fn damaged(&self, _: &Self::Counts) -> u64 {
        0
    }

    /// Returns the number of samples and their layout, and true if these show all that is known of the samples.
    fn layout(&self, counts: &Self::Counts) -> (u64, Layout, bool);

    /// Returns true for the layout of such files.
    fn is_of(&self, layout: &Layout) -> bool;

    /// Returns the index of all files, in their order.
    fn index(&self, files: Vec<Surveyed<Self::Counts>>) -> Result<Index>;
}

/// File that was surveyed, or is known without a survey.
#[derive(Clone)]
pub(super) struct Surveyed<C> {
    /// Entry of an index of only this file.
    pub(super) entry: Shard,
    /// Counts that the entry was made of; `None` for an entry of an earlier run.
    pub(super) counts: Option<C>,
    /// Version of the content, if it was requested and the store has one.
    pub(super) version: Option<String>,
}

impl<C: Clone + Send + Sync> Surveyed<C> {
    /// Returns the plain file `name` of `bytes` bytes, by the counts that were found for it.
    pub(super) fn known(survey: &impl Survey<Counts = C>, name: &str, bytes: u64, counts: C) -> Self {
        let (samples, layout, _) = survey.layout(&counts);
        let entry = Shard::new(layout.into(), samples, info(name, bytes));
        Self { entry, counts: Some(counts), version: None }
    }
}

/// Pass over the files of a folder.
pub(super) struct Pass<S: Survey> {
    pub(super) survey: S,
    remote: Remote,
    names: Vec<String>,
    /// Files that need no survey.
    known: Vec<Option<Surveyed<S::Counts>>>,
    journal: PassJournal<Shard>,
    unpacking: Unpacking,
}

impl<S: Survey> Pass<S> {
    /// Returns a pass over the files `files` of `remote`, which has the address `root`. Counts next to the files are
    /// read unless `ignore_counts`. Entries are kept in the folder `unfinished`, if there is one, until the index is
    /// complete. Compressed files are unpacked within the bounds of `unpacking`.
    pub(super) fn new(
        survey: S,
        remote: &Remote,
        root: &str,
        files: &[FoundFile],
        unfinished: Option<&Path>,
        ignore_counts: bool,
        unpacking: Unpacking,
    ) -> Result<Self> {
        let mut known = survey.known(remote, root, files, ignore_counts)?;
        known.resize_with(files.len(), || None);
        let names = names_of(files);
        let journal = PassJournal::open(unfinished, root, &names);
        Ok(Self { survey, remote: remote.clone(), names, known, journal, unpacking })
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    pub(super) fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Returns true if file `number` came with its count.
    pub(super) fn is_counted(&self, number: usize) -> bool {
        self.known[number].is_some()
    }

    /// Returns true if file `number` is not read, if it did not change.
    pub(super) fn is_known(&self, number: usize) -> bool {
        self.is_counted(number) || self.journal.get(&self.names[number]).is_some()
    }

    /// Returns file `number`, which is read unless it is known. `progress` is called for each part that is read.
    pub(super) fn file(&self, number: usize, progress: &dyn Fn()) -> Result<Surveyed<S::Counts>> {
        let name = &self.names[number];
        let found = self.known[number].clone().map_or_else(|| self.kept_or_read(name, progress), Ok);
        found.context(S::NOUN, || name)
    }

    fn kept_or_read(&self, name: &str, progress: &dyn Fn()) -> Result<Surveyed<S::Counts>> {
        if let Some(kept) = self.journal.get(name).filter(|kept| self.survey.is_of(&kept.value.layout))
            && kept.is_of(&peek(&self.remote, name, 1)?)
        {
            return Ok(Surveyed { entry: kept.value.clone(), counts: None, version: kept.version.clone() });
        }
        // Bytes that are damaged in every attempt are damaged where they are stored.
        let read = again(&self.remote, name, |is_last| match self.survey.compression(name, None)? {
            Some(compression) => self.unpacked(name, compression, is_last, progress),
            None => self.read(name, is_last, progress),
        })?;
        let damaged = self.survey.damaged(&read.counts);
        if damaged > 0 {
            log::warn!("{damaged} samples of the {} {name} are damaged: reading them is an error", S::NOUN);
        }
        let (samples, layout, is_complete) = self.survey.layout(&read.counts);
        let entry = match read.packed {
            Some((compression, packed)) => Shard {
                compression: Some(compression),
                zip_data: Some(info(name, packed)),
                ..Shard::new(layout.into(), samples, info(&self.survey.raw_name(name), read.bytes))
            },
            None => Shard::new(layout.into(), samples, info(name, read.bytes)),
        };
        if is_complete && damaged == 0 {
            self.journal.add(name, &entry, read.version.as_ref());
        }
        let version = read.version.as_ref().map(Version::to_string);
        Ok(Surveyed { entry, counts: Some(read.counts), version })
    }

    fn read(&self, name: &str, accepts_damage: bool, progress: &dyn Fn()) -> Result<ReadFile<S::Counts>> {
        let file = RemoteFile::open(&self.remote, name, progress)?;
        let mut front = [0; FRONT_BYTES];
        let front = &mut front[..FRONT_BYTES.min(usize::try_from(file.bytes()).unwrap_or(FRONT_BYTES))];
        file.read_at(front, 0)?;
        if let Some(compression) = self.survey.compression(name, Some(front))? {
            return self.unpacked(name, compression, accepts_damage, progress);
        }
        self.survey.check_bytes(file.bytes())?;
        let counts = self.survey.count(&file, accepts_damage)?;
        Ok(ReadFile { counts, bytes: file.bytes(), packed: None, version: file.version().cloned() })
    }

    /// Reads a compressed file, unpacked.
    fn unpacked(
        &self,
        name: &str,
        compression: Compression,
        accepts_damage: bool,
        progress: &dyn Fn(),
    ) -> Result<ReadFile<S::Counts>> {
        let count = |file: &dyn ReadAt| self.survey.count(file, accepts_damage);
        let read = self.unpacking.read((&self.remote, name), compression, S::LIMITS, progress, count)?;
        let packed = Some((compression, read.packed_bytes));
        Ok(ReadFile { counts: read.value, bytes: read.raw_bytes, packed, version: read.version })
    }

    /// Returns an index of all files, which are read in several threads. `done` is called with the number of files that
    /// were read so far, and `progress` after each file and each part of one.
    pub(super) fn index(&self, done: &(dyn Fn(usize) + Sync), progress: &(dyn Fn() + Sync)) -> Result<Index> {
        let read = AtomicUsize::new(0);
        let numbers: Vec<usize> = (0..self.names.len()).collect();
        let files = in_parallel(&numbers, |number| {
            let found = self.file(*number, progress)?;
            progress();
            if !self.is_known(*number) {
                done(read.fetch_add(1, Ordering::Relaxed) + 1);
            }
            Ok(found)
        })?;
        let index = self.survey.index(files)?;
        self.end();
        Ok(index)
    }

    /// Removes the entries for a run that continues this one, since the index is complete.
    pub(super) fn end(&self) {
        self.journal.end();
    }
}

/// File that was read.
struct ReadFile<C> {
    counts: C,
    /// Bytes of the unpacked file.
    bytes: u64,
    /// Compression and bytes of a compressed file.
    packed: Option<(Compression, u64)>,
    version: Option<Version>,
}

fn info(basename: &str, bytes: u64) -> FileInfo {
    FileInfo { basename: basename.into(), bytes, hashes: Digests::default() }
}
