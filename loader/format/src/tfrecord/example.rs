//! Features of a `tf.train.Example`.

use std::ops::Range;

use crate::wire::{Content, Field, Fields};
use forebay_core::error::{Error, ErrorKind, Result};

pub(super) fn damaged() -> Error {
    Error::format("the record is not a tf.train.Example")
}

/// Type of a feature's values, by the number of its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FeatureKind {
    Bytes,
    Float,
    Int64,
}

impl FeatureKind {
    fn of_list(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::Bytes),
            2 => Some(Self::Float),
            3 => Some(Self::Int64),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Float => "float",
            Self::Int64 => "int64",
        }
    }
}

/// Feature of an Example.
#[derive(Clone, Debug)]
pub(super) struct Feature<'a> {
    /// Bytes of the name.
    pub(super) name: &'a [u8],
    /// Type of the values; `None` without any.
    pub(super) kind: Option<FeatureKind>,
    /// The message with the list.
    pub(super) list: Range<usize>,
}

/// Calls `use_feature` for each feature of the Example in `data`, in their order. Of two with one name the last counts,
/// as in TensorFlow. Fields that no Example has are ignored, as by all readers of protocol buffers.
pub(super) fn features<'a>(
    bytes: &'a [u8],
    data: Range<usize>,
    mut use_feature: impl FnMut(Feature<'a>) -> Result<()>,
) -> Result<()> {
    let mut example = Fields::new(bytes, data);
    while let Some(Field { number, content }) = example.next()? {
        match (number, content) {
            (1, Content::Bytes(features)) => {
                let mut features = Fields::new(bytes, features);
                while let Some(entry) = features.next()? {
                    if let Field { number: 1, content: Content::Bytes(entry) } = entry {
                        use_feature(feature(bytes, entry)?)?;
                    }
                }
            }
            (2, Content::Bytes(_)) => {
                let message = "a record is a tf.train.SequenceExample, and most are Examples";
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Reads an entry of the map of features.
fn feature(bytes: &[u8], entry: Range<usize>) -> Result<Feature<'_>> {
    let (mut name, mut kind, mut list) = (&bytes[..0], None, 0..0);
    let mut entry = Fields::new(bytes, entry);
    while let Some(Field { number, content }) = entry.next()? {
        match (number, content) {
            (1, Content::Bytes(range)) => name = &bytes[range],
            (2, Content::Bytes(value)) => {
                let mut value = Fields::new(bytes, value);
                while let Some(Field { number, content }) = value.next()? {
                    if let (Some(found), Content::Bytes(range)) = (FeatureKind::of_list(number), content) {
                        (kind, list) = (Some(found), range);
                    }
                }
            }
            _ => {}
        }
    }
    Ok(Feature { name, kind, list })
}

/// Values of a list of bytes.
pub(super) fn texts<'a>(bytes: &'a [u8], list: Range<usize>) -> impl Iterator<Item = Result<Range<usize>>> + 'a {
    let mut fields = Fields::new(bytes, list);
    std::iter::from_fn(move || {
        loop {
            match fields.next() {
                Ok(Some(Field { number: 1, content: Content::Bytes(range) })) => return Some(Ok(range)),
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(e) => return Some(Err(e)),
            }
        }
    })
}

/// Part of a list of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    /// Numbers in sequence, as usual.
    Packed(Range<usize>),
    /// A single one.
    Int(u64),
    /// A single one of four bytes.
    Word(Range<usize>),
}

/// Parts of a list of numbers of type `kind`.
pub(super) fn numbers<'a>(
    bytes: &'a [u8],
    kind: FeatureKind,
    list: Range<usize>,
) -> impl Iterator<Item = Result<Numbers>> + 'a {
    let mut fields = Fields::new(bytes, list);
    std::iter::from_fn(move || {
        loop {
            return match fields.next() {
                Ok(Some(Field { number: 1, content })) => match (content, kind) {
                    (Content::Bytes(range), FeatureKind::Float) if range.len() % 4 != 0 => Some(Err(damaged())),
                    (Content::Bytes(range), _) => Some(Ok(Numbers::Packed(range))),
                    (Content::Varint(int), FeatureKind::Int64) => Some(Ok(Numbers::Int(int))),
                    (Content::Word(range), FeatureKind::Float) => Some(Ok(Numbers::Word(range))),
                    // A field of a different type is one that is not known.
                    _ => continue,
                },
                Ok(Some(_)) => continue,
                Ok(None) => None,
                Err(e) => Some(Err(e)),
            };
        }
    })
}
