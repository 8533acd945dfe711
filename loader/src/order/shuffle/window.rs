//! Windows of draws, which a cursor makes on demand.

use std::ops::Range;
use std::sync::Arc;

use crate::order::rng::Generator;

/// Bounds of the positions of a span's draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::order) struct Stretch {
    /// A draw of the span; all of them are of one unit.
    pub(in crate::order) draw: u64,
    /// No draw of the span has a position before this.
    pub(in crate::order) first: u64,
    /// No draw of the span has a position after this.
    pub(in crate::order) last: u64,
}

/// Reads a shuffle at positions that mostly ascend within each canonical node.
pub(in crate::order) trait Cursor: Send {
    /// The draw at `position`, which is in canonical node `canonical`.
    fn draw(&mut self, canonical: u32, position: u64) -> u64;
}

/// Shuffle that can make the draws of a range of positions independently.
pub(super) trait Windows: Send + Sync {
    /// State of a canonical node's reader that is kept between windows.
    type Sweep: Default + Send;

    /// Fills `window` with a range of `canonical`'s positions that contains `position`.
    fn fill(&self, canonical: u32, position: u64, sweep: &mut Self::Sweep, window: &mut Window);
}

/// Draws of a range of positions.
#[derive(Debug, Default)]
pub(super) struct Window {
    start: u64,
    draws: WindowDraws,
}

/// Draws of 4 bytes each if that suffices, else 8.
#[derive(Debug)]
enum WindowDraws {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl Default for WindowDraws {
    fn default() -> Self {
        Self::Narrow(Vec::new())
    }
}

impl Window {
    fn get(&self, position: u64) -> Option<u64> {
        let at = usize::try_from(position.checked_sub(self.start)?).ok()?;
        match &self.draws {
            WindowDraws::Narrow(draws) => draws.get(at).map(|&d| u64::from(d)),
            WindowDraws::Wide(draws) => draws.get(at).copied(),
        }
    }

    /// Empties the window for draws below `total`.
    pub(super) fn reset(&mut self, start: u64, total: u64) {
        self.start = start;
        let is_narrow = total <= 1 << 32;
        match &mut self.draws {
            WindowDraws::Narrow(draws) if is_narrow => draws.clear(),
            WindowDraws::Wide(draws) if !is_narrow => draws.clear(),
            WindowDraws::Narrow(_) => self.draws = WindowDraws::Wide(Vec::new()),
            WindowDraws::Wide(_) => self.draws = WindowDraws::default(),
        }
    }

    pub(super) fn extend(&mut self, draws: Range<u64>) {
        match &mut self.draws {
            WindowDraws::Narrow(all) => all.extend(draws.map(|d| d as u32)),
            WindowDraws::Wide(all) => all.extend(draws),
        }
    }

    pub(super) fn push(&mut self, draw: u64) {
        match &mut self.draws {
            WindowDraws::Narrow(all) => all.push(draw as u32),
            WindowDraws::Wide(all) => all.push(draw),
        }
    }

    pub(super) fn shuffle(&mut self, generator: &mut Generator, range: Range<usize>) {
        match &mut self.draws {
            WindowDraws::Narrow(all) => generator.shuffle(&mut all[range]),
            WindowDraws::Wide(all) => generator.shuffle(&mut all[range]),
        }
    }

    /// Keeps only the draws in `range`.
    pub(super) fn cut(&mut self, range: Range<usize>) {
        match &mut self.draws {
            WindowDraws::Narrow(all) => {
                all.truncate(range.end);
                all.drain(..range.start);
            }
            WindowDraws::Wide(all) => {
                all.truncate(range.end);
                all.drain(..range.start);
            }
        }
    }
}

/// Cursor with two windows per canonical node: positions that equalise parts are a little before the current window.
pub(super) struct WindowCursor<W: Windows> {
    windows: Arc<W>,
    nodes: Vec<Option<Box<NodeCursor<W::Sweep>>>>,
}

#[derive(Default)]
struct NodeCursor<S> {
    sweep: S,
    current: Window,
    previous: Window,
}

impl<W: Windows> WindowCursor<W> {
    pub(super) fn new(windows: Arc<W>) -> Self {
        Self { windows, nodes: Vec::new() }
    }
}

impl<W: Windows> Cursor for WindowCursor<W> {
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
