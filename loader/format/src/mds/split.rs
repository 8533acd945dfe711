//! Bytes of a sample to its columns.

use crate::columns::{Column, FIELDS, OmittedColumn, Scratch, Span};
use crate::read_at::ReadAt;
use forebay_core::error::{Error, Result};
use std::ops::Range;

/// Bytes of a size at the front of a sample.
const SIZE_BYTES: usize = 4;

/// Bytes of the sizes at the front of every sample.
pub(super) fn head_bytes(columns: &[Column]) -> usize {
    SIZE_BYTES * columns.iter().filter(|column| column.size.is_none()).count()
}

/// Bytes of the columns in every sample; `None` unless they are fixed.
pub(super) fn fixed_bytes(columns: &[Column]) -> Option<usize> {
    columns.iter().map(|column| column.size.map(|size| size as usize)).sum()
}

/// Returns true if a sample may lack columns, so that all of its bytes are needed for one of them.
fn may_lack(columns: &[Column]) -> bool {
    columns.iter().any(|column| column.name == FIELDS)
}

pub(super) fn around(columns: &[Column], at: usize) -> Option<(usize, usize)> {
    if may_lack(columns) {
        return None;
    }
    let head = if columns[at].size.is_none() { SIZE_BYTES } else { 0 };
    Some((head + fixed_bytes(&columns[..at])?, fixed_bytes(&columns[at + 1..])?))
}

pub(super) fn fixed_range(columns: &[Column], at: usize, sample_bytes: usize) -> Option<Range<usize>> {
    if may_lack(columns) {
        return None;
    }
    let size = columns[at].size? as usize;
    let head = head_bytes(columns);
    let start = match fixed_bytes(&columns[..at]) {
        Some(before) => head + before,
        None => sample_bytes.checked_sub(fixed_bytes(&columns[at + 1..])? + size).filter(|start| *start >= head)?,
    };
    Some(start..start + size).filter(|range| range.end <= sample_bytes)
}

/// Returns the range of the value of column number `at` in `sample`, by the sizes at its front; `None` if it is not
/// within the sample.
pub(super) fn value_range(columns: &[Column], at: usize, sample: &dyn ReadAt) -> Result<Option<Range<u64>>> {
    let mut head = vec![0; head_bytes(columns)];
    if sample.bytes() < head.len() as u64 {
        return Ok(None);
    }
    sample.read_at(&mut head, 0)?;
    let mut sizes = head.as_chunks::<SIZE_BYTES>().0.iter().map(|word| u32::from_le_bytes(*word));
    let mut start = head.len() as u64;
    for column in &columns[..at] {
        start += u64::from(column.size.or_else(|| sizes.next()).unwrap_or(0));
    }
    let end = start + u64::from(columns[at].size.or_else(|| sizes.next()).unwrap_or(0));
    Ok((end <= sample.bytes()).then_some(start..end))
}

