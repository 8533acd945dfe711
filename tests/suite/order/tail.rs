//! A resumed epoch is the tail of the whole one, wherever a run of any world with the same global batch may break off:
//! up to the last position of canonical nodes of equal length, which the reference refuses.

use std::cell::Cell;

use forebay_loader::order::{
    DataSetShape, EpochPlan, Node, OrderConfig, OrderError, PartitionAlgo, PlannedSample, Rank, Resume, World,
};

use super::promises::{ALGOS, METHODS, Picks, batches, ranks};

/// A data set, an order, and the worlds that may train with its global batch.
struct Setting {
    shape: DataSetShape,
    config: OrderConfig,
    /// Worlds with their device batches.
    worlds: Vec<(World, u64)>,
}

impl Setting {
    fn pick(pick: &Picks) -> Self {
        let streams: Vec<Vec<u64>> = (0..1 + pick.number(2))
            .map(|_| (0..1 + pick.number(3)).map(|_| 1 + pick.number(40) as u64).collect())
            .collect();
        let replication = pick.of(&[None, None, Some(2)]);
        let config = OrderConfig {
            shuffle: pick.number(5) > 0,
            shuffle_algo: pick.of(&ALGOS),
            shuffle_seed: pick.number(1000) as u64,
            shuffle_block_size: Some(20 + pick.number(60) as u64),
            partition_algo: pick.of(&[PartitionAlgo::Orig, PartitionAlgo::Relaxed]),
            num_canonical_nodes: Some(pick.of(&[1, 2, 3, 4, 6, 8, 16, 64])),
            batching_method: pick.of(&[METHODS[0], METHODS[0], METHODS[1], METHODS[2], METHODS[3]]),
            replication,
            ..OrderConfig::default()
        };
        let global_batch = pick.of(&[4_u32, 6, 12, 24]);
        let divisors = |n: u32| (1..=n).filter(move |d| n.is_multiple_of(*d));
        let of_nodes = |nodes: u32| {
            divisors(global_batch / nodes).map(move |ranks| {
                let world = World { nodes, ranks_per_node: ranks * replication.unwrap_or(1), workers_per_rank: 1 };
                (world, u64::from(global_batch / nodes / ranks))
            })
        };
        let worlds = divisors(global_batch).flat_map(of_nodes).collect();
        Self { shape: DataSetShape::new(&streams).unwrap(), config, worlds }
    }

    fn plan(&self, (world, batch_size): (World, u64), resume: Option<&Resume>) -> Result<EpochPlan, OrderError> {
        let config = OrderConfig { batch_size, ..self.config.clone() };
        EpochPlan::new(&self.shape, &config, world, 1, resume)
    }
}

/// Returns every rank's rows in order.
fn rows(plan: &EpochPlan) -> Vec<Vec<PlannedSample>> {
    ranks(plan).map(|rank| batches(plan, rank).concat()).collect()
}

/// Returns true if `rest` equals `whole` after `seen` rows of each rank. The reference has its own repeats at the end
/// of the rest; their number and positions are as in the whole epoch.
fn is_tail(whole: &[Vec<PlannedSample>], rest: &[Vec<PlannedSample>], seen: u64, repeats_may_differ: bool) -> bool {
    whole.iter().zip(rest).all(|(whole, rest)| {
        let tail = whole.get(seen as usize..).unwrap_or_default();
        let same = |(a, b): (&PlannedSample, &PlannedSample)| a == b || (repeats_may_differ && a.repeat && b.repeat);
        tail.len() == rest.len() && tail.iter().zip(rest).all(same)
    })
}

/// Returns true if every sample that ranks read is among the uses of its shard on their node.
fn uses_cover(plan: &EpochPlan) -> bool {
    let (world, parallel) = (plan.world(), plan.parallel_world());
    let replication = (world.ranks() / parallel.ranks()) as u32;
    ranks(plan).all(|rank| {
        let uses = plan.shard_uses(Node(rank.0 / world.ranks_per_node));
        let rank_of_node = u64::from(rank.0 / replication % parallel.ranks_per_node);
        plan.rank(rank).enumerate().all(|(k, row)| {
            let place = k as u64 * u64::from(parallel.ranks_per_node) + rank_of_node;
            let shard = plan.shape().locate(row.sample).unwrap().0;
            uses.iter().any(|u| u.shard == shard && (u.first..=u.last).contains(&place))
        })
    })
}

