//! The schedule thread: from the plan to chunks of work.
//!
//! It walks the plan once. Samples enter a window that reaches `predownload` samples ahead, and announce their shards
//! there; when a batch's turn has come (see `reorder`) its samples leave the window as chunks, each with its places in
//! the batch's slot. This thread alone takes batch slots, so they are granted in plan order (DESIGN's first rule).

use super::epoch::Shared;
use super::sample::batch_builder::BatchBuilder;
use super::{Chunk, Task};
use crate::error::{Error, Result};
use crate::order::RankOrder;
use crate::stats::{Stage, TimeKind};
use crate::sync::Arc;
use std::collections::VecDeque;
use std::ops::Range;

/// How far and in what pieces the plan is walked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Rows of a full batch.
    pub(crate) batch: usize,
    /// Leave out a last batch that is not full.
    pub(crate) drop_last: bool,
    /// Batches announced ahead of the one that is being scheduled.
    pub(crate) predownload: usize,
    /// Samples per chunk.
    pub(crate) chunk: usize,
}

/// Walks `order` to its end, or until the run stops.
pub(crate) fn schedule(shared: &Shared, pace: Pace, mut order: RankOrder, stage: &Stage) -> Result<()> {
    let mut window = VecDeque::<Vec<Task>>::new();
    let (mut rows, mut announced) = (Vec::new(), Vec::new());
    let mut position = 0;
    for number in 0.. {
        let begun = stage.timed(TimeKind::Output, || shared.reorder.wait_turn(number));
        if !begun {
            return Ok(());
        }
        stage.timed(TimeKind::Busy, || {
            while window.len() <= pace.predownload && order.next_batch(&mut rows) {
                if pace.drop_last && rows.len() < pace.batch {
                    // The last one, which nobody gets: its shards are not asked for either.
                    break;
                }
                let mut tasks = Vec::with_capacity(rows.len());
                for planned in rows.drain(..) {
                    let (shard, index) = shared.locate(planned.sample)?;
                    tasks.push(Task { planned, shard, index, position });
                    position += 1;
                }
                announced.clear();
                announced.extend(tasks.iter().map(|task: &Task| (task.shard, task.position)));
                shared.residency.announce(&mut announced);
                window.push_back(tasks);
            }
            Ok::<_, Error>(())
        })?;
        let Some(tasks) = window.pop_front() else {
            shared.reorder.end(number);
            return Ok(());
        };
        stage.timed(TimeKind::Busy, || send_batch(shared, number, tasks, pace.chunk))?;
        stage.done(1, 0);
    }
    Ok(())
}

fn send_batch(shared: &Shared, number: u64, tasks: Vec<Task>, chunk: usize) -> Result<()> {
    let repeats: Vec<bool> = tasks.iter().map(|t| t.planned.repeat).collect();
    // Slots that a device has may never come back.
    let slot = shared.batches.take_unless(shared.layout.slot_bytes(), || shared.run.is_stopped())?;
    let Some(slot) = slot else { return Ok(()) };
    shared.batches_unpooled.add(u64::from(slot.is_unpooled()));
    if let Some(last) = tasks.last() {
        shared.residency.set_dispatched(last.position + 1);
    }
    let first_position = tasks.first().map_or(0, |task| task.position);
    let batch = BatchBuilder::begin((number, first_position), shared.layout.clone(), slot, &repeats);
    let ranges: Vec<Range<usize>> =
        (0..tasks.len()).step_by(chunk).map(|first| first..(first + chunk).min(tasks.len())).collect();
    batch.add_chunks(ranges.len());
    let places = batch.places(&ranges)?;
    for (range, rows) in ranges.into_iter().zip(places) {
        let samples = tasks[range.clone()].to_vec();
        shared.dispatch(Chunk { batch: Arc::clone(&batch), first_row: range.start, samples, rows, given: None });
    }
    Ok(())
}
