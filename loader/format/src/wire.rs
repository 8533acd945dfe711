//! Protocol buffers: the fields of a message, without copies.

use std::ops::Range;

use forebay_core::error::{Error, Result};

/// Field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// Number of the field.
    pub(super) number: u64,
    pub(super) content: Content,
}

/// Content of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A whole number.
    Varint(u64),
    /// Range of a text, a message or packed numbers.
    Bytes(Range<usize>),
    /// Offset of four bytes.
    Word(Range<usize>),
    /// Eight bytes, or a group: no field that is read here has them.
    Other,
}

/// Most groups around a field.
const GROUPS_MAX: usize = 100;

/// Fields of the message in a range of `bytes`.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Fields<'a> {
    /// `range` is inside `bytes`.
    pub(super) fn new(bytes: &'a [u8], range: Range<usize>) -> Self {
        Self { bytes, at: range.start, end: range.end.min(bytes.len()) }
    }

    /// Returns the next field.
    pub(super) fn next(&mut self) -> Result<Option<Field>> {
        if self.at >= self.end {
            return Ok(None);
        }
        let tag = self.tag()?;
        let content = match tag & 7 {
            0 => Content::Varint(self.varint()?),
            1 => self.take(8).map(|_| Content::Other)?,
            2 => {
                let len = self.varint()?;
                Content::Bytes(self.take(usize::try_from(len).unwrap_or(usize::MAX))?)
            }
            3 => self.skip_group(tag >> 3).map(|()| Content::Other)?,
            5 => Content::Word(self.take(4)?),
            kind => return Err(damaged().with("wire_type", kind)),
        };
        Ok(Some(Field { number: tag >> 3, content }))
    }

    /// Reads the number of a field, which is not 0, and the type of its content.
    fn tag(&mut self) -> Result<u64> {
        let tag = self.varint()?;
        if tag >> 3 == 0 { Err(damaged()) } else { Ok(tag) }
    }

    /// Skips the fields of the group `number`, after its start was read, and its end: they are no fields of the
    /// message.
    fn skip_group(&mut self, number: u64) -> Result<()> {
        let mut open = vec![number];
        while let Some(last) = open.last() {
            let tag = self.tag()?;
            match tag & 7 {
                0 => {
                    self.varint()?;
                }
                1 => {
                    self.take(8)?;
                }
                2 => {
                    let len = self.varint()?;
                    self.take(usize::try_from(len).unwrap_or(usize::MAX))?;
                }
                3 if open.len() < GROUPS_MAX => open.push(tag >> 3),
                4 if tag >> 3 == *last => {
                    open.pop();
                }
                5 => {
                    self.take(4)?;
                }
                kind => return Err(damaged().with("wire_type", kind)),
            }
        }
        Ok(())
    }

    /// Reads a number of 7 bits per byte, the lowest first.
    pub(super) fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let range = self.take(1)?;
            let byte = self.bytes[range.start];
            // Of the tenth byte only the lowest bit is used, as in most parsers.
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(damaged())
    }

    fn take(&mut self, len: usize) -> Result<Range<usize>> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.end).ok_or_else(damaged)?;
        let range = self.at..end;
        self.at = end;
        Ok(range)
    }

    /// Range that has not been read.
    pub(super) fn rest(&self) -> Range<usize> {
        self.at..self.end
    }

    /// True at the end of the message.
    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.end
    }
}

fn damaged() -> Error {
    Error::format("the bytes are not a protocol buffer, or are damaged")
}
