//! One permutation of all samples, which is kept in memory.

use std::sync::Arc;

use super::args::ShuffleArgs;
use super::window::Cursor;
use crate::order::error::OrderError;
use crate::order::sampling::Permutation;

pub(super) fn permutation(args: &ShuffleArgs<'_>) -> Result<Permutation, OrderError> {
    Permutation::new(args.epoch_seed(), args.units.total())
}

pub(super) struct NaiveCursor(pub(super) Arc<Permutation>);

impl Cursor for NaiveCursor {
    fn draw(&mut self, _canonical: u32, position: u64) -> u64 {
        self.0.get(position)
    }
}
