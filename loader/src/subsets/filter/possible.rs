//! Values that a condition may have for samples with known least and largest values of the columns.
//!
//! A value that is not possible is certain not to occur; one that is possible need not occur.

use super::cell::{Cell, compare, in_order};
use super::expression::{Comparison, Expression, Operand};
use std::cmp::Ordering;

/// Values of a column in some samples.
#[derive(Clone, Debug)]
pub(crate) enum Range<'a> {
    /// Any.
    Unknown,
    /// Any, and none is absent.
    Present,
    /// All of them are absent.
    Absent,
    /// Numbers or texts from the least to the largest.
    Values {
        least: Cell<'a>,
        largest: Cell<'a>,
        /// Some may be absent.
        has_absent: bool,
        /// Some may be NaN.
        has_nan: bool,
    },
}

/// Values that a condition may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Possible {
    pub(crate) is_true: bool,
    pub(crate) is_false: bool,
    pub(crate) is_unknown: bool,
}

const ANY: Possible = Possible { is_true: true, is_false: true, is_unknown: true };
const UNKNOWN: Possible = Possible { is_true: false, is_false: false, is_unknown: true };

impl Possible {
    fn of(is_true: bool, is_false: bool, is_unknown: bool) -> Self {
        Self { is_true, is_false, is_unknown }
    }

    /// `decided` if one part has that value; else unknown if one is; else the opposite.
    fn combined(parts: impl Iterator<Item = Self>, decided: bool) -> Self {
        let (mut decides, mut opposite, mut unknown, mut undecided) = (false, true, false, true);
        for part in parts {
            let (same, other) = if decided { (part.is_true, part.is_false) } else { (part.is_false, part.is_true) };
            decides |= same;
            opposite &= other;
            unknown |= part.is_unknown;
            undecided &= other || part.is_unknown;
        }
        let unknown = unknown && undecided;
        if decided { Self::of(decides, opposite, unknown) } else { Self::of(opposite, decides, unknown) }
    }
}

impl Expression {
    /// The values that are possible for samples with columns of these `ranges`.
    pub(super) fn possible(&self, ranges: &[Range<'_>]) -> Possible {
        match self {
            Self::All(parts) => Possible::combined(parts.iter().map(|part| part.possible(ranges)), false),
            Self::Any(parts) => Possible::combined(parts.iter().map(|part| part.possible(ranges)), true),
            Self::Not(part) => {
                let Possible { is_true, is_false, is_unknown } = part.possible(ranges);
                Possible::of(is_false, is_true, is_unknown)
            }
            Self::IsNull(column) => match &ranges[*column] {
                Range::Unknown => Possible::of(true, true, false),
                Range::Absent => Possible::of(true, false, false),
                Range::Present => Possible::of(false, true, false),
                Range::Values { has_absent, .. } => Possible::of(*has_absent, true, false),
            },
            Self::Compare { left, by, right, .. } => compared(&left.range(ranges), *by, &right.range(ranges)),
            Self::In { list, .. } if list.is_empty() => Possible::of(false, true, false),
            Self::In { column, list, .. } => match &ranges[*column] {
                // A value may be one that is compared with nothing.
                Range::Unknown | Range::Present => ANY,
                Range::Absent => UNKNOWN,
                Range::Values { least, largest, has_absent, has_nan } => {
                    let inside = |literal: &Cell<'_>| {
                        in_order(least, literal) != Ordering::Greater && in_order(literal, largest) != Ordering::Greater
                    };
                    let is_one = compare(least, largest) == Some(Ordering::Equal) && !*has_nan;
                    Possible::of(list.any(inside), !(is_one && list.has(least)), *has_absent)
                }
            },
        }
    }
}

impl Operand {
    fn range<'a>(&'a self, ranges: &'a [Range<'a>]) -> Range<'a> {
        match self {
            Self::Column(column) => ranges[*column].clone(),
            Self::Literal(literal) => {
                Range::Values { least: literal.clone(), largest: literal.clone(), has_absent: false, has_nan: false }
            }
        }
    }
}

fn compared(left: &Range<'_>, by: Comparison, right: &Range<'_>) -> Possible {
    let (least, largest, other_least, other_largest, has_absent, has_nan) = match (left, right) {
        (Range::Absent, _) | (_, Range::Absent) => return UNKNOWN,
        (
            Range::Values { least, largest, has_absent: a, has_nan: b },
            Range::Values { least: l, largest: g, has_absent: c, has_nan: d },
        ) => (least, largest, l, g, *a || *c, *b || *d),
        _ => return ANY,
    };
    let (Some(low), Some(high)) = (compare(least, other_largest), compare(largest, other_least)) else {
        // Of two kinds.
        return ANY;
    };
    let orders = [
        (low == Ordering::Less, Some(Ordering::Less)),
        // Both ranges may have a value in common.
        (low != Ordering::Greater && high != Ordering::Less, Some(Ordering::Equal)),
        (high == Ordering::Greater, Some(Ordering::Greater)),
        (has_nan, None),
    ];
    let found = || orders.iter().filter(|(is_possible, _)| *is_possible);
    let is_true = found().any(|(_, order)| by.holds(*order));
    let is_false = found().any(|(_, order)| !by.holds(*order));
    Possible::of(is_true, is_false, has_absent)
}

