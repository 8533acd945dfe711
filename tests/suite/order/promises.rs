//! Properties of every plan, over a third of the recorded cases: each plan is read in several ways.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use forebay_loader::order::{
    BatchingMethod, Buckets, DataSetShape, EpochPlan, Node, OrderConfig, PartitionAlgo, PlannedSample, Rank, Resume,
    SampleNumbers, SamplingMethod, ShuffleAlgo, Weight, World, arguments,
};

use super::recorded;

/// All batches of a rank.
pub(super) fn batches(plan: &EpochPlan, rank: Rank) -> Vec<Vec<PlannedSample>> {
    let mut order = plan.rank(rank);
    let mut rows = Vec::new();
    let mut batches = Vec::new();
    while order.next_batch(&mut rows) {
        batches.push(rows.clone());
    }
    batches
}

pub(super) fn ranks(plan: &EpochPlan) -> impl Iterator<Item = Rank> {
    (0..plan.world().ranks() as u32).map(Rank)
}

/// The plans of every third recorded case, if it has one, with their lines.
fn plans() -> Vec<(usize, EpochPlan)> {
    recorded().into_iter().step_by(3).filter_map(|r| r.case.plan().ok().map(|plan| (r.line, plan))).collect()
}

#[test]
fn a_rank_has_its_workers_batches_in_turn_without_padding() {
    for (line, plan) in plans() {
        for rank in ranks(&plan).take(5) {
            let workers = plan.world().workers_per_rank;
            let of_workers: Vec<Vec<i64>> = (0..workers).map(|worker| plan.worker(rank, worker).collect()).collect();
            let batch = plan.batch_size() as usize;
            let in_turn: Vec<Vec<u64>> = (0..of_workers[0].len() / batch)
                .flat_map(|at| of_workers.iter().map(move |ids| &ids[at * batch..(at + 1) * batch]))
                .map(|ids| ids.iter().filter(|&&id| id >= 0).map(|&id| id as u64).collect::<Vec<_>>())
                .filter(|ids| !ids.is_empty())
                .collect();
            let seen = batches(&plan, rank);
            let samples: Vec<Vec<u64>> = seen.iter().map(|b| b.iter().map(|p| p.sample.0).collect()).collect();
            assert_eq!(samples, in_turn, "line {line}, {rank}");
            assert_eq!(plan.rank(rank).batches(), samples.len() as u64, "line {line}, {rank}");
            assert_eq!(plan.rank(rank).samples(), samples.concat().len() as u64, "line {line}, {rank}");
            assert_eq!(plan.rank(rank).collect::<Vec<_>>(), seen.concat(), "line {line}, {rank}");
        }
    }
}

#[test]
fn a_batch_is_the_same_whichever_way_it_is_reached() {
    for (line, plan) in plans() {
        let rank = Rank(plan.world().ranks() as u32 - 1);
        let all = batches(&plan, rank);
        let mut order = plan.rank(rank);
        let mut rows = Vec::new();
        // Backwards and in leaps.
        let count = all.len();
        for batch in (0..count).rev().step_by(1 + count / 7).chain([0, count / 2, count / 3]).filter(|&b| b < count) {
            order.seek(batch as u64);
            assert!(order.next_batch(&mut rows), "line {line}, batch {batch} of {count}");
            assert_eq!(rows, all[batch], "line {line}, batch {batch} of {count}");
        }
        order.seek(u64::MAX);
        assert!(!order.next_batch(&mut rows), "line {line}");
    }
}

#[test]
fn uses_of_shards_cover_every_sample_a_node_reads() {
    for (line, plan) in plans() {
        let world = plan.world();
        let parallel = plan.parallel_world();
        let replication = (world.ranks() / parallel.ranks()) as u32;
        for node in 0..world.nodes {
            let uses = plan.shard_uses(Node(node));
            assert!(uses.is_sorted_by_key(|u| u.first), "line {line}");
            let mut of_shard: HashMap<_, Vec<_>> = HashMap::new();
            for u in &uses {
                of_shard.entry(u.shard).or_default().push(u.first..=u.last);
            }
            for rank in (node * world.ranks_per_node..(node + 1) * world.ranks_per_node).map(Rank) {
                let rank_of_node = u64::from(rank.0 / replication % parallel.ranks_per_node);
                let batch_size = plan.batch_size();
                for (batch, rows) in batches(&plan, rank).into_iter().enumerate() {
                    for (column, row) in rows.into_iter().enumerate() {
                        let k = batch as u64 * batch_size + column as u64;
                        let place = k * u64::from(parallel.ranks_per_node) + rank_of_node;
                        let shard = plan.shape().locate(row.sample).unwrap().0;
                        let covered = of_shard.get(&shard).is_some_and(|all| all.iter().any(|u| u.contains(&place)));
                        assert!(covered, "line {line}, {rank}, {shard} at {place}: {:?}", of_shard.get(&shard));
                    }
                }
            }
        }
    }
}

