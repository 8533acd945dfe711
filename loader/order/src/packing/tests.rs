//! Tests of whole plans.

use super::*;
use crate::config::{OrderConfig, PartitionAlgo, ShuffleAlgo, Weight};
use crate::error::OrderError;
use crate::ids::{Node, Rank, SampleId, StreamId};
use crate::resume::Resume;
use crate::rng::Generator;
use crate::shape::DataSetShape;
use crate::world::World;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const LENGTH: u32 = 64;

pub(super) struct Job {
    pub(super) shape: DataSetShape,
    pub(super) lengths: Vec<Arc<TokenLengths>>,
    pub(super) order: OrderConfig,
    pub(super) packing: PackConfig,
}

/// Two streams of shards of different sizes, with lengths of 0 to 99 tokens.
pub(super) fn job() -> Job {
    let mut generator = Generator::new(3);
    let streams = [vec![300, 1, 0, 250, 700], vec![400, 90]];
    let shape = DataSetShape::new(&streams).expect("a shape");
    let lengths = streams.iter().map(|shards| {
        let mut length = || generator.integer(0, 10).expect("a range") * generator.integer(1, 12).expect("a range");
        Arc::new(TokenLengths::new((0..shards.iter().sum()).map(|_| length() as u32).collect()))
    });
    let lengths = lengths.collect();
    let order = OrderConfig { shuffle: true, num_canonical_nodes: Some(8), batch_size: 24, ..OrderConfig::default() };
    let packing = PackConfig { window: Some(100), ..PackConfig::new(LENGTH) };
    Job { shape, lengths, order, packing }
}

pub(super) fn world(nodes: u32, ranks_per_node: u32) -> World {
    World { nodes, ranks_per_node, workers_per_rank: 1 }
}

impl Job {
    /// The plan for a world with the same global batch as a single rank's.
    fn plan(&self, world: World, epoch: u64, resume: Option<&Resume>) -> PackPlan {
        self.try_plan(world, epoch, resume, None).expect("a plan")
    }

    fn try_plan(
        &self,
        world: World,
        epoch: u64,
        resume: Option<&Resume>,
        counts: Option<PackCounts>,
    ) -> Result<PackPlan, OrderError> {
        let batch_size = self.order.batch_size / world.ranks();
        let order = OrderConfig { batch_size, ..self.order.clone() };
        PackPlan::new(&self.shape, &order, (&self.packing, &self.lengths), world, epoch, resume, counts, 2)
    }
}

/// The packs of each global batch, sorted, without those that make ranks equal.
type Steps = Vec<Vec<Vec<(u64, u32, u32, u32)>>>;

fn steps(plan: &PackPlan) -> Steps {
    let ranks = plan.packs().world().ranks() as u32;
    let mut steps = Steps::new();
    for rank in 0..ranks {
        let (mut order, mut batch, mut step) = (plan.rank(Rank(rank)), PackBatch::default(), 0);
        while order.next_batch(&mut batch).expect("the plan's own counts") {
            if steps.len() == step {
                steps.push(Vec::new());
            }
            let mut packs: BTreeMap<u32, Vec<(u64, u32, u32, u32)>> = BTreeMap::new();
            for fragment in batch.fragments.iter().filter(|fragment| !fragment.sample.repeat) {
                let PackedFragment { offset, first, tokens, .. } = *fragment;
                packs.entry(fragment.pack).or_default().push((fragment.sample.draw, offset, first, tokens));
            }
            steps[step].extend(packs.into_values());
            step += 1;
        }
    }
    steps.iter_mut().for_each(|step| step.sort_unstable());
    steps
}

/// Three tokens more for documents of some draws, by the epoch.
#[derive(Debug)]
struct Marks;

impl AddedTokens for Marks {
    fn added(&self, epoch: u64, stream: StreamId, draw: u64, tokens: u32) -> u32 {
        if tokens > 2 && (epoch + draw + u64::from(stream.0)).is_multiple_of(3) { 3 } else { 0 }
    }

    fn argument(&self) -> String {
        "marks".to_owned()
    }
}

