//! Columns of a text, and the encodings that all their values have.

use crate::columns::Column;
use crate::encoding::{ArrayType, DType, Encoding};
use forebay_core::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Most columns. There are more only where keys are values.
const COLUMNS_MAX: usize = 10_000;

/// Kinds of a value: bits of a number.
pub(super) mod kind {
    pub(in crate::lines) const TEXT: u16 = 1;
    pub(in crate::lines) const INT: u16 = 1 << 1;
    pub(in crate::lines) const FLOAT: u16 = 1 << 2;
    pub(in crate::lines) const BOOL: u16 = 1 << 3;
    pub(in crate::lines) const NO_ITEMS: u16 = 1 << 4;
    pub(in crate::lines) const INTS: u16 = 1 << 5;
    pub(in crate::lines) const FLOATS: u16 = 1 << 6;
    pub(in crate::lines) const DOCUMENT: u16 = 1 << 7;
    /// In each value of CSV: all cells are texts, too.
    pub(in crate::lines) const CELL: u16 = 1 << 8;
    /// With whole numbers that floating-point numbers would round.
    pub(in crate::lines) const EXACT: u16 = 1 << 9;
    pub(in crate::lines) const NUMBER: u16 = INT | FLOAT | BOOL;
    pub(in crate::lines) const NUMBERS: u16 = NO_ITEMS | INTS | FLOATS;

    /// Kinds of the whole number `text`; `None` if it is outside of int64.
    pub(in crate::lines) fn of_whole(text: &[u8]) -> Option<u16> {
        let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
        Some(if number.unsigned_abs() > 1 << 53 { INT | EXACT } else { INT })
    }
}

/// Columns of the records of some texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineCounts {
    /// Number of records.
    pub records: u64,
    columns: Vec<ColumnCounts>,
    #[serde(skip)]
    numbers: HashMap<String, usize>,
}

/// Column of the records of some texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ColumnCounts {
    name: String,
    /// Records that have it.
    records: u64,
    /// Records in which it is an empty cell.
    #[serde(default, skip_serializing_if = "is_zero")]
    empty: u64,
    /// Bits of the kinds of its values.
    kinds: u16,
    /// Number of the last record that was counted: an object may have a key twice.
    #[serde(skip)]
    last: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl LineCounts {
    /// Adds a value of the column `name` to the record that [`records`](Self::records) counts next. `kinds` is `None`
    /// for an empty cell.
    pub(super) fn add(&mut self, name: &str, kinds: Option<u16>) -> Result<()> {
        let number = self.number_of(name)?;
        let column = &mut self.columns[number];
        column.kinds |= kinds.unwrap_or(0);
        if column.last != self.records + 1 {
            column.last = self.records + 1;
            column.records += 1;
            column.empty += u64::from(kinds.is_none());
        }
        Ok(())
    }

    /// Returns the number of the column `name`, which is added if it is not known.
    pub(super) fn number_of(&mut self, name: &str) -> Result<usize> {
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        let number = self.columns.len();
        if number == COLUMNS_MAX {
            let why = format!(
                "the records have more than {COLUMNS_MAX} different keys: write the keys that differ from record to \
                 record into one object, and read that with a Json field"
            );
            return Err(Error::format(why).with("key", name));
        }
        self.columns.push(ColumnCounts { name: name.to_owned(), records: 0, empty: 0, kinds: 0, last: 0 });
        self.numbers.insert(name.to_owned(), number);
        Ok(number)
    }

    /// Adds the records of a second count.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for too many columns.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if self.numbers.len() != self.columns.len() {
            self.numbers = self.columns.iter().zip(0..).map(|(column, number)| (column.name.clone(), number)).collect();
        }
        for column in &other.columns {
            let number = self.number_of(&column.name)?;
            let all = &mut self.columns[number];
            all.records = all.records.saturating_add(column.records);
            all.empty = all.empty.saturating_add(column.empty);
            all.kinds |= column.kinds;
        }
        self.records = self.records.saturating_add(other.records);
        Ok(())
    }

    /// Returns the columns in the order in which they were found, and the names of those that some records lack.
    pub(super) fn columns(&self) -> (Vec<Column>, Vec<String>) {
        let optional = self.columns.iter().filter(|column| column.values() < self.records);
        let optional = optional.map(|column| column.name.clone()).collect();
        (self.columns.iter().map(|column| Column::new(&column.name, column.encoding())).collect(), optional)
    }
}

impl ColumnCounts {
    /// Records with a value: an empty cell is a text, but no number.
    fn values(&self) -> u64 {
        if self.encoding() == Encoding::Str { self.records } else { self.records.saturating_sub(self.empty) }
    }

    /// Encoding of all values: documents, if they have several kinds.
    fn encoding(&self) -> Encoding {
        let is_cell = self.kinds & kind::CELL != 0;
        let is_exact = self.kinds & kind::EXACT != 0;
        let kinds = self.kinds & !(kind::CELL | kind::EXACT);
        let is_only = |of: u16| kinds & !of == 0;
        match kinds {
            0 if self.empty > 0 => Encoding::Str,
            0 | kind::NO_ITEMS => Encoding::Json,
            kind::TEXT => Encoding::Str,
            _ if is_only(kind::INT | kind::BOOL) => Encoding::StrInt,
            _ if is_only(kind::NUMBER) && !is_exact => Encoding::StrFloat,
            _ if is_cell => Encoding::Str,
            _ if is_only(kind::NO_ITEMS | kind::INTS) => Encoding::Array(ArrayType::flat(DType::Int64)),
            _ if is_only(kind::NUMBERS) && !is_exact => Encoding::Array(ArrayType::flat(DType::Float64)),
            _ => Encoding::Json,
        }
    }
}
