//! A shard's files, from the store or from their compressed form on disk, to bytes that can be published.
//!
//! Size and hash of every file are compared before its bytes are used, the table of offsets is checked, and so are the
//! checksums that the format or the compression has. A compressed file that is larger than usual shards is never
//! unpacked in memory as a whole: it is unpacked once to be checked, and again while it is written to the disk. A file
//! that is found damaged is fetched again. Samples that are damaged in the same way in all [`Attempts`] are damaged
//! where they are stored: the shard is kept for the others.

use super::attempts::{Attempts, KeptAttempt, digest_of};
use super::fetch_event::FetchEvent;
use super::ranges::RangeFetch;
use crate::cache::{Admission, FileContent, PublishFile, ResidencyGuard, StreamCache};
use crate::catalog::{Stream, name_of_shard, repeated};
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::compression::PackedBytes;
use crate::format::recipe::{ObjectRange, PackedPart};
use crate::format::{FileInfo, FilePair, HashAlgo, Recipe, Shard, hash};
use crate::io::read_regular;
use crate::stats::{Stats, TimeKind};
use crate::store::{Encoded, FetchBuffer, Fetcher, Length, Remote, fetch_whole};
use bytes::Bytes;
use forebay_core::flow::Run;
use std::borrow::Cow;
use std::path::PathBuf;

/// Origin of a stream's files.
#[derive(Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// The engine's own transports.
    Store(&'a Remote),
    /// A downloader that the program brings.
    Downloader(&'a dyn Fetcher),
}

/// Fetches and unpacks shards of one stream.
pub(crate) struct ShardFetch<'a> {
    pub(crate) stream: &'a Stream,
    /// Origin of the stream's shards, if they can be fetched.
    pub(crate) origin: Option<Origin<'a>>,
    /// A stop of this run aborts a download.
    pub(crate) run: &'a Run,
    pub(crate) stats: &'a Stats,
    /// Called with each event.
    pub(crate) watch: &'a dyn Fn(FetchEvent<'_>),
}

/// All files of a shard, in memory.
pub(crate) struct FetchedShard<'a> {
    files: Vec<FetchedFile<'a>>,
    raw_bytes: u64,
    damage: Option<Error>,
}

/// One file: its raw bytes and, if it is stored compressed, the compressed bytes as well.
struct FetchedFile<'a> {
    pair: FilePair<'a>,
    raw: Raw<'a>,
    zip: Option<Cow<'a, [u8]>>,
}

/// Raw bytes of a file.
enum Raw<'a> {
    Whole(Cow<'a, [u8]>),
    /// They are unpacked while they are written to the disk, from the compressed bytes of the file or of these.
    Packed(PackedPart, Option<Bytes>),
}

impl FetchedFile<'_> {
    /// Returns the bytes as they were fetched.
    fn stored(&self) -> &[u8] {
        match (&self.zip, &self.raw) {
            (Some(zip), _) => zip,
            (None, Raw::Whole(raw)) => raw,
            (None, Raw::Packed(_, object)) => object.as_deref().unwrap_or_default(),
        }
    }

    fn content(&self) -> FileContent<'_> {
        match &self.raw {
            Raw::Whole(raw) => FileContent::Whole(raw),
            Raw::Packed(part, _) => FileContent::Packed(packed_bytes(part, self.stored(), self.pair.raw.bytes)),
        }
    }

    /// Reads the offsets of the samples of the file, and compares their checksums. Returns the first error of a
    /// checksum.
    fn check(&self, shard: &Shard) -> Result<Option<Error>> {
        match self.content() {
            FileContent::Whole(raw) => {
                let offsets = shard.offsets(raw)?;
                Ok(shard.check(raw, &offsets).err())
            }
            FileContent::Packed(packed) => {
                let surveyed = packed.read(|file| shard.survey(file)).context("file", || &shard.raw_data.basename);
                surveyed.map(|(_, damage)| damage)
            }
        }
    }
}

fn packed_bytes<'a>(part: &PackedPart, packed: &'a [u8], bytes: u64) -> PackedBytes<'a> {
    let PackedPart { compression, content_bytes, start } = *part;
    PackedBytes { compression, packed, content_bytes, start, bytes }
}

