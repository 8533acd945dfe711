//! Facts about arrays of numbers, for the checks.

use crate::samples::floats;
use forebay_loader::format::encoding::Array as StoredArray;

/// Boxes of a sample that are kept.
pub(super) const BOXES_MAX: usize = 1024;

/// An array.
#[derive(Debug, PartialEq)]
pub(in crate::doctor) struct Array {
    pub(in crate::doctor) dtype: &'static str,
    pub(in crate::doctor) shape: Vec<usize>,
    pub(in crate::doctor) elements: Elements,
    /// Rows of four numbers, if it may be boxes: at most 1024.
    pub(in crate::doctor) boxes: Vec<[f64; 4]>,
}

/// Facts about the elements of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::doctor) struct Elements {
    pub(in crate::doctor) count: usize,
    pub(in crate::doctor) nans: usize,
    pub(in crate::doctor) infinities: usize,
    pub(in crate::doctor) min: f64,
    pub(in crate::doctor) max: f64,
    /// A number is not whole.
    pub(in crate::doctor) has_fractions: bool,
}

impl Elements {
    fn of(numbers: impl Iterator<Item = f64>) -> Self {
        let mut found = Self { min: f64::INFINITY, max: f64::NEG_INFINITY, ..Self::default() };
        for number in numbers {
            found.count += 1;
            found.nans += usize::from(number.is_nan());
            found.infinities += usize::from(number.is_infinite());
            found.has_fractions |= number.fract() != 0.0;
            found.min = found.min.min(number);
            found.max = found.max.max(number);
        }
        found
    }

    /// True if there are several elements, and all are equal.
    pub(in crate::doctor) fn is_constant(&self) -> bool {
        self.count > 1 && self.nans == 0 && self.min.total_cmp(&self.max).is_eq()
    }
}

/// Returns the facts about a stored array. `may_be_boxes` keeps its rows.
pub(super) fn of_stored(array: &StoredArray<'_>, may_be_boxes: bool) -> Array {
    let numbers = || floats(array.dtype, &array.data);
    let is_rows = array.shape.last() == Some(&4) && array.shape.len() <= 2;
    let boxes = if may_be_boxes && is_rows { rows(numbers()) } else { Vec::new() };
    Array { dtype: array.dtype.name(), shape: array.shape.clone(), elements: Elements::of(numbers()), boxes }
}

/// Returns the facts about an array of a JSON document; `None` if it is no array of numbers with a shape.
pub(super) fn of_json(items: &[serde_json::Value], may_be_boxes: bool) -> Option<Array> {
    let mut shape = vec![items.len()];
    let numbers: Vec<f64> = match items.first() {
        Some(serde_json::Value::Array(first)) => {
            shape.push(first.len());
            let row = |item: &serde_json::Value| {
                let row = item.as_array().filter(|row| row.len() == first.len())?;
                row.iter().map(serde_json::Value::as_f64).collect::<Option<Vec<f64>>>()
            };
            items.iter().map(row).collect::<Option<Vec<_>>>()?.concat()
        }
        _ => items.iter().map(serde_json::Value::as_f64).collect::<Option<_>>()?,
    };
    let is_rows = shape.last() == Some(&4);
    let boxes = if may_be_boxes && is_rows { rows(numbers.iter().copied()) } else { Vec::new() };
    Some(Array { dtype: "number", shape, elements: Elements::of(numbers.into_iter()), boxes })
}

fn rows(mut numbers: impl Iterator<Item = f64>) -> Vec<[f64; 4]> {
    let mut next = move || Some([numbers.next()?, numbers.next()?, numbers.next()?, numbers.next()?]);
    std::iter::from_fn(&mut next).take(BOXES_MAX).collect()
}
