//! Position of a loader in its epochs.

use super::planner::Planner;
use crate::batch::Batch;
use crate::error::{Error, ErrorKind, Result};
use crate::order::{EpochPlan, Resume};
use crate::pipeline::{BatchPlan, Epoch};
use crate::session::Held;
use crate::sync::Arc;
use std::collections::VecDeque;

/// Upper bound of the batches that a caller may hold and a state leaves out.
pub const HELD_MAX: usize = 256;

/// Position of a loader in its epochs.
pub(super) struct Position {
    /// The current epoch; if none has been started, the one that the next start begins.
    epoch: u64,
    /// The checkpoint that the next start resumes, or that set the order's constants.
    resume: Option<Resume>,
    plan: Option<BatchPlan>,
    /// Rows of the plan delivered since the plan's start, skipped ones included.
    delivered: u64,
    /// `delivered` before each of the last batches that had rows, the newest last.
    starts: VecDeque<u64>,
    /// The checkpoints before these batches, and after the last one, once the epoch has ended.
    ended: Vec<Resume>,
    /// Batches delivered since the plan's start. Kept at the end of the epoch.
    batches_delivered: u64,
    phase: Phase,
    /// The threads of the current epoch; `None` once it was closed.
    pub(super) running: Option<Arc<Epoch>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No epoch has been started.
    NotStarted,
    /// An epoch has been started and has not ended. It may be closed.
    Started,
    /// The last epoch has ended, and no further one has been started.
    Ended,
}

impl Position {
    /// Position before the start of `epoch`, or at the checkpoint `resume`.
    pub(super) fn new(epoch: u64, resume: Option<Resume>) -> Self {
        let phase = Phase::NotStarted;
        Self {
            epoch,
            resume,
            plan: None,
            delivered: 0,
            starts: VecDeque::new(),
            ended: Vec::new(),
            batches_delivered: 0,
            phase,
            running: None,
        }
    }

    /// The epoch that the next start begins.
    pub(super) fn next_epoch(&self) -> u64 {
        self.epoch + u64::from(self.phase == Phase::Started)
    }

    /// The current epoch; if none has been started, the one that the next start begins.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The checkpoint that set the order's constants, if any.
    pub(super) fn resume(&self) -> Option<Resume> {
        self.resume
    }

    /// The plan of the current epoch, if it has been started and has not ended.
    pub(super) fn plan(&self) -> Option<&BatchPlan> {
        self.plan.as_ref()
    }

    /// True after the end of an epoch and before the start of the next.
    pub(super) fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Returns the running epoch, for a call of `next`.
    pub(super) fn running(&self) -> Result<Arc<Epoch>> {
        self.running.clone().ok_or_else(|| {
            let message = match self.phase {
                Phase::Started => "the epoch was closed before its end: call start_epoch for the next one",
                Phase::NotStarted | Phase::Ended => "no epoch is running: call start_epoch first",
            };
            Error::new(ErrorKind::Closed, message)
        })
    }

    /// Stops the threads of the current epoch. Calls that wait in `next` return.
    pub(super) fn stop(&mut self) {
        if let Some(epoch) = self.running.take() {
            epoch.end();
        }
    }

    /// Leaves an epoch that has been started, and plans the next.
    pub(super) fn plan_next(&mut self, planner: &Planner) -> Result<BatchPlan> {
        if self.phase == Phase::Started {
            self.epoch += 1;
            self.phase = Phase::NotStarted;
        }
        planner.plan(self.epoch, self.resume.as_ref())
    }

    /// Moves to the start of `plan`, which `running` delivers.
    pub(super) fn start(&mut self, plan: BatchPlan, running: Epoch) {
        self.running = Some(Arc::new(running));
        let cells = plan.cells();
        self.epoch = cells.epoch();
        self.phase = Phase::Started;
        self.delivered = 0;
        self.starts.clear();
        self.ended.clear();
        self.batches_delivered = 0;
        // The first plan's canonical nodes and seed hold for all later epochs, as in the reference.
        self.resume = Some(cells.state(cells.sample_in_epoch()));
        self.plan = Some(plan);
    }

    /// Moves past a batch of `epoch`.
    pub(super) fn pass(&mut self, epoch: &Arc<Epoch>, batch: &Batch) {
        if self.runs(epoch) {
            if batch.rows > 0 {
                self.starts.push_back(self.delivered);
                self.starts.drain(..self.starts.len().saturating_sub(HELD_MAX));
                self.batches_delivered += 1;
            }
            self.delivered += batch.planned_rows;
        }
    }

