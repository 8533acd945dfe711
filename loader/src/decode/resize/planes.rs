//! A row of pixels as three rows of values, one per channel.

use crate::decode::pixels::fit;

/// Values of a plane that kernels make at a time: planes hold whole ones.
pub(super) const CHUNK: usize = 32;

/// Values that may be read behind a plane's last one.
pub(super) const MARGIN: usize = 128;

/// Three rows of the same length out of one behind the other.
pub(super) fn three_rows<T>(values: &mut [T]) -> [&mut [T]; 3] {
    let length = values.len() / 3;
    let (a, rest) = values.split_at_mut(length);
    let (b, c) = rest.split_at_mut(length);
    [a, b, c]
}

/// Three rows, each of whole chunks, one behind the other.
#[derive(Default)]
pub(super) struct Planes<T> {
    values: Vec<T>,
    width: usize,
    stride: usize,
}

impl<T: Copy + Default> Planes<T> {
    /// Makes room for rows of `width` values with `margin` values behind each, contents unspecified.
    pub(super) fn start(&mut self, width: usize, margin: usize) {
        self.width = width;
        self.stride = (width + margin).next_multiple_of(CHUNK);
        fit(&mut self.values, self.stride * 3, T::default());
    }

    /// Values of a row.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// From one row to the next.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// The rows with what is behind them.
    pub(super) fn each(&self) -> [&[T]; 3] {
        let [a, b, c] = [0, 1, 2].map(|c| &self.values[c * self.stride..][..self.stride]);
        [a, b, c]
    }

    /// The same, to be written.
    pub(super) fn each_mut(&mut self) -> [&mut [T]; 3] {
        three_rows(self.all_mut())
    }

    /// All three rows, with what is behind them.
    pub(super) fn all_mut(&mut self) -> &mut [T] {
        &mut self.values[..self.stride * 3]
    }

    /// The rows alone.
    pub(super) fn rows(&self) -> [&[T]; 3] {
        self.each().map(|row| &row[..self.width])
    }
}
