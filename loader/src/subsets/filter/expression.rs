//! Condition of a filter as a tree.

use super::cell::{Cell, CellKind, in_order};
use super::mistake::Mistake;
use std::cmp::Ordering;

/// Condition.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    All(Vec<Expression>),
    Any(Vec<Expression>),
    Not(Box<Expression>),
    Compare { at: usize, left: Operand, by: Comparison, right: Operand },
    In { at: usize, column: usize, list: Literals },
    IsNull(usize),
}

/// Side of a comparison.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    /// Number of the column in the filter.
    Column(usize),
    Literal(Cell<'static>),
}

/// Values of a list, in the order of [`in_order`], so that a value is found in a long list.
#[derive(Clone, Debug)]
pub(super) struct Literals(Vec<Cell<'static>>);

impl Literals {
    pub(super) fn new(mut list: Vec<Cell<'static>>) -> Self {
        list.sort_by(in_order);
        Self(list)
    }

    /// True if one of them is as `is_wanted` returns.
    pub(super) fn any(&self, is_wanted: impl Fn(&Cell<'_>) -> bool) -> bool {
        self.0.iter().any(is_wanted)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if `cell`, which has a number or a text, is in the list.
    pub(super) fn has(&self, cell: &Cell<'_>) -> bool {
        !cell.is_nan() && self.0.binary_search_by(|literal| in_order(literal, cell)).is_ok()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
}

impl Comparison {
    /// The comparison that `sign` means.
    pub(super) fn of(sign: &str) -> Option<Self> {
        Some(match sign {
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            "==" => Self::Equal,
            "!=" => Self::NotEqual,
            ">=" => Self::GreaterOrEqual,
            ">" => Self::Greater,
            _ => return None,
        })
    }

    /// True if it holds between values in this order; without an order, as with NaN, they are only unequal.
    pub(super) fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Self::Less => order == Some(Ordering::Less),
            Self::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Self::Equal => order == Some(Ordering::Equal),
            Self::NotEqual => order != Some(Ordering::Equal),
            Self::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
            Self::Greater => order == Some(Ordering::Greater),
        }
    }
}

impl Operand {
    fn kind(&self, kinds: &[CellKind]) -> CellKind {
        match self {
            Self::Column(column) => kinds[*column],
            Self::Literal(literal) => kind_of(literal),
        }
    }
}

/// Kind of a literal.
fn kind_of(literal: &Cell<'_>) -> CellKind {
    if matches!(literal, Cell::Text(_)) { CellKind::Text } else { CellKind::Number }
}

impl Expression {
    /// Returns true if the value of column number `column` is compared.
    pub(super) fn compares(&self, number: usize) -> bool {
        let is_column = |side: &Operand| matches!(side, Operand::Column(column) if *column == number);
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().any(|part| part.compares(number)),
            Self::Not(part) => part.compares(number),
            Self::IsNull(_) => false,
            Self::Compare { left, right, .. } => is_column(left) || is_column(right),
            Self::In { column, .. } => *column == number,
        }
    }

    /// Checks that both sides of each comparison have one kind.
    pub(super) fn check(&self, kinds: &[CellKind]) -> Result<(), Mistake> {
        let compared = |at: usize, left: CellKind, right: CellKind| {
            let problem = match (left, right) {
                (CellKind::Text, CellKind::Number) => "text is compared with a number: write the number in quotes",
                (CellKind::Number, CellKind::Text) => {
                    "a number is compared with text: write it without quotes, if it is a number"
                }
                _ => return Ok(()),
            };
            Err(Mistake { at, problem: problem.to_owned() })
        };
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().try_for_each(|part| part.check(kinds)),
            Self::Not(part) => part.check(kinds),
            Self::IsNull(_) => Ok(()),
            Self::Compare { at, left, right, .. } => compared(*at, left.kind(kinds), right.kind(kinds)),
            Self::In { at, column, list } => {
                list.0.iter().try_for_each(|literal| compared(*at, kinds[*column], kind_of(literal)))
            }
        }
    }
}
