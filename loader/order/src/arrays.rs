//! The reference's functions over whole arrays, for programs that call them. A plan makes windows of the same numbers.

use super::config::{BATCH_SIZE_MAX, PartitionAlgo, SHUFFLE_BLOCK_MAX, ShuffleAlgo};
use super::error::{OrderError, OrderWarning};
use super::ids::StreamId;
use super::numbers::reserve;
use super::partition::{Partition, PartitionArgs, canonical_starts};
use super::resume::{check_canonical, check_initial_nodes};
use super::sampling::{self, Draws, SamplingSeeds};
use super::shape::{DataSetShape, SAMPLES_MAX, Steps};
use super::shuffle::{Shuffle, ShuffleArgs};
use super::world::World;

/// Returns the shuffled epoch, for units of `sizes` draws: the draw at each position.
///
/// # Errors
/// Arguments out of range, or too small for the algorithm.
pub fn shuffle(
    algo: ShuffleAlgo,
    sizes: &[u64],
    canonical: u64,
    seed: u64,
    epoch: u64,
    block: u64,
    warnings: &mut Vec<OrderWarning>,
) -> Result<Vec<u64>, OrderError> {
    check_canonical(canonical)?;
    OrderError::unless(block <= SHUFFLE_BLOCK_MAX, "shuffle_block_size", "at most 2^48")?;
    let total = sizes.iter().fold(0_u64, |sum, &size| sum.saturating_add(size));
    OrderError::unless(total <= SAMPLES_MAX, "the samples of the shards", "at most 2^48")?;
    let units = Steps::of_sizes(sizes.iter().copied());
    if units.total() == 0 {
        return Ok(Vec::new());
    }
    let args = ShuffleArgs { units: &units, canonical, seed, epoch, block };
    let mut cursor = Shuffle::new(algo, &args, warnings)?.cursor();
    let mut draws = reserve(units.total())?;
    for (node, part) in canonical_starts(units.total(), canonical).windows(2).enumerate() {
        draws.extend((part[0]..part[1]).map(|position| cursor.draw(node as u32, position)));
    }
    Ok(draws)
}

/// Input of [`partition`].
#[derive(Clone, Copy, Debug)]
pub struct Partitioning {
    /// Samples to partition.
    pub samples: u64,
    /// Canonical nodes.
    pub canonical: u64,
    /// Nodes, ranks and workers.
    pub world: World,
    /// Samples of a device's batch.
    pub batch: u64,
    /// Cells already seen, all nodes together.
    pub drop_first: u64,
    /// Physical nodes of the first run.
    pub initial_nodes: Option<u64>,
}

/// Returns the partition as the reference's tensor: its shape (nodes, ranks of a node, workers of a rank, batches of a
/// worker, batch) and its elements in that order, padded with -1.
///
/// # Errors
/// As the reference: numbers of nodes that do not divide, a resumption after the end. Plans resume a little further, up
/// to the last cell of canonical nodes of equal length.
pub fn partition(
    algo: PartitionAlgo,
    args: Partitioning,
    warnings: &mut Vec<OrderWarning>,
) -> Result<([u64; 5], Vec<i64>), OrderError> {
    args.world.validate()?;
    OrderError::unless((1..=SAMPLES_MAX).contains(&args.samples), "num_samples", "from 1 to 2^48")?;
    check_canonical(args.canonical)?;
    OrderError::unless((1..=BATCH_SIZE_MAX).contains(&args.batch), "batch_size", "from 1 to 16,777,216")?;
    check_initial_nodes(args.initial_nodes)?;
    let World { nodes, ranks_per_node, workers_per_rank } = args.world;
    let [nodes, ranks, workers] = [nodes, ranks_per_node, workers_per_rank].map(u64::from);
    let deal = PartitionArgs {
        samples: args.samples,
        canonical: args.canonical,
        nodes,
        ranks_per_node: ranks,
        batch: args.batch,
        drop_first: args.drop_first,
        initial_nodes: args.initial_nodes,
        equal_ranks: false,
    };
    deal.reject_as_reference()?;
    let partition = Partition::new(algo, deal, warnings)?;
    let batches = partition.batches().div_ceil(workers);
    let shape = [nodes, ranks, workers, batches, args.batch];
    let mut ids = reserve(shape.iter().product())?;
    for node in 0..nodes {
        for rank in 0..ranks {
            for worker in 0..workers {
                // A rank's batches go to its workers in turn.
                let places = (0..batches).flat_map(|b| {
                    let first = (b * workers + worker) * args.batch;
                    first..first + args.batch
                });
                // Positions are below 2^48.
                ids.extend(places.map(|k| partition.cell(node, rank, k).map_or(-1, |cell| cell.position as i64)));
            }
        }
    }
    Ok((shape, ids))
}

