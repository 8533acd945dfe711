//! Spans of draws in the order of the shuffled shards, cut at canonical nodes.

use std::ops::Range;

use super::args::ShuffleArgs;
use crate::partition::canonical_starts;
use crate::rng::Generator;
use crate::shape::Steps;

/// Consecutive draws of one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) begin: u64,
    pub(super) size: u32,
}

impl Span {
    pub(super) fn draws(self) -> Range<u64> {
        self.begin..self.begin + u64::from(self.size)
    }
}

/// Returns the units in the order that is the same in all epochs, and the generator after it was made.
pub(super) fn units_of_run(args: &ShuffleArgs<'_>) -> (Vec<Span>, Generator) {
    let unit = |at| Span { begin: args.units.start(at), size: args.units.size(at) as u32 };
    let mut units: Vec<Span> = (0..args.units.len()).map(unit).collect();
    let mut run = Generator::new(u128::from(args.seed));
    run.shuffle(&mut units);
    (units, run)
}

/// Spans of all canonical nodes.
#[derive(Debug)]
pub(super) struct NodeSpans {
    pub(super) spans: Vec<Span>,
    /// First span of each canonical node, and the number of spans at the end.
    nodes: Vec<usize>,
    /// First position of each canonical node, and the number of samples at the end.
    starts: Vec<u64>,
    pub(super) offsets: Steps,
}

impl NodeSpans {
    /// The units as spans in the run's order, cut at canonical nodes, shuffled in each node by `epoch`.
    pub(super) fn shuffled(args: &ShuffleArgs<'_>, epoch: &mut Generator) -> Self {
        Self::divide(&units_of_run(args).0, args.canonical, |spans| epoch.shuffle(spans))
    }

    /// Cuts spans at the canonical nodes' boundaries. `arrange` is called with the spans of each node and may swap
    /// them.
    pub(super) fn divide(spans: &[Span], canonical: u64, mut arrange: impl FnMut(&mut [Span])) -> Self {
        let total = spans.iter().map(|s| u64::from(s.size)).sum();
        let starts = canonical_starts(total, canonical);
        let mut divided = Vec::with_capacity(spans.len());
        let mut nodes = Vec::with_capacity(starts.len());
        let mut rest = spans.iter().copied();
        let mut cut: Option<Span> = None;
        let mut so_far = 0;
        for &stop in &starts[1..] {
            let first = divided.len();
            while so_far < stop {
                // The starts add up to the spans' total, so there is a span as long as positions are missing.
                let Some(span) = cut.take().or_else(|| rest.next()) else { break };
                let fits = u64::from(span.size).min(stop - so_far) as u32;
                divided.push(Span { begin: span.begin, size: fits });
                if fits < span.size {
                    cut = Some(Span { begin: span.begin + u64::from(fits), size: span.size - fits });
                }
                so_far += u64::from(fits);
            }
            nodes.push(first);
            arrange(&mut divided[first..]);
        }
        nodes.push(divided.len());
        let offsets = Steps::of_sizes(divided.iter().map(|s| u64::from(s.size)));
        Self { spans: divided, nodes, starts, offsets }
    }

    pub(super) fn num_nodes(&self) -> usize {
        self.nodes.len() - 1
    }

    pub(super) fn of_node(&self, node: usize) -> Range<usize> {
        self.nodes[node]..self.nodes[node + 1]
    }

    pub(super) fn positions(&self, node: usize) -> Range<u64> {
        self.starts[node]..self.starts[node + 1]
    }

    pub(super) fn total(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_cut_at_the_ends_of_canonical_nodes() {
        let spans = [Span { begin: 10, size: 5 }, Span { begin: 0, size: 4 }];
        let divided = NodeSpans::divide(&spans, 4, |_| {});
        let span = |begin, size| Span { begin, size };
        assert_eq!(divided.spans, [span(10, 2), span(12, 2), span(14, 1), span(0, 1), span(1, 3)]);
        assert_eq!((0..4).map(|node| divided.of_node(node)).collect::<Vec<_>>(), [0..1, 1..2, 2..4, 4..5]);
        assert_eq!(divided.positions(3), 6..9);
    }

    #[test]
    fn more_nodes_than_samples_leave_nodes_empty() {
        let divided = NodeSpans::divide(&[Span { begin: 0, size: 2 }], 4, |_| {});
        assert_eq!(divided.spans.len(), 2);
        assert_eq!((0..4).filter(|&node| divided.of_node(node).is_empty()).count(), 2);
    }
}
