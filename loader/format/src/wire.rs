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
    /// Range of four bytes.
    Word(Range<usize>),
    /// Eight bytes, or a group: no field that is read here has them.
    Other,
}

// Types of contents, as a field's tag has them.
const VARINT: u64 = 0;
const EIGHT_BYTES: u64 = 1;
const BYTES: u64 = 2;
const START_GROUP: u64 = 3;
const END_GROUP: u64 = 4;
const FOUR_BYTES: u64 = 5;

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
    /// Returns the fields of the message in `range` of `bytes`.
    pub(super) fn new(bytes: &'a [u8], range: Range<usize>) -> Self {
        Self { bytes, at: range.start, end: range.end.min(bytes.len()) }
    }

    /// Returns the next field.
    pub(super) fn next(&mut self) -> Result<Option<Field>> {
        if self.is_at_end() {
            return Ok(None);
        }
        let (number, wire_type) = self.tag()?;
        let content = match wire_type {
            START_GROUP => self.skip_group(number).map(|()| Content::Other)?,
            _ => self.content(wire_type)?,
        };
        Ok(Some(Field { number, content }))
    }

    /// Reads the number of a field, which is not 0, and the type of its content.
    fn tag(&mut self) -> Result<(u64, u64)> {
        let tag = self.varint()?;
        let (number, wire_type) = (tag >> 3, tag & 7);
        if number == 0 { Err(damaged()) } else { Ok((number, wire_type)) }
    }

    /// Reads the content of a field that is not a group.
    fn content(&mut self, wire_type: u64) -> Result<Content> {
        Ok(match wire_type {
            VARINT => Content::Varint(self.varint()?),
            EIGHT_BYTES => self.take(8).map(|_| Content::Other)?,
            BYTES => {
                let len = self.varint()?;
                Content::Bytes(self.take(usize::try_from(len).unwrap_or(usize::MAX))?)
            }
            FOUR_BYTES => Content::Word(self.take(4)?),
            _ => return Err(damaged().with("wire_type", wire_type)),
        })
    }

    /// Skips the rest of the group `number`, up to its end: a group's fields do not belong to the message.
    fn skip_group(&mut self, number: u64) -> Result<()> {
        let mut open = vec![number];
        while let Some(last) = open.last() {
            match self.tag()? {
                (number, START_GROUP) if open.len() < GROUPS_MAX => open.push(number),
                (number, END_GROUP) if number == *last => {
                    open.pop();
                }
                (_, wire_type) => {
                    self.content(wire_type)?;
                }
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
