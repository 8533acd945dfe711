//! Batching methods. `random` makes one sequence of all streams; the remaining methods make a sequence of each stream
//! (its draws, its deal, its shuffle) and merge them.
//!
//! A [`Batching`] maps a row of a rank's batch to a sequence and a cell in it; nothing is stored per sample. Each
//! method has a file.

mod args;
mod device_per_stream;
mod origins;
mod per_stream;
mod random;
mod sequence;
mod stratified;

pub(super) use args::BatchingArgs;
pub(super) use sequence::{RankPosition, RowSource, Sequence};

use super::config::BatchingMethod;
use super::error::{OrderError, OrderWarning};

/// Rule by which sequences become batches.
#[derive(Debug)]
pub(super) struct Batching {
    pub(super) method: Method,
    /// The first global batch of this plan, for methods that deal the whole epoch.
    pub(super) first: u64,
    /// Global batches of the epoch, or from `first` on if only those are dealt.
    batches: u64,
    /// Number of cells of the whole epoch, all ranks together.
    pub(super) end: u64,
}

#[derive(Debug)]
pub(super) enum Method {
    Random,
    PerStream(per_stream::PerStream),
    DevicePerStream(device_per_stream::DevicePerStream),
    Stratified(stratified::Stratified),
}

impl Batching {
    pub(super) fn build(
        args: &BatchingArgs<'_>,
        warnings: &mut Vec<OrderWarning>,
    ) -> Result<(Vec<Sequence>, Self), OrderError> {
        let (sequences, method, batches) = match args.config.batching_method {
            BatchingMethod::Random => {
                let sequence = random::build(args, warnings)?;
                let (batches, end) = (sequence.partition.batches(), sequence.partition.deal.end());
                return Ok((vec![sequence], Self { method: Method::Random, first: 0, batches, end }));
            }
            BatchingMethod::PerStream => {
                let (sequences, method, batches) = per_stream::PerStream::build(args, warnings)?;
                (sequences, Method::PerStream(method), batches)
            }
            BatchingMethod::DevicePerStream => {
                let (sequences, method, batches) = device_per_stream::DevicePerStream::build(args, warnings)?;
                (sequences, Method::DevicePerStream(method), batches)
            }
            BatchingMethod::Stratified => {
                let (sequences, method, batches) = stratified::Stratified::build(args, warnings)?;
                (sequences, Method::Stratified(method), batches)
            }
        };
        let (seen, global_batch) = (args.start.sample_in_epoch, args.global_batch());
        if !seen.is_multiple_of(global_batch) {
            warnings.push(OrderWarning::ResumeRoundedDown { multiple: global_batch });
        }
        Ok((sequences, Self { method, first: seen / global_batch, batches, end: batches * global_batch }))
    }

    /// Number of global batches of this plan, with those that consist of padding.
    pub(super) fn batches(&self) -> u64 {
        self.batches.saturating_sub(self.first)
    }

    /// Moves a reader to a batch below `batches`.
    pub(super) fn seek(&self, position: &mut RankPosition, batch: u64) {
        position.batch = self.first + batch;
        match &self.method {
            Method::Random | Method::Stratified(_) => {}
            Method::PerStream(method) => method.seek(position),
            Method::DevicePerStream(method) => method.seek(position),
        }
    }

    /// The source of `column` of the reader's batch; `None` for padding.
    #[inline]
    pub(super) fn row_source(&self, sequences: &[Sequence], position: &RankPosition, column: u64) -> Option<RowSource> {
        match &self.method {
            Method::Random => random::row_source(&sequences[0], position, column),
            Method::PerStream(method) => method.row_source(sequences, position, column),
            Method::DevicePerStream(method) => method.row_source(sequences, position, column),
            Method::Stratified(method) => method.row_source(sequences, position, column),
        }
    }
}
