//! Reader of samples, which fetches their shards.

use super::data::{DataSet, STALL_TIMEOUT, StreamLocation};
use super::known_shard::{Data, KnownShard, shard_table};
use super::stored::StoredSample;
use crate::cache::{AdmitOutcome, ClaimOutcome, OpenFiles, ResidencyGuard, WaitPolicy};
use crate::catalog::{Catalog, StoreSet, name_of_shard, position_in};
use crate::clock::Clock;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::{Layout, Recipe};
use crate::io::{DirFeatures, ShardFile, read_exact_at};
use crate::order::{SampleId, ShardId, StreamId};
use crate::pipeline::{FetchEvent, LooseFiles, Origin, Run, ShardFetch, ShardTable};
use crate::stats::Stats;
use crate::store::{Fetcher, LibraryStores, Remote, StoreConfig, redact};
use crate::sync::{Arc, Mutex};
use crate::versions;
use std::os::fd::AsFd;

/// Attempts to read a sample if its shard is evicted each time before the read.
pub const ATTEMPTS: u32 = 8;

/// Largest sample that is read, in bytes.
const SAMPLE_BYTES_MAX: u32 = 1 << 30;

/// Length and layout of a sample that has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleInfo {
    /// Length: the sample is this many bytes from the start of the buffer.
    pub bytes: usize,
    /// Index into [`SampleReader::layouts`].
    pub layout: usize,
    /// It is a row of a table: columns that it lacks are null, and the table does not have [`crate::format::FIELDS`].
    pub is_row: bool,
}

/// Next use of a shard, in any unit that grows with time; `None` for shards that have not been announced.
pub(super) type NextUse<'a> = &'a (dyn Fn(ShardId) -> Option<u64> + Sync);

/// Priority of a fetch.
#[derive(Clone, Copy)]
pub(super) enum Priority<'a> {
    /// The caller waits for it.
    Now,
    /// The shard is fetched if that needs no wait for a process.
    Ahead(NextUse<'a>),
}

/// Reader of a data set's samples for one process. All methods may be called from any thread of that process.
#[derive(Debug)]
pub struct SampleReader {
    data: Arc<DataSet>,
    catalog: Catalog,
    /// True if descriptors outlive a read, which is not so if shards are evicted.
    keeps_open: bool,
    pub(super) table: ShardTable<KnownShard>,
    /// By stream, the fetcher that is used instead of the engine's store. The last streams may be missing.
    fetchers: Vec<Option<Arc<dyn Fetcher>>>,
    /// Remotes of schemes that the engine does not have.
    library: Option<LibraryStores>,
    /// Of folders with files that are read where they are.
    loose_features: Arc<DirFeatures>,
    /// Opened when the first shard has to be fetched.
    remotes: Mutex<Option<Arc<[Option<Remote>]>>>,
    stats: Arc<Stats>,
}

impl SampleReader {
    /// Opens the cache directories for this process. `fetchers`, by stream number, are used instead of the engine's
    /// store; they run on the thread that needs a shard.
    ///
    /// # Errors
    ///
    /// The errors of the directories; `Config` for a hash that an index does not record.
    pub fn open(data: Arc<DataSet>, fetchers: Vec<Option<Arc<dyn Fetcher>>>) -> Result<Self> {
        let stats = Arc::new(Stats::new(false));
        // The engine returns bytes; the Python package decides whether to unpickle them.
        let catalog = Catalog::assemble(data.streams(), data.config.cache_limit, true, &stats)?;
        // Reads are plain preads, which do not profit from O_DIRECT.
        catalog.streams().iter().for_each(|s| s.dir.keep_in_page_cache());
        Ok(Self {
            keeps_open: data.config.cache_limit.is_none(),
            table: shard_table(data.shape().num_shards()),
            data,
            catalog,
            fetchers,
            library: None,
            loose_features: DirFeatures::buffered_only(),
            remotes: Mutex::default(),
            stats,
        })
    }

    /// Fetches by `library` from remotes of schemes that the engine does not have.
    #[must_use]
    pub fn with_library(self, library: Option<LibraryStores>) -> Self {
        Self { library, ..self }
    }

    /// The data set.
    pub fn data(&self) -> &Arc<DataSet> {
        &self.data
    }

    /// The distinct layouts of the shards.
    pub fn layouts(&self) -> &[Arc<Layout>] {
        self.catalog.layouts()
    }

