//! `py1s` with samples of a shard shuffled once before it is cut and once after. A window is a part.

use super::args::ShuffleArgs;
use super::spans::{NodeSpans, Span, units_of_run};
use super::window::{DrawWindow, DrawWindows, Stretch};
use crate::rng::{Generator, Snapshot};
use crate::shape::Steps;

#[derive(Debug)]
pub(crate) struct Py2s {
    /// Units in the run's order: the draws, and the generator before they are shuffled.
    units: Vec<(Span, Snapshot)>,
    /// Start of each unit in that order.
    layout: Steps,
    run: Generator,
    /// Parts: `begin` is a cell in the layout.
    nodes: NodeSpans,
    epoch: Generator,
    /// Before the samples of each part are shuffled again.
    before: Vec<Snapshot>,
}

impl Py2s {
    pub(super) fn new(args: &ShuffleArgs<'_>) -> Self {
        let (units, mut run) = units_of_run(args);
        let units: Vec<(Span, Snapshot)> =
            units.into_iter().map(|unit| (unit, run.skip_shuffle(u64::from(unit.size)))).collect();
        let layout = Steps::of_sizes(units.iter().map(|(unit, _)| u64::from(unit.size)));

        let laid_out: Vec<Span> =
            (0..units.len()).map(|at| Span { begin: layout.start(at), size: units[at].0.size }).collect();
        let mut epoch = Generator::new(args.epoch_seed());
        let mut before = Vec::new();
        let nodes = NodeSpans::divide(&laid_out, args.canonical, |parts| {
            epoch.shuffle(parts);
            before.extend(parts.iter().map(|part| epoch.skip_shuffle(u64::from(part.size))));
        });
        Self { units, layout, run, nodes, epoch, before }
    }

    pub(super) fn visit_spans(&self, canonical: u32, visit: &mut dyn FnMut(Stretch)) {
        for part in self.nodes.of_node(canonical as usize) {
            let positions = self.nodes.offsets.range(part);
            let unit = self.layout.find(self.nodes.spans[part].begin);
            visit(Stretch { draw: self.units[unit].0.begin, first: positions.start, last: positions.end - 1 });
        }
    }
}

impl DrawWindows for Py2s {
    type Sweep = ();

    fn fill(&self, _canonical: u32, position: u64, _sweep: &mut (), window: &mut DrawWindow) {
        let part_at = self.nodes.offsets.find(position);
        let part = self.nodes.spans[part_at];
        let unit_at = self.layout.find(part.begin);
        let (unit, before) = self.units[unit_at];

        window.reset(self.nodes.offsets.start(part_at), self.nodes.total());
        window.draws.extend(unit.draws());
        window.draws.shuffle(&mut self.run.at(before), 0..unit.size as usize);
        let first = (part.begin - self.layout.start(unit_at)) as usize;
        window.draws.cut(first..first + part.size as usize);
        window.draws.shuffle(&mut self.epoch.at(self.before[part_at]), 0..part.size as usize);
    }
}
