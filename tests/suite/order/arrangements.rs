//! Repeated draws, weights of samples and buckets by length: properties of plans with them.

use std::collections::{BTreeMap, HashMap};

use std::sync::Arc;

use forebay_loader::order::{
    BatchingMethod, Buckets, DataSetShape, EpochPlan, Node, OrderConfig, OrderError, PlannedSample, Rank,
    SampleNumbers, SamplingMethod, ShardId, StreamId, Weight, World, arguments,
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
    check_worlds_of(config, &worlds(config));
}

/// Like [`check_worlds`], in `worlds`: the first one starts.
fn check_worlds_of(config: &OrderConfig, worlds: &[(World, u64)]) {
    let first = plan(config, worlds[0].0, None);
    let whole = global_batches(&first);
    for &(world, batch_size) in worlds {
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
fn an_epoch_with_repeats_needs_fewer_shards_and_epochs_need_different_ones() {
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
        arguments(&shape(), &config, World::single())
    };
    assert_eq!(named(3).len(), named(1).len() + 1);
}

fn numbers(count: u64, number: impl Fn(u64) -> f32) -> Arc<SampleNumbers> {
    Arc::new(SampleNumbers::new((0..count).map(number).collect()).expect("numbers"))
}

/// Weights of the streams of [`shape`]: the first one's second shard and every tenth sample have none.
fn weights() -> Vec<Option<Arc<SampleNumbers>>> {
    let weight = |sample: u64| if (700..1000).contains(&sample) { 0.0 } else { (sample % 10) as f32 };
    vec![Some(numbers(3000, weight)), None]
}

#[test]
fn weighted_draws_are_equal_in_every_world_and_after_a_resumption() {
    for config in configs() {
        let config = OrderConfig { sample_weights: weights(), ..config };
        check_worlds(&config);
        check_worlds(&OrderConfig { repeat_augment: 3, ..config });
    }
}

#[test]
fn samples_are_drawn_in_proportion_to_their_weights_by_any_algorithm() {
    for config in configs().filter(|config| config.batching_method == BatchingMethod::Random) {
        let config = OrderConfig { sample_weights: weights(), ..config };
        let mut counts = vec![0_u32; 3000];
        let mut others = 0;
        for epoch in 0..20 {
            let plan = EpochPlan::new(&shape(), &config, world(2, 2), epoch, None).expect("a plan");
            for row in rows(&plan) {
                match row.stream {
                    StreamId(0) => counts[row.sample.index()] += 1,
                    _ => others += 1,
                }
            }
        }
        // The second stream keeps each sample once.
        assert_eq!((others, counts.iter().sum::<u32>()), (20 * 3000, 20 * 3000));
        let weights = weights()[0].clone().expect("weights");
        let total: f64 = weights.values().iter().map(|weight| f64::from(*weight)).sum();
        let (mut square, mut freedom) = (0.0, -1.0);
        for (count, weight) in counts.iter().zip(weights.values()) {
            let expected = f64::from(*weight) / total * 60_000.0;
            if expected > 0.0 {
                square += (f64::from(*count) - expected).powi(2) / expected;
                freedom += 1.0;
            } else {
                assert_eq!(*count, 0);
            }
        }
        // Independent draws: neither too far from the weights nor too near to them.
        let deviations = (square - freedom) / f64::sqrt(2.0 * freedom);
        assert!(deviations.abs() < 4.5, "{:?}: chi-square {square} of {freedom}", config.shuffle_algo);
    }
}

#[test]
fn shards_without_weight_are_never_used_and_heavy_ones_are_spread_over_the_epoch() {
    let shape = DataSetShape::new(&[vec![100; 50]]).expect("50 shards");
    let weight = |sample: u64| match sample / 100 {
        3 => 0.0,
        7 => 50.0,
        _ => 1.0,
    };
    let config = OrderConfig {
        shuffle: true,
        shuffle_block_size: Some(400),
        sample_weights: vec![Some(numbers(5000, weight))],
        batch_size: 100,
        ..OrderConfig::default()
    };
    let plan = EpochPlan::new(&shape, &config, World::single(), 0, None).expect("a plan");
    check_uses(&plan, "weights");
    let uses = plan.shard_uses(Node(0));
    let uses_of = |shard: u32| uses.iter().filter(|used| used.shard == ShardId(shard)).count();
    assert_eq!(uses_of(3), 0);
    assert!((20..30).contains(&uses_of(7)), "{}", uses_of(7));
    // Half of the draws belong to one shard, and no part of the epoch is without them.
    let mut batches_without = 0;
    for batch in batches(&plan, Rank(0)) {
        let heavy = batch.iter().filter(|row| shape_index(&plan, row) == 7).count();
        batches_without += usize::from(heavy == 0);
    }
    assert!(batches_without < 5, "{batches_without} of 50 batches have nothing of the heavy shard");
}

fn shape_index(plan: &EpochPlan, row: &PlannedSample) -> usize {
    plan.shape().locate(row.sample).expect("a sample").0.index()
}

#[test]
fn fixed_sampling_draws_once_and_balanced_sampling_in_each_epoch() {
    let drawn = |sampling_method, epoch| {
        let config = OrderConfig { sampling_method, sample_weights: weights(), ..OrderConfig::default() };
        let plan = EpochPlan::new(&shape(), &config, World::single(), epoch, None).expect("a plan");
        let mut samples: Vec<u64> = rows(&plan).iter().map(|row| row.sample.0).collect();
        samples.sort_unstable();
        samples
    };
    assert_eq!(drawn(SamplingMethod::Fixed, 0), drawn(SamplingMethod::Fixed, 1));
    assert_ne!(drawn(SamplingMethod::Balanced, 0), drawn(SamplingMethod::Balanced, 1));
}

#[test]
fn weights_combine_with_proportions_and_the_size_of_an_epoch() {
    let config = OrderConfig {
        weights: vec![Weight::Proportion(3.0), Weight::Proportion(1.0)],
        epoch_size: Some(8000),
        sample_weights: weights(),
        ..OrderConfig::default()
    };
    let plan = EpochPlan::new(&shape(), &config, World::single(), 0, None).expect("a plan");
    let of_first = rows(&plan).iter().filter(|row| row.stream == StreamId(0)).count();
    assert_eq!((of_first, rows(&plan).len()), (6000, 8000));
    let choose = OrderConfig { weights: vec![Weight::Choose(9000), Weight::Choose(0)], epoch_size: None, ..config };
    let plan = EpochPlan::new(&shape(), &choose, World::single(), 0, None).expect("a plan");
    assert_eq!(rows(&plan).len(), 9000);
}

#[test]
fn weights_that_are_none_or_of_different_samples_are_rejected() {
    let plan = |first: Arc<SampleNumbers>| {
        let config = OrderConfig { sample_weights: vec![Some(first), None], ..OrderConfig::default() };
        EpochPlan::new(&shape(), &config, World::single(), 0, None)
    };
    assert_eq!(plan(numbers(3000, |_| 0.0)).expect_err("no weight"), OrderError::NoSampleWeight { stream: 0 });
    assert!(plan(numbers(2999, |_| 1.0)).expect_err("one is missing").to_string().contains("one for each sample"));
}

/// Lengths of the streams of [`shape`].
fn buckets(batches: u64) -> Option<Buckets> {
    let length = |sample: u64| (sample.wrapping_mul(7919) % 1000) as f32;
    Some(Buckets { lengths: vec![numbers(3000, length); 2], batches })
}

fn length_of(row: &PlannedSample) -> u64 {
    (row.sample.0 % 3000).wrapping_mul(7919) % 1000
}

#[test]
fn buckets_are_equal_in_every_world_and_after_a_resumption() {
    for config in configs().filter(|config| config.batching_method != BatchingMethod::DevicePerStream) {
        for canonical in [1, 4] {
            // 24 rows of a global batch and 5 canonical nodes do not divide.
            let config = OrderConfig { buckets: buckets(7), num_canonical_nodes: Some(canonical), ..config.clone() };
            if canonical == 4 {
                check_worlds(&config);
                check_worlds(&OrderConfig { repeat_augment: 3, sample_weights: weights(), ..config });
            } else {
                check_worlds_of(&config, &[(world(1, 4), 6), (world(1, 2), 12), (world(1, 1), 24)]);
            }
        }
    }
}

#[test]
fn buckets_permute_the_rows_of_an_epoch_into_batches_of_similar_length() {
    for config in configs().filter(|config| config.batching_method != BatchingMethod::DevicePerStream) {
        let spread = |plan: &EpochPlan| {
            let mut global: Vec<Vec<u64>> = Vec::new();
            for rank in ranks(plan) {
                for (at, rows) in batches(plan, rank).into_iter().enumerate() {
                    global.resize_with(global.len().max(at + 1), Vec::new);
                    global[at].extend(rows.iter().map(length_of));
                }
            }
            let spread = |batch: &Vec<u64>| batch.iter().max().zip(batch.iter().min()).map_or(0, |(a, b)| a - b);
            global.iter().map(spread).sum::<u64>() / global.len() as u64
        };
        let drawn = |plan: &EpochPlan| {
            let mut drawn: Vec<_> = rows(plan).iter().map(|row| (row.stream, row.draw, row.sample)).collect();
            drawn.sort_unstable_by_key(|(stream, draw, _)| (*stream, *draw));
            drawn
        };
        let plain = plan(&config, world(2, 2), None);
        let bucketed = plan(&OrderConfig { buckets: buckets(20), ..config.clone() }, world(2, 2), None);
        if config.batching_method != BatchingMethod::Stratified {
            assert_eq!(drawn(&bucketed), drawn(&plain), "{config:?}");
        }
        // 1000 lengths: a batch of 24 has nearly all of them, a twentieth of a window 50.
        assert!(spread(&plain) > 850 && spread(&bucketed) < 250, "{} {}", spread(&plain), spread(&bucketed));
    }
}

#[test]
fn batches_of_a_window_are_in_random_order_only_if_the_epoch_is_shuffled() {
    let means = |shuffle, epoch| {
        let config = OrderConfig { shuffle, buckets: buckets(10), batch_size: 50, ..OrderConfig::default() };
        let plan = EpochPlan::new(&shape(), &config, World::single(), epoch, None).expect("a plan");
        let mean = |rows: Vec<PlannedSample>| rows.iter().map(length_of).sum::<u64>() / rows.len() as u64;
        batches(&plan, Rank(0)).into_iter().map(mean).collect::<Vec<_>>()
    };
    assert!(means(false, 0).chunks(10).all(|window| window.is_sorted()));
    assert_eq!(means(false, 0), means(false, 1));
    let ranks = |means: Vec<u64>| {
        means
            .chunks(10)
            .map(|w| w.iter().map(|m| w.iter().filter(|n| *n < m).count()).collect())
            .collect::<Vec<Vec<_>>>()
    };
    let (first, second) = (ranks(means(true, 0)), ranks(means(true, 1)));
    assert!(first.iter().all(|window| !window.is_sorted()) && first[0] != first[1] && first[0] != second[0]);
}

#[test]
fn buckets_that_cannot_be_made_are_rejected() {
    let plan =
        |config: OrderConfig| EpochPlan::new(&shape(), &config, World::single(), 0, None).expect_err("no buckets");
    let config = OrderConfig { buckets: buckets(7), ..OrderConfig::default() };
    let devices = OrderConfig { batching_method: BatchingMethod::DevicePerStream, ..config.clone() };
    assert_eq!(plan(devices), OrderError::BucketsOfDevices);
    let large = OrderConfig { buckets: buckets(1 << 20), batch_size: 1 << 10, ..config.clone() };
    assert!(plan(large).to_string().contains("lower it"));
    let other = Buckets { lengths: vec![numbers(3, |_| 1.0); 2], batches: 2 };
    assert!(plan(OrderConfig { buckets: Some(other), ..config }).to_string().contains("one for each sample"));
}

#[test]
fn a_state_names_weights_and_buckets_with_their_global_batch() {
    let named = |config: OrderConfig, world| arguments(&shape(), &config, world);
    let (plain, one) = (OrderConfig::default(), World::single());
    let weighted = OrderConfig { sample_weights: weights(), ..plain.clone() };
    assert_ne!(named(weighted, one), named(plain.clone(), one));
    let bucketed = |batch_size| OrderConfig { buckets: buckets(7), batch_size, ..plain.clone() };
    assert_eq!(named(bucketed(8), one), named(bucketed(2), world(2, 2)));
    assert_ne!(named(bucketed(8), one), named(bucketed(4), one));
}
