//! Refilled batches: a repeated sample in a batch that lost every sample.
//!
//! All ranks take the same number of steps, so a batch may become shorter but must not be left out. A batch that lost
//! all its samples gets, in row 0, a sample of a different batch of this rank's epoch, marked as a repeat. The choice
//! depends only on the batch's number in the epoch, so that runs agree whatever their threads do and however they were
//! resumed: the first sample of the next batch, or else of the batch 2, 4, 8 ... after it, wrapping around at the end
//! of the epoch. The shards of near batches are likely to be on disk; far ones are tried in case a whole stretch of the
//! data is bad.
//!
//! A batch of packs gets the first sequence of such a batch, at the start of its first pack. The remaining packs are
//! padding.

use super::plan::{BatchOrder, BatchPlan, PlannedBatch, RowFragment};
use crate::error::Result;
use crate::order::{PlannedSample, Rank};
use crate::sync::Mutex;

/// Makes the plan of an epoch.
pub(crate) type MakePlan = Box<dyn Fn() -> Result<BatchPlan> + Send + Sync>;

/// Sample that is repeated in row 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refill {
    pub(crate) planned: PlannedSample,
    /// The sequence of it in the first pack, if documents are packed.
    pub(crate) fragment: Option<RowFragment>,
}

/// Samples that this rank may repeat.
pub(crate) struct Refills {
    /// Plans the epoch from its beginning.
    plan: MakePlan,
    rank: Rank,
    /// The rank's order from the beginning of the epoch, made at the first use, which is rare.
    order: Mutex<Option<BatchOrder>>,
}

impl Refills {
    /// Samples of `rank` in the epoch that `plan` plans.
    pub(crate) fn new(plan: MakePlan, rank: Rank) -> Self {
        Self { plan, rank, order: Mutex::default() }
    }

    /// Returns the sample to try in batch `number` of the epoch after `tries` earlier ones; `None` when there is no
    /// further batch to take one from.
    pub(crate) fn sample(&self, number: u64, tries: u32) -> Result<Option<Refill>> {
        let mut order = self.order.lock();
        if order.is_none() {
            *order = Some((self.plan)()?.rank(self.rank));
        }
        let Some(order) = &mut *order else { return Ok(None) };
        let batches = order.batches();
        let Some(distance) = 1_u64.checked_shl(tries).filter(|distance| *distance < batches) else {
            return Ok(None);
        };
        order.seek((number % batches + distance) % batches);
        let mut batch = PlannedBatch::default();
        order.next_batch(&mut batch)?;
        let first = batch.packs.as_ref().and_then(|packs| packs.fragments.first());
        // Rows are numbered in the order of their first fragments, so it is a part of the first sample.
        let fragment = first.map(|first| RowFragment { row: 0, pack: 0, offset: 0, repeat: true, ..*first });
        let planned = batch.samples.first().map(|planned| PlannedSample { repeat: true, ..*planned });
        Ok(planned.map(|planned| Refill { planned, fragment }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::{DataSetShape, EpochPlan, OrderConfig, World};

    fn refills(samples: u64, batch_size: u64) -> Refills {
        let plan = move || {
            let shape = DataSetShape::new(&[vec![samples]])?;
            let config = OrderConfig { batch_size, ..OrderConfig::default() };
            Ok(BatchPlan::Samples(EpochPlan::new(&shape, &config, World::single(), 0, None)?))
        };
        Refills::new(Box::new(plan), Rank(0))
    }

    #[test]
    fn near_samples_are_tried_first_then_farther_ones_around_the_end() {
        let refills = refills(20, 2);
        let tried = |number| -> Vec<u64> {
            (0..)
                .map_while(|tries| refills.sample(number, tries).expect("a plan"))
                .map(|refill| refill.planned.sample.0)
                .collect()
        };
        assert_eq!(tried(1), [4, 6, 10, 18]);
        assert_eq!(tried(9), [0, 2, 6, 14], "the last batch");
        let refill = refills.sample(0, 0).expect("a plan").expect("a sample");
        assert!(refill.planned.repeat && refill.fragment.is_none());
    }

    #[test]
    fn an_epoch_of_one_batch_has_nothing_to_repeat() {
        assert!(refills(2, 2).sample(0, 0).expect("a plan").is_none());
        assert!(refills(8, 2).sample(0, 64).expect("a plan").is_none());
    }
}