#[test]
fn a_draw_counts_once_in_an_epoch_and_belongs_to_its_stream() {
    for (line, plan) in plans() {
        let replication = (plan.world().ranks() / plan.parallel_world().ranks()) as usize;
        let mut seen = HashSet::new();
        for rank in ranks(&plan).step_by(replication) {
            for row in plan.rank(rank) {
                let shard = plan.shape().locate(row.sample).unwrap().0;
                assert_eq!(plan.shape().stream_of(shard), row.stream, "line {line}");
                let is_new = row.repeat || seen.insert((row.stream, row.draw));
                assert!(is_new, "line {line}: {row:?} is seen twice");
            }
        }
    }
}

pub(super) fn shape() -> DataSetShape {
    DataSetShape::new(&[vec![700, 300, 500, 900, 600], vec![1000; 3]]).unwrap()
}

pub(super) fn plan(config: &OrderConfig, world: World, resume: Option<&Resume>) -> EpochPlan {
    let shape = shape();
    EpochPlan::new(&shape, config, world, 1, resume).unwrap()
}

/// Global batches as sorted (stream, draw).
pub(super) fn global_batches(plan: &EpochPlan) -> Vec<Vec<(u32, u64)>> {
    let mut global: Vec<Vec<(u32, u64)>> = Vec::new();
    for rank in ranks(plan) {
        for (at, rows) in batches(plan, rank).into_iter().enumerate() {
            global.resize_with(global.len().max(at + 1), Vec::new);
            global[at].extend(rows.iter().map(|row| (row.stream.0, row.draw)));
        }
    }
    global.iter_mut().for_each(|batch| batch.sort_unstable());
    global
}

pub(super) const ALGOS: [ShuffleAlgo; 5] =
    [ShuffleAlgo::Naive, ShuffleAlgo::Py1s, ShuffleAlgo::Py2s, ShuffleAlgo::Py1br, ShuffleAlgo::Py1e];

pub(super) const METHODS: [BatchingMethod; 4] =
    [BatchingMethod::Random, BatchingMethod::PerStream, BatchingMethod::DevicePerStream, BatchingMethod::Stratified];

#[test]
fn resuming_anywhere_on_a_different_world_returns_the_remaining_global_batches() {
    for algo in ALGOS {
        for method in METHODS {
            let config = OrderConfig {
                shuffle: true,
                shuffle_algo: algo,
                shuffle_block_size: Some(1500),
                num_canonical_nodes: Some(4),
                batching_method: method,
                batch_size: 6,
                ..OrderConfig::default()
            };
            let world = |nodes, ranks_per_node| World { nodes, ranks_per_node, workers_per_rank: 1 };
            let first = plan(&config, world(2, 2), None);
            let whole = global_batches(&first);
            // Device batches keep their streams only on as many devices.
            let others = match method {
                BatchingMethod::DevicePerStream => vec![(world(2, 2), 6)],
                _ => vec![(world(2, 2), 6), (world(1, 4), 6), (world(4, 1), 6), (world(1, 1), 24)],
            };
            for (world, batch_size) in others {
                for seen in [1, 7, whole.len() - 2] {
                    let state = first.state(seen as u64 * 24);
                    let config = OrderConfig { batch_size, ..config.clone() };
                    let rest = global_batches(&plan(&config, world, Some(&state)));
                    let compare = rest.len() - 1;
                    assert_eq!(rest[..compare], whole[seen..seen + compare], "{algo:?} {method:?} {world:?}");
                    assert_eq!(rest.len(), whole.len() - seen, "{algo:?} {method:?} {world:?}");
                }
            }
        }
    }
}

#[test]
fn resuming_at_the_end_of_an_epoch_leaves_nothing() {
    let config = OrderConfig { shuffle: true, batch_size: 8, ..OrderConfig::default() };
    let first = plan(&config, World::single(), None);
    let samples = first.rank(Rank(0)).samples();
    assert_eq!(samples, 6000);
    let rest = plan(&config, World::single(), Some(&first.state(samples)));
    assert_eq!((rest.rank(Rank(0)).batches(), rest.rank(Rank(0)).next()), (0, None));
}

#[test]
fn the_compared_arguments_follow_the_order_and_not_the_batch_size() {
    let config = OrderConfig::default();
    let compared = |config: &OrderConfig| arguments(&shape(), config, World::single());
    let before = compared(&config);
    assert_eq!(compared(&OrderConfig { batch_size: 5, ..config.clone() }), before);
    assert_ne!(compared(&OrderConfig { shuffle: true, ..config.clone() }), before);
    assert_ne!(compared(&OrderConfig { epoch_size: Some(100), ..config }), before);
}

