//! Samples of a data set in the loader's order, read without the engine: the limit of a program that does nothing
//! else.
//!
//! Shards are open as files and also in memory. The order is computed beforehand, and each thread fills every n-th
//! batch, always in the same buffer.

use forebay_loader::format::{INDEX_BASENAME, Index};
use forebay_loader::io::{ShardFile, open, read_exact_at};
use forebay_loader::order::{DataSetShape, EpochPlan, OrderConfig, Rank, World};
use forebay_loader::{Error, Result};
use std::path::Path;

/// Position of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct SamplePosition {
    shard: usize,
    offset: u64,
    /// Stored bytes.
    pub(super) bytes: usize,
}

/// All samples of a data set, in files and in memory.
pub(super) struct SampleTable {
    files: Vec<ShardFile>,
    /// Contents of the shards.
    memory: Vec<Vec<u8>>,
    /// Order of the loader's first epoch.
    pub(super) order: Vec<SamplePosition>,
    batch: usize,
}

impl SampleTable {
    /// Opens and reads the MDS shards of `folder`.
    pub(super) fn open(folder: &Path, batch: usize) -> Result<Self> {
        let failed = |e| Error::from_io(e, "the data set's form mds; make it with synth --forms");
        let index = std::fs::read(folder.join(INDEX_BASENAME)).map_err(failed)?;
        let index = Index::parse(&index, INDEX_BASENAME)?;
        let (mut files, mut memory, mut tables) = (Vec::new(), Vec::new(), Vec::new());
        for shard in &index.shards {
            let path = folder.join(&*shard.raw_data.basename);
            let bytes = std::fs::read(&path).map_err(failed)?;
            tables.push(shard.offsets(&bytes)?);
            memory.push(bytes);
            files.push(open(path)?);
        }
        let shape = DataSetShape::new(&[index.shards.iter().map(|shard| shard.samples).collect::<Vec<_>>()])?;
        let config = OrderConfig { shuffle: true, batch_size: batch as u64, ..OrderConfig::default() };
        let plan = EpochPlan::new(&shape, &config, World::single(), 0, None)?;
        let place = |sample| {
            let (shard, index) =
                shape.locate(sample).ok_or_else(|| Error::internal("the plan names a sample that is not there"))?;
            let (offset, bytes) = tables[shard.index()].range(index as usize)?;
            Ok(SamplePosition { shard: shard.index(), offset, bytes: bytes as usize })
        };
        let order = plan.rank(Rank(0)).map(|planned| place(planned.sample)).collect::<Result<_>>()?;
        Ok(Self { files, memory, order, batch })
    }

    /// Returns the bytes of the largest sample.
    pub(super) fn bytes_max(&self) -> usize {
        self.order.iter().map(|place| place.bytes).max().unwrap_or(0)
    }

    /// Returns the bytes of a sample in memory.
    pub(super) fn in_memory(&self, place: SamplePosition) -> &[u8] {
        &self.memory[place.shard][place.offset as usize..][..place.bytes]
    }

    /// Returns up to `bytes` bytes around a sample in memory, limited by its shard.
    pub(super) fn around(&self, place: SamplePosition, bytes: usize) -> &[u8] {
        let shard = &self.memory[place.shard];
        let start = (place.offset as usize).min(shard.len().saturating_sub(bytes));
        &shard[start..(start + bytes).min(shard.len())]
    }

    /// Reads a sample from its file.
    pub(super) fn read(&self, place: SamplePosition, out: &mut [u8]) -> Result<()> {
        read_exact_at(&self.files[place.shard], &mut out[..place.bytes], place.offset)
    }

    /// Calls `each` for every sample with its row of a batch, `row_bytes` long, on `threads` threads. The third
    /// argument is a buffer of the thread for one stored sample.
    pub(super) fn bring(
        &self,
        threads: usize,
        row_bytes: usize,
        each: impl Fn(SamplePosition, &mut [u8], &mut [u8]) -> Result<()> + Sync,
    ) -> Result<()> {
        let each = &each;
        let body = |thread: usize| {
            let (mut scratch, mut batch) = (vec![0; self.bytes_max()], vec![0; row_bytes * self.batch]);
            for places in self.order.chunks(self.batch).skip(thread).step_by(threads) {
                for (place, row) in places.iter().zip(batch.chunks_exact_mut(row_bytes)) {
                    each(*place, row, &mut scratch)?;
                }
                std::hint::black_box((&mut batch, &mut scratch));
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || body(thread))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic in a thread that copies"))
        })
    }
}
