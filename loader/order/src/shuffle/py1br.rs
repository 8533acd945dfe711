//! Parts of shards as in `py1s`, then samples shuffled within blocks of varying size. A window is a block, or several
//! small ones.
//!
//! As in the reference, a node's first blocks overlap (as long as the stagger reaches before the node, blocks start
//! at the node's start again) and up to a stagger of samples at a node's end stay as they are.

use std::ops::Range;

use super::args::ShuffleArgs;
use super::spans::NodeSpans;
use super::window::{DrawWindow, DrawWindows, Stretch};
use crate::error::OrderError;
use crate::rng::{Generator, Snapshot};
use crate::shape::Steps;

/// Blocks smaller than this share a window, so that small blocks do not cost a generator's state each.
const WINDOW_MIN: u64 = 1 << 16;

#[derive(Debug)]
pub(crate) struct Py1br {
    nodes: NodeSpans,
    generator: Generator,
    /// Positions that are shuffled together, in order.
    blocks: Vec<Range<u64>>,
    /// First block of each window, and the generator before it.
    before: Vec<(usize, Snapshot)>,
    windows: Steps,
}

impl Py1br {
    pub(super) fn new(args: &ShuffleArgs<'_>) -> Result<Self, OrderError> {
        let too_small = OrderError::BlockTooSmall { block: args.block };
        let (low, high) = args.block_bounds();
        let mut generator = Generator::new(args.epoch_seed());
        let nodes = NodeSpans::shuffled(args, &mut generator);
        let staggers: Option<Vec<u64>> = (0..args.canonical).map(|_| generator.integer(0, low)).collect();
        let staggers = staggers.ok_or_else(|| too_small.clone())?;

        let mut blocks: Vec<Range<u64>> = Vec::new();
        let mut before = Vec::new();
        let mut window_sizes = Vec::new();
        for (node, stagger) in staggers.into_iter().enumerate() {
            let Range { start, end: stop } = nodes.positions(node);
            let first = blocks.len();
            let mut blocks_end = start;
            while blocks_end < stop {
                let size = generator.integer(low, high).ok_or_else(|| too_small.clone())?;
                let from = blocks_end.saturating_sub(stagger).max(start);
                let to = (blocks_end + size - stagger).min(stop);
                blocks.push(from..to);
                blocks_end += to - from;
            }

            let mut window_start = start;
            let mut covered = start;
            for (at, block) in blocks.iter().enumerate().skip(first) {
                // A window ends between two blocks that do not overlap.
                let is_apart = block.start >= covered;
                if at == first || (is_apart && covered - window_start >= WINDOW_MIN) {
                    if covered > window_start {
                        window_sizes.push(covered - window_start);
                    }
                    window_start = covered;
                    before.push((at, generator.snapshot()));
                }
                generator.skip_shuffle(block.end - block.start);
                covered = covered.max(block.end);
            }
            if stop > start {
                // Positions that no block covers belong to the last window and are not shuffled.
                window_sizes.push(stop - window_start);
            }
        }
        Ok(Self { nodes, generator, blocks, before, windows: Steps::of_sizes(window_sizes) })
    }

    pub(super) fn visit_spans(&self, canonical: u32, visit: &mut dyn FnMut(Stretch)) {
        for span in self.nodes.of_node(canonical as usize) {
            let positions = self.nodes.offsets.range(span);
            let first = self.windows.find(positions.start);
            let last = self.windows.find(positions.end - 1);
            visit(Stretch {
                draw: self.nodes.spans[span].begin,
                first: self.windows.start(first),
                last: self.windows.range(last).end - 1,
            });
        }
    }
}

impl DrawWindows for Py1br {
    type Sweep = ();

    fn fill(&self, _canonical: u32, position: u64, _sweep: &mut (), window: &mut DrawWindow) {
        let window_at = self.windows.find(position);
        let Range { start, end } = self.windows.range(window_at);
        window.reset(start, self.nodes.total());
        let mut at = start;
        while at < end {
            let span = self.nodes.offsets.find(at);
            let Range { start: span_start, end: span_end } = self.nodes.offsets.range(span);
            let stop = span_end.min(end);
            let begin = self.nodes.spans[span].begin;
            window.draws.extend(begin + (at - span_start)..begin + (stop - span_start));
            at = stop;
        }
        let (first, before) = self.before[window_at];
        let stop = self.before.get(window_at + 1).map_or(self.blocks.len(), |&(block, _)| block);
        let mut generator = self.generator.at(before);
        for block in &self.blocks[first..stop] {
            window.draws.shuffle(&mut generator, (block.start - start) as usize..(block.end - start) as usize);
        }
    }
}
