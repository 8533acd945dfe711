//! Questions about each sample of a stream, which are answered from some of its columns: a condition, or the value of a
//! column.

use super::filter::{Cell, CellKind, Filter, Range};
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Answer for a value that is no class.
const NO_CLASS: u64 = u64::MAX;

/// Answer for a value that is no count.
pub(crate) const NO_COUNT: u32 = u32::MAX;

/// Question about each sample of a stream.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    /// True for some samples.
    Condition(Filter),
    /// The value of a column.
    Value {
        /// Name of the column, or a path into its documents.
        column: String,
        /// Argument with the name, for messages.
        argument: &'static str,
        ask: Ask,
    },
    /// Number of tokens of a field.
    Tokens {
        /// Names of the columns; the field's own is the first one.
        columns: Vec<String>,
        /// Text that differs for different numbers of tokens.
        identity: String,
    },
}

/// Value of a column that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// A number.
    Number,
    /// A number or text, that is equal only to values of the same class.
    Class,
    /// A number, or the stored bytes of a value that is none.
    Length,
    /// A whole number of tokens.
    Count,
}

/// Answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Bit(bool),
    Count(u32),
    Word(u64),
}

impl Question {
    /// A text that is unique to the question.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Condition(filter) => filter.text(),
            // No filter begins like this.
            Self::Value { column, ask, .. } => format!("\0{ask:?} {column}"),
            Self::Tokens { identity, .. } => format!("\0tokens {identity}"),
        }
    }

    /// The question in a message.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Condition(_) => "a filter".to_owned(),
            Self::Value { argument, .. } => (*argument).to_owned(),
            Self::Tokens { .. } => "the count of tokens".to_owned(),
        }
    }

    /// Bits of an answer.
    pub(crate) fn bits(&self) -> u64 {
        match self {
            Self::Condition(_) => 1,
            Self::Value { ask: Ask::Count, .. } | Self::Tokens { .. } => u32::BITS.into(),
            Self::Value { .. } => u64::BITS.into(),
        }
    }

    /// Names of the columns that it needs. A row has their cells in this order.
    pub(crate) fn columns(&self) -> Vec<&str> {
        match self {
            Self::Condition(filter) => filter.columns().collect(),
            Self::Value { column, .. } => vec![column],
            Self::Tokens { columns, .. } => columns.iter().map(String::as_str).collect(),
        }
    }

    /// The error that column number `number` has for `problem`.
    pub(crate) fn column_error(&self, number: usize, problem: String) -> Error {
        match self {
            Self::Condition(filter) => filter.column_error(number, problem),
            Self::Value { column, argument, .. } => {
                Error::config(format!("{argument} cannot be {column:?}: {problem}"))
            }
            Self::Tokens { columns, .. } => {
                Error::config(format!("no tokens can be made of {:?}: {problem}", columns[number]))
            }
        }
    }

    /// Checks that it can be answered from columns of these kinds.
    ///
    /// # Errors
    ///
    /// `Config` with the column.
    pub(crate) fn check(&self, kinds: &[CellKind]) -> Result<()> {
        match self {
            Self::Condition(filter) => filter.check(kinds),
            Self::Value { ask: Ask::Number | Ask::Count, .. } if kinds.contains(&CellKind::Text) => {
                Err(self.column_error(0, "the column has text, and a number is needed".to_owned()))
            }
            Self::Value { .. } | Self::Tokens { .. } => Ok(()),
        }
    }

    /// True if the values of column number `number` may be of any kind.
    pub(crate) fn takes_any(&self, number: usize) -> bool {
        match self {
            Self::Condition(filter) => filter.is_about_presence(number),
            Self::Value { ask, .. } => *ask == Ask::Length,
            Self::Tokens { .. } => true,
        }
    }

    /// True if it needs the column `name` only to be there.
    pub(crate) fn is_about_presence_of(&self, name: &str) -> bool {
        let Self::Condition(filter) = self else { return false };
        filter.columns().position(|column| column == name).is_some_and(|number| filter.is_about_presence(number))
    }

    /// True for the length of a value.
    pub(crate) fn is_length(&self) -> bool {
        matches!(self, Self::Value { ask: Ask::Length, .. })
    }

    /// The bit of all samples with columns that have values in these ranges; `None` if the bit of some may differ.
    pub(crate) fn certain(&self, ranges: &[Range<'_>]) -> Option<bool> {
        let Self::Condition(filter) = self else { return None };
        let possible = filter.possible(ranges);
        match (possible.is_true, possible.is_false || possible.is_unknown) {
            (false, _) => Some(false),
            (true, false) => Some(true),
            (true, true) => None,
        }
    }

    /// The answer for a sample with these cells.
    pub(crate) fn reply(&self, row: &[Cell<'_>]) -> Reply {
        let ask = match self {
            Self::Condition(filter) => return Reply::Bit(filter.keeps(row)),
            Self::Value { ask: Ask::Count, .. } | Self::Tokens { .. } => return Reply::Count(count_of(&row[0])),
            Self::Value { ask, .. } => *ask,
        };
        let number = |number: f64| number.to_bits();
        Reply::Word(match (ask, &row[0]) {
            (Ask::Class, cell) => class_of(cell),
            (_, Cell::Int(int)) => number(*int as f64),
            (_, Cell::Float(float)) => number(*float),
            (Ask::Length, Cell::Text(text)) => number(text.len() as f64),
            (Ask::Length, Cell::Stored(bytes)) => number(*bytes as f64),
            _ => number(f64::NAN),
        })
    }
}

/// Returns the whole number of a cell.
fn count_of(cell: &Cell<'_>) -> u32 {
    let count = match cell {
        Cell::Int(int) => u32::try_from(*int).ok(),
        Cell::Float(float) if float.fract() == 0.0 && (0.0..f64::from(NO_COUNT)).contains(float) => Some(*float as u32),
        _ => None,
    };
    count.unwrap_or(NO_COUNT)
}

/// Returns a number for the class of a cell. Numbers that are equal have one class.
fn class_of(cell: &Cell<'_>) -> u64 {
    let hash = |tag: u8, bytes: &[u8]| {
        // FNV-1a, with bits that are mixed as in SplitMix64.
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        let hash = bytes.iter().fold(step(0xcbf2_9ce4_8422_2325, &tag), step);
        super::fraction::mix(hash).min(NO_CLASS - 1)
    };
    match cell {
        Cell::Int(int) => hash(0, &int.to_le_bytes()),
        Cell::Float(float) if float.is_nan() => NO_CLASS,
        // Also the two zeros.
        Cell::Float(float) if float.fract() == 0.0 && float.abs() < 1e30 => hash(0, &(*float as i128).to_le_bytes()),
        Cell::Float(float) => hash(1, &float.to_le_bytes()),
        Cell::Text(text) => hash(2, text.as_bytes()),
        Cell::Null | Cell::Other | Cell::Stored(_) => NO_CLASS,
    }
}

/// Returns, for each of the classes of samples, one over the number of samples of that class.
///
/// # Errors
///
/// The index of a sample without a class.
pub(crate) fn balanced(classes: &[u64]) -> Result<Vec<f32>, usize> {
    let mut counts: HashMap<u64, u32, BuildHasherDefault<Identity>> = HashMap::default();
    for (place, class) in classes.iter().enumerate() {
        if *class == NO_CLASS {
            return Err(place);
        }
        *counts.entry(*class).or_default() += 1;
    }
    Ok(classes.iter().map(|class| 1.0 / counts[class] as f32).collect())
}

/// Hasher of numbers that are hashes.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(ask: Ask, cell: Cell<'_>) -> u64 {
        let question = Question::Value { column: "c".to_owned(), argument: "weights", ask };
        match question.reply(&[cell]) {
            Reply::Word(word) => word,
            Reply::Bit(_) | Reply::Count(_) => panic!("a word"),
        }
    }

    #[test]
    fn values_are_numbers_lengths_or_classes() {
        let number = |ask, cell| f64::from_bits(word(ask, cell));
        assert_eq!(number(Ask::Number, Cell::Int(-3)), -3.0);
        assert_eq!(number(Ask::Length, Cell::Float(1.5)), 1.5);
        assert_eq!(number(Ask::Length, Cell::Text("é".into())), 2.0);
        assert_eq!(number(Ask::Length, Cell::Stored(99)), 99.0);
        for cell in [Cell::Null, Cell::Other, Cell::Text("1".into()), Cell::Stored(3)] {
            assert!(number(Ask::Number, cell).is_nan());
        }
        let class = |cell| word(Ask::Class, cell);
        assert_eq!(class(Cell::Int(3)), class(Cell::Float(3.0)));
        assert_eq!(class(Cell::Float(0.0)), class(Cell::Float(-0.0)));
        let different = [Cell::Int(3), Cell::Int(4), Cell::Float(3.5), Cell::Text("3".into()), Cell::Text("".into())];
        let mut classes: Vec<u64> = different.into_iter().map(class).collect();
        classes.sort_unstable();
        classes.dedup();
        assert_eq!(classes.len(), 5);
        for cell in [Cell::Null, Cell::Other, Cell::Float(f64::NAN)] {
            assert_eq!(class(cell), NO_CLASS);
        }
    }

    #[test]
    fn counts_are_whole_numbers() {
        let question = Question::Value { column: "c".to_owned(), argument: "lengths", ask: Ask::Count };
        let count = |cell| question.reply(&[cell]);
        assert_eq!(count(Cell::Int(7)), Reply::Count(7));
        assert_eq!(count(Cell::Float(4_294_967_294.0)), Reply::Count(u32::MAX - 1));
        for none in [Cell::Int(-1), Cell::Int(1 << 40), Cell::Float(1.5), Cell::Float(f64::NAN), Cell::Null] {
            assert_eq!(count(none), Reply::Count(NO_COUNT));
        }
        assert!(question.check(&[CellKind::Text]).is_err());
    }

    #[test]
    fn classes_have_the_same_weight_together() {
        let classes = [7, 3, 7, 7, 9, 3];
        let weights = balanced(&classes).expect("classes");
        assert_eq!(weights, [1.0 / 3.0, 0.5, 1.0 / 3.0, 1.0 / 3.0, 1.0, 0.5]);
        assert_eq!(balanced(&[7, NO_CLASS]), Err(1));
    }

    #[test]
    fn questions_have_different_texts() {
        let value = |ask| Question::Value { column: "class".to_owned(), argument: "balance", ask };
        let texts = [Ask::Number, Ask::Class, Ask::Length, Ask::Count].map(|ask| value(ask).text());
        assert!((1..4).all(|n| !texts[..n].contains(&texts[n])));
        assert!(Filter::parse(&texts[0]).is_err(), "no filter has the text of a question");
    }
}
