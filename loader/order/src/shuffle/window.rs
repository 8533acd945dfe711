//! Windows of draws, which a cursor makes on demand.

use std::sync::Arc;

use crate::numbers::Numbers;

/// Bounds of the positions of a span's draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// A draw of the span; all draws of a span belong to one unit.
    pub(crate) draw: u64,
    /// No draw of the span has a position before this.
    pub(crate) first: u64,
    /// No draw of the span has a position after this.
    pub(crate) last: u64,
}

/// Reads a shuffle at positions that mostly ascend within each canonical node.
pub(crate) trait Cursor: Send {
    /// The draw at `position`, which is in canonical node `canonical`.
    fn draw(&mut self, canonical: u32, position: u64) -> u64;
}

/// Shuffle that can make the draws of a range of positions independently.
pub(super) trait DrawWindows: Send + Sync {
    /// State of a canonical node's reader that is kept between windows.
    type Sweep: Default + Send;

    /// Fills `window` with a range of `canonical`'s positions that contains `position`.
    fn fill(&self, canonical: u32, position: u64, sweep: &mut Self::Sweep, window: &mut DrawWindow);
}

/// Draws of a range of positions.
#[derive(Debug, Default)]
pub(super) struct DrawWindow {
    start: u64,
    pub(super) draws: Numbers,
}

impl DrawWindow {
    fn get(&self, position: u64) -> Option<u64> {
        self.draws.get(position.checked_sub(self.start)?)
    }

    /// Empties the window for draws below `total`.
    pub(super) fn reset(&mut self, start: u64, total: u64) {
        self.start = start;
        self.draws.reset(total);
    }
}

/// Cursor with two windows per canonical node: positions that equalise parts are a little before the current window.
pub(super) struct WindowCursor<W: DrawWindows> {
    windows: Arc<W>,
    nodes: Vec<Option<Box<NodeCursor<W::Sweep>>>>,
}

#[derive(Default)]
struct NodeCursor<S> {
    sweep: S,
    current: DrawWindow,
    previous: DrawWindow,
}

impl<W: DrawWindows> WindowCursor<W> {
    pub(super) fn new(windows: Arc<W>) -> Self {
        Self { windows, nodes: Vec::new() }
    }
}

impl<W: DrawWindows> Cursor for WindowCursor<W> {
    fn draw(&mut self, canonical: u32, position: u64) -> u64 {
        let canonical_at = canonical as usize;
        if canonical_at >= self.nodes.len() {
            self.nodes.resize_with(canonical_at + 1, || None);
        }
        let node = self.nodes[canonical_at].get_or_insert_default();
        if let Some(draw) = node.current.get(position).or_else(|| node.previous.get(position)) {
            return draw;
        }
        std::mem::swap(&mut node.current, &mut node.previous);
        self.windows.fill(canonical, position, &mut node.sweep, &mut node.current);
        node.current.get(position).expect("a window contains the position it was made for")
    }
}
