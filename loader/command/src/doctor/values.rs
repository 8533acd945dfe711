//! Values of a sample, as far as the checks need them.
//!
//! ```text
//! bytes of a sample --Layout::split--> bytes of a column --Prober--> Value    by the encoding, and by the contents
//!                                                         |- picture: decoded as a whole, once
//!                                                         '- array: its numbers
//! ```
//!
//! A thread has a [`Prober`], which keeps the memory of its decoders. Values have no pixels and no texts, so that the
//! values of many samples fit into memory.

mod array;
mod document;
mod picture;
mod prober;

pub(in crate::doctor) use array::Array;
pub(in crate::doctor) use document::Document;
pub(in crate::doctor) use picture::{Fingerprint, Oddity, Picture};
pub(in crate::doctor) use prober::Prober;

use forebay_loader::order::SampleId;

/// Number of a column: of its name among all names of the streams, and of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::doctor) struct ColumnId {
    pub(in crate::doctor) stream: u32,
    pub(in crate::doctor) name: u32,
}

/// A sample that has been read.
#[derive(Debug)]
pub(in crate::doctor) struct Sample {
    pub(in crate::doctor) id: SampleId,
    /// Its values, or the reason why it cannot be read.
    pub(in crate::doctor) values: Result<Values, String>,
}

/// Values of a sample.
#[derive(Debug, Default)]
pub(in crate::doctor) struct Values {
    pub(in crate::doctor) columns: Vec<(ColumnId, Value)>,
    /// Hash of the contents: of pictures, else of texts and arrays. `None` for samples of a few numbers.
    pub(in crate::doctor) contents: Option<u64>,
    /// Hash of the remaining values, without keys.
    pub(in crate::doctor) rest: u16,
    /// Hash of the column and value of the sample's name, if it has one.
    pub(in crate::doctor) key: Option<u64>,
}

/// A value of a column.
#[derive(Debug)]
pub(in crate::doctor) enum Value {
    /// The sample lacks the column, or has null.
    Absent,
    /// It cannot be decoded, for this reason.
    Damaged(String),
    Picture(Box<Picture>),
    /// Pictures, and the reason why one of them cannot be decoded.
    Pictures {
        items: usize,
        damage: Option<String>,
    },
    Text(Text),
    Number(Number),
    Array(Box<Array>),
    /// A document that is no number, text or array.
    Document(Box<Document>),
    Bytes {
        bytes: usize,
        start: [u8; 4],
    },
}

impl Value {
    /// Returns the document that the value is, or has as its text.
    pub(in crate::doctor) fn document(&self) -> Option<&Document> {
        match self {
            Self::Document(document) => Some(document),
            Self::Text(text) => text.document.as_deref(),
            _ => None,
        }
    }
}

/// A text.
#[derive(Debug)]
pub(in crate::doctor) struct Text {
    pub(in crate::doctor) bytes: usize,
    /// It has nothing but white space.
    pub(in crate::doctor) is_blank: bool,
    /// It has the character that programs write for damaged ones.
    pub(in crate::doctor) is_replaced: bool,
    /// It begins and ends as a JSON object or array: true if it is one.
    pub(in crate::doctor) json: Option<bool>,
    /// The document that it is.
    pub(in crate::doctor) document: Option<Box<Document>>,
    /// The number that it is.
    pub(in crate::doctor) number: Option<Number>,
    /// The text itself, if it is short.
    pub(in crate::doctor) short: Option<String>,
}

/// A number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::doctor) struct Number {
    pub(in crate::doctor) value: f64,
    pub(in crate::doctor) is_whole: bool,
}

impl Number {
    pub(in crate::doctor) fn of(value: f64) -> Self {
        Self { value, is_whole: value.fract() == 0.0 && value.abs() < 9e15 }
    }
}
