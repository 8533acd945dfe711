//! Repeated augmentation: each draw several times in succession, and as many cells as without repeats. So an epoch has
//! the first draws of each canonical node's part, one in `repeats` of them, as in DeiT, torchvision and timm.

use std::sync::Arc;

use crate::shuffle::Cursor;

/// Cursor of repeated draws.
pub(super) struct Repeats {
    draws: Box<dyn Cursor>,
    repeats: u64,
    /// First position of each canonical node.
    starts: Arc<[u64]>,
}

impl Repeats {
    pub(super) fn new(draws: Box<dyn Cursor>, repeats: u64, starts: Arc<[u64]>) -> Self {
        Self { draws, repeats, starts }
    }
}

impl Cursor for Repeats {
    fn draw(&mut self, canonical: u32, position: u64) -> u64 {
        let start = self.starts[canonical as usize];
        let place = position - start;
        let draw = self.draws.draw(canonical, start + place / self.repeats);
        // At most 2^48 draws and 2^8 repeats.
        draw * self.repeats + place % self.repeats
    }
}
