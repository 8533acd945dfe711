//! A row of pixels as three rows of values, one per channel.

use crate::kept::fit;

/// Values of a plane that kernels compute at a time; planes contain whole chunks.
pub(super) const CHUNK: usize = 32;

/// Values that may be read after a plane's last one.
pub(super) const MARGIN: usize = 128;

/// Splits `values` into three rows of the same length.
pub(super) fn three_rows<T>(values: &mut [T]) -> [&mut [T]; 3] {
    let length = values.len() / 3;
    let (a, rest) = values.split_at_mut(length);
    let (b, c) = rest.split_at_mut(length);
    [a, b, c]
}

/// Three rows of whole chunks, in sequence.
#[derive(Default)]
pub(super) struct Planes<T> {
    values: Vec<T>,
    pub width: usize,
    pub stride: usize,
}

impl<T: Copy + Default> Planes<T> {
    /// Makes room for rows of `width` values, each with `margin` more values after them. The contents are unspecified.
    pub(super) fn start(&mut self, width: usize, margin: usize) {
        self.width = width;
        self.stride = (width + margin).next_multiple_of(CHUNK);
        fit(&mut self.values, self.stride * 3, T::default());
    }

    /// Returns the rows with their margins.
    pub(super) fn padded_rows(&self) -> [&[T]; 3] {
        let [a, b, c] = [0, 1, 2].map(|c| &self.values[c * self.stride..][..self.stride]);
        [a, b, c]
    }

    pub(super) fn padded_rows_mut(&mut self) -> [&mut [T]; 3] {
        three_rows(self.all_mut())
    }

    /// Returns all three rows with their margins, as one slice.
    pub(super) fn all_mut(&mut self) -> &mut [T] {
        &mut self.values[..self.stride * 3]
    }

    pub(super) fn rows(&self) -> [&[T]; 3] {
        self.padded_rows().map(|row| &row[..self.width])
    }
}