/// Splits `sample` into `columns`, which must cover it exactly. The columns `omitted` are not in `sample`, but their
/// sizes are; they become empty. Columns that the sample does not have are empty in it, or zeros of a fixed size.
pub(super) fn split(columns: &[Column], sample: &[u8], omitted: &[OmittedColumn], scratch: &mut Scratch) -> Result<()> {
    let head_bytes = head_bytes(columns);
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
        let size = match omitted.iter().find(|omitted| omitted.column == i) {
            Some(omitted) if omitted.bytes == size as usize => 0,
            Some(omitted) => {
                let message = format!("{size} bytes are declared and {} remain", omitted.bytes);
                return Err(Error::format(message).with("column", &column.name));
            }
            None => size,
        };
        let end = start.checked_add(size as usize).filter(|&end| end <= sample.len()).ok_or_else(|| {
            let rest = sample.len().saturating_sub(start);
            Error::format(format!("{size} bytes are declared and {rest} remain")).with("column", &column.name)
        })?;
        scratch.spans.push(Span::Sample(start..end));
        start = end;
    }
    if start != sample.len() {
        return Err(Error::format(format!("{} bytes follow the last column", sample.len() - start)));
    }
    scratch.mark_absent(columns, sample);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::columns::{Column, OmittedColumn, Scratch};
    use crate::encoding::Encoding;
    use crate::layout::Layout;
    use crate::mds::Mds;

    fn layout(columns: &[(&str, &str)]) -> Layout {
        let column = |&(name, encoding): &(&str, &str)| {
            let encoding = Encoding::parse(encoding).unwrap();
            Column { name: name.into(), size: encoding.fixed_size(), encoding }
        };
        Layout::new(Mds, columns.iter().map(column).collect())
    }

    #[test]
    fn a_sample_is_split_into_fixed_and_variable_columns() {
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
    fn a_sample_is_split_without_an_omitted_column() {
        let layout = layout(&[("a", "int"), ("b", "bytes"), ("c", "int8")]);
        let (before, after) = layout.around(1).unwrap();
        assert_eq!((before, after), (12, 1));
        let mut around = vec![3, 0, 0, 0];
        around.extend(b"12345678!");
        let mut scratch = Scratch::default();
        let columns = layout.split_around(&around, &[OmittedColumn { column: 1, bytes: 3 }], &mut scratch).unwrap();
        assert_eq!(columns.iter().collect::<Vec<_>>(), [&b"12345678"[..], b"", b"!"]);
        let e = layout.split_around(&around, &[OmittedColumn { column: 1, bytes: 4 }], &mut scratch).unwrap_err();
        assert_eq!(e.to_string(), "3 bytes are declared and 4 remain (column b)");
    }

    #[test]
    fn several_columns_may_be_omitted() {
        let layout = layout(&[("a", "int"), ("b", "bytes"), ("c", "int8")]);
        let omitted = [OmittedColumn { column: 0, bytes: 8 }, OmittedColumn { column: 2, bytes: 1 }];
        let mut scratch = Scratch::default();
        let columns = layout.split_around(b"\x03\0\0\0xyz", &omitted, &mut scratch).unwrap();
        assert_eq!(columns.iter().collect::<Vec<_>>(), [&b""[..], b"xyz", b""]);
    }

    #[test]
    fn a_column_of_fixed_size_is_found_from_either_end_of_its_sample() {
        let one = layout(&[("a", "int8"), ("b", "int"), ("c", "bytes"), ("d", "int"), ("e", "int8")]);
        let range = |column| one.fixed_range(column, 4 + 9 + 100 + 9);
        assert_eq!([0, 1, 2, 3, 4].map(range), [Some(4..5), Some(5..13), None, Some(113..121), Some(121..122)]);
        assert_eq!(one.fixed_range(3, 12), None, "its sizes alone leave no room");
        assert_eq!(one.fixed_range(1, 12), None, "it would end after the sample");
        let two = layout(&[("a", "bytes"), ("b", "int"), ("c", "bytes")]);
        assert_eq!(two.fixed_range(1, 100), None, "it is between two columns of variable size");
    }

    #[test]
    fn a_column_that_the_sample_does_not_name_among_its_fields_is_absent() {
        let layout = layout(&[("__fields__", "str"), ("a", "str"), ("ab", "int"), ("b", "bytes")]);
        let sample = |fields: &str, a: &[u8], b: &[u8]| {
            let sizes = [fields.len(), a.len(), b.len()].map(|bytes| u32::try_from(bytes).unwrap().to_le_bytes());
            [&sizes.concat(), fields.as_bytes(), a, b"12345678", b].concat()
        };
        let mut scratch = Scratch::default();
        for (fields, present) in [("a\nab\nb", [1, 1, 1]), ("ab", [0, 1, 0]), ("b\na", [1, 0, 1]), ("", [0, 0, 0])] {
            let sample = sample(fields, b"", b"x");
            let columns = layout.split(&sample, &mut scratch).unwrap();
            assert_eq!(columns.get(0), fields.as_bytes());
            assert_eq!([1, 2, 3].map(|i| usize::from(columns.find(i).is_some())), present, "{fields}");
        }
        assert_eq!((layout.fixed_range(2, 100), layout.sample_bytes()), (None, None));
        assert_eq!([0, 1, 2, 3].map(|column| layout.around(column)), [None; 4]);
    }

    #[test]
    fn the_place_of_a_value_is_known_by_the_sizes_of_its_sample() {
        let layout = layout(&[("a", "str"), ("b", "int"), ("c", "bytes")]);
        let mut sample = vec![2, 0, 0, 0, 3, 0, 0, 0];
        sample.extend(b"ab12345678xyz");
        let range = |column, sample: &[u8]| layout.value_range(column, &sample).unwrap();
        assert_eq!([0, 1, 2].map(|column| range(column, &sample)), [Some(8..10), Some(10..18), Some(18..21)]);
        for cut in [1, 20] {
            assert_eq!(range(2, &sample[..sample.len() - cut]), None, "{cut}");
        }
    }

    #[test]
    fn the_bytes_around_a_column_are_known_only_next_to_columns_of_fixed_size() {
        let fixed = layout(&[("a", "int"), ("b", "int8")]);
        assert_eq!((fixed.around(0), fixed.around(1)), (Some((0, 1)), Some((8, 0))));
        let two = layout(&[("a", "str"), ("b", "bytes")]);
        assert_eq!((two.around(0), two.around(1)), (None, None));
    }

    #[test]
    fn a_wrong_size_names_the_column() {
        let layout = layout(&[("a", "str"), ("b", "bytes")]);
        let mut sample = vec![1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
        sample.extend(b"xy");
        let e = layout.split(&sample, &mut Scratch::default()).unwrap_err();
        assert_eq!(e.to_string(), "4294967295 bytes are declared and 1 remain (column b)");
    }
}
