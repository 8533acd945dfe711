//! Narrowing of a stream to the samples that a filter keeps.

use super::Catalog;
use super::selection::{StreamSelection, WORDS_BYTES_MAX, shortened};
use super::stream::{IndexedStream, Stream};
use crate::config::SelectConfig;
use crate::error::{Context, Result};
use crate::format::HashAlgo;
use crate::subsets::kept::KeptBuilder;
use std::ops::Range;

impl Catalog {
    /// Keeps, of the kept samples of stream number `stream`, the ones with a shard and index that `keeps` accepts.
    /// `words` describe them.
    ///
    /// # Errors
    ///
    /// `Config` if none is kept.
    pub(crate) fn narrow(&mut self, stream: usize, words: &str, keeps: impl Fn(u32, u64) -> bool) -> Result<()> {
        let narrowed = &mut self.streams[stream];
        let sizes: Vec<u64> = narrowed.index.shards.iter().map(|shard| shard.samples).collect();
        let mut kept = Vec::with_capacity(sizes.len());
        for (shard, size) in (0..).zip(&sizes) {
            let mut builder = KeptBuilder::new(*size);
            narrowed.visit_kept(shard, |range| {
                for index in range.filter(|index| keeps(shard, *index)) {
                    builder.push(index..index + 1);
                }
            });
            kept.push(builder.finish());
        }
        let words = narrowed.selection.as_ref().map_or_else(|| words.to_owned(), |s| format!("{}, {words}", s.words));
        narrowed.selection = StreamSelection::of(kept, &sizes, words).context("stream", || &narrowed.name)?;
        self.count()
    }
}

impl IndexedStream {
    /// Keeps the samples that the arguments of `stream` select.
    ///
    /// # Errors
    ///
    /// `Config` for numbers that the stream does not have, and for a selection without samples; the errors of files.
    pub(super) fn selected(mut self, options: &SelectConfig) -> Result<Self> {
        let selection = StreamSelection::new(options, self.cache.shards.index());
        self.selection = selection.context("stream", || &self.name)?;
        Ok(self)
    }
}

impl Stream {
    /// Kept samples of each shard.
    pub(super) fn counts(&self) -> Vec<u64> {
        let sizes = self.index.shards.iter().map(|shard| shard.samples);
        match &self.selection {
            None => sizes.collect(),
            Some(selection) => sizes.zip(&selection.kept).map(|(size, kept)| kept.count(size)).collect(),
        }
    }

    /// Calls `visit` with the ranges of kept samples of shard number `shard`.
    pub(crate) fn visit_kept(&self, shard: u32, mut visit: impl FnMut(Range<u64>)) {
        let samples = self.index.shards[shard as usize].samples;
        match &self.selection {
            Some(selection) => selection.kept[shard as usize].visit(samples, visit),
            None if samples == 0 => {}
            None => visit(0..samples),
        }
    }

    /// Index in shard number `shard` of its kept sample number `nth`.
    pub(super) fn index_of(&self, shard: u32, nth: u32) -> u32 {
        self.selection.as_ref().map_or(nth, |selection| selection.kept[shard as usize].index(nth))
    }
}

/// Selections of a loader's streams, for checkpoints.
pub(crate) struct Selections<'a>(pub(crate) &'a [Stream]);

impl Selections<'_> {
    /// Digest of the kept samples; `None` if all are kept.
    pub(crate) fn digest(&self) -> Option<String> {
        let of_stream = |stream: &Stream| stream.selection.as_ref().map_or(String::new(), |s| s.digest.clone());
        let digests: Vec<String> = self.0.iter().map(of_stream).collect();
        let is_whole = digests.iter().all(String::is_empty);
        (!is_whole).then(|| HashAlgo::Xxh3_64.hex(digests.join(",").as_bytes()))
    }

    /// The arguments in short; `None` if all samples are kept.
    pub(crate) fn words(&self) -> Option<String> {
        let number = (0..).zip(self.0).filter_map(|(number, stream)| Some((number, stream.selection.as_ref()?)));
        let is_one = self.0.len() == 1;
        let one = |(number, selection): (usize, &StreamSelection)| {
            let prefix = if is_one { String::new() } else { format!("stream {number}: ") };
            prefix + &selection.words
        };
        let words = number.map(one).collect::<Vec<_>>().join("; ");
        (!words.is_empty()).then(|| shortened(&words, WORDS_BYTES_MAX))
    }
}
