//! The loader from end to end: data sets on disk and behind the object server, to batches.

mod clouds;
mod delivery;
mod encoded;
mod failure;
mod kill;
mod nodes;
mod remote;
mod row_index;
mod rows;
mod verify;

use forebay_loader::batch::{Batch, Output};
use forebay_loader::config::{LoaderConfig, StreamConfig};
use forebay_loader::format::Compression;
use forebay_loader::format::writer::Options;
use forebay_loader::order::{DataSetShape, EpochPlan, OrderConfig, Rank, World};
use forebay_loader::{Loader, Next};
use std::path::{Path, PathBuf};

/// Tokens in a sample.
const LENGTH: usize = 8;

/// Makes a data set of `samples` samples of [`LENGTH`] tokens, in shards of a few dozen samples.
fn tokens(directory: &Path, samples: u64, compression: Option<&str>) -> Vec<u64> {
    let compression = compression.map(|c| Compression::parse(c).expect("a compression"));
    let options = Options { size_limit: Some(1 << 10), compression, ..Options::default() };
    let index = forebay_tests::data::tokens(directory, samples, LENGTH, 7, options).expect("a data set");
    index.shards.iter().map(|s| s.samples).collect()
}

fn stream(local: Option<&Path>, remote: Option<&str>) -> StreamConfig {
    StreamConfig { local: local.map(Into::into), remote: remote.map(Into::into), ..StreamConfig::default() }
}

fn config(stream: StreamConfig) -> LoaderConfig {
    LoaderConfig { streams: vec![stream], batch_size: 16, shuffle: true, threads: Some(2), ..LoaderConfig::default() }
}

/// All batches of the loader's next epoch.
fn epoch(loader: &Loader) -> Vec<Batch> {
    loader.start_epoch().expect("an epoch starts");
    rest(loader)
}

fn rest(loader: &Loader) -> Vec<Batch> {
    let mut batches = Vec::new();
    while let Next::Batch(batch) = loader.next().expect("a batch") {
        batches.push(batch);
    }
    batches
}

/// The tokens of each row of `batches`.
fn rows(batches: &[Batch]) -> Vec<Vec<u16>> {
    let row = |bytes: &[u8]| bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect::<Vec<_>>();
    let tensor = |batch: &Batch| match batch.get("tokens") {
        Some(Output::Tensor(tensor)) => tensor.host().expect("host memory").to_vec(),
        other => panic!("{other:?}"),
    };
    batches.iter().flat_map(|b| tensor(b).chunks_exact(2 * LENGTH).map(row).collect::<Vec<_>>()).collect()
}

/// Samples of a rank in the plan.
fn planned(counts: &[u64], config: &LoaderConfig, epoch: u64) -> Vec<u64> {
    let shape = DataSetShape::new(&[counts.to_vec()]).expect("a shape");
    let order = OrderConfig { shuffle: config.shuffle, batch_size: config.batch_size.into(), ..OrderConfig::default() };
    let nodes = config.world.nodes();
    let world = World { nodes, ranks_per_node: config.world.local_world_size, workers_per_rank: 1 };
    let plan = EpochPlan::new(&shape, &order, world, epoch, None).expect("a plan");
    plan.rank(Rank(config.world.rank)).map(|p| p.sample.0).collect()
}

/// The rows that belong to `samples`.
fn expected(samples: &[u64]) -> Vec<Vec<u16>> {
    samples.iter().map(|i| forebay_tests::data::token_sample(LENGTH, 7, *i)).collect()
}
