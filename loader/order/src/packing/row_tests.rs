//! Tests of batches of rows under a limit of tokens.

use super::tests::{Job, job, lognormal, world};
use super::{PackBatch, PackConfig, PackPlan, TokenLengths};
use crate::config::OrderConfig;
use crate::ids::Rank;
use crate::resume::Resume;
use crate::shape::DataSetShape;
use crate::world::World;
use std::sync::Arc;

/// A job of batches of at most 96 tokens of rows of at most 64.
fn job_of_rows() -> Job {
    let job = job();
    let order = OrderConfig { batch_size: 1, ..job.order };
    let limits = PackConfig { batch_tokens: Some(96), pad_sequences_to: 4, max_sequences: Some(10), ..job.packing };
    Job { order, packing: limits, ..job }
}

/// The rows of the batches of each rank, as draws with their ranges of tokens, without those that make ranks equal.
fn row_batches(job: &Job, world: World, epoch: u64, resume: Option<&Resume>) -> Vec<Vec<Vec<(u64, u32, u32)>>> {
    let plan = PackPlan::new(&job.shape, &job.order, (&job.packing, &job.lengths), world, epoch, resume, None, 2)
        .expect("a plan");
    let batches = |rank: u64| {
        let (mut order, mut batch, mut batches) = (plan.rank(Rank(rank as u32)), PackBatch::default(), Vec::new());
        while order.next_batch(&mut batch).expect("the plan's own counts") {
            assert_eq!(batch.packs, 1);
            let rows = batch.fragments.iter().filter(|fragment| !fragment.sample.repeat);
            batches.push(rows.map(|f| (f.sample.draw, f.first, f.tokens)).collect());
        }
        batches
    };
    (0..world.ranks()).map(batches).collect()
}

#[test]
fn batches_under_a_limit_of_tokens_are_the_windows_sorted_and_cut() {
    let job = job_of_rows();
    let plan = PackPlan::new(&job.shape, &job.order, (&job.packing, &job.lengths), World::single(), 1, None, None, 2);
    let plan = plan.expect("a plan");
    let mut expected = Vec::new();
    let documents: Vec<_> = {
        // The documents in the order of the epoch, canonical node by canonical node.
        let layout = &plan.0.layout;
        let mut cursor = layout.sequence().cursor(&job.shape, None);
        let part = |canonical: usize| (canonical, layout.part(canonical));
        let parts: Vec<_> = (0..layout.canonical_nodes()).map(part).collect();
        parts.into_iter().map(|(canonical, part)| part.map(|at| cursor.draw(canonical as u32, at)).collect()).collect()
    };
    let all: Vec<u32> = job.lengths.iter().flat_map(|lengths| lengths.values().iter().copied()).collect();
    for draws in &documents {
        let draws: &Vec<u64> = draws;
        let windows = draws.len().div_ceil(100);
        for window in 0..windows {
            let draws = &draws[draws.len() * window / windows..draws.len() * (window + 1) / windows];
            let mut rows: Vec<(u64, u32, u32)> = Vec::new();
            for &draw in draws {
                let tokens = all[draw as usize];
                rows.extend((0..tokens).step_by(64).map(|first| (draw, first, 64.min(tokens - first))));
            }
            rows.sort_by_key(|(.., tokens)| std::cmp::Reverse(tokens.next_multiple_of(4)));
            while let Some((.., longest)) = rows.first() {
                let count = (96 / longest.next_multiple_of(4)).min(10) as usize;
                let mut batch: Vec<_> = rows.drain(..count.min(rows.len())).collect();
                batch.sort_unstable();
                expected.push(batch);
            }
        }
    }
    let mut found: Vec<_> = row_batches(&job, World::single(), 1, None).remove(0);
    found.retain(|batch| !batch.is_empty());
    found.iter_mut().for_each(|batch| batch.sort_unstable());
    assert!(!found.is_sorted());
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    let totals = plan.totals();
    assert_eq!((totals.packs as usize, totals.capacity), (expected.len(), 96 * totals.packs));
}

