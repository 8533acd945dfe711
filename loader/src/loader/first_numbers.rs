//! Numbers of the first samples of shards.

use crate::format::{Index, Shard};
use std::collections::HashMap;

/// Numbers of the first samples of the shards, by stream. A loader keeps them: a sum over a million shards takes longer
/// than the rest of a call.
#[derive(Default)]
pub(super) struct FirstNumbers(HashMap<u32, Vec<u64>>);

impl FirstNumbers {
    /// Returns the numbers of `stream`, from its `index`.
    pub(super) fn of(&mut self, stream: u32, index: &Index) -> &[u64] {
        self.0.entry(stream).or_insert_with(|| {
            let first = |before: &mut u64, shard: &Shard| Some(std::mem::replace(before, *before + shard.samples));
            index.shards.iter().scan(0, first).collect()
        })
    }
}
