//! Shards in the run's order, cut at canonical nodes; the parts shuffled in each node; the samples of each part
//! shuffled. A window is a part.

use super::args::ShuffleArgs;
use super::spans::NodeSpans;
use super::window::{DrawWindow, DrawWindows, Stretch};
use crate::rng::{Generator, Snapshot};

#[derive(Debug)]
pub(crate) struct Py1s {
    nodes: NodeSpans,
    generator: Generator,
    /// Before the samples of each span are shuffled.
    before: Vec<Snapshot>,
}

impl Py1s {
    pub(super) fn new(args: &ShuffleArgs<'_>) -> Self {
        let mut generator = Generator::new(args.epoch_seed());
        let nodes = NodeSpans::shuffled(args, &mut generator);
        let before = nodes.spans.iter().map(|span| generator.skip_shuffle(u64::from(span.size))).collect();
        Self { nodes, generator, before }
    }

    pub(super) fn visit_spans(&self, canonical: u32, visit: &mut dyn FnMut(Stretch)) {
        for span in self.nodes.of_node(canonical as usize) {
            let positions = self.nodes.offsets.range(span);
            visit(Stretch { draw: self.nodes.spans[span].begin, first: positions.start, last: positions.end - 1 });
        }
    }
}

impl DrawWindows for Py1s {
    type Sweep = ();

    fn fill(&self, _canonical: u32, position: u64, _sweep: &mut (), window: &mut DrawWindow) {
        let span = self.nodes.offsets.find(position);
        window.reset(self.nodes.offsets.start(span), self.nodes.total());
        window.draws.extend(self.nodes.spans[span].draws());
        let len = self.nodes.spans[span].size as usize;
        window.draws.shuffle(&mut self.generator.at(self.before[span]), 0..len);
    }
}
