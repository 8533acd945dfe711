//! Shards that have been read: offsets of their samples, and descriptors.

use crate::cache::{AccessTime, OpenFiles};
use crate::error::Result;
use crate::format::{OffsetTable, Shard};
use crate::pipeline::{LooseFiles, ShardCost, ShardTable, read_offsets};
use crate::sync::Arc;

/// Most bytes of offset tables: thousands of shards, in each of dozens of processes.
const TABLE_BYTES_MAX: usize = 64 << 20;

/// Most shards in the table.
const SHARDS_MAX: usize = 4_096;

/// Most open descriptors, also bounded by a quarter of the process's limit. An MDS shard has one, a shard of the split
/// formats two.
const DESCRIPTORS_MAX: u64 = 4_096;

/// A shard that has been read.
#[derive(Debug)]
pub(super) struct KnownShard {
    pub(super) offsets: OffsetTable,
    /// Index of its layout in the catalogue.
    pub(super) layout: usize,
    pub(super) data: Data,
}

/// Bytes of the samples of a shard.
#[derive(Debug)]
pub(super) enum Data {
    /// Descriptors that stay open.
    Open(Arc<OpenFiles>),
    /// Files that are opened for each read, with the time at which the access time of the shard was set.
    Closed(AccessTime),
    /// Files that are samples.
    Loose(LooseFiles),
}

impl KnownShard {
    /// Reads the offsets of `shard`, which is open.
    pub(super) fn read(shard: &Shard, layout: usize, open: Arc<OpenFiles>, keep_open: bool) -> Result<Self> {
        let offsets = read_offsets(shard, &open)?;
        let data = if keep_open { Data::Open(open) } else { Data::Closed(AccessTime::default()) };
        Ok(Self { offsets, layout, data })
    }

    /// Returns a shard with the samples `files`.
    pub(super) fn of_files(files: LooseFiles, layout: usize) -> Result<Self> {
        Ok(Self { offsets: files.offsets()?, layout, data: Data::Loose(files) })
    }

    /// Returns true if its files were removed while they stay open.
    pub(super) fn is_evicted(&self) -> bool {
        matches!(&self.data, Data::Open(open) if open.is_evicted())
    }

    /// Memory and descriptors that it uses.
    pub(super) fn cost(&self) -> ShardCost {
        let descriptors = match &self.data {
            Data::Open(open) => open.descriptors(),
            Data::Closed(_) | Data::Loose(_) => 0,
        };
        ShardCost { table_bytes: self.offsets.memory_bytes(), descriptors }
    }
}

/// Returns an empty table for the shards of a data set of `shards` shards.
pub(super) fn shard_table(shards: usize) -> ShardTable<KnownShard> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    with_descriptors(shards, (limit.unwrap_or(u64::MAX) / 4).clamp(16, DESCRIPTORS_MAX) as usize)
}

fn with_descriptors(shards: usize, descriptors: usize) -> ShardTable<KnownShard> {
    ShardTable::new(shards, ShardCost { table_bytes: TABLE_BYTES_MAX, descriptors }, SHARDS_MAX)
}

#[cfg(test)]
mod tests {
    use super::super::{DataConfig, DataSet, SampleReader, StreamLocation};
    use super::*;
    use crate::format::writer::{LocalDir, Options, Writer};
    use crate::format::{Encoding, Index, Layout, Value};
    use crate::order::SampleId;
    use std::path::Path;

    /// A reader of 20 samples, each in its own shard.
    fn reader(dir: &Path, layout: Layout) -> SampleReader {
        let folder = LocalDir::create(dir, false).expect("a folder");
        let options = Options { size_limit: Some(1), ..Options::default() };
        let mut writer = Writer::new(layout, Box::new(folder), options).expect("a writer");
        (0..20).for_each(|number| writer.write(&[Value::Int(number)]).expect("written"));
        let index: Index = writer.finish().expect("a data set");
        assert!(index.shards.iter().all(|shard| shard.samples <= 1));
        let place = StreamLocation {
            remote: None,
            dir: dir.into(),
            keep_zip: false,
            download_retry: 1,
            download_timeout: 1.0,
            validate_hash: None,
        };
        let config = DataConfig { streams: vec![place], cache_limit: None };
        let data = DataSet::new(config, vec![Arc::new(index)]).expect("a data set");
        SampleReader::open(Arc::new(data), Vec::new()).expect("a reader")
    }

    #[test]
    fn descriptors_are_counted_for_shards_of_one_or_two_files() {
        let mds = Layout::mds([("n".to_owned(), Encoding::Int)]).expect("a layout");
        let jsonl = Layout::jsonl([("n", "int")], "\n").expect("a layout");
        for (layout, shards_open) in [(mds, 8), (jsonl, 4)] {
            let dir = tempfile::tempdir().expect("a folder");
            let mut reader = reader(dir.path(), layout);
            reader.table = with_descriptors(64, 8);
            let mut sample = Vec::new();
            (0..20).for_each(|id| assert!(reader.read(SampleId(id), &mut sample).expect("read").is_some()));
            let occupied = |reader: &SampleReader| {
                let (shards, cost) = reader.table.occupied();
                (shards, cost.descriptors)
            };
            assert_eq!(occupied(&reader), (shards_open, 8));
            reader.table.close(usize::MAX, |_, _| true);
            assert_eq!(occupied(&reader), (0, 0));
        }
    }
}
