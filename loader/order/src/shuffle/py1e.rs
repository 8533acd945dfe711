//! Parts of shards as in `py1s`, their samples shuffled, then every sample shifted at random within a block around its
//! part. The shifted offsets give the order.
//!
//! A sample moves at most half a block, so the order is made by a sweep: a part is opened before the first offset that
//! it can reach, its samples are put into buckets of offsets, and each bucket is sorted when the sweep reaches it. A
//! sweep can start anywhere, since the samples before an offset can be counted by opening the parts around it.

use std::collections::VecDeque;

use super::args::ShuffleArgs;
use super::expect::{Spread, before};
use super::spans::{NodeSpans, Span};
use super::window::{DrawWindow, DrawWindows, Stretch};
use crate::error::{OrderError, OrderWarning};
use crate::rng::{Generator, Snapshot};

/// Approximate samples of a bucket, which is sorted within a core's cache. Buckets are not reused but grow as they
/// fill: half of the pending ones are half empty, and there may be a sweep for each of many canonical nodes.
const BUCKET: f64 = 8_192.0;

/// Largest error, in samples, of expected counts due to rounding of offsets.
const SLACK: f64 = 8.0;

#[derive(Debug)]
pub(crate) struct Py1e {
    nodes: NodeSpans,
    generator: Generator,
    shifts: Vec<Shift>,
    /// Canonical nodes of up to this many samples become one window, since a sweep would hold as many samples.
    whole_max: u64,
}

/// Shift of a span's samples. Offsets count from the node's first position.
#[derive(Clone, Copy, Debug)]
struct Shift {
    /// Generator before the span's samples are shuffled.
    before_shuffle: Snapshot,
    /// Generator before the shifts are drawn.
    before_shift: Snapshot,
    low: f64,
    high: f64,
    /// No sample of this span or a later one of the node is placed before this.
    earliest_from_here: f64,
    /// No sample of this span or an earlier one of the node is placed after this.
    latest_until_here: f64,
}

impl Py1e {
    pub(super) fn new(args: &ShuffleArgs<'_>, warnings: &mut Vec<OrderWarning>) -> Result<Self, OrderError> {
        let (low, high) = args.block_bounds();
        let mut generator = Generator::new(args.epoch_seed());
        let nodes = NodeSpans::shuffled(args, &mut generator);
        let mut shifts: Vec<Shift> = Vec::with_capacity(nodes.spans.len());
        let mut is_block_small = false;
        for node in 0..nodes.num_nodes() {
            let positions = nodes.positions(node);
            if positions.is_empty() {
                return Err(OrderError::EmptyCanonicalNode { canonical: args.canonical });
            }
            let spans = nodes.of_node(node);
            let shuffled: Vec<Snapshot> =
                nodes.spans[spans.clone()].iter().map(|span| generator.skip_shuffle(u64::from(span.size))).collect();
            let mut latest = 0.0_f64;
            for (span, before_shuffle) in spans.clone().zip(shuffled) {
                let block = generator.integer(low, high).ok_or(OrderError::BlockTooSmall { block: args.block })?;
                let size = u64::from(nodes.spans[span].size);
                is_block_small |= block < size;
                let reach = ((block as f64 - size as f64) / 2.0).max(0.0);
                let before = (nodes.offsets.start(span) - positions.start) as f64;
                let behind = (positions.end - nodes.offsets.range(span).end) as f64;
                let (low, high) = ((-reach).max(-before), reach.min(behind));
                latest = latest.max(before + (size - 1) as f64 + high);
                shifts.push(Shift {
                    before_shuffle,
                    before_shift: generator.snapshot(),
                    low,
                    high,
                    earliest_from_here: before + low,
                    latest_until_here: latest,
                });
                generator.skip_doubles(size);
            }
            let mut earliest = f64::INFINITY;
            for shift in shifts[spans].iter_mut().rev() {
                earliest = earliest.min(shift.earliest_from_here);
                shift.earliest_from_here = earliest;
            }
        }
        if is_block_small {
            warnings.push(OrderWarning::BlockSmallerThanShard);
        }
        Ok(Self { nodes, generator, shifts, whole_max: 2 * args.block })
    }

