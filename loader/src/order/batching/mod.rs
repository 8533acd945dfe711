//! Batching methods. `random` makes one sequence of all streams; the others make a sequence of each stream (its draws,
//! its deal, its shuffle) and merge them.
//!
//! A [`Batching`] maps a row of a rank's batch to a sequence and a place in it; nothing is stored per sample. Each
//! method has a file.

mod args;
mod device_per_stream;
mod origins;
mod per_stream;
mod random;
mod sequence;
mod stratified;

pub(super) use args::BatchingArgs;
pub(super) use sequence::{RankPlace, RowSource, Sequence};

use super::config::BatchingMethod;
use super::error::{OrderError, OrderWarning};

/// Rule by which sequences become batches.
#[derive(Debug)]
pub(super) enum Batching {
    Random(random::Random),
    PerStream(per_stream::PerStream),
    DevicePerStream(device_per_stream::DevicePerStream),
    Stratified(stratified::Stratified),
}

impl Batching {
    /// Makes the sequences of the configured method and the rule by which they become batches.
    pub(super) fn build(
        args: &BatchingArgs<'_>,
        warnings: &mut Vec<OrderWarning>,
    ) -> Result<(Vec<Sequence>, Self), OrderError> {
        Ok(match args.config.batching_method {
            BatchingMethod::Random => {
                let (sequences, method) = random::Random::build(args, warnings)?;
                (sequences, Self::Random(method))
            }
            BatchingMethod::PerStream => {
                let (sequences, method) = per_stream::PerStream::build(args, warnings)?;
                (sequences, Self::PerStream(method))
            }
            BatchingMethod::DevicePerStream => {
                let (sequences, method) = device_per_stream::DevicePerStream::build(args, warnings)?;
                (sequences, Self::DevicePerStream(method))
            }
            BatchingMethod::Stratified => {
                let (sequences, method) = stratified::Stratified::build(args, warnings)?;
                (sequences, Self::Stratified(method))
            }
        })
    }

    /// Number of global batches, with those that consist of padding.
    pub(super) fn batches(&self) -> u64 {
        match self {
            Self::Random(method) => method.batches(),
            Self::PerStream(method) => method.batches(),
            Self::DevicePerStream(method) => method.batches(),
            Self::Stratified(method) => method.batches(),
        }
    }

    /// Number of places of the whole epoch, all ranks together; each batch has `global_batch` of them.
    pub(super) fn end(&self, sequences: &[Sequence], global_batch: u64) -> u64 {
        match self {
            Self::Random(_) => sequences[0].partition.end(),
            Self::PerStream(method) => method.epoch_batches() * global_batch,
            Self::DevicePerStream(method) => method.epoch_batches() * global_batch,
            Self::Stratified(method) => method.epoch_batches() * global_batch,
        }
    }

    /// Moves a reader to a batch below `batches`.
    pub(super) fn seek(&self, place: &mut RankPlace, batch: u64) {
        place.batch = batch;
        match self {
            Self::Random(_) | Self::Stratified(_) => {}
            Self::PerStream(method) => method.seek(place),
            Self::DevicePerStream(method) => method.seek(place),
        }
    }

    /// The source of `column` of the reader's batch; `None` for padding.
    #[inline]
    pub(super) fn row_source(&self, sequences: &[Sequence], place: &RankPlace, column: u64) -> Option<RowSource> {
        match self {
            Self::Random(method) => method.row_source(sequences, place, column),
            Self::PerStream(method) => method.row_source(sequences, place, column),
            Self::DevicePerStream(method) => method.row_source(sequences, place, column),
            Self::Stratified(method) => method.row_source(sequences, place, column),
        }
    }
}
