//! Rows of arrays with a shape that differs from sample to sample: a header with type and shape, then the elements.

use crate::error::{Error, Result};
use crate::format::encoding::DType;

/// Product of `shape`; `None` if it overflows.
pub fn elements(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1_usize, |n, d| n.checked_mul(*d))
}

/// Offset of the elements in a ragged row of `dimensions` dimensions; a multiple of 8.
const fn header_bytes(dimensions: usize) -> usize {
    8 + 8 * dimensions
}

/// Most bytes of a header, for the 255 dimensions that it can have.
pub(crate) const HEADER_BYTES_MAX: usize = header_bytes(255);

/// Returns the header: one byte for the position of the type in [`DType::ALL`], one for the number of dimensions, six
/// zeros, and every length as u64 in the machine's byte order.
fn header(dtype: DType, shape: &[usize]) -> Vec<u8> {
    let code = DType::ALL.iter().position(|d| *d == dtype).expect("every type is in the list");
    let mut header = Vec::with_capacity(header_bytes(shape.len()));
    header.extend_from_slice(&[code as u8, shape.len() as u8, 0, 0, 0, 0, 0, 0]);
    shape.iter().for_each(|d| header.extend_from_slice(&(*d as u64).to_ne_bytes()));
    header
}

/// Makes a ragged row of an array in `row`, with its elements from byte `start` to the end.
pub(super) fn move_ragged(row: &mut Vec<u8>, start: usize, dtype: DType, shape: &[usize]) -> Result<()> {
    let header = header(dtype, shape);
    let bytes = row.len() - start;
    if elements(shape).and_then(|n| n.checked_mul(dtype.size())) != Some(bytes) {
        return Err(Error::internal("an array does not have the elements of its shape"));
    }
    row.resize(row.len().max(header.len() + bytes), 0);
    row.copy_within(start..start + bytes, header.len());
    row.truncate(header.len() + bytes);
    row[..header.len()].copy_from_slice(&header);
    Ok(())
}

/// Starts a ragged row, and returns its room for the elements.
pub(super) fn start_ragged<'a>(row: &'a mut Vec<u8>, dtype: DType, shape: &[usize]) -> Result<&'a mut [u8]> {
    let start = header_bytes(shape.len());
    let bytes = elements(shape).and_then(|n| n.checked_mul(dtype.size())).and_then(|n| n.checked_add(start));
    let bytes = bytes.ok_or_else(|| Error::decode("the array is too large").with("shape", format!("{shape:?}")))?;
    row.clear();
    row.reserve(bytes);
    row.extend_from_slice(&header(dtype, shape));
    row.resize(bytes, 0);
    Ok(&mut row[start..])
}

/// Reads a ragged row: type, shape, and elements in the machine's byte order.
///
/// # Errors
/// [`crate::ErrorKind::Internal`] for bytes that are not a ragged row.
pub fn read_ragged(row: &[u8]) -> Result<(DType, Vec<usize>, &[u8])> {
    let bad = || Error::internal("a ragged row has a broken header");
    let (Some(code), Some(dimensions)) = (row.first(), row.get(1)) else { return Err(bad()) };
    let dtype = *DType::ALL.get(usize::from(*code)).ok_or_else(bad)?;
    let start = header_bytes(usize::from(*dimensions));
    let lengths = row.get(8..start).ok_or_else(bad)?;
    let shape: Vec<usize> = lengths.as_chunks().0.iter().map(|b| u64::from_ne_bytes(*b) as usize).collect();
    let expected = elements(&shape).and_then(|n| n.checked_mul(dtype.size()));
    if expected != Some(row.len() - start) {
        return Err(bad());
    }
    Ok((dtype, shape, &row[start..]))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A ragged row of one dimension, of 64-bit numbers.
    pub(crate) fn ragged_of(dtype: DType, values: &[i64]) -> Vec<u8> {
        let mut row = Vec::new();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        start_ragged(&mut row, dtype, &[values.len()]).unwrap().copy_from_slice(&bytes);
        row
    }

    #[test]
    fn an_array_becomes_a_row_in_its_own_memory() {
        let elements: Vec<u8> = (0..12).collect();
        for start in [0, 3, 24, 128] {
            let mut row = [vec![9; start], elements.clone()].concat();
            move_ragged(&mut row, start, DType::Int16, &[2, 3]).unwrap();
            assert_eq!(read_ragged(&row).unwrap(), (DType::Int16, vec![2, 3], &elements[..]), "{start}");
        }
        assert!(move_ragged(&mut vec![0; 5], 0, DType::Int16, &[2]).is_err());
    }

    #[test]
    fn a_ragged_row_reads_back() {
        let mut row = vec![1; 100];
        start_ragged(&mut row, DType::BFloat16, &[2, 1]).unwrap().copy_from_slice(&[1, 2, 3, 4]);
        assert_eq!(read_ragged(&row).unwrap(), (DType::BFloat16, vec![2, 1], &[1, 2, 3, 4][..]));
        assert!(read_ragged(&row[..row.len() - 1]).is_err());
        assert!(read_ragged(&[]).is_err());
    }
}