#[test]
fn a_resumed_epoch_is_the_tail_of_the_whole_one_from_every_batch_to_the_last_position() {
    let pick = Picks(Cell::new(5));
    let (mut compared, mut longer_than_the_reference) = (0, 0);
    for _ in 0..600 {
        let setting = Setting::pick(&pick);
        let first = pick.of(&setting.worlds);
        let Ok(started) = setting.plan(first, None) else { continue };
        // The same world resumes, and a different one.
        for world in [first, pick.of(&setting.worlds)] {
            let Ok(whole) = setting.plan(world, Some(&started.state(0))) else { continue };
            let all = rows(&whole);
            let global_batch = whole.parallel_world().ranks() * whole.batch_size();
            for place in (0..=started.end().div_ceil(global_batch)).map(|batch| batch * global_batch) {
                let context = || format!("{:?} on {world:?} at {place}, begun on {first:?}", setting.config);
                let rest =
                    setting.plan(world, Some(&started.state(place))).unwrap_or_else(|e| panic!("{e}: {}", context()));
                let is_behind = whole.reference_end().is_some_and(|end| place > end);
                assert_eq!(rest.reject_as_reference().is_err(), is_behind, "{}", context());
                assert!(
                    is_tail(&all, &rows(&rest), place / global_batch * whole.batch_size(), !is_behind),
                    "{}",
                    context()
                );
                if is_behind {
                    assert!(uses_cover(&rest), "{}", context());
                    longer_than_the_reference += u64::from(rest.rank(Rank(0)).batches() > 0);
                }
                compared += 1;
            }
        }
    }
    assert!(
        compared > 3000 && longer_than_the_reference > 100,
        "{compared} resumed, {longer_than_the_reference} longer"
    );
}

#[test]
fn a_position_among_the_samples_that_canonical_nodes_add_resumes_and_a_later_one_is_an_error() {
    let shape = DataSetShape::new(&[vec![45, 45]]).unwrap();
    let config = OrderConfig { shuffle: true, num_canonical_nodes: Some(64), batch_size: 4, ..OrderConfig::default() };
    let world = World { nodes: 1, ranks_per_node: 2, workers_per_rank: 1 };
    let plan = |resume: Option<&Resume>| EpochPlan::new(&shape, &config, world, 0, resume);
    let whole = plan(None).unwrap();
    assert_eq!((whole.end(), whole.reference_end()), (128, Some(92)));
    let rest = plan(Some(&whole.state(120))).unwrap();
    assert_eq!(rest.reject_as_reference(), Err(OrderError::ResumedPastEnd { resumed: 120, samples: 90 }));
    assert!(is_tail(&rows(&whole), &rows(&rest), 60, false));
    assert_eq!(rest.rank(Rank(1)).samples(), 4);
    assert_eq!(rest.end(), 128);
    assert_eq!(plan(Some(&whole.state(128))).unwrap().rank(Rank(0)).batches(), 0);
    let error = plan(Some(&whole.state(129))).unwrap_err();
    assert_eq!(error, OrderError::ResumedPastEnd { resumed: 129, samples: 90 });
}

#[test]
fn the_end_of_an_epoch_on_many_ranks_is_its_end_on_one() {
    let shape = DataSetShape::new(&[vec![129]]).unwrap();
    let plan = |ranks_per_node, resume: Option<&Resume>| {
        let config = OrderConfig { batch_size: 256 / u64::from(ranks_per_node), ..OrderConfig::default() };
        EpochPlan::new(&shape, &config, World { nodes: 1, ranks_per_node, workers_per_rank: 1 }, 0, resume).unwrap()
    };
    let many = plan(128, None);
    assert_eq!(many.end(), 256);
    assert_eq!(plan(1, Some(&many.state(many.end()))).rank(Rank(0)).batches(), 0);
}

#[test]
fn ranks_get_equal_numbers_of_batches_on_nodes_that_do_not_divide_the_canonical_nodes() {
    let shape = DataSetShape::new(&[vec![300, 300, 292]]).unwrap();
    let plan = |nodes: u32, equal_ranks, resume: Option<&Resume>| {
        let batch_size = 24 / u64::from(nodes);
        let canonical = Some(4);
        let config = OrderConfig {
            shuffle: true,
            num_canonical_nodes: canonical,
            batch_size,
            equal_ranks,
            ..Default::default()
        };
        EpochPlan::new(&shape, &config, World { nodes, ranks_per_node: 1, workers_per_rank: 1 }, 0, resume).unwrap()
    };
    let counts = |plan: &EpochPlan| (0..3).map(|rank| plan.rank(Rank(rank)).batches()).collect::<Vec<_>>();
    let started = plan(2, true, None);
    // The epoch ends with a global batch of four samples, two for each node of the first run.
    for (place, batches) in [(0, 38), (72, 35), (888, 1), (892, 0)] {
        let resumed = plan(3, true, Some(&started.state(place)));
        assert_eq!(counts(&resumed), [batches; 3], "{place}");
        assert!(uses_cover(&resumed), "{place}");
        let as_reference = plan(3, false, Some(&started.state(place)));
        assert_eq!(counts(&as_reference), [batches, batches, batches.saturating_sub(1)], "{place}");

        let samples = |plan: &EpochPlan, nodes| {
            let mut batches = vec![std::collections::BTreeSet::new(); batches as usize];
            for rank in 0..nodes {
                let mut order = plan.rank(Rank(rank));
                let mut rows = Vec::new();
                for batch in &mut batches {
                    assert!(order.next_batch(&mut rows));
                    batch.extend(rows.iter().map(|row| row.draw));
                }
            }
            batches
        };
        let rest = plan(2, true, Some(&started.state(place)));
        assert_eq!(samples(&resumed, 3), samples(&rest, 2), "{place}");
    }
}
