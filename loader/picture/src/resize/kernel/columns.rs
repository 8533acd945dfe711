//! Weights of the columns in the layout of the kernels.

use crate::kept::release;
use crate::resize::planes::MARGIN;
use crate::resize::weights::Axis;

/// Output pixels of a group.
pub(super) const GROUP: usize = 16;

/// Fine weights that are multiplied at a time if there are no windows.
pub(super) const RUN: usize = 16;

/// Positions in a window of the bytes for a group's weights: for each output pixel a pair of taps, each as the low byte
/// of 16 bits. High bytes are [`NO_BYTE`]: zero.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Picks(pub [u8; 4 * GROUP]);

/// Position that is no byte of a window.
const NO_BYTE: u8 = 0xff;

/// Pair of weights for each output pixel of a group.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Pairs(pub [i16; 2 * GROUP]);

/// Weights of one picture for a column kernel.
#[derive(Default)]
pub(crate) struct Columns {
    /// Output pixels.
    pub len: usize,
    /// Length of a row that is read: [`MARGIN`] values more than have weights.
    pub reach: usize,
    /// True if weights have lower bits.
    pub(super) is_fine: bool,
    is_windowed: bool,
    windows: Windows,
    /// Valid if there are no windows.
    pub(super) taps: Taps,
}

/// Groups of output pixels that take their taps from windows of a row.
#[derive(Default)]
pub(super) struct Windows {
    /// Start of each window in a row; as many for each group as the kernel needs.
    pub starts: Vec<u32>,
    /// Positions, by group and pair of taps.
    pub picks: Vec<Picks>,
    /// Weights, by group and pair of taps.
    pub weights: Vec<Pairs>,
    /// Their lower bits; empty if the filter has none.
    pub fine: Vec<Pairs>,
    /// Pairs of taps of every output pixel; unused ones have weight 0.
    pub pairs: usize,
    /// True if some windows need two vectors.
    pub is_wide: bool,
}

/// Calls `groups::<PAIRS, IS_WIDE>` for `windows`: a fixed number of pairs lets the compiler unroll the usual cases.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! unrolled {
    ($groups:ident($planes:expr, $windows:ident, $out:expr)) => {
        match ($windows.is_wide, $windows.pairs) {
            (false, 1) => $groups::<1, false>($planes, $windows, $out),
            (false, 2) => $groups::<2, false>($planes, $windows, $out),
            (false, 3) => $groups::<3, false>($planes, $windows, $out),
            (false, _) => $groups::<0, false>($planes, $windows, $out),
            (true, _) => $groups::<0, true>($planes, $windows, $out),
        }
    };
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use unrolled;

/// Consecutive taps in a row, any number of them.
#[derive(Default)]
pub(super) struct Taps {
    /// First tap of each output pixel.
    pub first: Vec<u32>,
    /// Weights, `count` for each output pixel.
    pub weights: Vec<i16>,
    /// Their lower bits; empty if the filter has none. With them, `count` is a multiple of [`RUN`].
    pub fine: Vec<i16>,
    pub count: usize,
}

impl Columns {
    /// Lays out the weights of `axis` for kernels with such a `window`. Rows start at the axis' first sample.
    pub(crate) fn pack(&mut self, axis: &Axis, window: Option<(usize, usize)>) {
        self.len = axis.len();
        let (start, end) = axis.span();
        self.reach = (end - start) as usize + MARGIN;
        self.is_fine = axis.is_fine();
        self.is_windowed = window.is_some_and(|window| self.windows.pack(axis, start, window));
        if !self.is_windowed {
            self.taps.pack(axis, start);
        }
    }

    /// Returns the windows, or `None` if the taps of an output pixel and its neighbours do not fit into a window.
    pub(super) fn windows(&self) -> Option<&Windows> {
        self.is_windowed.then_some(&self.windows)
    }
}

impl Windows {
    /// Lays out windows for `outputs` output pixels each, in rows from sample `start` on. Returns false if taps do not
    /// fit into two vectors of `bytes` bytes.
    fn pack(&mut self, axis: &Axis, start: u32, (outputs, bytes): (usize, usize)) -> bool {
        let pairs = axis.taps_max().div_ceil(2);
        let groups = axis.len().div_ceil(GROUP);
        self.pairs = pairs;
        self.is_wide = false;
        self.starts.clear();
        for window in 0..groups * GROUP / outputs {
            let firsts = (window * outputs..(window + 1) * outputs).map(|i| axis.taps(i.min(axis.len() - 1)).0 - start);
            let (from, to) = firsts.fold((u32::MAX, 0), |(from, to), first| (from.min(first), to.max(first)));
            let needed = (to - from) as usize + 2 * pairs;
            self.is_wide |= needed > bytes;
            if needed > 2 * bytes {
                return false;
            }
            self.starts.push(from);
        }
        self.picks.clear();
        self.picks.resize(groups * pairs, Picks([NO_BYTE; 4 * GROUP]));
        self.weights.clear();
        self.weights.resize(groups * pairs, Pairs([0; 2 * GROUP]));
        for i in 0..axis.len() {
            let (first, weights) = axis.taps(i);
            let at = (first - start - self.starts[i / outputs]) as u8;
            let (group, i) = (i / GROUP * pairs, i % GROUP);
            let positions = self.picks[group..].iter_mut().zip(&mut self.weights[group..]);
            for (k, ((picks, pair), weights)) in (0..).step_by(2).zip(positions.zip(weights.chunks(2))) {
                picks.0[4 * i] = at + k;
                picks.0[4 * i + 2] = at + k + 1;
                pair.0[2 * i..][..weights.len()].copy_from_slice(weights);
            }
        }
        self.fine.clear();
        if axis.is_fine() {
            self.fine.resize(groups * pairs, Pairs([0; 2 * GROUP]));
            for i in 0..axis.len() {
                for (pair, weights) in self.fine[i / GROUP * pairs..].iter_mut().zip(axis.fine(i).chunks(2)) {
                    pair.0[2 * (i % GROUP)..][..weights.len()].copy_from_slice(weights);
                }
            }
        }
        true
    }
}

impl Taps {
    fn pack(&mut self, axis: &Axis, start: u32) {
        self.count = if axis.is_fine() { axis.taps_max().next_multiple_of(RUN) } else { axis.taps_max() };
        release(&mut self.weights);
        release(&mut self.fine);
        self.first.clear();
        self.weights.clear();
        self.fine.clear();
        for i in 0..axis.len() {
            let (first, weights) = axis.taps(i);
            self.first.push(first - start);
            self.weights.extend_from_slice(weights);
            self.weights.resize((i + 1) * self.count, 0);
            if axis.is_fine() {
                self.fine.extend_from_slice(axis.fine(i));
                self.fine.resize((i + 1) * self.count, 0);
            }
        }
    }
}
