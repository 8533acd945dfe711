//! Tests of proportions that count tokens.

use super::tests::{job, lognormal, world};
use super::{PackBatch, PackConfig, PackPlan, ProportionUnit, TokenLengths};
use crate::config::{OrderConfig, SamplingMethod, Weight};
use crate::ids::Rank;
use crate::resume::Resume;
use crate::sample_numbers::SampleNumbers;
use crate::shape::DataSetShape;
use crate::world::World;
use std::sync::Arc;

/// Two streams of lognormal lengths, the second with documents of a tenth of the tokens, and their packs.
struct Mix {
    shape: DataSetShape,
    lengths: Vec<Arc<TokenLengths>>,
    order: OrderConfig,
    packing: PackConfig,
}

fn mix(proportions: [f64; 2]) -> Mix {
    let long = lognormal(3000, 1.2);
    let short: Vec<u32> = lognormal(2400, 0.7).into_iter().map(|tokens| tokens.div_ceil(10)).collect();
    let weights = proportions.map(Weight::Proportion).to_vec();
    Mix {
        shape: DataSetShape::new(&[vec![1000, 0, 1500, 500], vec![3; 800]]).expect("a shape"),
        lengths: [long, short].map(|lengths| Arc::new(TokenLengths::new(lengths))).to_vec(),
        order: OrderConfig { shuffle: true, num_canonical_nodes: Some(2), weights, ..OrderConfig::default() },
        packing: PackConfig { proportion_unit: ProportionUnit::Tokens, ..PackConfig::new(4096) },
    }
}

impl Mix {
    fn plan(&self, world: World, epoch: u64, resume: Option<&Resume>) -> PackPlan {
        let order = OrderConfig { batch_size: 8 / world.ranks(), ..self.order.clone() };
        let packing = (&self.packing, &*self.lengths);
        PackPlan::new(&self.shape, &order, packing, world, epoch, resume, None, 2).expect("a plan")
    }
}

/// Samples with their first tokens and their numbers of tokens, by step of all ranks.
type Steps = Vec<Vec<(u64, u32, u32)>>;

/// Tokens of each stream, and the sequences of each step.
fn tokens(plan: &PackPlan) -> ([u64; 2], Steps) {
    let (mut of_stream, mut steps) = ([0; 2], Steps::new());
    for rank in 0..plan.packs().world().ranks() as u32 {
        let (mut order, mut batch, mut step) = (plan.rank(Rank(rank)), PackBatch::default(), 0);
        while order.next_batch(&mut batch).expect("the plan's own counts") {
            if steps.len() == step {
                steps.push(Vec::new());
            }
            for fragment in batch.fragments.iter().filter(|fragment| !fragment.sample.repeat) {
                of_stream[fragment.sample.stream.index()] += u64::from(fragment.tokens);
                steps[step].push((fragment.sample.sample.0, fragment.first, fragment.tokens));
            }
            step += 1;
        }
    }
    steps.iter_mut().for_each(|step| step.sort_unstable());
    (of_stream, steps)
}

#[test]
fn the_tokens_of_the_streams_have_their_proportions_in_every_epoch() {
    for proportions in [[1.0, 1.0], [0.9, 0.1], [0.02, 0.98], [1.0, 0.0], [30.0, 7.0]] {
        for (method, overflow) in [(SamplingMethod::Balanced, "split"), (SamplingMethod::Fixed, "drop")] {
            let mut mix = mix(proportions);
            (mix.order.sampling_method, mix.packing.overflow) = (method, overflow.parse().expect("a name"));
            let all: u64 =
                mix.lengths.iter().flat_map(|lengths| lengths.values()).fold(0, |sum, &tokens| {
                    sum + if overflow == "drop" && tokens > 4096 { 0 } else { u64::from(tokens) }
                });
            for epoch in 0..3 {
                let (found, _) = tokens(&mix.plan(World::single(), epoch, None));
                let share = found[0] as f64 / (found[0] + found[1]) as f64;
                let wanted = proportions[0] / (proportions[0] + proportions[1]);
                assert!((share - wanted).abs() < 0.001 * wanted, "{proportions:?} {overflow}: {share}");
                let total = (found[0] + found[1]) as f64 / all as f64;
                assert!((total - 1.0).abs() < 0.001, "{proportions:?} {overflow}: {total}");
            }
        }
    }
}