/// Returns the samples of each shard in an epoch of `choose` samples; `granularity` at a time come from one shard.
///
/// # Errors
/// There are no samples to choose from, or an argument is out of range.
pub fn sample_shards(sizes: &[u64], choose: u64, granularity: u64, seed: u128) -> Result<Vec<u64>, OrderError> {
    OrderError::unless(granularity > 0, "`granularity`", "a positive integer")?;
    OrderError::unless(choose <= SAMPLES_MAX, "`choose`", "at most 2^48")?;
    // Checks that there are samples, and that a shard's fit 32 bits.
    DataSetShape::new(&[sizes])?;
    let sizes: Vec<u32> = sizes.iter().map(|&size| size as u32).collect();
    sampling::shares(&sizes, choose, granularity, seed)
}

/// Returns the resampled epoch: the draws of each unit, and the sample of each draw. `streams` has the streams and the
/// samples of each; `share_seed` determines the samples per shard, `pick_seed` the choice of these samples.
///
/// # Errors
/// Nothing is chosen, or an argument is out of range.
pub fn resample(
    shape: &DataSetShape,
    streams: &[(StreamId, u64)],
    granularity: u64,
    share_seed: u128,
    pick_seed: u128,
) -> Result<(Vec<u64>, Vec<u64>), OrderError> {
    OrderError::unless(granularity > 0, "`sampling_granularity`", "a positive integer")?;
    OrderError::unless(
        streams.iter().all(|(stream, _)| stream.index() < shape.num_streams()),
        "the stream",
        "one of the data set's",
    )?;
    let draws =
        Draws::new(shape, streams, granularity, SamplingSeeds { shares: share_seed, picks: pick_seed }, (&[], None))?;
    let units = (0..draws.units.len()).map(|unit| draws.units.size(unit)).collect();
    let mut samples = reserve(draws.len())?;
    samples.extend((0..draws.len()).map(|draw| draws.sample(shape, draw).0));
    Ok((units, samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_contains_every_draw_once() {
        let sizes: Vec<u64> = (1..40).collect();
        for algo in ["naive", "py1s", "py2s", "py1br", "py1e"] {
            let algo = algo.parse().expect("a known name");
            let mut draws = shuffle(algo, &sizes, 3, 7, 1, 50, &mut Vec::new()).expect("good arguments");
            draws.sort_unstable();
            assert_eq!(draws, (0..sizes.iter().sum()).collect::<Vec<_>>(), "{algo:?}");
        }
    }

    #[test]
    fn a_partition_is_padded_to_whole_batches_of_all_workers() {
        let world = World { nodes: 1, ranks_per_node: 2, workers_per_rank: 2 };
        let args = Partitioning { samples: 5, canonical: 1, world, batch: 2, drop_first: 0, initial_nodes: None };
        let (shape, ids) = partition(PartitionAlgo::Orig, args, &mut Vec::new()).expect("good arguments");
        assert_eq!(shape, [1, 2, 2, 1, 2]);
        assert_eq!(ids, [0, 2, 4, -1, 1, 3, 3, -1]);
    }

    #[test]
    fn arguments_out_of_range_are_named() {
        let no_block = shuffle(ShuffleAlgo::Py1s, &[1], 0, 0, 0, 0, &mut Vec::new()).expect_err("no node");
        assert!(no_block.to_string().contains("num_canonical_nodes"), "{no_block}");
        assert!(sample_shards(&[0, 0], 1, 1, 0).is_err());
        assert!(sample_shards(&[1], 1, 0, 0).is_err());
        let shape = DataSetShape::new(&[vec![3]]).expect("a good shape");
        assert!(resample(&shape, &[(StreamId(1), 3)], 1, 0, 0).is_err());
    }
}
