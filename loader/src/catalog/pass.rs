//! Pass over files that have no index: each is read once, in several threads, and a pass that was stopped is continued.

use super::parallel::in_parallel;
use super::pass_journal::PassJournal;
use super::remote_file::RemoteFile;
use super::requests::peek;
use crate::error::{Context, Result};
use crate::format::{Compression, Digests, FileInfo, Layout, ReadAt, Shard};
use crate::store::{Remote, Version};
use crate::sync::{AtomicUsize, Mutex, Ordering};

/// Bytes at the front of a file that show its compression.
pub(super) const FRONT_BYTES: usize = 12;

/// Survey of a kind of files, each of which is a shard: the rest of a pass is the same for all kinds.
pub(super) trait Survey: Sync {
    /// Samples of a file, with their fields.
    type Counts: Send;

    /// Name of a file in the context of errors.
    const NOUN: &'static str;

    /// Most bytes of a compressed file, and of the same file when it is unpacked.
    const PACKED_BYTES_MAX: u64;
    const RAW_BYTES_MAX: u64;

    /// Returns the compression that the name of a file declares. Such a file is read as a whole.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a compression that is not read.
    fn compression_by_name(&self, _: &str) -> Result<Option<Compression>> {
        Ok(None)
    }

    /// Returns the compression that the first [`FRONT_BYTES`] of a file show, or fewer if it has fewer.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a compressed file that is not read in this data set.
    fn compression_by_front(&self, _: &[u8]) -> Result<Option<Compression>> {
        Ok(None)
    }

    /// Name of a compressed file in the cache, where it is unpacked.
    fn raw_name(&self, name: &str) -> String;

    /// Checks the bytes of a file that is not compressed.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a file that is too large.
    fn check_bytes(&self, _: u64) -> Result<()> {
        Ok(())
    }

    /// Counts the samples of a file.
    ///
    /// # Errors
    ///
    /// `Format` for a file of another format; errors of the store.
    fn count(&self, file: &dyn ReadAt) -> Result<Self::Counts>;

    /// Returns the number of samples and their layout.
    fn layout(&self, counts: &Self::Counts) -> (u64, Layout);

    /// Returns true if the layout shows all that is known of the samples, so that an entry is as good as the counts.
    fn is_complete(&self, _: &Self::Counts) -> bool {
        true
    }
}

/// File that was surveyed, or is known without a survey.
pub(super) struct Surveyed<C> {
    /// Entry of an index of this file alone.
    pub(super) entry: Shard,
    /// Counts that the entry was made of; `None` for an entry of an earlier run.
    pub(super) counts: Option<C>,
    /// Version of the content, if it was requested and the store has one.
    pub(super) version: Option<String>,
}

