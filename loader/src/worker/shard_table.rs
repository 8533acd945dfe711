//! Table of the shards that have been read: offsets of their samples, and descriptors.

use crate::cache::{AccessTime, OpenShard};
use crate::error::Result;
use crate::format::{OffsetTable, Shard};
use crate::order::ShardId;
use crate::pipeline::{OpeningOrder, ShardCost, read_offsets};
use crate::sync::Arc;
use std::collections::HashMap;

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
    /// Its descriptors, if they stay open.
    pub(super) open: Option<Arc<OpenShard>>,
    /// Time at which its access time was set, if the descriptors do not stay open.
    pub(super) access_time: AccessTime,
}

impl KnownShard {
    /// Reads the offsets of `shard`, which is open.
    pub(super) fn read(shard: &Shard, layout: usize, open: Arc<OpenShard>, keep_open: bool) -> Result<Self> {
        let offsets = read_offsets(shard, &open)?;
        Ok(Self { offsets, layout, open: keep_open.then_some(open), access_time: AccessTime::default() })
    }

    /// Memory and descriptors that it uses.
    fn cost(&self) -> ShardCost {
        let descriptors = self.open.as_ref().map_or(0, |open| open.descriptors());
        ShardCost { table_bytes: self.offsets.memory_bytes(), descriptors }
    }
}

/// Bounded table of shards; the oldest entry is removed first.
#[derive(Debug)]
pub(super) struct ShardTable {
    known: HashMap<ShardId, Arc<KnownShard>>,
    order: OpeningOrder<ShardId>,
}

impl ShardTable {
    pub(super) fn new() -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        Self::with_descriptors((limit.unwrap_or(u64::MAX) / 4).clamp(16, DESCRIPTORS_MAX) as usize)
    }

    fn with_descriptors(descriptors: usize) -> Self {
        let cost_max = ShardCost { table_bytes: TABLE_BYTES_MAX, descriptors };
        Self { known: HashMap::new(), order: OpeningOrder::new(cost_max, SHARDS_MAX) }
    }

    pub(super) fn get(&self, shard: ShardId) -> Option<Arc<KnownShard>> {
        self.known.get(&shard).cloned()
    }

    /// Adds `shard`. Returns the entries removed for it, which the caller drops without holding the table's lock.
    pub(super) fn insert(&mut self, shard: ShardId, known: Arc<KnownShard>) -> Vec<Arc<KnownShard>> {
        let mut removed: Vec<_> = self.remove(shard).into_iter().collect();
        self.order.push(shard, known.cost());
        self.known.insert(shard, known);
        while let Some(oldest) = self.order.pop_excess() {
            removed.extend(self.known.remove(&oldest));
        }
        removed
    }

    /// Removes `shard`.
    pub(super) fn remove(&mut self, shard: ShardId) -> Option<Arc<KnownShard>> {
        let known = self.known.remove(&shard)?;
        self.order.remove(|known| *known == shard);
        Some(known)
    }
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
        SampleReader::open(Arc::new(data)).expect("a reader")
    }

    #[test]
    fn descriptors_are_counted_for_shards_of_one_or_two_files() {
        let mds = Layout::mds([("n".to_owned(), Encoding::Int)]).expect("a layout");
        let jsonl = Layout::jsonl([("n", "int")], "\n").expect("a layout");
        for (layout, shards_open) in [(mds, 8), (jsonl, 4)] {
            let dir = tempfile::tempdir().expect("a folder");
            let reader = reader(dir.path(), layout);
            *reader.table.lock() = ShardTable::with_descriptors(8);
            let mut sample = Vec::new();
            (0..20).for_each(|id| assert!(reader.read(SampleId(id), &mut sample).expect("read").is_some()));
            let table = reader.table.lock();
            assert_eq!((table.order.len(), table.order.cost().descriptors), (shards_open, 8));
            drop(table);
            let removed: Vec<_> = (0..64).filter_map(|shard| reader.table.lock().remove(ShardId(shard))).collect();
            assert_eq!((removed.len(), reader.table.lock().order.cost().descriptors), (shards_open, 0));
        }
    }
}
