//! From positions in the shuffled epoch to draws, without keeping the shuffled epoch.
//!
//! A shuffle keeps the order of its spans (parts of shards) and, for each window it can make on its own, a
//! generator's state: tens of bytes a shard, from one pass over the draws that does not touch samples. A [`Cursor`]
//! makes windows as positions are asked for and keeps the last two of each canonical node. Only `naive`, which mixes
//! everything with everything, holds 4 bytes a sample.

mod expect;
mod naive;
mod py1br;
mod py1e;
mod py1s;
mod py2s;
mod spans;

use std::ops::Range;
use std::sync::Arc;

use super::config::ShuffleAlgo;
use super::error::{OrderError, OrderWarning};
use super::sampling::Permutation;
use super::shape::Steps;

/// What to shuffle.
pub(super) struct ShuffleArgs<'a> {
    /// The draws of each unit.
    pub(super) units: &'a Steps,
    pub(super) canonical: u64,
    pub(super) seed: u64,
    pub(super) epoch: u64,
    pub(super) block: u64,
}

impl ShuffleArgs<'_> {
    /// Seed of what is the same in all epochs.
    fn run_seed(&self) -> u128 {
        u128::from(self.seed)
    }

    fn epoch_seed(&self) -> u128 {
        u128::from(self.seed) + u128::from(self.epoch)
    }

    /// The bounds of random block sizes, in the rounding of doubles.
    fn block_bounds(&self) -> (u64, u64) {
        ((0.75 * self.block as f64) as u64, (1.25 * self.block as f64) as u64)
    }
}

/// An epoch's shuffle.
#[derive(Clone, Debug)]
pub(super) enum Shuffle {
    /// Positions are draws.
    Off,
    Naive(Arc<Permutation>),
    Py1s(Arc<py1s::Py1s>),
    Py2s(Arc<py2s::Py2s>),
    Py1br(Arc<py1br::Py1br>),
    Py1e(Arc<py1e::Py1e>),
}

impl Shuffle {
    pub(super) fn new(
        algo: ShuffleAlgo,
        args: &ShuffleArgs<'_>,
        warnings: &mut Vec<OrderWarning>,
    ) -> Result<Self, OrderError> {
        Ok(match algo {
            ShuffleAlgo::Naive => Self::Naive(Arc::new(naive::permutation(args)?)),
            ShuffleAlgo::Py1s => Self::Py1s(Arc::new(py1s::Py1s::new(args))),
            ShuffleAlgo::Py2s => Self::Py2s(Arc::new(py2s::Py2s::new(args))),
            ShuffleAlgo::Py1br => Self::Py1br(Arc::new(py1br::Py1br::new(args)?)),
            ShuffleAlgo::Py1e => Self::Py1e(Arc::new(py1e::Py1e::new(args, warnings)?)),
        })
    }

    /// A reader of this shuffle.
    pub(super) fn cursor(&self) -> Box<dyn Cursor> {
        match self {
            Self::Off => Box::new(Off),
            Self::Naive(permutation) => Box::new(naive::Reader(Arc::clone(permutation))),
            Self::Py1s(shuffle) => Box::new(WindowCursor::new(Arc::clone(shuffle))),
            Self::Py2s(shuffle) => Box::new(WindowCursor::new(Arc::clone(shuffle))),
            Self::Py1br(shuffle) => Box::new(WindowCursor::new(Arc::clone(shuffle))),
            Self::Py1e(shuffle) => Box::new(WindowCursor::new(Arc::clone(shuffle))),
        }
    }

    /// Calls `visit` with the draws of each span of a canonical node and the positions that they lie between.
    /// `part` are the node's positions.
    pub(super) fn visit_spans(&self, canonical: u32, part: Range<u64>, units: &Steps, visit: &mut dyn FnMut(Stretch)) {
        match self {
            Self::Off => {
                let mut at = part.start;
                while at < part.end {
                    let unit = units.find(at);
                    let stop = units.range(unit).end.min(part.end);
                    visit(Stretch { draw: at, first: at, last: stop - 1 });
                    at = stop;
                }
            }
            Self::Naive(_) if part.is_empty() => {}
            Self::Naive(_) => {
                for unit in 0..units.len() {
                    visit(Stretch { draw: units.start(unit), first: part.start, last: part.end - 1 });
                }
            }
            Self::Py1s(shuffle) => shuffle.visit_spans(canonical, visit),
            Self::Py2s(shuffle) => shuffle.visit_spans(canonical, visit),
            Self::Py1br(shuffle) => shuffle.visit_spans(canonical, visit),
            Self::Py1e(shuffle) => shuffle.visit_spans(canonical, visit),
        }
    }
}

