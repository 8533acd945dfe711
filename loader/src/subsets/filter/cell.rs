//! Value of a column in a sample, or in a condition, and the order of values.

use std::borrow::Cow;
use std::cmp::Ordering;

/// Kind of a column's values, or of a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellKind {
    Number,
    Text,
    /// Of each sample a different one. A value of a different kind than the literal that it is compared with is like an
    /// absent one.
    Any,
}

/// Value of a column in a sample, or in a condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell<'a> {
    /// No value.
    Null,
    /// Value that is compared with nothing, such as a list.
    Other,
    /// Value of this many stored bytes, in a column without numbers and text. It is compared with nothing.
    Stored(u64),
    /// Whole number.
    Int(i128),
    /// Floating-point number.
    Float(f64),
    /// Text.
    Text(Cow<'a, str>),
}

impl Cell<'_> {
    /// True for the number that has no order.
    pub(super) fn is_nan(&self) -> bool {
        matches!(self, Self::Float(float) if float.is_nan())
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Self::Int(_) | Self::Float(_))
    }

    pub(super) fn is_text(&self) -> bool {
        matches!(self, Self::Text(_))
    }
}

/// Returns the whole number that `digits` are, which may have a fraction of zeros.
pub(crate) fn whole(digits: &str) -> Option<i128> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if fraction.bytes().all(|digit| digit == b'0') { whole.parse().ok() } else { None }
}

/// Order of all numbers but NaN, and then of all texts.
pub(super) fn in_order(left: &Cell<'_>, right: &Cell<'_>) -> Ordering {
    left.is_text().cmp(&right.is_text()).then(compare(left, right).unwrap_or(Ordering::Equal))
}

/// Order of two cells of one kind; `None` with NaN.
pub(super) fn compare(left: &Cell<'_>, right: &Cell<'_>) -> Option<Ordering> {
    match (left, right) {
        (Cell::Int(left), Cell::Int(right)) => Some(left.cmp(right)),
        (Cell::Float(left), Cell::Float(right)) => left.partial_cmp(right),
        (Cell::Int(left), Cell::Float(right)) => compare_mixed(*left, *right),
        (Cell::Float(left), Cell::Int(right)) => compare_mixed(*right, *left).map(Ordering::reverse),
        (Cell::Text(left), Cell::Text(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

/// Exact order of a whole number and a float: a conversion to a float would round large numbers.
fn compare_mixed(int: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    // The conversion is exact below 2^127, and beyond it the bounds are in the right order.
    let whole = float.floor();
    let order = int.cmp(&(whole as i128));
    Some(if order == Ordering::Equal && whole < float { Ordering::Less } else { order })
}
