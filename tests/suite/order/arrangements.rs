//! Repeated draws: properties of plans with and without them.

use std::collections::{BTreeMap, HashMap};

use forebay_loader::order::{
    BatchingMethod, DataSetShape, EpochPlan, Node, OrderConfig, PlannedSample, Rank, ShardId, Weight, World,
};

use super::promises::{ALGOS, METHODS, batches, global_batches, plan, ranks, shape};

fn world(nodes: u32, ranks_per_node: u32) -> World {
    World { nodes, ranks_per_node, workers_per_rank: 1 }
}

/// Configurations of every algorithm and method, in batches of 24 rows on 4 ranks.
fn configs() -> impl Iterator<Item = OrderConfig> {
    let pairs = ALGOS.into_iter().flat_map(|algo| METHODS.map(|method| (algo, method)));
    pairs.map(|(shuffle_algo, batching_method)| OrderConfig {
        shuffle: true,
        shuffle_algo,
        batching_method,
        shuffle_block_size: Some(1500),
        num_canonical_nodes: Some(4),
        batch_size: 6,
        ..OrderConfig::default()
    })
}

/// Worlds with the global batch of [`configs`], and their batch on a device.
fn worlds(config: &OrderConfig) -> Vec<(World, u64)> {
    match config.batching_method {
        // Device batches keep their streams only on as many devices.
        BatchingMethod::DevicePerStream => vec![(world(2, 2), 6)],
        _ => vec![(world(2, 2), 6), (world(1, 4), 6), (world(4, 1), 6), (world(4, 2), 3), (world(1, 1), 24)],
    }
}

/// Rows of all ranks, without those that make ranks equally long.
fn rows(plan: &EpochPlan) -> Vec<PlannedSample> {
    let all = ranks(plan).flat_map(|rank| plan.rank(rank));
    all.filter(|row| !row.repeat).collect()
}

/// Checks that the uses of shards cover every row of `plan`.
fn check_uses(plan: &EpochPlan, context: &str) {
    for node in 0..plan.world().nodes {
        let mut of_shard: HashMap<ShardId, Vec<_>> = HashMap::new();
        for used in plan.shard_uses(Node(node)) {
            of_shard.entry(used.shard).or_default().push(used.first..=used.last);
        }
        let ranks_per_node = plan.world().ranks_per_node;
        for rank_of_node in 0..ranks_per_node {
            for (k, row) in (0..).zip(plan.rank(Rank(node * ranks_per_node + rank_of_node))) {
                let place = k * u64::from(ranks_per_node) + u64::from(rank_of_node);
                let shard = plan.shape().locate(row.sample).expect("a sample").0;
                let is_covered = of_shard.get(&shard).is_some_and(|uses| uses.iter().any(|used| used.contains(&place)));
                assert!(is_covered, "{context}: {shard} at {place} of node {node}");
            }
        }
    }
}

/// Checks that global batches are equal in every world, from the start and after a resumption anywhere.
fn check_worlds(config: &OrderConfig) {
    let first = plan(config, world(2, 2), None);
    let whole = global_batches(&first);
    for (world, batch_size) in worlds(config) {
        let config = OrderConfig { batch_size, ..config.clone() };
        for seen in [0, 1, 7, whole.len() - 2] {
            let state = (seen > 0).then(|| first.state(seen as u64 * 24));
            let resumed = plan(&config, world, state.as_ref());
            let rest = global_batches(&resumed);
            assert_eq!(rest.len(), whole.len() - seen, "{config:?} {world:?}");
            let compared = rest.len() - 1;
            assert_eq!(rest[..compared], whole[seen..seen + compared], "{config:?} {world:?}");
            check_uses(&resumed, &format!("{config:?} {world:?} after {seen}"));
            let counts: Vec<u64> = ranks(&resumed).map(|rank| resumed.rank(rank).batches()).collect();
            assert!(counts.iter().all(|count| *count == counts[0]), "{config:?} {world:?}: {counts:?}");
        }
    }
}