impl ShardFetch<'_> {
    /// Fetches and unpacks every file of `shard`. `packed` are the paths of its compressed files, in the cache's order,
    /// if they are already on disk.
    ///
    /// # Errors
    ///
    /// Errors of the store, `Checksum` for bytes that differ from the recorded hash, `Format` for a shard that cannot
    /// be unpacked or contradicts its index, `Closed` when the run stops.
    pub(crate) fn fetch<'s>(&self, shard: &'s Shard, packed: Option<&[PathBuf]>) -> Result<FetchedShard<'s>> {
        if let Some(recipe) = &shard.recipe {
            return self.assemble(shard, &**recipe);
        }
        let (mut files, mut damage) = (Vec::new(), None);
        // The cache lists the data file first, the index the meta file.
        for (i, pair) in shard.files().collect::<Vec<_>>().into_iter().rev().enumerate() {
            let (file, damaged) = match (packed, self.origin) {
                (Some(paths), _) => {
                    let read = read_regular(&paths[i], pair.stored().bytes).map_err(|e| {
                        Error::from_io(e, "a compressed shard cannot be read").with("file", paths[i].display())
                    })?;
                    let attempts = Attempts::new();
                    let file = self.checked(shard, pair, read, &attempts);
                    attempts.kept(file)?
                }
                (None, Some(origin)) => self.fetch_file(origin, shard, pair)?,
                (None, None) => return Err(Error::internal("a shard without remote was claimed")),
            };
            (self.watch)(FetchEvent::File);
            files.push(file);
            damage = damage.or(damaged);
        }
        Ok(self.noted(FetchedShard { files, raw_bytes: shard.raw_bytes(), damage }))
    }

    /// Makes the data file of `shard` of the objects in `recipe`. They are fetched again if their bytes contradict
    /// their format, such as the checksum of a page.
    fn assemble<'s>(&self, shard: &'s Shard, recipe: &dyn Recipe) -> Result<FetchedShard<'s>> {
        let Some(Origin::Store(remote)) = self.origin else {
            return Err(Error::new(ErrorKind::Unsupported, "a shard of several objects needs a store of the engine"));
        };
        let (stage, unpack) = (self.stats.stage("fetch"), self.stats.stage("unpack"));
        let (encoded, watch, fetching) = (Encoded::Refused, self.watch, self.stats.fetching());
        let fetch = RangeFetch { remote, run: self.run, file: &shard.raw_data, encoded, watch };
        let pair = FilePair { raw: &shard.raw_data, zip: None };
        let (raw, damage) = self.repeated(false, |attempts| {
            let parts = stage.timed(TimeKind::Busy, || fetching.timed(|| fetch.all(&recipe.ranges())))?;
            let parts: Vec<_> = parts.into_iter().map(FetchBuffer::freeze).collect();
            stage.done(1, parts.iter().map(|part| part.len() as u64).sum());
            attempts.arrived();
            if let (Some(part), [object], true) = (recipe.packed(), &parts[..], shard.is_streamed(pair)) {
                let packed = packed_bytes(&part, object, shard.raw_data.bytes);
                let checked = unpack.timed(TimeKind::Busy, || packed.read(|file| shard.offsets(file)));
                checked.context("file", || name_of_shard(shard))?;
                return Ok(Raw::Packed(part, Some(object.clone())));
            }
            let chunks = recipe.as_chunks().map(|chunks| (chunks, parts.clone()));
            let made = unpack.timed(TimeKind::Busy, || recipe.assemble(&shard.layout, shard.samples, parts));
            let made = made.inspect_err(|error| {
                if let Some((chunks, parts)) = chunks.filter(|_| error.kind() == ErrorKind::Format)
                    && let Ok(made) = chunks.assemble_damaged(&parts)
                    && shard.offsets(&*made).is_ok()
                {
                    attempts.damaged(digest_of(parts.iter().map(AsRef::as_ref)), Raw::Whole(made.into()));
                }
            })?;
            shard.offsets(&*made).map(|_| Raw::Whole(made.into()))
        })?;
        (self.watch)(FetchEvent::File);
        let raw_bytes = match &raw {
            Raw::Whole(raw) => raw.len() as u64,
            Raw::Packed(..) => shard.raw_data.bytes,
        };
        unpack.done(1, raw_bytes);
        let files = vec![FetchedFile { pair, raw, zip: None }];
        Ok(self.noted(FetchedShard { files, raw_bytes, damage }))
    }

    /// Fetches and unpacks a file, again if it does not match its hash, or without one if its bytes contradict their
    /// format. A file with a hash is also fetched again if it changed on the way, since it may have been replaced by an
    /// equal one.
    fn fetch_file<'s>(
        &self,
        origin: Origin<'_>,
        shard: &Shard,
        pair: FilePair<'s>,
    ) -> Result<KeptAttempt<FetchedFile<'s>>> {
        let (stage, file) = (self.stats.stage("fetch"), pair.stored());
        let has_hash = expected_hash(self.stream, file).is_some();
        self.repeated(has_hash, |attempts| {
            let fetch = || match origin {
                Origin::Store(remote) => self.fetch_from_store(remote, file),
                Origin::Downloader(fetcher) => self.fetch_by_downloader(fetcher, file),
            };
            let fetched = stage.timed(TimeKind::Busy, || self.stats.fetching().timed(fetch))?;
            stage.done(1, file.bytes);
            self.checked(shard, pair, fetched, attempts)
        })
    }

    /// Compares the `stored` bytes of a file with their hash, unpacks them, and checks the result if it is the file
    /// with the offsets of the samples: without a hash, a file of the right size may still be anything. Notes a file
    /// whose samples are damaged in `attempts`.
    fn checked<'s>(
        &self,
        shard: &Shard,
        pair: FilePair<'s>,
        stored: Vec<u8>,
        attempts: &Attempts<FetchedFile<'s>>,
    ) -> Result<FetchedFile<'s>> {
        check_hash(self.stream, pair.stored(), &stored)?;
        attempts.arrived();
        let file = unpack(shard, pair, stored.into(), self.stats)?;
        if !std::ptr::eq(pair.raw, shard.table_file()) {
            return Ok(file);
        }
        match file.check(shard)? {
            None => Ok(file),
            Some(error) => {
                attempts.damaged(digest_of([file.stored()]), file);
                Err(error)
            }
        }
    }

    /// Calls `fetch` until its result has no error, or one that shows no damage. Samples that are damaged where they
    /// are stored are no error of the shard.
    fn repeated<T>(&self, has_hash: bool, fetch: impl Fn(&Attempts<T>) -> Result<T>) -> Result<KeptAttempt<T>> {
        let is_damage = |error: &Error| match error.kind() {
            ErrorKind::Checksum | ErrorKind::Stale => has_hash,
            // With the right hash it is damaged where it is stored.
            ErrorKind::Format => !has_hash,
            _ => false,
        };
        let failed = |error: &Error| {
            log::info!("{}: {error}", self.stream.name);
            self.stats.counter("store_retries").add(1);
        };
        let attempts = Attempts::new();
        let attempt = || {
            attempts.begin();
            fetch(&attempts)
        };
        let mut result = repeated(self.stream.download_retry, is_damage, failed, |_| attempt());
        if let Err(error) = &result
            && !has_hash
            && attempts.is_single_damage()
        {
            failed(error);
            result = attempt();
        }
        attempts.kept(result)
    }

    /// Logs the damage of a shard.
    fn noted<'s>(&self, shard: FetchedShard<'s>) -> FetchedShard<'s> {
        if let Some(damage) = &shard.damage {
            let stream = &self.stream.name;
            log::warn!("{stream}: samples are damaged in the source, and reading them is an error: {damage}");
        }
        shard
    }

    fn fetch_from_store(&self, remote: &Remote, file: &FileInfo) -> Result<Vec<u8>> {
        let bytes = Some(file.bytes);
        let whole =
            ObjectRange { key: file.basename.as_str().into(), start: 0, bytes: file.bytes, object_bytes: bytes };
        // A hash is compared instead of versions: an equal file may have been written again.
        let remote = if expected_hash(self.stream, file).is_some() { &remote.without_versions() } else { remote };
        let fetch = RangeFetch { remote, run: self.run, file, encoded: Encoded::OfFile, watch: self.watch };
        let fetched = fetch.all(&[whole])?;
        // No copy: the buffer is whole and has one owner.
        fetched.into_iter().next().map(Vec::from).ok_or_else(|| Error::internal("a fetch without a result"))
    }

    fn fetch_by_downloader(&self, fetcher: &dyn Fetcher, file: &FileInfo) -> Result<Vec<u8>> {
        let watch = |progress, moved| {
            self.run.check()?;
            (self.watch)(FetchEvent::Bytes { file, progress, moved });
            Ok(())
        };
        fetch_whole(fetcher, &file.basename, Length::Exactly(file.bytes), watch)
    }
}

