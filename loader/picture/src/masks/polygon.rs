//! Edges of a polygon, with the arithmetic of pycocotools' `rleFrPoly`.
//!
//! pycocotools lists points on the edges in steps of a fifth of a pixel, rounds both of their numbers, and takes a pair
//! of points in turn as a start or an end of the inside if the pair crosses the middle of a column of pixels. Here the
//! pairs are computed for each column, so that the work depends on the columns and not on the lengths of the edges.

use forebay_core::error::{Error, Result};

/// Points of an edge in a side of a pixel.
const STEPS: f64 = 5.0;

/// Upper bound of numbers in steps: differences of two fit 32 bits, as pycocotools needs it.
const STEPS_MAX: f64 = (1 << 30) as f64;

/// Returns a corner in steps. As in C, the fraction is cut off towards zero.
pub(super) fn corner(numbers: [f64; 2]) -> Result<[i32; 2]> {
    let steps = numbers.map(|number| STEPS * number + 0.5);
    if !steps.iter().all(|number| number.abs() < STEPS_MAX) {
        let message = "a corner of a polygon is not finite, or too far from the picture";
        return Err(Error::decode(message).with("corner", format!("{numbers:?}")));
    }
    Ok(steps.map(|number| number as i32))
}

/// Calls `found` with column and row of each pixel where the inside starts or ends by the edge between two corners in
/// steps. The row is the height for an end after the last row. `size` is width and height of the picture.
pub(super) fn crossings(from: [i32; 2], to: [i32; 2], size: [usize; 2], found: impl FnMut(usize, usize)) {
    let ([x_from, y_from], [x_to, y_to]) = (from.map(i64::from), to.map(i64::from));
    let (across, down) = ((x_to - x_from).abs(), (y_to - y_from).abs());
    if across == 0 {
        return;
    }
    let is_shallow = across >= down;
    let is_reversed = if is_shallow { x_from > x_to } else { y_from > y_to };
    let [start, end] = if is_reversed { [to, from] } else { [from, to] };
    let edge = Edge { start, end, is_reversed };
    if is_shallow { edge.shallow(size, found) } else { edge.steep(size, found) }
}

/// Edge from the smaller column, or from the smaller row if it is steep.
struct Edge {
    start: [i32; 2],
    end: [i32; 2],
    /// True if the polygon has it from `end` to `start`.
    is_reversed: bool,
}

impl Edge {
    /// Columns of pixels with the middle between two columns of points of the edge.
    fn columns(&self, width: usize) -> std::ops::Range<i64> {
        let [low, high] = [self.start[0].min(self.end[0]), self.start[0].max(self.end[0])].map(i64::from);
        // The middle of column c is between 5c + 2 and 5c + 3.
        let (first, end) = (((low - 2).max(0) + 4) / 5, (high - 3).div_euclid(5) + 1);
        first..end.min(width as i64)
    }

    /// An edge with a point in each column of steps.
    fn shallow(&self, [width, height]: [usize; 2], mut found: impl FnMut(usize, usize)) {
        let ([x, y], [x_end, y_end]) = (self.start, self.end);
        let slope = f64::from(y_end - y) / f64::from(x_end - x);
        let row = |step: i64| (f64::from(y) + slope * step as f64 + 0.5) as i32;
        for column in self.columns(width) {
            let step = 5 * column + 2 - i64::from(x);
            found(column as usize, pixel_row(row(step).min(row(step + 1)), height));
        }
    }

    /// An edge with a point in each row of steps.
    fn steep(&self, [width, height]: [usize; 2], mut found: impl FnMut(usize, usize)) {
        let ([x, y], [x_end, y_end]) = (self.start, self.end);
        let steps = i64::from(y_end) - i64::from(y);
        let slope = f64::from(x_end - x) / steps as f64;
        let at = |step: i64| i64::from((f64::from(x) + slope * step as f64 + 0.5) as i32);
        let is_rising = x_end > x;
        for column in self.columns(width) {
            let before = 5 * column + 2;
            let is_after = |step: &i64| (at(*step) > before) == is_rising;
            let second = first_where(1, steps + 1, is_after);
            if second > steps {
                continue;
            }
            // Points in the order of the polygon. Far from the picture a rounding may skip a column of steps.
            let pair = [at(second - 1), at(second)];
            let [one, two] = if self.is_reversed { [pair[1], pair[0]] } else { pair };
            if (if two < one { two } else { two - 1 }) == before {
                found(column as usize, pixel_row((i64::from(y) + second - 1) as i32, height));
            }
        }
    }
}

/// Returns the first number of `low..high` that `is_meant` is true for, as for all after it; `high` for none.
fn first_where(mut low: i64, mut high: i64, is_meant: impl Fn(&i64) -> bool) -> i64 {
    while low < high {
        let middle = low + (high - low) / 2;
        if is_meant(&middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// Returns the row of pixels of a row of steps.
fn pixel_row(steps: i32, height: usize) -> usize {
    let row = (f64::from(steps) + 0.5) / STEPS - 0.5;
    row.clamp(0.0, height as f64).ceil() as usize
}