/// Numbers of at most 1,000 samples, in a few forms.
fn numbers_of(count: u64, form: usize) -> Option<Arc<SampleNumbers>> {
    let number = |sample: u64| if form == 0 { 0.0 } else { (sample % 7) as f32 };
    let numbers = SampleNumbers::new((0..count.min(1000)).map(number).collect());
    (form < 2).then(|| Arc::new(numbers.unwrap()))
}

/// Picks by a linear congruential generator: the same ones in every run.
pub(super) struct Picks(pub(super) Cell<u64>);

impl Picks {
    pub(super) fn number(&self, below: usize) -> usize {
        let next = self.0.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0.set(next);
        (next >> 33) as usize % below
    }

    pub(super) fn of<T: Copy>(&self, items: &[T]) -> T {
        items[self.number(items.len())]
    }
}

#[test]
fn absurd_arguments_return_a_plan_or_an_error_and_never_panic() {
    let pick = Picks(Cell::new(1));
    let mut planned = 0;
    for _ in 0..3000 {
        // One argument in ten is absurd.
        let large = |usual: u64| match pick.number(10) {
            0 => pick.of(&[0, 1, 5, 1 << 16, 1 << 47, u64::MAX - 1, u64::MAX]),
            _ => usual,
        };
        let count = |usual: u32| match pick.number(10) {
            0 => pick.of(&[0, 3, 1 << 10, u32::MAX]),
            _ => usual,
        };
        let streams: Vec<Vec<u64>> =
            (0..1 + pick.number(3)).map(|_| vec![pick.of(&[0, 1, 7, 100]), large(pick.of(&[1, 2, 50]))]).collect();
        let weight = match pick.number(12) {
            0 => Weight::Proportion(pick.of(&[0.0, -1.0, 1e-300, 0.5, 1e300, f64::NAN, f64::INFINITY])),
            1 => Weight::Repeat(pick.of(&[0.0, -0.0, 1e-9, 2.5, 1e18, f64::NAN, f64::NEG_INFINITY])),
            2..=4 => Weight::Choose(large(30)),
            5..=6 => Weight::Proportion(1.0),
            _ => Weight::Unset,
        };
        let config = OrderConfig {
            shuffle: pick.number(4) > 0,
            shuffle_algo: pick.of(&ALGOS),
            shuffle_seed: large(9176),
            shuffle_block_size: pick.of(&[None, Some(large(60))]),
            partition_algo: pick.of(&[PartitionAlgo::Orig, PartitionAlgo::Relaxed]),
            num_canonical_nodes: pick.of(&[None, Some(large(2))]),
            batch_size: large(pick.of(&[1, 2, 3, 8])),
            sampling_method: pick.of(&[SamplingMethod::Balanced, SamplingMethod::Fixed]),
            sampling_granularity: large(1),
            batching_method: pick.of(&METHODS),
            replication: pick.of(&[None, None, None, Some(count(2))]),
            epoch_size: pick.of(&[None, None, None, Some(large(40))]),
            weights: vec![weight; if pick.number(20) == 0 { 9 } else { streams.len() }],
            equal_ranks: true,
            repeat_augment: pick.of(&[1, 1, 1, count(3)]),
            sample_weights: match pick.number(4) {
                0 => streams.iter().map(|_| numbers_of(large(9), pick.number(3))).collect(),
                _ => Vec::new(),
            },
            buckets: match pick.number(4) {
                0 => Some(Buckets {
                    lengths: streams
                        .iter()
                        .map(|sizes| numbers_of(sizes.iter().fold(0, |a, b| a.saturating_add(*b)), 1).expect("some"))
                        .collect(),
                    batches: large(3),
                }),
                _ => None,
            },
        };
        let world = World {
            nodes: count(pick.of(&[1, 2])),
            ranks_per_node: count(pick.of(&[1, 2])),
            workers_per_rank: count(pick.of(&[1, 2])),
        };
        let state = Resume {
            epoch: large(3),
            sample_in_epoch: large(pick.of(&[0, 8])),
            num_canonical_nodes: large(2),
            shuffle_seed: large(1),
            initial_physical_nodes: pick.of(&[None, Some(large(1)), Some(large(3))]),
        };
        let resume = (pick.number(3) == 0).then_some(&state);
        let Ok(shape) = DataSetShape::new(&streams) else { continue };
        let Ok(plan) = EpochPlan::new(&shape, &config, world, large(1), resume) else { continue };
        planned += 1;
        let last = Rank(world.ranks() as u32 - 1);
        let seen = plan.rank(last).take(100).count() as u64;
        assert_eq!(seen, plan.rank(last).samples().min(100));
        assert!(plan.worker(Rank(0), 0).take(100).all(|id| (-1..shape.num_samples() as i64).contains(&id)));
        plan.shard_uses(Node(world.nodes - 1));
    }
    assert!(planned > 500, "only {planned} plans were made");
}
