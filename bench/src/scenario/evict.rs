//! Cost of a small cache: bytes that the engine fetches under `cache_limit`, compared with LRU and with the optimum.
//!
//! All shards have the same size, so that the optimum is known: Belady's rule, which evicts the shard with the farthest
//! next use. LRU and the optimum are simulated on the order of one rank, in which a sample needs its shard and nothing
//! is fetched ahead. The engine fetches ahead and keeps shards that are being read, so it has less room than they have.
//! The first epoch fills the cache and is not counted.

use crate::report::{Better, Column, Curves, Report, Row};
use clap::Args;
use forebay_loader::config::{LoaderConfig, StreamConfig};
use forebay_loader::format::writer::Options;
use forebay_loader::order::{DataSetShape, EpochPlan, OrderConfig, Rank, World};
use forebay_loader::{Error, Loader, Next, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// Tokens of a sample, of two bytes each.
const LENGTH: usize = 128;

/// Samples per batch.
const BATCH: u64 = 64;

const FOREBAY: &str = "forebay";
const OPTIMUM: &str = "optimum (Belady)";
const LRU: &str = "LRU";

/// Arguments of `evict`.
#[derive(Debug, Args)]
pub(crate) struct EvictArgs {
    /// Shards of the data set
    #[arg(long, default_value_t = 256)]
    shards: u64,
    /// Samples of a shard
    #[arg(long, default_value_t = 256)]
    samples: u64,
    /// Shards with samples that are shuffled together
    #[arg(long, default_value_t = 32)]
    block: u64,
    /// Values of cache_limit, in percent of the data set
    #[arg(long, value_delimiter = ',', default_values_t = [20, 30, 50, 70, 90])]
    limit: Vec<u64>,
    /// Epochs after the first one
    #[arg(long, default_value_t = 4)]
    epochs: u64,
}

/// Order in which shards are used.
struct Trace {
    /// Shard of each use, without repetitions of the last one.
    uses: Vec<usize>,
    /// Position of the next use of the same shard.
    next: Vec<usize>,
    /// Position of the first use after the first epoch.
    warm: usize,
}

/// Measures every limit.
pub(crate) fn run(args: &EvictArgs) -> Result<Report> {
    let folder = tempfile::tempdir().map_err(|e| Error::from_io(e, "a folder for the data set cannot be made"))?;
    let data = folder.path().join("data");
    let sizes = make(&data, args)?;
    let index_bytes = std::fs::metadata(data.join("index.json")).map_or(0, |meta| meta.len());
    let (shard_bytes, all_bytes) = (sizes[0].1, sizes.iter().map(|(_, bytes)| bytes).sum::<u64>());
    let trace = Trace::new(&sizes, args)?;
    let title = format!(
        "{} shards of {} samples, py1e over blocks of {} shards, {} epochs after the first",
        sizes.len(),
        args.samples,
        args.block,
        args.epochs
    );
    let columns = vec![
        Column::new("fetched", "x the data set per epoch", 3, Better::Lower),
        Column::new("shards", "shards fetched", 0, Better::Lower),
    ];
    let mut report = Report::new("evict", title, columns);
    report.baseline = Some(OPTIMUM.to_owned());
    let mut lines: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for &percent in &args.limit {
        let room = all_bytes * percent / 100 / shard_bytes;
        let limit = room * shard_bytes + index_bytes;
        let cache = folder.path().join(format!("cache-{percent}"));
        let measured = fetched(&data, &cache, limit, args)?;
        let ways = [(FOREBAY, measured), (OPTIMUM, trace.optimum(room as usize)), (LRU, trace.lru(room as usize))];
        for (name, shards) in ways {
            let fetched = shards as f64 / (args.epochs * sizes.len() as u64) as f64;
            lines.entry(name).or_default().push((percent as f64, fetched));
            let values = BTreeMap::from([("fetched", fetched), ("shards", shards as f64)]);
            let group = format!("room for {percent} % of the shards");
            report.rows.push(Row { group, name: name.to_owned(), values, ..Row::default() });
        }
    }
    let lines = lines.into_iter().map(|(name, points)| (name.to_owned(), points)).collect();
    report.curves = vec![Curves {
        subject: String::new(),
        x_title: "cache_limit, % of the data set",
        y_title: "times the data set that is fetched per epoch,",
        lines,
    }];
    Ok(report)
}

/// Makes the data set, and returns samples and bytes of its shards. The last one may be smaller.
fn make(data: &Path, args: &EvictArgs) -> Result<Vec<(u64, u64)>> {
    // A sample takes its bytes and an offset; the settings at the front fit into the rest.
    let per_sample = 2 * LENGTH as u64 + 4;
    let options = Options { size_limit: Some(args.samples * per_sample + per_sample), ..Options::default() };
    let index = forebay_tests::data::tokens(data, args.shards * args.samples, LENGTH, 7, options)?;
    Ok(index.shards.iter().map(|shard| (shard.samples, shard.raw_bytes())).collect())
}

/// Runs all epochs, and returns the number of shards that were fetched after the first one.
fn fetched(data: &Path, cache: &Path, limit: u64, args: &EvictArgs) -> Result<u64> {
    let remote = Some(data.display().to_string());
    let stream = StreamConfig { remote, local: Some(cache.to_owned()), ..StreamConfig::default() };
    let mut config = LoaderConfig {
        streams: vec![stream],
        batch_size: BATCH as u32,
        shuffle: true,
        cache_limit: Some(limit),
        ..LoaderConfig::default()
    };
    config.order.shuffle_block_size = Some(args.block * args.samples);
    let loader = Loader::new(config)?;
    let published = || -> Result<u64> {
        let counters = loader.stats()?.counters;
        Ok(counters.iter().find(|(name, _)| *name == "cache_published").map_or(0, |(_, value)| *value))
    };
    let mut first = 0;
    for epoch in 0..=args.epochs {
        loader.start_epoch()?;
        while let Next::Batch(_) = loader.next()? {}
        if epoch == 0 {
            first = published()?;
        }
    }
    Ok(published()? - first)
}

impl Trace {
    fn new(shards: &[(u64, u64)], args: &EvictArgs) -> Result<Self> {
        let counts: Vec<u64> = shards.iter().map(|(samples, _)| *samples).collect();
        let shape = DataSetShape::new(std::slice::from_ref(&counts))?;
        let config = OrderConfig {
            shuffle: true,
            shuffle_block_size: Some(args.block * args.samples),
            batch_size: BATCH,
            ..OrderConfig::default()
        };
        let ends: Vec<u64> =
            counts.iter().scan(0, |end, count| Some(*end + count).inspect(|now| *end = *now)).collect();
        let (mut uses, mut warm) = (Vec::new(), 0);
        for epoch in 0..=args.epochs {
            for place in EpochPlan::new(&shape, &config, World::single(), epoch, None)?.rank(Rank(0)) {
                let shard = ends.partition_point(|end| *end <= place.sample.0);
                if uses.last() != Some(&shard) {
                    uses.push(shard);
                }
            }
            if epoch == 0 {
                warm = uses.len();
            }
        }
        let mut seen = vec![usize::MAX; counts.len()];
        let mut next: Vec<usize> = (0..uses.len()).rev().map(|at| std::mem::replace(&mut seen[uses[at]], at)).collect();
        next.reverse();
        Ok(Self { uses, next, warm })
    }

    /// Fetches after the first epoch when the shard with the farthest next use is evicted.
    fn optimum(&self, room: usize) -> u64 {
        self.count(room, |at| self.next[at])
    }

    /// Fetches after the first epoch when the shard with the oldest use is evicted.
    fn lru(&self, room: usize) -> u64 {
        self.count(room, |at| usize::MAX - at)
    }

    /// Counts the fetches of a cache of `room` shards that evicts the shard with the largest key, which it got at its
    /// last use.
    fn count(&self, room: usize, key: impl Fn(usize) -> usize) -> u64 {
        let (mut resident, mut fetched) = (BTreeMap::new(), 0);
        for (at, shard) in self.uses.iter().enumerate() {
            let is_new = resident.insert(*shard, key(at)).is_none();
            fetched += u64::from(is_new && at >= self.warm);
            if resident.len() > room {
                // The shard in use stays.
                let others = resident.iter().filter(|(other, _)| *other != shard);
                let victim = others.max_by_key(|(_, key)| **key).map(|(victim, _)| *victim);
                victim.map(|victim| resident.remove(&victim));
            }
        }
        fetched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulated_caches_fetch_as_few_shards_as_their_rules_allow() {
        let uses = vec![0, 1, 2, 0, 1, 3, 0, 1, 2, 3];
        let mut seen = [usize::MAX; 4];
        let mut next: Vec<usize> = (0..uses.len()).rev().map(|at| std::mem::replace(&mut seen[uses[at]], at)).collect();
        next.reverse();
        let trace = Trace { uses, next, warm: 0 };
        assert_eq!([trace.optimum(4), trace.lru(4)], [4, 4], "room for all");
        assert_eq!([trace.optimum(3), trace.lru(3)], [5, 6]);
        assert_eq!([trace.optimum(1), trace.lru(1)], [10, 10]);
    }
}
