//! Position of a loader in its epochs.

use super::planner::Planner;
use crate::batch::Batch;
use crate::error::{Error, ErrorKind, Result};
use crate::order::{EpochPlan, Resume};
use crate::pipeline::Epoch;
use crate::sync::Arc;

/// Position of a loader in its epochs.
pub(super) struct Position {
    /// The current epoch; if none has been started, the one that the next start begins.
    epoch: u64,
    /// The checkpoint that the next start resumes, or that set the order's constants.
    resume: Option<Resume>,
    plan: Option<EpochPlan>,
    /// Rows of the plan delivered since the plan's start, skipped ones included.
    delivered: u64,
    /// Rows of the last batch that had any, and of the skipped batches after it.
    last: u64,
    /// Batches delivered since the plan's start. Kept at the end of the epoch.
    batches_delivered: u64,
    phase: Phase,
    /// Batches of a whole epoch, once computed.
    pub(super) batches: Option<u64>,
    /// The threads of the current epoch; `None` once it was closed.
    pub(super) running: Option<Arc<Epoch>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No epoch has been started.
    NotStarted,
    /// An epoch has been started and has not ended. It may be closed.
    Started,
    /// The last epoch has ended, and no other has been started.
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
            last: 0,
            batches_delivered: 0,
            phase,
            batches: None,
            running: None,
        }
    }

    /// The epoch that the next start begins.
    pub(super) fn next_epoch(&self) -> u64 {
        self.epoch + u64::from(self.phase == Phase::Started)
    }

    /// The checkpoint that set the order's constants, if any.
    pub(super) fn resume(&self) -> Option<Resume> {
        self.resume
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
    pub(super) fn plan_next(&mut self, planner: &Planner) -> Result<EpochPlan> {
        if self.phase == Phase::Started {
            self.epoch += 1;
            self.phase = Phase::NotStarted;
        }
        planner.plan(self.epoch, self.resume.as_ref())
    }

    /// Moves to the start of `plan`, which `running` delivers.
    pub(super) fn start(&mut self, plan: EpochPlan, running: Epoch) {
        self.running = Some(Arc::new(running));
        self.epoch = plan.epoch();
        self.phase = Phase::Started;
        self.delivered = 0;
        self.last = 0;
        self.batches_delivered = 0;
        // The first plan's canonical nodes and seed hold for all later epochs, as in the reference.
        self.resume = Some(plan.state(plan.sample_in_epoch()));
        self.plan = Some(plan);
    }

    /// Moves past a batch of `epoch`.
    pub(super) fn pass(&mut self, epoch: &Arc<Epoch>, batch: &Batch) {
        if self.runs(epoch) {
            self.delivered += batch.planned_rows;
            self.last = if batch.rows > 0 { 0 } else { self.last } + batch.planned_rows;
            self.batches_delivered += u64::from(batch.rows > 0);
        }
    }

    /// Moves to the end of `epoch`. If several threads find the end, the first call counts.
    pub(super) fn end(&mut self, epoch: &Arc<Epoch>) {
        if self.runs(epoch) {
            self.stop();
            *self = Self {
                phase: Phase::Ended,
                batches: self.batches,
                batches_delivered: self.batches_delivered,
                ..Self::new(self.epoch + 1, self.resume)
            };
        }
    }

    /// True if `epoch` is still the current one; another thread may have ended or replaced it.
    fn runs(&self, epoch: &Arc<Epoch>) -> bool {
        self.running.as_ref().is_some_and(|running| Arc::ptr_eq(running, epoch))
    }

    /// The checkpoint after the delivered batches.
    pub(super) fn state(&self, planner: &Planner) -> Result<Resume> {
        self.state_after(planner, self.delivered)
    }

    /// The checkpoint before the batch `number` since the plan's start, which the caller holds. `has_failed`: that batch
    /// is delivered later; otherwise only the last batch is left out.
    pub(super) fn state_before(&self, planner: &Planner, number: u64, has_failed: bool) -> Result<Resume> {
        if number >= self.batches_delivered || (self.is_ended() && !has_failed) {
            return self.state(planner);
        }
        if has_failed && number + 1 < self.batches_delivered {
            let message = "a batch before the last one could not be converted or transformed, and a state cannot leave \
                           out that batch alone: take it from the iterator first, which delivers it next";
            return Err(Error::new(ErrorKind::State, message));
        }
        if self.is_ended() {
            let message =
                "the epoch has ended, but its last batch was not delivered: take the batch from the iterator first";
            return Err(Error::new(ErrorKind::State, message));
        }
        self.state_after(planner, self.delivered - self.last)
    }

    fn state_after(&self, planner: &Planner, delivered: u64) -> Result<Resume> {
        let start_of = |epoch, resume: Option<&Resume>| -> Result<Resume> {
            let plan = planner.plan(epoch, resume)?;
            Ok(plan.state(plan.sample_in_epoch()))
        };
        match &self.plan {
            Some(plan) if self.phase == Phase::Started => {
                let place = place(plan, delivered);
                // Equalised canonical nodes can make an epoch longer than its samples. The reference cannot resume at
                // the end of such an epoch, so the state is the start of the next one, which is the same place.
                if place == plan.end() && plan.reference_end().is_some_and(|end| place > end) {
                    start_of(self.epoch + 1, Some(&plan.state(0)))
                } else {
                    Ok(plan.state(place))
                }
            }
            _ => start_of(self.epoch, self.resume.as_ref()),
        }
    }
}

/// The place in the epoch of `plan` after `delivered` rows of this rank, all ranks together.
fn place(plan: &EpochPlan, delivered: u64) -> u64 {
    // A batch that is not full is the last one, of which ranks may have different numbers of rows.
    if delivered.is_multiple_of(plan.batch_size()) {
        plan.end().min(plan.sample_in_epoch() + delivered * plan.parallel_world().ranks())
    } else {
        plan.end()
    }
}
