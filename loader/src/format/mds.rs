//! MDS samples: a `u32` size for each column of variable size, then all columns' bytes, both in column order.

use super::columns::{Column, Scratch, Span};
use crate::error::{Error, Result};

/// Divides `sample` into `columns`; it must be used up exactly.
pub(super) fn split(columns: &[Column], sample: &[u8], scratch: &mut Scratch) -> Result<()> {
    let head_bytes = 4 * columns.iter().filter(|column| column.size.is_none()).count();
    let mut sizes = sample.get(..head_bytes).unwrap_or_default().chunks_exact(4);
    let mut start = head_bytes;
    for column in columns {
        let size = match column.size {
            Some(size) => size,
            None => match sizes.next() {
                Some(word) => u32::from_le_bytes([word[0], word[1], word[2], word[3]]),
                None => return Err(Error::format("the sample ends before its sizes").with("column", &column.name)),
            },
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
    fn sizes_that_lie_name_the_column() {
        let layout = layout(&[("a", "str"), ("b", "bytes")]);
        let mut sample = vec![1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
        sample.extend(b"xy");
        let e = layout.split(&sample, &mut Scratch::default()).unwrap_err();
        assert_eq!(e.to_string(), "4294967295 bytes are declared and 1 are left (column b)");
    }
}