    /// Bounds from the spans' ranges alone, of two kinds. Certain: the samples before an offset are at least the
    /// samples of the spans that end before it and at most the samples of the spans that start before it. Probable: of
    /// m samples that may be on either side, the number before the offset differs from the expected one by at most 4
    /// times the root of m, except for one case in 10^14 (Hoeffding).
    pub(super) fn visit_spans(&self, canonical: u32, visit: &mut dyn FnMut(Stretch)) {
        let node = canonical as usize;
        let (spans, positions) = (self.nodes.of_node(node), self.nodes.positions(node));
        let shifts = &self.shifts[spans.clone()];
        let spread = |span: usize| Spread {
            start: (self.nodes.offsets.start(span) - positions.start) as f64,
            size: f64::from(self.nodes.spans[span].size),
            low: self.shifts[span].low,
            high: self.shifts[span].high,
        };
        let spreads: Vec<Spread> = spans.clone().map(spread).collect();
        let earliest = spreads.iter().map(|s| s.start + s.low);
        let latest = spreads.iter().map(|s| s.start + s.size - 1.0 + s.high);
        let offsets: Vec<f64> = earliest.chain(latest).collect();
        let expected = before(&spreads, &offsets);
        // Positions before an offset: between the first and the second, and most likely between the third and the
        // fourth.
        let bounds = |offset: usize| {
            let surely = shifts.partition_point(|s| s.latest_until_here < offsets[offset]);
            let perhaps = shifts.partition_point(|s| s.earliest_from_here <= offsets[offset]);
            let surely = self.nodes.offsets.start(spans.start + surely) - positions.start;
            let perhaps = self.nodes.offsets.start(spans.start + perhaps) - positions.start;
            let slack = SLACK + 4.0 * (perhaps.saturating_sub(surely) as f64).sqrt();
            let likely = (expected[offset] - slack).max(0.0) as u64..(expected[offset] + slack) as u64;
            (surely.max(likely.start), perhaps.min(likely.end).max(1))
        };
        for (at, span) in spans.clone().enumerate() {
            let (first, last) = (bounds(at).0, bounds(spreads.len() + at).1);
            visit(Stretch {
                draw: self.nodes.spans[span].begin,
                first: positions.start + first.min(last - 1),
                last: positions.start + last - 1,
            });
        }
    }
}

/// Sweep over the offsets of a canonical node.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// The next span to open; `None` before the first window.
    next_span: Option<usize>,
    /// Position of the first sample of the first bucket.
    position: u64,
    /// Number of the first bucket.
    bucket: usize,
    /// (offset, draw), each bucket in the order of the unshifted offsets.
    buckets: VecDeque<Vec<(f64, u64)>>,
    /// Memory for a span's draws.
    draws: Vec<u32>,
    /// Memory for sorting.
    counts: Vec<u32>,
    sorted: Vec<(f64, u64)>,
}

impl Sweep {
    /// Puts the samples of a span into buckets; returns how many belong before the first.
    fn open(&mut self, shuffle: &Py1e, node: usize, span: usize) -> u64 {
        let (shift, Span { begin, size }) = (&shuffle.shifts[span], shuffle.nodes.spans[span]);
        self.draws.clear();
        self.draws.extend(0..size);
        shuffle.generator.at(shift.before_shuffle).shuffle(&mut self.draws);
        let mut generator = shuffle.generator.at(shift.before_shift);
        let first = shuffle.nodes.offsets.start(span) - shuffle.nodes.positions(node).start;
        let mut passed = 0;
        for (at, &draw) in self.draws.iter().enumerate() {
            let offset = (first + at as u64) as f64 + generator.uniform(shift.low, shift.high);
            // Offsets are not negative: a shift is bounded by the node's start.
            let Some(bucket) = ((offset / BUCKET) as usize).checked_sub(self.bucket) else {
                passed += 1;
                continue;
            };
            while self.buckets.len() <= bucket {
                self.buckets.push_back(Vec::new());
            }
            self.buckets[bucket].push((offset, begin + u64::from(draw)));
        }
        passed
    }

    /// Opens all spans that reach into the first bucket; returns how many samples belong before it.
    fn open_first_bucket(&mut self, shuffle: &Py1e, node: usize) -> u64 {
        let stop = shuffle.nodes.of_node(node).end;
        let edge = (self.bucket + 1) as f64 * BUCKET;
        let mut passed = 0;
        let mut span = self.next_span.unwrap_or(stop);
        while span < stop && shuffle.shifts[span].earliest_from_here < edge {
            passed += self.open(shuffle, node, span);
            span += 1;
        }
        self.next_span = Some(span);
        passed
    }

