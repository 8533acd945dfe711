//! Uses of each shard by a node: where its documents are in windows, and where the packs of these are dealt.

use super::plan::PackPlan;
use crate::ids::Node;
use crate::uses::ShardUse;

impl PackPlan {
    /// Returns the uses of each shard by `node`, as [`EpochPlan::shard_uses`](crate::EpochPlan::shard_uses) does; cells
    /// are packs. A use extends to whole windows: a document may be in any pack of its window.
    ///
    /// # Panics
    /// `node` is not one of this world.
    pub fn shard_uses(&self, node: Node) -> Vec<ShardUse> {
        let layout = &self.0.layout;
        // Parts of a window may be dealt in several rows. By window: first and last cell.
        let mut cells: Vec<Option<(u64, u64)>> = vec![None; layout.windows() as usize];
        for window in self.0.packs.shard_uses(node) {
            let cell = &mut cells[window.shard.index()];
            *cell = union(*cell, Some((window.first, window.last)));
        }
        let mut uses = Vec::new();
        let sequence = layout.sequence();
        let units = &sequence.draws.units;
        for canonical in 0..layout.canonical_nodes() {
            let part = layout.part(canonical);
            sequence.shuffle.visit_spans(canonical as u32, part.clone(), units, &mut |stretch| {
                let last = stretch.last.min(part.end.saturating_sub(1));
                if stretch.first > last {
                    return;
                }
                let windows = layout.windows_between(canonical, stretch.first, last);
                let cells = windows.fold(None, |cells_before, window| union(cells_before, cells[window as usize]));
                if let Some((first, last)) = cells {
                    uses.push(ShardUse { shard: sequence.draws.shard(units.find(stretch.draw)), first, last });
                }
            });
        }
        uses.sort_unstable_by_key(|u| (u.first, u.last, u.shard));
        uses
    }
}

/// The range of two ranges.
fn union(a: Option<(u64, u64)>, b: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}