#[test]
fn documents_are_repeated_as_a_whole_before_some_of_them_are_again() {
    let mix = mix([0.2, 0.8]);
    let (found, steps) = tokens(&mix.plan(World::single(), 1, None));
    let mut times = vec![0_u64; 5400];
    steps.iter().flatten().filter(|(_, first, _)| *first == 0).for_each(|(sample, ..)| times[*sample as usize] += 1);
    let whole = found[1] / mix.lengths[1].total();
    assert!(whole > 3 && times[3000..].iter().all(|times| (whole..=whole + 1).contains(times)));
    assert!(times[..3000].iter().all(|times| *times <= 1));
}

#[test]
fn the_steps_of_a_mix_by_tokens_are_the_same_on_any_ranks_and_after_a_resume() {
    let mix = mix([0.4, 0.6]);
    let whole = mix.plan(world(1, 1), 2, None);
    let (_, all) = tokens(&whole);
    for (nodes, ranks) in [(1, 2), (1, 4), (2, 4)] {
        assert_eq!(tokens(&mix.plan(world(nodes, ranks), 2, None)).1, all, "{nodes} nodes of {ranks} ranks");
        let rest = mix.plan(world(nodes, ranks), 2, Some(&whole.packs().state(8 * 5)));
        assert_eq!(tokens(&rest).1, all[5..], "{nodes} nodes of {ranks} ranks");
    }
    assert_ne!(tokens(&mix.plan(world(1, 1), 3, None)).1, all);
}

#[test]
fn a_share_of_nearly_whole_repeats_of_few_documents_is_met() {
    let mut mix = mix([1.0, 1.0]);
    mix.shape = DataSetShape::new(&[vec![7, 33], vec![3; 800]]).expect("a shape");
    mix.lengths[0] = Arc::new(TokenLengths::new((0..40).map(|number| 1 + number * 7 % 12).collect()));
    let all: u64 = mix.lengths.iter().map(|lengths| lengths.total()).sum();
    for missing in [0, 1, 5, 11, 12, 30] {
        let share = 3 * mix.lengths[0].total() - missing;
        mix.order.weights = [share, all - share].map(|tokens| Weight::Proportion(tokens as f64)).to_vec();
        let (found, _) = tokens(&mix.plan(World::single(), 0, None));
        assert!(found[0].abs_diff(share) <= 1, "{} and {share}", found[0]);
    }
}

#[test]
fn an_epoch_size_counts_documents_and_weights_choose_them() {
    let mut mix = mix([0.5, 0.5]);
    mix.order.epoch_size = Some(20_000);
    let weights = (0..2400_u16).map(|number| f32::from(number % 3)).collect();
    mix.order.sample_weights = vec![None, Some(Arc::new(SampleNumbers::new(weights).expect("weights")))];
    let (found, steps) = tokens(&mix.plan(World::single(), 0, None));
    let share = found[0] as f64 / (found[0] + found[1]) as f64;
    assert!((share - 0.5).abs() < 0.001, "{share}");
    let documents = steps.iter().flatten().filter(|(_, first, _)| *first == 0).count();
    assert!((19_000..21_000).contains(&documents), "{documents}");
    assert!(steps.iter().flatten().all(|(sample, ..)| *sample < 3000 || (sample - 3000) % 3 != 0));
}

#[test]
fn weights_that_are_no_proportions_of_tokens_are_rejected() {
    let error = |mix: &Mix| {
        let packing = (&mix.packing, &*mix.lengths);
        let plan = PackPlan::new(&mix.shape, &mix.order, packing, World::single(), 0, None, None, 1);
        plan.expect_err("weights").to_string()
    };
    let mut repeats = mix([1.0, 1.0]);
    repeats.order.weights = vec![Weight::Repeat(1.0), Weight::Repeat(2.0)];
    assert!(error(&repeats).contains("proportions where these count tokens"), "{}", error(&repeats));
    let mut empty = mix([1.0, 1.0]);
    empty.lengths[1] = Arc::new(TokenLengths::new(vec![0; 2400]));
    assert!(error(&empty).contains("a token that overflow does not drop"), "{}", error(&empty));
    // Streams without weights have no proportions.
    let mut plain = mix([1.0, 1.0]);
    plain.order.weights.clear();
    let samples = PackConfig { proportion_unit: ProportionUnit::Samples, ..plain.packing.clone() };
    let (_, found) = tokens(&plain.plan(World::single(), 0, None));
    assert_eq!(found, tokens(&Mix { packing: samples, ..plain }.plan(World::single(), 0, None)).1);
}

#[test]
fn a_checkpoint_names_the_unit_of_proportions() {
    let job = job();
    let tokens = PackConfig { proportion_unit: ProportionUnit::Tokens, ..job.packing.clone() };
    let argument = |packing| PackPlan::argument(packing, &job.lengths);
    assert_eq!(argument(&tokens), format!("{}, proportions of tokens", argument(&job.packing)));
}