    /// Starts at a bucket before `position`, as near to it as the bounds allow.
    fn start(&mut self, shuffle: &Py1e, node: usize, position: u64) {
        let (spans, positions) = (shuffle.nodes.of_node(node), shuffle.nodes.positions(node));
        let mut bucket = ((position - positions.start) as f64 / BUCKET) as usize;
        if positions.end - positions.start <= shuffle.whole_max {
            bucket = 0;
        }
        loop {
            self.buckets.clear();
            self.bucket = bucket;
            let offset = bucket as f64 * BUCKET;
            let first =
                spans.start + shuffle.shifts[spans.clone()].partition_point(|shift| shift.latest_until_here < offset);
            self.next_span = Some(first);
            let passed = self.open_first_bucket(shuffle, node);
            // All samples before the first bucket are counted now, since no later span has any.
            self.position = shuffle.nodes.offsets.start(first) + passed;
            if self.position <= position {
                return;
            }
            let over = (self.position - position) as f64 / BUCKET;
            bucket = bucket.saturating_sub(1 + over as usize);
        }
    }

    fn take_bucket(&mut self, shuffle: &Py1e, node: usize) -> Vec<(f64, u64)> {
        self.open_first_bucket(shuffle, node);
        let mut samples = self.buckets.pop_front().unwrap_or_default();
        self.sort(&mut samples);
        self.bucket += 1;
        samples
    }

    /// Sorts the first bucket by offset, stably: of equal offsets, the one shifted from further ahead comes first.
    ///
    /// There is about one sample to each whole offset, so samples are distributed to their whole offsets, and then only
    /// the few that share one are compared: a third of the time of a comparison sort.
    fn sort(&mut self, samples: &mut [(f64, u64)]) {
        let first = self.bucket as f64 * BUCKET;
        let whole_offset = |offset: f64| (offset - first) as usize;
        self.counts.clear();
        self.counts.resize(BUCKET as usize + 1, 0);
        for &(offset, _) in samples.iter() {
            self.counts[whole_offset(offset) + 1] += 1;
        }
        for at in 1..self.counts.len() {
            self.counts[at] += self.counts[at - 1];
        }
        self.sorted.clear();
        self.sorted.resize(samples.len(), (0.0, 0));
        for &sample in samples.iter() {
            let next = &mut self.counts[whole_offset(sample.0)];
            self.sorted[*next as usize] = sample;
            *next += 1;
        }
        let sorted = &mut self.sorted;
        for at in 1..sorted.len() {
            let sample = sorted[at];
            let mut to = at;
            while to > 0 && sorted[to - 1].0 > sample.0 {
                sorted[to] = sorted[to - 1];
                to -= 1;
            }
            sorted[to] = sample;
        }
        samples.copy_from_slice(&self.sorted);
    }
}

impl DrawWindows for Py1e {
    type Sweep = Sweep;

    fn fill(&self, canonical: u32, position: u64, sweep: &mut Sweep, window: &mut DrawWindow) {
        let node = canonical as usize;
        let positions = self.nodes.positions(node);
        // A position shortly ahead is reached by continuing the sweep, and all later and earlier ones by a new start.
        let is_near = position.checked_sub(sweep.position).is_some_and(|ahead| ahead as f64 <= 4.0 * BUCKET);
        if sweep.next_span.is_none() || !is_near {
            sweep.start(self, node, position);
        }
        let is_whole = positions.end - positions.start <= self.whole_max;
        window.reset(sweep.position, self.nodes.total());
        while sweep.position < positions.end {
            let samples = sweep.take_bucket(self, node);
            sweep.position += samples.len() as u64;
            let is_last = !is_whole && sweep.position > position;
            if is_last || is_whole {
                samples.iter().for_each(|&(_, draw)| window.draws.push(draw));
            } else {
                window.reset(sweep.position, self.nodes.total());
            }
            if is_last {
                break;
            }
        }
        if is_whole {
            *sweep = Sweep { next_span: sweep.next_span, position: sweep.position, ..Sweep::default() };
        }
    }
}
