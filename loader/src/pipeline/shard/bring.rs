//! The files of one shard, from the store or from their compressed form on disk to bytes that can be published.

use super::fetch::{Origin, check, fetch};
use crate::cache::{Admission, PublishFile, ResidencyGuard};
use crate::catalog::Stream;
use crate::error::{Context, Error, Result};
use crate::format::{FileInfo, FilePair, Shard};
use crate::pipeline::run::Run;
use crate::stats::{Stats, TimeKind};
use crate::store::Progress;
use std::borrow::Cow;
use std::path::PathBuf;

/// All files of a shard, in memory.
pub(crate) struct Brought<'a> {
    files: Vec<Unpacked<'a>>,
    raw_bytes: u64,
}

/// One file: its raw bytes and, if it is stored compressed, those bytes as well.
struct Unpacked<'a> {
    pair: FilePair<'a>,
    raw: Cow<'a, [u8]>,
    zip: Option<Cow<'a, [u8]>>,
}

/// How a shard's files come.
pub(crate) struct ShardFetch<'a> {
    pub(crate) stream: &'a Stream,
    /// Where the stream's shards are fetched from.
    pub(crate) origin: Option<Origin<'a>>,
    /// Its end calls a download off.
    pub(crate) run: &'a Run,
    pub(crate) stats: &'a Stats,
    /// Is told what has come.
    pub(crate) watch: &'a dyn Fn(FetchEvent<'_>),
}

/// What has come.
pub(crate) enum FetchEvent<'a> {
    /// A download was looked at; `moved` if it is farther than the last time.
    Bytes { file: &'a FileInfo, progress: Progress, moved: bool },
    /// A whole file.
    File,
}

impl ShardFetch<'_> {
    /// Fetches and unpacks every file of `shard`. `packed` are its compressed files where they lie on disk already, in
    /// the cache's order.
    ///
    /// # Errors
    ///
    /// What the store says, `Checksum` for bytes that are not the recorded ones, `Format` for a shard that cannot be
    /// unpacked, `Closed` when the run ends.
    pub(crate) fn bring<'s>(&self, shard: &'s Shard, packed: Option<&[PathBuf]>) -> Result<Brought<'s>> {
        let mut files = Vec::new();
        // The cache lists the data file first, the index the meta file.
        for (i, pair) in shard.files().collect::<Vec<_>>().into_iter().rev().enumerate() {
            let stored: Cow<'_, [u8]> = match (packed, self.origin) {
                (Some(paths), _) => {
                    let read = std::fs::read(&paths[i]).map_err(|e| {
                        Error::from_io(e, "a compressed shard cannot be read").with("file", paths[i].display())
                    })?;
                    check(self.stream, pair.stored(), &read)?;
                    read.into()
                }
                (None, Some(origin)) => {
                    let stage = self.stats.stage("fetch");
                    let file = pair.stored();
                    let watch = |progress, moved| (self.watch)(FetchEvent::Bytes { file, progress, moved });
                    let fetched = stage.timed(TimeKind::Busy, || fetch(self.stream, origin, file, self.run, watch))?;
                    stage.done(1, file.bytes);
                    (self.watch)(FetchEvent::File);
                    Cow::Owned(fetched.into())
                }
                (None, None) => return Err(Error::internal("a shard without remote was claimed")),
            };
            files.push(unpack(shard, pair, stored, self.stats)?);
        }
        Ok(Brought { files, raw_bytes: shard.raw_bytes() })
    }
}

fn unpack<'a>(shard: &Shard, pair: FilePair<'a>, stored: Cow<'a, [u8]>, stats: &Stats) -> Result<Unpacked<'a>> {
    let (Some(compression), Some(zip)) = (shard.compression, pair.zip) else {
        return Ok(Unpacked { pair, raw: stored, zip: None });
    };
    let unpack = stats.stage("unpack");
    let mut raw = Vec::new();
    unpack
        .timed(TimeKind::Busy, || compression.decompress(&stored, pair.raw.bytes, &mut raw))
        .context("file", || &zip.basename)?;
    unpack.done(1, pair.raw.bytes);
    Ok(Unpacked { pair, raw: raw.into(), zip: Some(stored) })
}

impl Brought<'_> {
    /// Writes the files and makes the shard resident.
    ///
    /// # Errors
    ///
    /// As [`Admission::publish`].
    pub(crate) fn publish(&self, admission: Admission, stats: &Stats) -> Result<ResidencyGuard> {
        let publish = stats.stage("publish");
        let mut list = Vec::new();
        for file in &self.files {
            list.push(PublishFile::new(&file.pair.raw.basename, &file.raw));
            if let (Some(zip), Some(info)) = (&file.zip, file.pair.zip) {
                list.push(PublishFile::new(&info.basename, zip));
            }
        }
        let guard = publish.timed(TimeKind::Busy, || admission.publish(&list))?;
        publish.done(1, self.raw_bytes);
        Ok(guard)
    }
}