/// Where a span's draws go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    /// A draw of the span; all of them are of one unit.
    pub(super) draw: u64,
    /// No draw of the span has a position before this.
    pub(super) first: u64,
    /// No draw of the span has a position behind this.
    pub(super) last: u64,
}

/// Reads a shuffle at positions that mostly ascend within each canonical node.
pub(super) trait Cursor: Send {
    /// The draw at `position`, which lies in canonical node `canonical`.
    fn draw(&mut self, canonical: u32, position: u64) -> u64;
}

struct Off;

impl Cursor for Off {
    fn draw(&mut self, _canonical: u32, position: u64) -> u64 {
        position
    }
}

/// A shuffle that can make the draws of a stretch of positions on its own.
trait Windows: Send + Sync {
    /// What a canonical node's reader carries from a window to the next.
    type Sweep: Default + Send;

    /// Fills `window` with a stretch of `canonical`'s positions that holds `position`.
    fn fill(&self, canonical: u32, position: u64, sweep: &mut Self::Sweep, window: &mut Window);
}

/// The draws of a stretch of positions.
#[derive(Debug, Default)]
struct Window {
    start: u64,
    draws: Draws,
}

/// 4 bytes a draw where that suffices.
#[derive(Debug)]
enum Draws {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl Default for Draws {
    fn default() -> Self {
        Self::Narrow(Vec::new())
    }
}

impl Window {
    fn get(&self, position: u64) -> Option<u64> {
        let at = usize::try_from(position.checked_sub(self.start)?).ok()?;
        match &self.draws {
            Draws::Narrow(draws) => draws.get(at).map(|&d| u64::from(d)),
            Draws::Wide(draws) => draws.get(at).copied(),
        }
    }

    /// Empties the window for draws below `total`.
    fn reset(&mut self, start: u64, total: u64) {
        self.start = start;
        let is_narrow = total <= 1 << 32;
        match &mut self.draws {
            Draws::Narrow(draws) if is_narrow => draws.clear(),
            Draws::Wide(draws) if !is_narrow => draws.clear(),
            Draws::Narrow(_) => self.draws = Draws::Wide(Vec::new()),
            Draws::Wide(_) => self.draws = Draws::default(),
        }
    }

    fn extend(&mut self, draws: Range<u64>) {
        match &mut self.draws {
            Draws::Narrow(all) => all.extend(draws.map(|d| d as u32)),
            Draws::Wide(all) => all.extend(draws),
        }
    }

    fn push(&mut self, draw: u64) {
        match &mut self.draws {
            Draws::Narrow(all) => all.push(draw as u32),
            Draws::Wide(all) => all.push(draw),
        }
    }

    fn shuffle(&mut self, generator: &mut super::rng::Generator, range: Range<usize>) {
        match &mut self.draws {
            Draws::Narrow(all) => generator.shuffle(&mut all[range]),
            Draws::Wide(all) => generator.shuffle(&mut all[range]),
        }
    }

    /// Keeps only the draws in `range`.
    fn cut(&mut self, range: Range<usize>) {
        match &mut self.draws {
            Draws::Narrow(all) => {
                all.truncate(range.end);
                all.drain(..range.start);
            }
            Draws::Wide(all) => {
                all.truncate(range.end);
                all.drain(..range.start);
            }
        }
    }
}

/// Keeps two windows of each canonical node that is read: positions that equalise parts lie a little back.
struct WindowCursor<W: Windows> {
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
    fn new(windows: Arc<W>) -> Self {
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
        node.current.get(position).expect("a window holds the position it was made for")
    }
}