#[test]
fn tokens_that_the_draws_of_an_epoch_add_are_counted_in_its_packs() {
    let job = Job { packing: PackConfig { added: Some(Arc::new(Marks)), ..job().packing }, ..job() };
    let mut tokens = Vec::new();
    for epoch in 0..3 {
        let plan = job.plan(World::single(), epoch, None);
        let (mut order, mut batch) = (plan.rank(Rank(0)), PackBatch::default());
        let mut packs = BTreeMap::<_, u32>::new();
        while order.next_batch(&mut batch).expect("the plan's own counts") {
            for fragment in &batch.fragments {
                let planned = fragment.sample;
                let samples = job.shape.samples_of(planned.stream);
                let of_stream = (planned.sample.0 - samples.start) as usize;
                let length = job.lengths[planned.stream.index()].values()[of_stream];
                let added = Marks.added(epoch, planned.stream, planned.draw, length);
                assert_eq!(fragment.document_tokens, length + added);
                let end = packs.entry(fragment.pack).or_default();
                assert_eq!(fragment.offset, *end);
                *end += fragment.tokens;
            }
            assert!(packs.values().all(|end| *end <= LENGTH));
            packs.clear();
        }
        tokens.push(plan.totals().tokens);
        let same = job.plan(world(2, 2), epoch, None);
        assert_eq!(steps(&plan), steps(&same));
    }
    let plain: u64 = job.lengths.iter().map(|lengths| lengths.total()).sum();
    assert!(tokens.iter().all(|all| *all > plain) && tokens[0] != tokens[1], "{tokens:?} {plain}");
    let argument = |packing: &PackConfig| PackPlan::argument(packing, &job.lengths);
    assert_eq!(argument(&job.packing), format!("{}, marks", argument(&self::job().packing)));
}

#[test]
fn an_epoch_has_each_token_once_and_no_pack_overflows() {
    for shuffle_algo in [ShuffleAlgo::Py1e, ShuffleAlgo::Py1s, ShuffleAlgo::Py1br, ShuffleAlgo::Naive] {
        for method in [PackMethod::BestFit, PackMethod::Cut] {
            let mut job = job();
            job.order.shuffle_algo = shuffle_algo;
            job.packing.method = method;
            let plan = job.plan(World::single(), 0, None);
            let mut tokens = BTreeMap::<u64, Vec<(u32, u32)>>::new();
            for pack in steps(&plan).concat() {
                let mut end = 0;
                for (draw, offset, first, count) in pack {
                    assert_eq!(offset, end, "fragments are adjacent");
                    end = offset + count;
                    tokens.entry(draw).or_default().push((first, count));
                }
                assert!((1..=LENGTH).contains(&end));
            }
            let lengths = job.lengths.iter().flat_map(|lengths| lengths.values());
            for (draw, &length) in lengths.enumerate() {
                let mut fragments = tokens.remove(&(draw as u64)).unwrap_or_default();
                fragments.sort_unstable();
                let end = fragments.iter().fold(0, |end, &(first, count)| {
                    assert_eq!(first, end);
                    first + count
                });
                assert_eq!(end, length);
                let is_whole = fragments.len() <= 1;
                assert!(is_whole || method == PackMethod::Cut || length > LENGTH, "{length} tokens were cut");
            }
            assert!(tokens.is_empty());
            let totals = plan.totals();
            assert_eq!(totals.tokens, job.lengths.iter().map(|lengths| lengths.total()).sum::<u64>());
            assert_eq!(totals.capacity, totals.packs * u64::from(LENGTH));
        }
    }
}

#[test]
fn global_batches_are_the_same_in_any_world() {
    for shuffle in [true, false] {
        let mut job = job();
        job.order.shuffle = shuffle;
        let one = steps(&job.plan(World::single(), 2, None));
        for (nodes, ranks) in [(1, 2), (1, 4), (2, 1), (2, 4), (4, 2), (8, 3), (1, 24)] {
            assert_eq!(steps(&job.plan(world(nodes, ranks), 2, None)), one, "{nodes} nodes of {ranks} ranks");
        }
    }
}

