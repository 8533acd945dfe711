//! Tokens that pairs of neighbours are merged to.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Rank and id of neighbours that are not merged.
pub(super) const NONE: Merged = Merged(u64::MAX);

/// Token of two neighbours: its rank, above its id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Merged(u64);

impl Merged {
    pub(super) fn new(rank: u32, id: u32) -> Self {
        Self(u64::from(rank) << 32 | u64::from(id))
    }

    pub(super) fn rank(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[expect(clippy::cast_possible_truncation, reason = "the rank is above it")]
    pub(super) fn id(self) -> u32 {
        self.0 as u32
    }
}

/// Token of each pair.
#[derive(Default)]
pub(super) struct Pairs(HashMap<(u32, u32), Merged, BuildHasherDefault<PairHasher>>);

impl Pairs {
    pub(super) fn insert(&mut self, pair: [u32; 2], merged: Merged) {
        self.0.insert(pair.into(), merged);
    }

    pub(super) fn merged(&self, left: u32, right: u32) -> Merged {
        self.0.get(&(left, right)).copied().unwrap_or(NONE)
    }

    /// Returns all pairs, in any order.
    pub(super) fn iter(&self) -> impl Iterator<Item = ([u32; 2], Merged)> {
        self.0.iter().map(|(pair, merged)| ((*pair).into(), *merged))
    }
}

/// Hasher of a pair of ids.
#[derive(Default)]
struct PairHasher(u64);

impl Hasher for PairHasher {
    fn finish(&self) -> u64 {
        let mixed = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, id: u32) {
        self.0 = self.0.rotate_left(32) ^ u64::from(id);
    }
}
