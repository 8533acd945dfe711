//! Value of a condition for a sample.

use super::cell::{Cell, compare};
use super::expression::{Expression, Operand};

impl Operand {
    fn cell<'a>(&'a self, row: &'a [Cell<'a>]) -> &'a Cell<'a> {
        match self {
            Self::Column(column) => &row[*column],
            Self::Literal(literal) => literal,
        }
    }
}

impl Expression {
    /// The value for a sample with the cells `row`; `None` if it depends on an absent value.
    pub(super) fn value(&self, row: &[Cell<'_>]) -> Option<bool> {
        match self {
            Self::All(parts) => combined(parts, row, false),
            Self::Any(parts) => combined(parts, row, true),
            Self::Not(part) => part.value(row).map(|value| !value),
            Self::IsNull(column) => Some(matches!(row[*column], Cell::Null)),
            Self::Compare { left, by, right, .. } => {
                let (left, right) = (left.cell(row), right.cell(row));
                let is_comparable = left.is_number() && right.is_number() || left.is_text() && right.is_text();
                is_comparable.then(|| by.holds(compare(left, right)))
            }
            // Nothing is in an empty list, whatever it is.
            Self::In { list, .. } if list.is_empty() => Some(false),
            Self::In { column, list, .. } => {
                let cell = &row[*column];
                (cell.is_number() || cell.is_text()).then(|| list.has(cell))
            }
        }
    }
}

/// `decided` if one part has that value, `None` if one is unknown, else the opposite.
fn combined(parts: &[Expression], row: &[Cell<'_>], decided: bool) -> Option<bool> {
    let mut value = Some(!decided);
    for part in parts {
        match part.value(row) {
            Some(part) if part == decided => return Some(decided),
            Some(_) => {}
            None => value = None,
        }
    }
    value
}
