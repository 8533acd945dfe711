//! Bounds of a footer: the library reads its Thrift document by recursion and without a limit on its depth.

use forebay_core::error::{Error, Result};

/// Deepest nesting of columns.
const DEPTH_MAX: usize = 64;
/// Deepest nesting of the document's structs, which no footer needs.
const STRUCTS_MAX: usize = 16;

/// Offset of the schema in a footer, and of the number of children in one of its elements.
const SCHEMA: i64 = 2;
const CHILDREN: i64 = 5;

/// Checks that the tree of columns in `footer` has bounded depth, and no more nodes than the list of them.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] for a different document.
pub(super) fn check_schema(footer: &[u8]) -> Result<()> {
    let mut document = Document { rest: footer };
    let mut id = 0;
    while let Some(kind) = document.field(&mut id)? {
        if id == SCHEMA && kind == ThriftKind::List {
            return check_tree(&mut document);
        }
        document.skip(kind, STRUCTS_MAX)?;
    }
    Err(Error::format("the footer has no schema"))
}

fn check_tree(document: &mut Document<'_>) -> Result<()> {
    let (kind, len) = document.list()?;
    if kind != ThriftKind::Struct {
        return Err(damaged());
    }
    // Children that each open group still has.
    let mut open: Vec<u64> = Vec::new();
    for number in 0..len {
        let children = children(document)?;
        match open.last_mut() {
            Some(last) => *last -= 1,
            None if number == 0 => {}
            None => return Err(damaged()),
        }
        if children > len - number {
            return Err(Error::format("a group of columns has more columns than the footer"));
        }
        if children > 0 {
            open.push(children);
        }
        if open.len() > DEPTH_MAX {
            return Err(Error::format(format!("the columns are nested more than {DEPTH_MAX} levels deep")));
        }
        while open.last() == Some(&0) {
            open.pop();
        }
    }
    if open.is_empty() { Ok(()) } else { Err(damaged()) }
}

/// Reads an element of the schema: returns the number of its children.
fn children(document: &mut Document<'_>) -> Result<u64> {
    let (mut id, mut children) = (0, 0);
    while let Some(kind) = document.field(&mut id)? {
        if id == CHILDREN && kind == ThriftKind::Int {
            children = u64::try_from(document.signed()?).map_err(|_| damaged())?;
        } else {
            document.skip(kind, STRUCTS_MAX)?;
        }
    }
    Ok(children)
}

/// Kind of a value in the compact protocol, as far as its length needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThriftKind {
    Truth,
    Byte,
    Int,
    Double,
    Bytes,
    List,
    Map,
    Struct,
    Uuid,
}

impl ThriftKind {
    fn of(code: u8) -> Result<Self> {
        Ok(match code {
            1 | 2 => Self::Truth,
            3 => Self::Byte,
            4..=6 => Self::Int,
            7 => Self::Double,
            8 => Self::Bytes,
            9 | 10 => Self::List,
            11 => Self::Map,
            12 => Self::Struct,
            13 => Self::Uuid,
            _ => return Err(damaged()),
        })
    }
}

/// Document in the compact protocol.
struct Document<'a> {
    rest: &'a [u8],
}

impl Document<'_> {
    fn byte(&mut self) -> Result<u8> {
        let (byte, rest) = self.rest.split_first().ok_or_else(damaged)?;
        self.rest = rest;
        Ok(*byte)
    }

    fn unsigned(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(damaged())
    }

    fn signed(&mut self) -> Result<i64> {
        let value = self.unsigned()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// Returns the kind of the next field of a struct and sets `id` to its number; `None` at the end.
    fn field(&mut self, id: &mut i64) -> Result<Option<ThriftKind>> {
        let head = self.byte()?;
        if head == 0 {
            return Ok(None);
        }
        *id = match head >> 4 {
            0 => self.signed()?,
            delta => id.saturating_add(delta.into()),
        };
        ThriftKind::of(head & 0x0f).map(Some)
    }

    /// Reads the start of a list: the kind of its elements, and their number.
    fn list(&mut self) -> Result<(ThriftKind, u64)> {
        let head = self.byte()?;
        let len = match head >> 4 {
            15 => self.unsigned()?,
            len => len.into(),
        };
        // Every element has a byte at least.
        if len > self.rest.len() as u64 {
            return Err(damaged());
        }
        Ok((ThriftKind::of(head & 0x0f)?, len))
    }

    fn skip_bytes(&mut self, len: u64) -> Result<()> {
        let len = usize::try_from(len).map_err(|_| damaged())?;
        self.rest = self.rest.get(len..).ok_or_else(damaged)?;
        Ok(())
    }

    fn skip(&mut self, kind: ThriftKind, depth: usize) -> Result<()> {
        let depth = depth.checked_sub(1).ok_or_else(damaged)?;
        match kind {
            // The value is in the field's head.
            ThriftKind::Truth => Ok(()),
            ThriftKind::Byte => self.skip_bytes(1),
            ThriftKind::Int => self.unsigned().map(drop),
            ThriftKind::Double => self.skip_bytes(8),
            ThriftKind::Uuid => self.skip_bytes(16),
            ThriftKind::Bytes => {
                let len = self.unsigned()?;
                self.skip_bytes(len)
            }
            ThriftKind::List => {
                let (kind, len) = self.list()?;
                (0..len).try_for_each(|_| self.skip_element(kind, depth))
            }
            ThriftKind::Map => {
                let len = self.unsigned()?;
                if len == 0 {
                    return Ok(());
                }
                let kinds = self.byte()?;
                let (key, value) = (ThriftKind::of(kinds >> 4)?, ThriftKind::of(kinds & 0x0f)?);
                if len > self.rest.len() as u64 {
                    return Err(damaged());
                }
                (0..len).try_for_each(|_| {
                    self.skip_element(key, depth)?;
                    self.skip_element(value, depth)
                })
            }
            ThriftKind::Struct => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, depth)?;
                }
                Ok(())
            }
        }
    }

    /// Skips an element of a list or map, where a truth value has a byte.
    fn skip_element(&mut self, kind: ThriftKind, depth: usize) -> Result<()> {
        if kind == ThriftKind::Truth { self.skip_bytes(1) } else { self.skip(kind, depth) }
    }
}

fn damaged() -> Error {
    Error::format("the footer is damaged")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Footer with a schema of elements with these numbers of children.
    fn footer(children: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x15, 2, 0x19, 0xfc, children.len() as u8];
        for children in children {
            bytes.extend([0x48, 1, b'x', 0x15, children << 1, 0]);
        }
        bytes.push(0);
        bytes
    }

    #[test]
    fn a_tree_of_columns_is_accepted() {
        for children in [&[0][..], &[1, 0], &[2, 1, 0, 0], &[3, 0, 2, 0, 1, 0, 0]] {
            check_schema(&footer(children)).unwrap();
        }
    }

    #[test]
    fn a_tree_that_is_too_deep_or_has_a_wrong_number_of_nodes_is_rejected() {
        let deep = [&[1; 65][..], &[0]].concat();
        for children in [&deep[..], &[2, 0], &[63, 0], &[1, 0, 0], &[0, 0]] {
            check_schema(&footer(children)).unwrap_err();
        }
        assert!(check_schema(&footer(&[&[1; 64][..], &[0]].concat())).is_ok());
    }

    #[test]
    fn a_footer_cut_anywhere_is_an_error() {
        let whole = footer(&[2, 0, 0]);
        for len in 0..whole.len() - 1 {
            check_schema(&whole[..len]).unwrap_err();
        }
    }
}