#[test]
fn batches_under_a_limit_of_tokens_are_the_same_on_any_ranks_and_after_a_resume() {
    let job = job_of_rows();
    let steps = |world: World, resume: Option<&Resume>, batches: usize| {
        let of_ranks = row_batches(&job, world, 1, resume);
        assert!(of_ranks.iter().all(|batches| batches.len() == of_ranks[0].len()), "ranks have equal numbers of steps");
        let mut all: Vec<_> =
            (0..of_ranks[0].len()).flat_map(|step| of_ranks.iter().map(move |of| &of[step])).collect();
        all.retain(|batch| !batch.is_empty());
        let sets = all.chunks(batches).map(|step| {
            let mut step = step.to_vec();
            step.sort_unstable();
            step.into_iter().cloned().collect::<Vec<_>>()
        });
        sets.collect::<Vec<_>>()
    };
    let one = steps(World::single(), None, 8);
    for (nodes, ranks) in [(1, 2), (1, 4), (1, 8), (2, 1), (2, 4), (8, 1)] {
        assert_eq!(steps(world(nodes, ranks), None, 8), one, "{nodes} nodes of {ranks} ranks");
    }
    let at = PackPlan::new(&job.shape, &job.order, (&job.packing, &job.lengths), world(1, 2), 1, None, None, 1);
    let state = at.expect("a plan").packs().state(24);
    for (nodes, ranks) in [(1, 1), (1, 4), (2, 4), (1, 8)] {
        assert_eq!(steps(world(nodes, ranks), Some(&state), 8), one[3..], "{nodes} nodes of {ranks} ranks");
    }
}

#[test]
fn the_numbers_of_batches_of_a_checkpoint_are_the_plan_s() {
    let job = job_of_rows();
    let packing = (&job.packing, &*job.lengths);
    let plan =
        |counts| PackPlan::new(&job.shape, &job.order, packing, World::single(), 1, None, counts, 1).expect("a plan");
    let first = plan(None);
    // A batch has more tokens than its longest row may have.
    assert!(first.totals().tokens > first.totals().packs * u64::from(job.packing.length));
    let again = plan(Some(first.counts().clone()));
    assert_eq!(again.totals(), first.totals());
}

#[test]
fn padding_of_rows_of_lognormal_lengths_is_a_few_percent_at_most() {
    let documents = 131_072;
    let shape = DataSetShape::new(&[vec![documents]]).expect("a shape");
    let lengths = [Arc::new(TokenLengths::new(lognormal(documents as usize, 1.2)))];
    for (length, tokens, most) in [(2048, 16_384, 0.01), (8192, 16_384, 0.01), (8192, 65_536, 0.02)] {
        let order = OrderConfig { shuffle: true, ..OrderConfig::default() };
        let packing = PackConfig { batch_tokens: Some(tokens), ..PackConfig::new(length) };
        let plan =
            PackPlan::new(&shape, &order, (&packing, &lengths), World::single(), 0, None, None, 2).expect("a plan");
        let (mut order, mut batch, mut all, mut room) = (plan.rank(Rank(0)), PackBatch::default(), 0, 0);
        while order.next_batch(&mut batch).expect("the plan's own counts") {
            let longest = batch.fragments.iter().map(|fragment| fragment.tokens).max().expect("a row");
            room += u64::from(longest) * batch.fragments.len() as u64;
            assert!(longest * batch.fragments.len() as u32 <= tokens);
            all += batch.fragments.iter().map(|fragment| u64::from(fragment.tokens)).sum::<u64>();
        }
        let padding = 1.0 - all as f64 / room as f64;
        assert!(padding <= most, "rows of {length}, batches of {tokens} tokens: {padding:.4}");
        println!("rows of {length}, batches of {tokens} tokens: {padding:.4}");
    }
}