#[test]
fn all_ranks_have_equal_numbers_of_batches() {
    let job = job();
    for (nodes, ranks) in [(1, 4), (2, 4), (8, 3)] {
        let plan = job.plan(world(nodes, ranks), 0, None);
        let batches: BTreeSet<u64> = (0..nodes * ranks).map(|rank| plan.rank(Rank(rank)).packs().batches()).collect();
        assert_eq!(batches.len(), 1, "{batches:?}");
    }
}

#[test]
fn a_checkpoint_resumes_in_any_window_and_in_any_world() {
    let job = job();
    let whole = job.plan(world(2, 1), 1, None);
    let all = steps(&whole);
    for step in [0, 1, all.len() / 2, all.len() - 1] {
        let state = whole.packs().state(step as u64 * 24);
        for (nodes, ranks) in [(2, 1), (1, 4), (2, 6), (3, 2)] {
            let mut job = self::job();
            job.order.partition_algo = PartitionAlgo::Relaxed;
            let counts = PackCounts::from_bytes(&whole.counts().to_bytes()).expect("good bytes");
            for counts in [None, Some(counts)] {
                let rest = job.try_plan(world(nodes, ranks), 1, Some(&state), counts).expect("a plan");
                assert_eq!(rest.packs().epoch(), 1);
                assert_eq!(steps(&rest), all[step..], "step {step} on {nodes} nodes of {ranks} ranks");
            }
        }
    }
}

#[test]
fn seeking_a_rank_skips_batches() {
    let plan = job().plan(world(1, 2), 0, None);
    let (mut order, mut sought) = (plan.rank(Rank(1)), plan.rank(Rank(1)));
    let (mut batch, mut expected) = (PackBatch::default(), PackBatch::default());
    for _ in 0..4 {
        order.next_batch(&mut expected).expect("a batch");
    }
    sought.seek(3);
    assert!(sought.next_batch(&mut batch).expect("a batch"));
    assert_eq!(batch, expected);
}