#[cfg(test)]
mod tests {
    use super::super::Filter;
    use super::*;

    /// Values of two columns of numbers and one of texts; small, so that many are equal.
    fn rows(seed: u64) -> Vec<Vec<Cell<'static>>> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let spread = 1 + next(4);
        let (absent, nan) = (next(3) == 0, next(3) == 0);
        let start = next(5) as i128;
        let count = 1 + next(4);
        let mut row = || {
            let mut number = |is_float: bool| match next(6) {
                0 if absent => Cell::Null,
                1 if nan && is_float => Cell::Float(f64::NAN),
                _ if is_float => Cell::Float((start + next(spread) as i128) as f64 + 0.5 * next(2) as f64),
                _ => Cell::Int(start + next(spread) as i128),
            };
            let (x, y) = (number(false), number(true));
            let text = if absent && next(5) == 0 {
                Cell::Null
            } else {
                Cell::Text(["a", "ab", "b", "c"][next(spread) as usize].into())
            };
            vec![x, y, text]
        };
        (0..count).map(|_| row()).collect()
    }

    fn range(rows: &[Vec<Cell<'static>>], column: usize) -> Range<'static> {
        let cells = || rows.iter().map(|row| &row[column]);
        let known = || cells().filter(|cell| !matches!(cell, Cell::Null) && !cell.is_nan()).cloned();
        let has_absent = cells().any(|cell| matches!(cell, Cell::Null));
        let has_nan = cells().any(Cell::is_nan);
        match (known().min_by(in_order), known().max_by(in_order)) {
            (Some(least), Some(largest)) => Range::Values { least, largest, has_absent, has_nan },
            _ if has_nan && has_absent => Range::Unknown,
            _ if has_nan => Range::Present,
            _ => Range::Absent,
        }
    }

    #[test]
    fn values_without_bounds_are_there_if_none_is_absent() {
        let is_true = Possible { is_true: true, is_false: false, is_unknown: false };
        for (filter, range, expected) in [
            ("x is not null", Range::Present, is_true),
            ("not x is null and x is not null", Range::Present, is_true),
            ("x is not null", Range::Unknown, Possible { is_false: true, ..is_true }),
            ("x < 3", Range::Present, ANY),
            ("x in (1, 2)", Range::Present, ANY),
        ] {
            assert_eq!(Filter::parse(filter).expect(filter).possible(&[range]), expected, "{filter}");
        }
    }

    #[test]
    fn no_sample_has_a_value_that_is_not_possible_and_samples_of_one_value_have_no_second() {
        let filters = [
            "x < 3",
            "x <= 3",
            "x == 3",
            "x != 3",
            "x >= 3",
            "x > 3",
            "3 < x < 5",
            "x < y",
            "x == y",
            "x != y",
            "y >= x",
            "y < 2.5",
            "y != 2.5",
            "y == y",
            "not y < 3",
            "x in (1, 3, 9)",
            "x not in (2, 3)",
            "y in (2.5, 3)",
            "x in ()",
            "x not in ()",
            "t == 'ab'",
            "t < 'b'",
            "t >= 'b'",
            "t in ('a', 'c')",
            "t not in ('a', 'ab')",
            "x is null",
            "x is not null",
            "not (x < 3 or t == 'a')",
            "x < 3 and y > 2 or t != 'c'",
            "(x is null or x > 2) and t > 'a'",
            "not (x in (1, 2) and y is not null)",
        ];
        let (mut skipped, mut whole) = (0, 0);
        for text in filters {
            let filter = Filter::parse(text).expect(text);
            let columns: Vec<usize> = filter
                .columns()
                .map(|name| ["x", "y", "t"].iter().position(|known| *known == name).expect("known"))
                .collect();
            for seed in 0..400 {
                let rows = rows(seed);
                let ranges: Vec<Range<'_>> = columns.iter().map(|column| range(&rows, *column)).collect();
                let possible = filter.possible(&ranges);
                for row in &rows {
                    let cells: Vec<Cell<'_>> = columns.iter().map(|column| row[*column].clone()).collect();
                    let value = filter.expression.value(&cells);
                    let is_possible = match value {
                        Some(true) => possible.is_true,
                        Some(false) => possible.is_false,
                        None => possible.is_unknown,
                    };
                    assert!(is_possible, "{text}: {value:?} of {row:?} with {ranges:?}: {possible:?}");
                }
                skipped += usize::from(!possible.is_true);
                whole += usize::from(!possible.is_false && !possible.is_unknown);
            }
        }
        assert!(skipped > 1000 && whole > 1000, "{skipped} {whole}");
    }
}
