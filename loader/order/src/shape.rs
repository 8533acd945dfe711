//! Shape of the data set: streams of shards of samples, and the search for a sample's shard.

use std::ops::Range;
use std::sync::Arc;

use super::error::OrderError;
use super::ids::{SampleId, ShardId, StreamId};

/// Largest number of samples a data set or an epoch may have: shifted positions in `py1e` are exact doubles.
pub const SAMPLES_MAX: u64 = 1 << 48;

/// Number of samples of each shard of each stream. A few bytes per shard, none per sample; cheap to clone.
#[derive(Clone, Debug)]
pub struct DataSetShape(Arc<ShapeTables>);

#[derive(Debug)]
struct ShapeTables {
    /// First sample of each shard, and the number of all samples at the end.
    shards: Steps,
    /// First shard of each stream, and the number of all shards at the end.
    streams: Vec<u32>,
    /// Hash of the sizes, for checkpoints.
    hash: u64,
}

impl DataSetShape {
    /// Makes the shape from the number of samples of each shard, by stream.
    ///
    /// # Errors
    /// There is no stream, a stream has no samples, a shard more than 2^32 - 1, or all together more than 2^48.
    pub fn new<S: AsRef<[u64]>>(streams: &[S]) -> Result<Self, OrderError> {
        OrderError::unless(!streams.is_empty(), "streams", "at least one")?;
        let shard_count: usize = streams.iter().map(|s| s.as_ref().len()).sum();
        let is_good = shard_count < u32::MAX as usize && streams.len() <= 1 << 20;
        OrderError::unless(is_good, "the number of shards", "below 2^32")?;
        let mut first_of_stream = Vec::with_capacity(streams.len() + 1);
        let mut first_of_shard = Vec::with_capacity(shard_count + 1);
        let mut hash = Hasher::default();
        let mut total = 0_u64;
        first_of_shard.push(0);
        for (stream, shards) in streams.iter().enumerate() {
            first_of_stream.push(first_of_shard.len() as u32 - 1);
            let before = total;
            for &samples in shards.as_ref() {
                OrderError::unless(
                    samples <= u64::from(u32::MAX) && total + samples <= SAMPLES_MAX,
                    "the samples of the data set",
                    "at most 2^32 - 1 in a shard and 2^48 in all",
                )?;
                total += samples;
                first_of_shard.push(total);
                hash.number(samples);
            }
            hash.number(u64::MAX);
            if total == before {
                return Err(OrderError::EmptyStream { stream: stream as u32 });
            }
        }
        first_of_stream.push(first_of_shard.len() as u32 - 1);
        Ok(Self(Arc::new(ShapeTables {
            shards: Steps::new(first_of_shard),
            streams: first_of_stream,
            hash: hash.finish(),
        })))
    }

    /// Number of streams.
    pub fn num_streams(&self) -> usize {
        self.0.streams.len() - 1
    }

    /// Number of shards of all streams.
    pub fn num_shards(&self) -> usize {
        self.0.shards.len()
    }

    /// Number of samples of all streams.
    pub fn num_samples(&self) -> u64 {
        self.0.shards.total()
    }

    /// The shards of `stream`, as shard ids.
    ///
    /// # Panics
    /// `stream` is not one of this data set.
    pub fn shards_of(&self, stream: StreamId) -> Range<u32> {
        self.0.streams[stream.index()]..self.0.streams[stream.index() + 1]
    }

    /// The samples of `stream`, as sample ids.
    ///
    /// # Panics
    /// `stream` is not one of this data set.
    pub fn samples_of(&self, stream: StreamId) -> Range<u64> {
        let shards = self.shards_of(stream);
        self.0.shards.start(shards.start as usize)..self.0.shards.start(shards.end as usize)
    }

    /// The samples in `shard`, as sample ids.
    ///
    /// # Panics
    /// `shard` is not one of this data set.
    pub fn samples_in(&self, shard: ShardId) -> Range<u64> {
        self.0.shards.range(shard.index())
    }

    /// The stream that `shard` belongs to.
    pub fn stream_of(&self, shard: ShardId) -> StreamId {
        let streams = self.0.streams.partition_point(|&first| first <= shard.0);
        StreamId(streams.saturating_sub(1) as u32)
    }

    /// The stream that `sample` belongs to.
    pub fn stream_of_sample(&self, sample: SampleId) -> StreamId {
        let ShapeTables { shards, streams, .. } = &*self.0;
        let up_to = streams.partition_point(|&shard| shards.start(shard as usize) <= sample.0);
        // The last entry is the end of the last stream.
        StreamId(up_to.min(self.num_streams()).saturating_sub(1) as u32)
    }