    /// Returns the stored file and position of a sample for people, such as "train.jsonl, line 7".
    ///
    /// # Errors
    ///
    /// `NotFound` for a sample that does not exist.
    pub fn name_of(&self, sample: SampleId) -> Result<String> {
        let (id, index) = self.locate(sample)?;
        let named = position_in(self.catalog.shard(id), index);
        let named = named.into_iter().enumerate().map(|(number, (name, fact))| match number {
            // The file.
            0 => fact,
            _ => format!(", {} {fact}", name.replace('_', " ")),
        });
        Ok(named.collect())
    }

    /// Reads a sample into `into`, which grows as needed; `None` if its shard is not resident. Waits only for the disk.
    ///
    /// # Errors
    ///
    /// `NotFound` for a sample or, without a remote, a shard that does not exist; `Format` for a shard that contradicts
    /// its index; the errors of the file system.
    pub fn read(&self, sample: SampleId, into: &mut Vec<u8>) -> Result<Option<SampleInfo>> {
        let (id, index) = self.locate(sample)?;
        self.read_in(id, index, into).map_err(|e| self.describe_sample(e, id, index))
    }

    /// Returns a sample of at least `least` bytes that is read in parts, from the open file of its resident shard;
    /// `None` for the rest.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn stored(&self, sample: SampleId, least: u32) -> Result<Option<StoredSample>> {
        let (id, index) = self.locate(sample)?;
        let found = || {
            let Some(known) = self.known(id)? else { return Ok(None) };
            let (offset, bytes) = known.offsets.range(index as usize)?;
            let Data::Open(open) = &known.data else { return Ok(None) };
            if bytes < least {
                return Ok(None);
            }
            let (file, layout) = (self.unchanged(id, open)?.clone(), self.layouts()[known.layout].clone());
            Ok(Some(StoredSample { file, offset, bytes: bytes.into(), layout }))
        };
        found().map_err(|e| self.describe_sample(e, id, index))
    }

    /// Adds the stored file and position of a sample to `error`.
    pub fn located(&self, error: Error, sample: SampleId) -> Error {
        match self.locate(sample) {
            Ok((id, index)) => self.catalog.describe_sample(error, id, index),
            Err(_) => error,
        }
    }

    /// Like [`read`](Self::read), but fetches the shard, up to `attempts` times: if space is short, a different process
    /// may evict it before it can be read.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read); the errors of the store; `Full` when `cache_limit` leaves no space, or when the shard
    /// is evicted each time before it can be read.
    pub fn fetch_and_read(&self, sample: SampleId, into: &mut Vec<u8>, attempts: u32) -> Result<SampleInfo> {
        let (id, index) = self.locate(sample)?;
        for _ in 0..attempts {
            let guard = self.make_resident(id, Priority::Now, &Run::new())?;
            let found = self.read_in(id, index, into);
            drop(guard);
            if let Some(found) = found.map_err(|e| self.describe_sample(e, id, index))? {
                return Ok(found);
            }
        }
        let message = "a shard was removed again each time before it could be read: raise `cache_limit`, or find the \
                       program that deletes it";
        Err(self.describe(Error::new(ErrorKind::Full, message).with("attempts", attempts), id))
    }

    /// Fetches `shard` if it is not resident, and waits for it.
    ///
    /// # Errors
    ///
    /// As [`fetch_and_read`](Self::fetch_and_read).
    pub fn fetch(&self, shard: ShardId) -> Result<()> {
        self.check(shard)?;
        self.make_resident(shard, Priority::Now, &Run::new()).map(drop)
    }

    /// Fetches `shard` if it is not resident and no process is fetching it. Returns true if it is resident
    /// afterwards.
    ///
    /// # Errors
    ///
    /// As [`fetch`](Self::fetch).
    pub fn try_fetch(&self, shard: ShardId) -> Result<bool> {
        self.check(shard)?;
        Ok(self.make_resident(shard, Priority::Ahead(&|_| None), &Run::new())?.is_some())
    }

    /// Removes `shard` from the local directory. Returns false if it is in use or not resident.
    ///
    /// # Errors
    ///
    /// `Config` for a shard of a stream without a remote.
    pub fn evict(&self, shard: ShardId) -> Result<bool> {
        self.check(shard)?;
        let (stream, local) = self.catalog.locate(shard);
        self.table.close(usize::MAX, |id, _| id == shard);
        stream.dir.evict(local).map_err(|e| self.describe(e, shard))
    }

    /// Removes the least recently used shard of the streams that have a remote; `None` if there is none.
    ///
    /// # Errors
    ///
    /// When a directory cannot be listed.
    pub fn evict_coldest(&self) -> Result<Option<ShardId>> {
        let mut found = Vec::new();
        for (number, stream) in (0..).map(StreamId).zip(self.catalog.streams()).filter(|(_, s)| s.dir.has_remote()) {
            let first = self.data.shape().shards_of(number).start;
            found.extend(stream.dir.least_recently_used()?.map(|(at_ns, local)| (at_ns, ShardId(first + local))));
        }
        match found.into_iter().min() {
            Some((_, shard)) => Ok(self.evict(shard)?.then_some(shard)),
            None => Ok(None),
        }
    }

    /// Bytes of the indexes and of all shards on local disk.
    ///
    /// # Errors
    ///
    /// When a directory cannot be listed.
    pub fn bytes_here(&self) -> Result<u64> {
        self.catalog.streams().iter().map(|stream| stream.dir.resident_bytes()).sum()
    }

    /// True if `shard` was resident at the last check.
    pub(super) fn was_resident(&self, shard: ShardId) -> bool {
        let (stream, local) = self.catalog.locate(shard);
        stream.dir.is_resident(local)
    }

    /// Makes `id` resident: claim, admission, download, publish. `None` if that needs a wait and `priority` is `Ahead`.
    pub(super) fn make_resident(
        &self,
        id: ShardId,
        priority: Priority<'_>,
        run: &Run,
    ) -> Result<Option<ResidencyGuard>> {
        self.fetch_shard(id, priority, run).map_err(|e| self.describe(e, id))
    }

    fn fetch_shard(&self, id: ShardId, priority: Priority<'_>, run: &Run) -> Result<Option<ResidencyGuard>> {
        let (stream, local) = self.catalog.locate(id);
        let stopped = || run.is_stopped();
        let policy = WaitPolicy::new(&stopped, STALL_TIMEOUT);
        let outcome = match priority {
            Priority::Now => stream.dir.claim(local, policy)?,
            Priority::Ahead(_) => stream.dir.try_claim(local)?,
        };
        let claim = match outcome {
            ClaimOutcome::Claimed(claim) => claim,
            ClaimOutcome::Resident(guard) => return Ok(Some(guard)),
            ClaimOutcome::Busy => return Ok(None),
        };
        let packed = claim.packed_files();
        // Admission comes before the download, and is held for the length of it.
        let admission = match priority {
            Priority::Now => claim.admit(&|_| None, policy)?,
            Priority::Ahead(next_use) => match claim.try_admit(&|shard| next_use(ShardId(shard)))? {
                AdmitOutcome::Admitted(admission) => admission,
                AdmitOutcome::Wait { .. } => return Ok(None),
            },
        };
        let remotes = self.remotes()?;
        let number = self.data.shape().stream_of(id).index();
        let origin = match self.fetcher(number) {
            Some(fetcher) => Some(Origin::Downloader(&**fetcher)),
            None => remotes[number].as_ref().map(Origin::Store),
        };
        let shard = self.catalog.shard(id);
        let watch = |event: FetchEvent<'_>| {
            if let FetchEvent::Bytes { moved: true, .. } = event {
                admission.report_progress();
            }
        };
        let fetch = ShardFetch { stream, origin, run, stats: &self.stats, watch: &watch };
        let fetched = fetch.fetch(shard, packed.as_deref())?;
        fetched.publish(admission, &self.stats).map(Some)
    }

    fn read_in(&self, id: ShardId, index: u32, into: &mut Vec<u8>) -> Result<Option<SampleInfo>> {
        let Some(known) = self.known(id)? else { return Ok(None) };
        let (offset, bytes) = known.offsets.range(index as usize)?;
        if bytes > SAMPLE_BYTES_MAX {
            return Err(Error::new(ErrorKind::Unsupported, "a sample of more than 1 GiB").with("bytes", bytes));
        }
        let bytes = bytes as usize;
        if into.len() < bytes {
            into.resize(bytes, 0);
        }
        let read = |file: &dyn AsFd, into: &mut [u8]| read_exact_at(file.as_fd(), into, offset);
        match &known.data {
            Data::Open(open) => read(&**self.unchanged(id, open)?, &mut into[..bytes])?,
            Data::Closed(access_time) => {
                let (stream, local) = self.catalog.locate(id);
                let Some(file) = stream.dir.open_once(local, access_time)? else { return Ok(None) };
                read(&file, &mut into[..bytes])?;
            }
            Data::Loose(files) => files.read(index as usize, &mut into[..bytes])?,
        }
        let shard = self.catalog.shard(id);
        let is_line = shard.line_of(index.into()).is_some();
        let is_row = is_line || shard.recipe.as_deref().is_some_and(<dyn Recipe>::is_table);
        Ok(Some(SampleInfo { bytes, layout: known.layout, is_row }))
    }

    /// Returns the open data file of a shard.
    fn unchanged<'a>(&self, id: ShardId, open: &'a OpenFiles) -> Result<&'a Arc<ShardFile>> {
        let file = &open.files[0].file;
        if self.catalog.locate(id).0.dir.versions().is_some() && file.is_changed() {
            return Err(versions::changed().with("file", file.path().display()));
        }
        Ok(file)
    }

    /// Returns the offsets and descriptors of a resident shard.
    fn known(&self, id: ShardId) -> Result<Option<Arc<KnownShard>>> {
        let (stream, local) = self.catalog.locate(id);
        let open = || {
            let layout = self.catalog.layout_of(id);
            if let Some(files) = LooseFiles::of(&self.catalog, id, &self.loose_features)? {
                let known = KnownShard::of_files(files, layout)?;
                let cost = known.cost();
                return Ok(Some((known, cost)));
            }
            // It may have to be unpacked, so it is not opened here. If it is missing, the fetch returns the error.
            if !stream.dir.has_remote() && !stream.dir.is_resident(local) {
                return Ok(None);
            }
            let Some(open) = stream.dir.open_shard(local)? else { return Ok(None) };
            // A different process may have a limit, and evict what is open here.
            let keeps_open = self.keeps_open && !stream.dir.is_limited();
            let known = KnownShard::read(self.catalog.shard(id), layout, open, keeps_open)?;
            let cost = known.cost();
            Ok(Some((known, cost)))
        };
        let known = self.table.get(id, open)?;
        // A shard that was deleted while it was open is fetched again if possible, since every process may need it
        // too.
        if stream.dir.has_remote() && known.as_ref().is_some_and(|known| known.is_evicted()) {
            self.table.close(usize::MAX, |other, _| other == id);
            return self.table.get(id, open);
        }
        Ok(known)
    }

    fn locate(&self, sample: SampleId) -> Result<(ShardId, u32)> {
        let shape = self.data.shape();
        shape.locate(sample).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "there is no such sample")
                .with("sample", sample.0)
                .with("samples", shape.num_samples())
        })
    }

    /// The shard of `sample`.
    pub(super) fn shard_of(&self, sample: SampleId) -> Result<ShardId> {
        Ok(self.locate(sample)?.0)
    }

    fn check(&self, shard: ShardId) -> Result<()> {
        let shards = self.data.shape().num_shards();
        if shard.index() < shards {
            return Ok(());
        }
        Err(Error::new(ErrorKind::NotFound, "there is no such shard").with("shard", shard.0).with("shards", shards))
    }

    fn fetcher(&self, stream: usize) -> Option<&Arc<dyn Fetcher>> {
        self.fetchers.get(stream)?.as_ref()
    }

    /// Returns the streams' remotes, opened on first use.
    fn remotes(&self) -> Result<Arc<[Option<Remote>]>> {
        let mut remotes = self.remotes.lock();
        if let Some(remotes) = &*remotes {
            return Ok(remotes.clone());
        }
        let stores = StoreSet::default();
        let open = |(number, place): (usize, &StreamLocation)| {
            let uses_store = self.fetcher(number).is_none() && place.has_remote();
            let Some(remote) = place.remote.as_ref().filter(|_| uses_store) else { return Ok(None) };
            let config = StoreConfig { library: self.library.clone(), ..place.store_config()? };
            let opened = stores.open(remote, config, &self.stats, &Clock::system());
            let opened = opened.context("remote", || redact(remote))?;
            let fetched = self.catalog.streams()[number].dir.fetched();
            let versions = fetched.map_or_else(|| self.data.versions(number), |fetched| fetched.versions().clone());
            Ok(Some(opened.comparing(versions)))
        };
        let opened: Arc<[_]> = self.data.config.streams.iter().enumerate().map(open).collect::<Result<_>>()?;
        *remotes = Some(opened.clone());
        Ok(opened)
    }

    fn describe(&self, error: Error, shard: ShardId) -> Error {
        let (stream, _) = self.catalog.locate(shard);
        error.with("file", name_of_shard(self.catalog.shard(shard))).with("stream", &stream.name)
    }

    fn describe_sample(&self, error: Error, shard: ShardId, index: u32) -> Error {
        match &self.catalog.shard(shard).recipe {
            Some(_) => self.catalog.describe_sample(error, shard, index),
            None => self.describe(error, shard).with("sample", index),
        }
    }
}
