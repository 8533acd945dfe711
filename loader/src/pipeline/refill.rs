//! What stands in a batch that lost every sample, where other ranks would wait for it.
//!
//! Ranks take equally many steps, so a batch may get shorter but not go. One that lost all its samples gets a sample of
//! another batch of this rank's epoch, marked as a repeat, in row 0. Which one depends on the batch's number in the epoch
//! alone, so that it is the same whatever the threads do and wherever a run was resumed: the first sample of the next
//! batch, else of the one 2, 4, 8 ... behind it, round the end of the epoch. Near batches have their shards on disk; far
//! ones are tried in case that a whole stretch of the data is bad.

use super::epoch::Shared;
use super::sample::batch_builder::BatchBuilder;
use super::{Chunk, Task};
use crate::error::Result;
use crate::order::{EpochPlan, PlannedSample, Rank, RankOrder};
use crate::sync::{Arc, Mutex};

/// Plans an epoch from its beginning.
pub(crate) type WholePlan = Box<dyn Fn() -> Result<EpochPlan> + Send + Sync>;

/// The samples that this rank may repeat.
pub(crate) struct Refills {
    plan: WholePlan,
    rank: Rank,
    /// The rank's order from the beginning of the epoch, made with the first question: it is rarely asked.
    order: Mutex<Option<RankOrder>>,
}

impl Refills {
    /// The samples of `rank` in the epoch that `plan` plans.
    pub(crate) fn new(plan: WholePlan, rank: Rank) -> Self {
        Self { plan, rank, order: Mutex::default() }
    }

    /// The sample to try in the place of batch `number` of the epoch after `tries` others; `None` when there is no
    /// other batch to take one from.
    fn sample(&self, number: u64, tries: u32) -> Result<Option<PlannedSample>> {
        let mut order = self.order.lock();
        if order.is_none() {
            *order = Some((self.plan)()?.rank(self.rank));
        }
        let Some(order) = &mut *order else { return Ok(None) };
        let Some(distance) = 1_u64.checked_shl(tries).filter(|distance| *distance < order.batches()) else {
            return Ok(None);
        };
        order.seek((number % order.batches() + distance) % order.batches());
        Ok(order.next().map(|planned| PlannedSample { repeat: true, ..planned }))
    }
}

impl Shared {
    /// Sends a sample on its way into `batch`, whose rows are all done; false when it is not an emptied one, may stay
    /// empty, or has no sample left to try.
    ///
    /// # Errors
    ///
    /// `Config` for an order that cannot be.
    pub(crate) fn refill(&self, batch: &Arc<BatchBuilder>) -> Result<bool> {
        if self.is_alone || !batch.is_emptied() {
            return Ok(false);
        }
        let number = self.first_batch + batch.number;
        let Some(planned) = self.refills.sample(number, batch.refills())? else { return Ok(false) };
        log::warn!(
            "batch {number} lost all its samples; other ranks would wait for it, so sample {} is repeated there",
            planned.sample.0
        );
        let (shard, index) = self.locate(planned.sample)?;
        let task = Task { planned, shard, index, position: batch.first_position };
        let rows = batch.reopen()?;
        self.residency.announce_again(shard, task.position);
        self.dispatch(Chunk { batch: batch.clone(), first_row: 0, samples: vec![task], rows, given: None });
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::{DataSetShape, OrderConfig, World};

    fn refills(samples: u64, batch_size: u64) -> Refills {
        let plan = move || {
            let shape = DataSetShape::new(&[vec![samples]])?;
            let config = OrderConfig { batch_size, ..OrderConfig::default() };
            Ok(EpochPlan::new(&shape, &config, World::single(), 0, None)?)
        };
        Refills::new(Box::new(plan), Rank(0))
    }

    #[test]
    fn samples_are_tried_near_by_first_then_further_on_round_the_end() {
        let refills = refills(20, 2);
        let tried = |number| -> Vec<u64> {
            (0..).map_while(|tries| refills.sample(number, tries).expect("a plan")).map(|p| p.sample.0).collect()
        };
        assert_eq!(tried(1), [4, 6, 10, 18]);
        assert_eq!(tried(9), [0, 2, 6, 14], "the last batch");
        let planned = refills.sample(0, 0).expect("a plan").expect("a sample");
        assert!(planned.repeat);
    }

    #[test]
    fn an_epoch_of_one_batch_has_nothing_to_repeat() {
        assert!(refills(2, 2).sample(0, 0).expect("a plan").is_none());
        assert!(refills(8, 2).sample(0, 64).expect("a plan").is_none());
    }
}