    /// The shard that holds `sample`, and the sample's index in it; `None` after the last sample.
    pub fn locate(&self, sample: SampleId) -> Option<(ShardId, u32)> {
        (sample.0 < self.num_samples()).then(|| {
            let shard = self.0.shards.find(sample.0);
            (ShardId(shard as u32), (sample.0 - self.0.shards.start(shard)) as u32)
        })
    }

    pub(super) fn hash(&self) -> u64 {
        self.0.hash
    }
}

/// Consecutive ranges: item `i` covers the numbers from `starts[i]` to `starts[i + 1]`. Finds the item of a number in
/// about constant time through a table of as many entries as there are items.
#[derive(Debug)]
pub(super) struct Steps {
    /// Ascending from 0; one more than there are items.
    starts: Vec<u64>,
    /// For each aligned range of 2^shift numbers, the item that contains its first number.
    coarse: Vec<u32>,
    shift: u32,
}

impl Steps {
    /// `starts` ascends from 0 and ends with the total; fewer than 2^32 items.
    pub(super) fn new(mut starts: Vec<u64>) -> Self {
        starts.shrink_to_fit();
        let items = starts.len() - 1;
        let total = starts[items];
        let mut shift = 0;
        while total >> shift > 2 * items as u64 {
            shift += 1;
        }
        let mut coarse = Vec::with_capacity((total >> shift) as usize + 1);
        for item in 0..items {
            // Every range that starts in this item.
            let stretches = (starts[item + 1].div_ceil(1 << shift)) as usize;
            if stretches > coarse.len() {
                coarse.resize(stretches, item as u32);
            }
        }
        Self { starts, coarse, shift }
    }

    /// The items' sizes, in sequence.
    pub(super) fn of_sizes(sizes: impl IntoIterator<Item = u64>) -> Self {
        let mut starts = vec![0];
        let mut total = 0;
        for size in sizes {
            total += size;
            starts.push(total);
        }
        Self::new(starts)
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    pub(super) fn total(&self) -> u64 {
        self.starts[self.len()]
    }

    pub(super) fn start(&self, item: usize) -> u64 {
        self.starts[item]
    }

    pub(super) fn range(&self, item: usize) -> Range<u64> {
        self.starts[item]..self.starts[item + 1]
    }

    pub(super) fn size(&self, item: usize) -> u64 {
        self.starts[item + 1] - self.starts[item]
    }

    /// The item that covers `number`, which is below the total.
    #[inline]
    pub(super) fn find(&self, number: u64) -> usize {
        let stretch = (number >> self.shift) as usize;
        let low = self.coarse[stretch] as usize;
        // Nearly always the result is this item or the next. An addition avoids a branch that could not be predicted. A
        // range of many tiny items is searched by bisection.
        let mut item = low + usize::from(number >= self.starts[low + 1]);
        for _ in 0..3 {
            if number < self.starts[item + 1] {
                return item;
            }
            item += 1;
        }
        item + self.starts[item + 1..].partition_point(|&start| start <= number)
    }
}

/// FNV-1a over 64-bit numbers and text. It identifies a configuration in checkpoints, and is not secure against
/// attacks.
#[derive(Clone, Copy)]
pub(super) struct Hasher(u64);

impl Default for Hasher {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher {
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(super) fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    /// Adds a number in one step, for long lists.
    pub(super) fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    pub(super) fn finish(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_found_in_its_shard() {
        let streams = [vec![3, 0, 5], vec![0, 1, 1, 1, 1, 1, 1, 1, 1000], vec![7, 0, 0]];
        let shape = DataSetShape::new(&streams).expect("a good shape");
        let mut sample = 0;
        let mut shard = 0;
        for (stream, sizes) in streams.iter().enumerate() {
            for &size in sizes {
                for at in 0..size {
                    assert_eq!(shape.locate(SampleId(sample)), Some((ShardId(shard), at as u32)));
                    sample += 1;
                }
                assert_eq!(shape.stream_of(ShardId(shard)), StreamId(stream as u32));
                shard += 1;
            }
        }
        assert_eq!(shape.locate(SampleId(sample)), None);
        assert_eq!(shape.num_samples(), sample);
        assert_eq!(shape.samples_of(StreamId(1)), 8..1015);
    }

    #[test]
    fn a_stream_without_samples_is_named() {
        assert_eq!(DataSetShape::new(&[vec![1], vec![0, 0]]).unwrap_err(), OrderError::EmptyStream { stream: 1 });
        assert!(DataSetShape::new::<Vec<u64>>(&[]).is_err());
        assert!(DataSetShape::new(&[vec![u64::MAX]]).is_err());
    }
}