#[test]
fn repeats_are_rows_of_one_draw_each_with_its_own_number() {
    for config in configs() {
        let plain = plan(&config, world(2, 2), None);
        let plain_rows = rows(&plain);
        for repeat_augment in [2, 3, 5] {
            let config = OrderConfig { repeat_augment, ..config.clone() };
            let repeated = plan(&config, world(2, 2), None);
            let repeats = u64::from(repeat_augment);
            let all = rows(&repeated);
            assert_eq!(all.len(), plain_rows.len(), "an epoch keeps its length: {config:?}");
            let mut of_draw: BTreeMap<_, (u64, Vec<u64>)> = BTreeMap::new();
            for row in &all {
                let (sample, repeats_found) = of_draw.entry((row.stream, row.draw / repeats)).or_default();
                *sample = row.sample.0;
                repeats_found.push(row.draw % repeats);
            }
            let samples: HashMap<_, u64> =
                plain_rows.iter().map(|row| ((row.stream, row.draw), row.sample.0)).collect();
            let mut cut = 0;
            for (draw, (sample, mut found)) in of_draw {
                assert_eq!(samples.get(&draw), Some(&sample), "{config:?}");
                found.sort_unstable();
                assert!(found.iter().copied().eq(0..found.len() as u64), "{config:?}: {found:?}");
                cut += usize::from(found.len() as u64 != repeats);
            }
            // The end of each canonical node's part of each sequence, and where merged batches end.
            assert!(cut <= 2 * 4 + 48, "{config:?}: {cut} samples without all of their repeats");
        }
    }
}

#[test]
fn repeats_are_equal_in_every_world_and_after_a_resumption() {
    for config in configs() {
        for repeat_augment in [2, 3] {
            check_worlds(&OrderConfig { repeat_augment, ..config.clone() });
        }
    }
}

#[test]
fn repeats_of_a_sample_go_to_different_ranks_in_the_same_or_the_next_step() {
    for (nodes, ranks_per_node) in [(1, 4), (2, 4)] {
        let config = OrderConfig {
            shuffle: true,
            num_canonical_nodes: Some(nodes.into()),
            repeat_augment: 3,
            batch_size: 6,
            ..OrderConfig::default()
        };
        let world = world(nodes, ranks_per_node);
        let plan = plan(&config, world, None);
        let mut places: BTreeMap<u64, Vec<(u32, usize)>> = BTreeMap::new();
        for rank in ranks(&plan) {
            for (step, rows) in batches(&plan, rank).into_iter().enumerate() {
                for row in rows.iter().filter(|row| !row.repeat) {
                    places.entry(row.draw / 3).or_default().push((rank.0, step));
                }
            }
        }
        assert!(places.len() >= 6000 / 3, "{} samples", places.len());
        for (draw, mut places) in places {
            let steps = places.iter().map(|(_, step)| *step);
            assert!(steps.clone().max().zip(steps.min()).is_some_and(|(last, first)| last - first <= 1), "{places:?}");
            let count = places.len();
            places.sort_unstable();
            places.dedup_by_key(|(rank, _)| *rank);
            assert_eq!(places.len(), count, "draw {draw}: {places:?}");
            let node_of = |rank: u32| world.node_of(Rank(rank)).0;
            assert!(places.iter().all(|(rank, _)| node_of(*rank) == node_of(places[0].0)), "draw {draw}: {places:?}");
        }
    }
}

#[test]
fn an_epoch_with_repeats_needs_fewer_shards_and_epochs_need_others() {
    let shape = DataSetShape::new(&[vec![100; 60]]).expect("60 shards");
    let used = |repeat_augment, epoch| {
        let config = OrderConfig {
            shuffle: true,
            shuffle_block_size: Some(500),
            repeat_augment,
            batch_size: 10,
            ..OrderConfig::default()
        };
        let plan = EpochPlan::new(&shape, &config, World::single(), epoch, None).expect("a plan");
        let shards = plan.shard_uses(Node(0)).into_iter().map(|used| used.shard);
        shards.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(used(1, 0).len(), 60);
    let [first, second] = [0, 1].map(|epoch| used(3, epoch));
    assert!((20..30).contains(&first.len()) && (20..30).contains(&second.len()), "{} {}", first.len(), second.len());
    assert_ne!(first, second);
}

#[test]
fn repeats_combine_with_weights_of_streams() {
    let weights = vec![Weight::Repeat(2.0), Weight::Choose(500)];
    let config = OrderConfig { shuffle: true, weights, repeat_augment: 4, batch_size: 10, ..OrderConfig::default() };
    let plan = EpochPlan::new(&shape(), &config, World::single(), 0, None).expect("a plan");
    assert_eq!(rows(&plan).len(), 2 * 3000 + 500);
    check_uses(&plan, "weights");
}

#[test]
fn a_state_names_the_repeats_only_if_there_are_some() {
    let named = |repeat_augment| {
        let config = OrderConfig { repeat_augment, ..OrderConfig::default() };
        forebay_loader::order::arguments(&shape(), &config)
    };
    assert_eq!(named(3).len(), named(1).len() + 1);
}