    /// Moves to the end of `epoch`. If several threads find the end, the first call counts.
    pub(super) fn end(&mut self, epoch: &Arc<Epoch>) {
        if self.runs(epoch) {
            self.stop();
            let places = |plan: &BatchPlan| {
                let plan = plan.cells();
                let ends = self.starts.iter().chain([&self.delivered]).map(|rows| after(plan, *rows));
                // The end of some epochs has the state of the next start, see `state_after`.
                ends.filter(|place| !is_next_start(plan, *place)).map(|place| plan.state(place)).collect()
            };
            *self = Self {
                phase: Phase::Ended,
                batches_delivered: self.batches_delivered,
                // Instead of the plan, which may be large.
                ended: self.plan.as_ref().map_or_else(Vec::new, places),
                starts: std::mem::take(&mut self.starts),
                ..Self::new(self.epoch + 1, self.resume)
            };
        }
    }

    /// True if `epoch` is still the current one; a different thread may have ended or replaced it.
    fn runs(&self, epoch: &Arc<Epoch>) -> bool {
        self.running.as_ref().is_some_and(|running| Arc::ptr_eq(running, epoch))
    }

    /// The checkpoint after the delivered batches.
    pub(super) fn state(&self, planner: &Planner) -> Result<Resume> {
        self.state_after(planner, self.delivered)
    }

    /// The checkpoint before the batch `number` since the plan's start, which the caller holds. Of batches in flight
    /// only the last one is left out.
    pub(super) fn state_before(&self, planner: &Planner, number: u64, held: Held) -> Result<Resume> {
        if self.is_ended() && held == Held::All {
            let first = self.batches_delivered - self.starts.len() as u64;
            let place = number.checked_sub(first).and_then(|place| usize::try_from(place).ok()).ok_or_else(too_many)?;
            return self.ended.get(place).map_or_else(|| self.state(planner), |state| Ok(*state));
        }
        if number >= self.batches_delivered || (self.is_ended() && held == Held::InFlight) {
            return self.state(planner);
        }
        if held == Held::All {
            return self.state_before_last(planner, self.batches_delivered - number);
        }
        if held == Held::Failed && number + 1 < self.batches_delivered {
            let message = "a batch before the last one could not be converted or transformed, and a state cannot leave \
                           out that batch alone: take it from the iterator first, which delivers it next";
            return Err(Error::new(ErrorKind::State, message));
        }
        if self.is_ended() {
            let message =
                "the epoch has ended, but its last batch was not delivered: take the batch from the iterator first";
            return Err(Error::new(ErrorKind::State, message));
        }
        self.state_before_last(planner, 1)
    }

    /// The checkpoint before the last `count` batches.
    fn state_before_last(&self, planner: &Planner, count: u64) -> Result<Resume> {
        let place = usize::try_from(count).ok().and_then(|count| self.starts.len().checked_sub(count));
        self.state_after(planner, self.starts[place.ok_or_else(too_many)?])
    }

    fn state_after(&self, planner: &Planner, delivered: u64) -> Result<Resume> {
        let start_of = |epoch, resume: Option<&Resume>| -> Result<Resume> {
            let plan = planner.plan(epoch, resume)?;
            Ok(plan.cells().state(plan.cells().sample_in_epoch()))
        };
        match &self.plan {
            Some(plan) if self.phase == Phase::Started => {
                let plan = plan.cells();
                let place = after(plan, delivered);
                if is_next_start(plan, place) {
                    start_of(self.epoch + 1, Some(&plan.state(0)))
                } else {
                    Ok(plan.state(place))
                }
            }
            _ => start_of(self.epoch, self.resume.as_ref()),
        }
    }
}

/// True for the end of an epoch where the state is the start of the next one, which is the same position. Equalised
/// canonical nodes can make an epoch longer than its samples, and the reference cannot resume at the end of such an
/// epoch.
fn is_next_start(plan: &EpochPlan, place: u64) -> bool {
    place == plan.end() && plan.reference_end().is_some_and(|end| place > end)
}

fn too_many() -> Error {
    Error::internal("a state cannot leave out this many batches").with("bound", HELD_MAX)
}

/// The position in the epoch of `plan` after `delivered` rows of this rank, all ranks together.
fn after(plan: &EpochPlan, delivered: u64) -> u64 {
    // A batch that is not full is the last one, where ranks may have different numbers of rows.
    if delivered.is_multiple_of(plan.batch_size()) {
        plan.end().min(plan.sample_in_epoch() + delivered * plan.parallel_world().ranks())
    } else {
        plan.end()
    }
}
