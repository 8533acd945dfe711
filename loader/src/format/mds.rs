//! MDS samples: a `u32` size for each column of variable size, then all columns' bytes, both in column order.

use super::columns::{Column, Scratch, Span};
use crate::error::{Error, Result};

/// Bytes of a size at the front of a sample.
const SIZE_BYTES: usize = 4;

/// A column that lies elsewhere: its place among the columns, and how many bytes it is taken to have.
pub(super) struct Apart {
    pub(super) column: usize,
    pub(super) bytes: usize,
}

/// What stands before and behind column `at` in every sample: `None` when that depends on the sample.
pub(super) fn around(columns: &[Column], at: usize) -> Option<(usize, usize)> {
    let fixed = |columns: &[Column]| columns.iter().map(|c| c.size.map(|size| size as usize)).sum::<Option<usize>>();
    let head = if columns[at].size.is_none() { SIZE_BYTES } else { 0 };
    Some((head + fixed(&columns[..at])?, fixed(&columns[at + 1..])?))
}

/// Divides `sample` into `columns`; it must be used up exactly. The column `apart` is left out of `sample`, its size is
/// not, and comes out empty.
pub(super) fn split(columns: &[Column], sample: &[u8], apart: Option<Apart>, scratch: &mut Scratch) -> Result<()> {
    let head_bytes = SIZE_BYTES * columns.iter().filter(|column| column.size.is_none()).count();
    let mut sizes = sample.get(..head_bytes).unwrap_or_default().chunks_exact(SIZE_BYTES);
    let mut start = head_bytes;
    for (i, column) in columns.iter().enumerate() {
        let size = match column.size {
            Some(size) => size,
            None => match sizes.next() {
                Some(word) => u32::from_le_bytes([word[0], word[1], word[2], word[3]]),
                None => return Err(Error::format("the sample ends before its sizes").with("column", &column.name)),
            },
        };
        let size = match &apart {
            Some(apart) if apart.column == i && apart.bytes == size as usize => 0,
            Some(apart) if apart.column == i => {
                let message = format!("{size} bytes are declared and {} are left", apart.bytes);
                return Err(Error::format(message).with("column", &column.name));
            }
            _ => size,
        };
        let end = start.checked_add(size as usize).filter(|&end| end <= sample.len()).ok_or_else(|| {
            let rest = sample.len().saturating_sub(start);
            Error::format(format!("{size} bytes are declared and {rest} are left")).with("column", &column.name)
        })?;
        scratch.spans.push(Span::Sample(start..end));
        start = end;
    }
    if start != sample.len() {
        return Err(Error::format(format!("{} bytes follow the last column", sample.len() - start)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::format::columns::{Column, Scratch};
    use crate::format::encoding::Encoding;
    use crate::format::layout::{Layout, ShardFormat};

    fn layout(columns: &[(&str, &str)]) -> Layout {
        let column = |&(name, encoding): &(&str, &str)| {
            let encoding = Encoding::parse(encoding).unwrap();
            Column { name: name.into(), size: encoding.fixed_size(), encoding }
        };
        Layout { format: ShardFormat::Mds, columns: columns.iter().map(column).collect() }
    }

    #[test]
    fn a_sample_divides_into_fixed_and_variable_columns() {
        let layout = layout(&[("a", "str"), ("b", "int"), ("c", "bytes")]);
        let mut sample = vec![2, 0, 0, 0, 3, 0, 0, 0];
        sample.extend(b"hi12345678xyz");
        let mut scratch = Scratch::default();
        let columns = layout.split(&sample, &mut scratch).unwrap();
        assert_eq!(columns.iter().collect::<Vec<_>>(), [&b"hi"[..], b"12345678", b"xyz"]);
        for len in 0..sample.len() {
            assert!(layout.split(&sample[..len], &mut scratch).is_err(), "{len}");
        }
        sample.push(0);
        assert!(layout.split(&sample, &mut scratch).unwrap_err().message().contains("1 bytes follow"));
    }

    #[test]
    fn a_sample_divides_without_the_column_that_lies_elsewhere() {
        let layout = layout(&[("a", "int"), ("b", "bytes"), ("c", "int8")]);
        let (before, after) = layout.around(1).unwrap();
        assert_eq!((before, after), (12, 1));
        let mut around = vec![3, 0, 0, 0];
        around.extend(b"12345678!");
        let mut scratch = Scratch::default();
        let columns = layout.split_around(&around, 1, 3, &mut scratch).unwrap();
        assert_eq!(columns.iter().collect::<Vec<_>>(), [&b"12345678"[..], b"", b"!"]);
        let e = layout.split_around(&around, 1, 4, &mut scratch).unwrap_err();
        assert_eq!(e.to_string(), "3 bytes are declared and 4 are left (column b)");
    }

    #[test]
    fn what_surrounds_a_column_is_known_only_beside_columns_of_fixed_size() {
        let fixed = layout(&[("a", "int"), ("b", "int8")]);
        assert_eq!((fixed.around(0), fixed.around(1)), (Some((0, 1)), Some((8, 0))));
        let two = layout(&[("a", "str"), ("b", "bytes")]);
        assert_eq!((two.around(0), two.around(1)), (None, None));
    }

    #[test]
    fn sizes_that_lie_name_the_column() {
        let layout = layout(&[("a", "str"), ("b", "bytes")]);
        let mut sample = vec![1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
        sample.extend(b"xy");
        let e = layout.split(&sample, &mut Scratch::default()).unwrap_err();
        assert_eq!(e.to_string(), "4294967295 bytes are declared and 1 are left (column b)");
    }
}
