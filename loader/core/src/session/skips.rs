//! Samples that the caller leaves out.

use super::budget::SkipLimit;
use super::engine::{Engine, Held, SavedState};
use super::iteration::Session;
use crate::error::Result;

impl<E: Engine, T: From<E::Item> + Send> Session<E, T> {
    /// Notes the rows of batch `number` of engine number `engine`.
    pub fn note_rows(&self, engine: usize, number: u64, rows: u64) {
        if let Some(budget) = self.budgets.lock().get_mut(engine) {
            budget.note(number, rows);
        }
    }

    /// Notes samples of batch `number` that the caller has left out.
    pub fn note_failures(&self, engine: usize, number: u64, failures: u64) {
        if let Some(budget) = self.budgets.lock().get_mut(engine).filter(|_| failures > 0) {
            budget.of_caller.insert(number, failures);
        }
    }

    /// Returns the number of `failures` more in batch `number` that the caller may leave out. Negative: samples that
    /// the engine has left out up to this batch have exceeded the bound already.
    ///
    /// # Errors
    ///
    /// The engine's errors.
    pub fn skips_left(&self, engine: usize, number: u64, failures: u64) -> Result<i64> {
        let budgets = self.budgets.lock();
        let Some(budget) = budgets.get(engine) else { return Ok(0) };
        let of_caller: u64 = budget.of_caller.iter().filter(|(at, _)| **at != number).map(|(_, count)| count).sum();
        if of_caller == 0 && failures == 0 {
            // The engine checks its own samples.
            return Ok(0);
        }
        let SkipLimit { errors_max, rows, is_alone } = budget.limit;
        let (first_sample, skipped_before) = (budget.first_sample, budget.skipped_before);
        let is_short = budget.of_engine.contains_key(&number);
        let mut of_engine: u64 = budget.of_engine.range(..=number).map(|(_, count)| count).sum();
        drop(budgets);
        let engine = &self.engines[engine];
        // The samples of batches ahead included.
        let skipped = engine.skipped()? - skipped_before;
        let left = |used: u64| errors_max.cast_signed() - used.cast_signed();
        if skipped + failures <= errors_max {
            return Ok(left(skipped));
        }
        let state = engine.state(Some((number, Held::All)))?;
        if is_short && engine.batches_from(state.sample())? <= 1 {
            // The last batch need not be full, and there are none ahead.
            return Ok(left(skipped));
        }
        if is_alone && !state.has_skipped_steps() {
            // Batches without rows, which were not delivered. Steps that are left out look alike.
            of_engine += state.sample().saturating_sub(first_sample + number * rows);
        }
        Ok(left(skipped.min(of_caller + of_engine)))
    }
}