#[test]
fn every_shard_is_in_use_while_its_documents_are_delivered() {
    for shuffle_algo in [ShuffleAlgo::Py1e, ShuffleAlgo::Py1s, ShuffleAlgo::Py1br, ShuffleAlgo::Naive] {
        for shuffle in [true, false] {
            let mut job = job();
            (job.order.shuffle, job.order.shuffle_algo) = (shuffle, shuffle_algo);
            let start = job.plan(world(2, 2), 0, None).packs().state(24 * 3);
            for resume in [None, Some(&start)] {
                let plan = job.plan(world(2, 2), 0, resume);
                for node in 0..2 {
                    let mut uses = BTreeMap::<u32, Vec<(u64, u64)>>::new();
                    for used in plan.shard_uses(Node(node)) {
                        uses.entry(used.shard.0).or_default().push((used.first, used.last));
                    }
                    for rank in 0..2 {
                        let mut order = plan.rank(Rank(node * 2 + rank));
                        let (mut batch, mut before) = (PackBatch::default(), 0);
                        while order.next_batch(&mut batch).expect("a batch") {
                            for fragment in &batch.fragments {
                                let cell = (before + u64::from(fragment.pack)) * 2 + u64::from(rank);
                                let (shard, _) = job.shape.locate(SampleId(fragment.sample.sample.0)).expect("a shard");
                                let is_used = |&(first, last): &(u64, u64)| (first..=last).contains(&cell);
                                let uses = uses.get(&shard.0);
                                assert!(
                                    uses.is_some_and(|uses| uses.iter().any(is_used)),
                                    "{shard} at {cell}: {uses:?}"
                                );
                            }
                            before += batch.packs as u64;
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn weights_choose_documents_before_they_are_packed() {
    let mut job = job();
    job.order.weights = vec![Weight::Repeat(2.0), Weight::Choose(100)];
    let plan = job.plan(World::single(), 0, None);
    let mut of_stream = [0, 0];
    let (mut order, mut batch) = (plan.rank(Rank(0)), PackBatch::default());
    while order.next_batch(&mut batch).expect("a batch") {
        let fragments = batch.fragments.iter().filter(|fragment| !fragment.sample.repeat);
        fragments.for_each(|fragment| of_stream[fragment.sample.stream.index()] += u64::from(fragment.tokens));
    }
    assert_eq!(of_stream[0], 2 * job.lengths[0].total());
    assert!(of_stream[1] > 0 && of_stream[1] < job.lengths[1].total());
}

#[test]
fn epochs_differ_in_documents_and_packs() {
    let job = job();
    assert_ne!(steps(&job.plan(World::single(), 0, None)), steps(&job.plan(World::single(), 1, None)));
}

#[test]
fn counts_of_a_different_epoch_or_data_set_are_an_error() {
    let job = job();
    let plan = job.plan(World::single(), 0, None);
    let other = Job { packing: PackConfig { window: Some(50), ..job.packing.clone() }, ..self::job() };
    let failed = other.try_plan(World::single(), 0, None, Some(plan.counts().clone())).expect_err("counts");
    assert_eq!(failed, OrderError::PackCounts);

    let mut lengths: Vec<u32> = job.lengths[0].values().to_vec();
    lengths.iter_mut().for_each(|length| *length *= 2);
    let longer = Job { lengths: vec![Arc::new(TokenLengths::new(lengths)), job.lengths[1].clone()], ..self::job() };
    let plan = longer.try_plan(World::single(), 0, None, Some(plan.counts().clone())).expect("as many windows");
    let (mut order, mut batch) = (plan.rank(Rank(0)), PackBatch::default());
    assert_eq!(order.next_batch(&mut batch), Err(OrderError::PackCounts));
}

#[test]
fn the_argument_of_a_checkpoint_names_all_that_changes_packs() {
    let job = job();
    let argument = PackPlan::argument(&job.packing, &job.lengths);
    assert!(argument.starts_with("best_fit of 64 tokens, overflow split, "), "{argument}");
    let lengths = vec![job.lengths[1].clone(), job.lengths[0].clone()];
    assert_ne!(PackPlan::argument(&job.packing, &lengths), argument);
    assert_ne!(PackPlan::argument(&PackConfig::new(LENGTH), &job.lengths), argument);
}

#[test]
fn lengths_must_fit_the_data_set_and_have_a_token() {
    let job = job();
    let fewer = Job { lengths: vec![job.lengths[0].clone()], ..self::job() };
    let error = fewer.try_plan(World::single(), 0, None, None).expect_err("one stream").to_string();
    assert_eq!(error, "the lengths in tokens must be one for each sample of each stream");
    let empty = |lengths: &Arc<TokenLengths>| Arc::new(TokenLengths::new(vec![0; lengths.values().len()]));
    let empty = Job { lengths: job.lengths.iter().map(empty).collect(), ..self::job() };
    let error = empty.try_plan(World::single(), 0, None, None).expect_err("no token").to_string();
    assert_eq!(error, "the documents must be at least one with a token that overflow does not drop");
}

/// Lengths as texts of the web have them: lognormal, a median of 400 tokens.
pub(super) fn lognormal(documents: usize, sigma: f64) -> Vec<u32> {
    let mut generator = Generator::new(1);
    let mut normal = || (0..12).map(|_| generator.uniform(-0.5, 0.5)).sum::<f64>();
    (0..documents).map(|_| (400.0 * (sigma * normal()).exp()).max(1.0) as u32).collect()
}

#[test]
fn padding_of_lognormal_lengths_is_at_most_half_a_percent() {
    let documents = 131_072;
    let shape = DataSetShape::new(&[vec![documents]]).expect("a shape");
    let lengths = [Arc::new(TokenLengths::new(lognormal(documents as usize, 1.2)))];
    for length in [2048, 8192, 32_768] {
        let order = OrderConfig { shuffle: true, ..OrderConfig::default() };
        let packing = PackConfig { window: Some(1 << 16), ..PackConfig::new(length) };
        let plan = PackPlan::new(&shape, &order, (&packing, &lengths), World::single(), 0, None, None, 2);
        let PackTotals { tokens, capacity, .. } = plan.expect("a plan").totals();
        let padding = 1.0 - tokens as f64 / capacity as f64;
        assert!(padding <= 0.005, "{length} tokens: {padding:.4}");
    }
}