fn unpack<'a>(shard: &Shard, pair: FilePair<'a>, stored: Cow<'a, [u8]>, stats: &Stats) -> Result<FetchedFile<'a>> {
    let (Some(compression), Some(zip)) = (shard.compression, pair.zip) else {
        return Ok(FetchedFile { pair, raw: Raw::Whole(stored), zip: None });
    };
    if shard.is_streamed(pair) {
        let part = PackedPart { compression, content_bytes: pair.raw.bytes, start: 0 };
        if !std::ptr::eq(pair.raw, shard.table_file()) {
            packed_bytes(&part, &stored, pair.raw.bytes).read(|_| Ok(())).context("file", || &zip.basename)?;
        }
        return Ok(FetchedFile { pair, raw: Raw::Packed(part, None), zip: Some(stored) });
    }
    let unpack = stats.stage("unpack");
    let mut raw = Vec::new();
    unpack
        .timed(TimeKind::Busy, || compression.decompress(&stored, pair.raw.bytes, &mut raw))
        .context("file", || &zip.basename)?;
    unpack.done(1, pair.raw.bytes);
    Ok(FetchedFile { pair, raw: Raw::Whole(raw.into()), zip: Some(stored) })
}

/// Returns the recorded hash to compare: of the algorithm that the user chose, or else the cheapest one.
fn expected_hash(stream: &Stream, file: &FileInfo) -> Option<(HashAlgo, String)> {
    let algo = stream.validate_hash.or_else(|| hash::cheapest(file.hashes.algos()))?;
    Some((algo, file.hashes.get(algo)?))
}