impl<C> Surveyed<C> {
    /// Returns the plain file `name` of `bytes` bytes, by the counts that other programs have made of it.
    pub(super) fn known(survey: &impl Survey<Counts = C>, name: &str, bytes: u64, counts: C) -> Self {
        Self { entry: entry(survey, name, bytes, None, &counts), counts: Some(counts), version: None }
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

/// Pass over the files of a folder.
pub(super) struct Pass<S> {
    survey: S,
    remote: Remote,
    names: Vec<String>,
    /// Entries of an earlier run that was stopped.
    journal: PassJournal,
    /// Locked while a compressed file is in memory, which is read as a whole: one at a time.
    unpacking: Mutex<()>,
}

impl<S: Survey> Pass<S> {
    /// Returns a pass over the files `names` of `remote`.
    pub(super) fn new(survey: S, remote: Remote, names: Vec<String>, journal: PassJournal) -> Self {
        Self { survey, remote, names, journal, unpacking: Mutex::new(()) }
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    pub(super) fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Returns true if file `number` is known by an earlier run, unless it was written again.
    pub(super) fn is_known(&self, number: usize) -> bool {
        self.journal.get(&self.names[number]).is_some()
    }

    /// Surveys file `number`, unless an earlier run has. `progress` is called for each part that is read.
    ///
    /// # Errors
    ///
    /// Errors of the survey and of the store, with the name of the file.
    pub(super) fn file(&self, number: usize, progress: &dyn Fn()) -> Result<Surveyed<S::Counts>> {
        let name = &self.names[number];
        self.known_or_read(name, progress).context(S::NOUN, || name)
    }

    fn known_or_read(&self, name: &str, progress: &dyn Fn()) -> Result<Surveyed<S::Counts>> {
        if let Some(kept) = self.journal.get(name)
            && kept.is_of(&peek(&self.remote, name, 1)?)
        {
            return Ok(Surveyed { entry: kept.shard.clone(), counts: None, version: kept.version.clone() });
        }
        let ReadFile { counts, bytes, packed, version } = match self.survey.compression_by_name(name)? {
            Some(compression) => self.unpacked(name, compression, progress)?,
            None => self.read(name, progress)?,
        };
        let entry = entry(&self.survey, name, bytes, packed, &counts);
        if self.survey.is_complete(&counts) {
            self.journal.add(name, &entry, version.as_ref());
        }
        Ok(Surveyed { entry, counts: Some(counts), version: version.as_ref().map(Version::to_string) })
    }

    fn read(&self, name: &str, progress: &dyn Fn()) -> Result<ReadFile<S::Counts>> {
        let file = RemoteFile::open(&self.remote, name, progress)?;
        let mut front = [0; FRONT_BYTES];
        let front = &mut front[..FRONT_BYTES.min(usize::try_from(file.bytes()).unwrap_or(FRONT_BYTES))];
        file.read_at(front, 0)?;
        if let Some(compression) = self.survey.compression_by_front(front)? {
            return self.unpacked(name, compression, progress);
        }
        self.survey.check_bytes(file.bytes())?;
        let counts = self.survey.count(&file)?;
        Ok(ReadFile { counts, bytes: file.bytes(), packed: None, version: file.version().cloned() })
    }

    /// Reads a compressed file as a whole.
    fn unpacked(&self, name: &str, compression: Compression, progress: &dyn Fn()) -> Result<ReadFile<S::Counts>> {
        let _alone = self.unpacking.lock();
        let (packed, version) = self.remote.get_small(name, S::PACKED_BYTES_MAX as usize)?;
        let raw = compression.decompress_all(&packed, S::RAW_BYTES_MAX)?;
        progress();
        let (counts, bytes) = (self.survey.count(&raw)?, raw.len() as u64);
        Ok(ReadFile { counts, bytes, packed: Some((compression, packed.len() as u64)), version })
    }

    /// Surveys the files `numbers` in several threads. `done` is called with the number of files that were read so far, and
    /// `progress` after each file and each part of one.
    ///
    /// # Errors
    ///
    /// As [`file`](Self::file).
    pub(super) fn files(
        &self,
        numbers: &[usize],
        done: &(dyn Fn(usize) + Sync),
        progress: &(dyn Fn() + Sync),
    ) -> Result<Vec<Surveyed<S::Counts>>> {
        let read = AtomicUsize::new(0);
        in_parallel(numbers, |number| {
            let surveyed = self.file(*number, progress)?;
            progress();
            if surveyed.counts.is_some() {
                done(read.fetch_add(1, Ordering::Relaxed) + 1);
            }
            Ok(surveyed)
        })
    }

    /// Removes the entries for a run that continues this one, since the index is complete.
    pub(super) fn end(&self) {
        self.journal.end();
    }
}

fn entry<S: Survey>(
    survey: &S,
    name: &str,
    bytes: u64,
    packed: Option<(Compression, u64)>,
    counts: &S::Counts,
) -> Shard {
    let info = |basename: &str, bytes| FileInfo { basename: basename.into(), bytes, hashes: Digests::default() };
    let raw_name = if packed.is_some() { survey.raw_name(name) } else { name.to_owned() };
    let (samples, layout) = survey.layout(counts);
    Shard {
        compression: packed.map(|(compression, _)| compression),
        zip_data: packed.map(|(_, bytes)| info(name, bytes)),
        ..Shard::new(layout.into(), samples, info(&raw_name, bytes))
    }
}
