//! Numbers of the samples that are kept: weights and lengths, from columns that are read as for filters, or from
//! arrays.

use super::Filters;
use crate::catalog::{Catalog, Stream};
use crate::config::StreamConfig;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::order::{Buckets, SampleNumbers};
use crate::subsets::question::{Ask, Question, balanced};
use crate::subsets::values::{self, ValueSource, source_of};
use crate::sync::Arc;

/// Largest file with numbers: 512 million doubles.
const FILE_BYTES_MAX: u64 = 4 << 30;

/// Numbers of the kept samples of all streams.
#[derive(Debug, Default)]
pub(in crate::loader) struct SampleArguments {
    /// Weights of each stream's samples, if they have some.
    pub(in crate::loader) weights: Vec<Option<Arc<SampleNumbers>>>,
    pub(in crate::loader) buckets: Option<Buckets>,
}

impl Filters<'_> {
    /// Returns the weights and lengths of the kept samples of `catalog`, to which the filters have been applied.
    ///
    /// # Errors
    ///
    /// `Config` for columns and arrays without a good number for each sample, and for weights that are all 0; errors of
    /// files, shards and stores.
    pub(in crate::loader) fn sample_arguments(&self, catalog: &Catalog) -> Result<SampleArguments> {
        let mut arguments = SampleArguments::default();
        for (stream, config) in catalog.streams().iter().zip(&self.config.streams) {
            let weights = self.weights_of(stream, config).context("stream", || &stream.name)?;
            arguments.weights.push(weights.map(numbers).transpose()?);
        }
        if let Some(given) = &self.config.order.bucket_by {
            let streams = catalog.streams().iter().zip(&self.config.streams);
            let lengths = streams.map(|(stream, config)| {
                let lengths = self.values_of(stream, config, given, ("bucket_by", Ask::Length));
                numbers(lengths.context("stream", || &stream.name)?)
            });
            let (lengths, batches) = (lengths.collect::<Result<_>>()?, self.config.order.bucket_batches.into());
            arguments.buckets = Some(Buckets { lengths, batches });
        }
        Ok(arguments)
    }

    fn weights_of(&self, stream: &Stream, config: &StreamConfig) -> Result<Option<Vec<f32>>> {
        let (argument, weights) = if let Some(given) = &config.select.weights {
            ("weights", self.values_of(stream, config, given, ("weights", Ask::Number))?)
        } else if let Some(column) = &config.select.balance {
            let classes = self.column_of(stream, config, column, ("balance", Ask::Class))?;
            let weights = balanced(&classes);
            ("balance", weights.map_err(|index| absent(stream, index, column, "no value that is a class"))?)
        } else {
            return Ok(None);
        };
        if weights.iter().all(|weight| *weight == 0.0) {
            let message = format!("{argument} of all samples are 0: an epoch would have none");
            return Err(Error::config(message));
        }
        Ok(Some(weights))
    }

    /// Returns a number for each kept sample, from the column or the array that `given` names.
    fn values_of(
        &self,
        stream: &Stream,
        config: &StreamConfig,
        given: &str,
        (argument, ask): (&'static str, Ask),
    ) -> Result<Vec<f32>> {
        let named = |e: Error| e.with("argument", argument);
        match source_of(given) {
            ValueSource::Inline(text) => {
                let all = values::of_inline(text, values::value);
                all.and_then(|all| kept_of(stream, all)).map_err(named)
            }
            ValueSource::File(path) => {
                let all = read(path).and_then(|bytes| values::of_file(&bytes, values::value));
                all.and_then(|all| kept_of(stream, all)).context("file", || path).map_err(named)
            }
            ValueSource::Column(column) => {
                let found = self.column_of(stream, config, column, (argument, ask))?;
                let value = |(index, bits): (usize, &u64)| {
                    let number = f64::from_bits(*bits);
                    if number.is_nan() {
                        return Err(absent(stream, index, column, "no number"));
                    }
                    values::value(number).map_err(|e| e.with("column", column).with("sample", number_of(stream, index)))
                };
                found.iter().enumerate().map(value).collect::<Result<_>>().map_err(named)
            }
        }
    }

    /// Returns the answers about a column for all kept samples.
    fn column_of(
        &self,
        stream: &Stream,
        config: &StreamConfig,
        column: &str,
        (argument, ask): (&'static str, Ask),
    ) -> Result<Vec<u64>> {
        let question = Question::Value { column: column.to_owned(), argument, ask };
        let answers = self.answers_of(stream, config, &question, None)?;
        let mut kept = Vec::new();
        for shard in 0..stream.index.shards.len() as u32 {
            stream.visit_kept(shard, |range| kept.extend(range.map(|index| answers.long(shard, index))));
        }
        Ok(kept)
    }
}

fn numbers(values: Vec<f32>) -> Result<Arc<SampleNumbers>> {
    Ok(Arc::new(SampleNumbers::new(values)?))
}

/// Keeps the numbers of the kept samples of `stream` out of the numbers of all its samples.
pub(super) fn kept_of<T: Copy>(stream: &Stream, mut all: Vec<T>) -> Result<Vec<T>> {
    let samples = stream.index.samples();
    if all.len() as u64 != samples {
        let message = "the array has a number for each sample of the stream, also for those that are not kept, and \
                       this one has a different length";
        return Err(Error::config(message).with("numbers", all.len()).with("samples", samples));
    }
    let (mut start, mut kept) = (0, 0);
    for (shard, entry) in (0..).zip(&stream.index.shards) {
        stream.visit_kept(shard, |range| {
            for index in range {
                all[kept] = all[(start + index) as usize];
                kept += 1;
            }
        });
        start += entry.samples;
    }
    all.truncate(kept);
    Ok(all)
}

/// Number in `stream` of its kept sample `index`.
fn number_of(stream: &Stream, index: usize) -> u64 {
    let (mut start, mut kept, mut number) = (0, 0, 0);
    for (shard, entry) in (0..).zip(&stream.index.shards) {
        stream.visit_kept(shard, |range| {
            let count = range.end - range.start;
            if (kept..kept + count).contains(&(index as u64)) {
                number = start + range.start + (index as u64 - kept);
            }
            kept += count;
        });
        start += entry.samples;
    }
    number
}

/// The error of the kept sample `index` of `stream`, which has `lack` in a column.
pub(super) fn absent(stream: &Stream, index: usize, column: &str, lack: &str) -> Error {
    let message = format!("a sample has {lack} in the column `{column}`: leave such samples out with `filter`");
    Error::config(message).with("sample", number_of(stream, index))
}

/// Reads a file of numbers.
pub(super) fn read(path: &str) -> Result<Vec<u8>> {
    let read = || {
        let bytes = std::fs::metadata(path)?.len();
        if bytes > FILE_BYTES_MAX { Ok(Err(bytes)) } else { std::fs::read(path).map(Ok) }
    };
    match read().map_err(|e| Error::from_io(e, "a name that ends with .npy is a file, and it cannot be read"))? {
        Ok(bytes) => Ok(bytes),
        Err(bytes) => {
            let message = "a file of numbers has at most 4 GiB: save them as float32, or use a column";
            Err(Error::new(ErrorKind::Unsupported, message).with("bytes", bytes))
        }
    }
}
