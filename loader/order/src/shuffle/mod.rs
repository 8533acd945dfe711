//! Shuffles: maps from positions in the shuffled epoch to draws, without the shuffled epoch in memory.
//!
//! A shuffle stores the order of its spans (parts of shards) and a generator's state for each window: tens of bytes per
//! shard, from one pass over the draws that does not touch samples. A [`Cursor`] makes windows on demand and keeps the
//! last two of each canonical node. Only `naive`, a permutation of all samples, takes 4 bytes per sample.

mod args;
mod expect;
mod py1br;
mod py1e;
mod py1s;
mod py2s;
mod spans;
mod window;

pub(super) use args::ShuffleArgs;
pub(super) use window::{Cursor, Stretch};

use std::ops::Range;
use std::sync::Arc;

use super::config::ShuffleAlgo;
use super::error::{OrderError, OrderWarning};
use super::numbers::Numbers;
use super::shape::Steps;
use window::WindowCursor;

/// Shuffle of an epoch.
#[derive(Clone, Debug)]
pub(super) enum Shuffle {
    /// Positions are draws.
    Off,
    /// One permutation of all samples, which is kept in memory.
    Naive(Arc<Numbers>),
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
            ShuffleAlgo::Naive => Self::Naive(Arc::new(Numbers::permutation(args.epoch_seed(), args.units.total())?)),
            ShuffleAlgo::Py1s => Self::Py1s(Arc::new(py1s::Py1s::new(args))),
            ShuffleAlgo::Py2s => Self::Py2s(Arc::new(py2s::Py2s::new(args))),
            ShuffleAlgo::Py1br => Self::Py1br(Arc::new(py1br::Py1br::new(args)?)),
            ShuffleAlgo::Py1e => Self::Py1e(Arc::new(py1e::Py1e::new(args, warnings)?)),
        })
    }

    pub(super) fn cursor(&self) -> Box<dyn Cursor> {
        match self {
            Self::Off => Box::new(Identity),
            Self::Naive(permutation) => Box::new(Arc::clone(permutation)),
            Self::Py1s(shuffle) => Box::new(WindowCursor::new(Arc::clone(shuffle))),
            Self::Py2s(shuffle) => Box::new(WindowCursor::new(Arc::clone(shuffle))),
            Self::Py1br(shuffle) => Box::new(WindowCursor::new(Arc::clone(shuffle))),
            Self::Py1e(shuffle) => Box::new(WindowCursor::new(Arc::clone(shuffle))),
        }
    }

    /// Calls `visit` for each span of a canonical node, with a draw and the bounds of its positions. `part` are the
    /// node's positions.
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

struct Identity;

impl Cursor for Identity {
    fn draw(&mut self, _canonical: u32, position: u64) -> u64 {
        position
    }
}

impl Cursor for Arc<Numbers> {
    fn draw(&mut self, _canonical: u32, position: u64) -> u64 {
        self.get(position).expect("the permutation covers all positions")
    }
}