/// Compares `bytes` with the recorded hash, if there is one.
fn check_hash(stream: &Stream, file: &FileInfo, bytes: &[u8]) -> Result<()> {
    let Some((algo, expected)) = expected_hash(stream, file) else { return Ok(()) };
    let found = algo.hex(bytes);
    if found == expected {
        return Ok(());
    }
    let message =
        "a file does not match its hash in the index: its source is damaged, or it belongs to a different index";
    Err(Error::new(ErrorKind::Checksum, message)
        .with("hash", algo.name())
        .with("expected", expected)
        .with("found", found)
        .with("file", &file.basename))
}

impl FetchedShard<'_> {
    /// Writes the files and makes the shard resident. The guard keeps it on disk.
    ///
    /// # Errors
    ///
    /// As [`Admission::publish`].
    pub(crate) fn publish(&self, admission: Admission, stats: &Stats) -> Result<ResidencyGuard> {
        let publish = stats.stage("publish");
        let guard = publish.timed(TimeKind::Busy, || admission.publish(&self.list()))?;
        publish.done(1, self.raw_bytes);
        Ok(guard)
    }

    /// Writes the files over the files of `shard`, its number in `cache`; false if it is in use.
    ///
    /// # Errors
    ///
    /// As [`StreamCache::replace`].
    pub(crate) fn replace(&self, cache: &StreamCache, shard: u32) -> Result<bool> {
        cache.replace(shard, &self.list())
    }

    /// Returns the shard itself if no sample is damaged where it is stored.
    ///
    /// # Errors
    ///
    /// The error of the first damaged sample.
    pub(crate) fn undamaged(mut self) -> Result<Self> {
        self.damage.take().map_or(Ok(self), Err)
    }

    fn list(&self) -> Vec<PublishFile<'_>> {
        let mut list = Vec::new();
        for file in &self.files {
            list.push(PublishFile { name: &file.pair.raw.basename, content: file.content() });
            if let (Some(bytes), Some(zip)) = (&file.zip, file.pair.zip) {
                list.push(PublishFile { name: &zip.basename, content: FileContent::Whole(bytes) });
            }
        }
        list
    }
}
