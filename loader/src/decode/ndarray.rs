//! The MDS encoding `ndarray[:dtype[:shape]]`, and the form in which arrays of varying shape are handed out.

use super::dtype::DType;
use crate::error::{Error, Result};

/// What the encoding's name fixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayEncoding {
    /// The element type; without it every array carries a code.
    pub dtype: Option<DType>,
    /// The shape; without it every array carries its own.
    pub shape: Option<Vec<usize>>,
}

/// The product of `shape`, if it fits.
pub fn elements(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1_usize, |n, d| n.checked_mul(*d))
}

impl ArrayEncoding {
    /// Parses the encoding's name; `None` if it is not an `ndarray`.
    ///
    /// # Errors
    /// An unknown type, a dimension that is not a number above 0.
    pub fn parse(encoding: &str) -> Result<Option<Self>> {
        let Some(rest) = encoding.strip_prefix("ndarray") else { return Ok(None) };
        let bad = || Error::format("the ndarray encoding cannot be read").with("encoding", encoding);
        if rest.is_empty() {
            return Ok(Some(Self { dtype: None, shape: None }));
        }
        let mut parts = rest.strip_prefix(':').ok_or_else(bad)?.split(':');
        let dtype = parts.next().and_then(DType::from_name).filter(|d| d.code().is_some()).ok_or_else(bad)?;
        let shape = match parts.next() {
            None => None,
            Some(shape) => {
                let shape = shape.split(',').map(|d| d.parse().ok().filter(|d| *d > 0)).collect::<Option<Vec<usize>>>();
                let shape = shape.filter(|s| s.len() < 64);
                let bytes = shape.as_deref().and_then(elements).and_then(|n| n.checked_mul(dtype.size()));
                bytes.ok_or_else(bad)?;
                shape
            }
        };
        if parts.next().is_some() {
            return Err(bad());
        }
        Ok(Some(Self { dtype: Some(dtype), shape }))
    }

    /// Reads a stored array: its type, and its elements in C order, little-endian. The lengths of its dimensions, 1 to
    /// 63 of them and all above 0, replace what is in `shape`, which is kept from array to array.
    ///
    /// # Errors
    /// Bytes that end early or do not fit the shape.
    pub fn read<'a>(&self, bytes: &'a [u8], shape: &mut Vec<usize>) -> Result<(DType, &'a [u8])> {
        let short = || Error::decode("the array ends within its header").with("bytes", bytes.len());
        let mut rest = bytes;
        let mut take = |n: usize| {
            let (head, tail) = rest.split_at_checked(n).ok_or_else(short)?;
            rest = tail;
            Ok::<&[u8], Error>(head)
        };
        let dtype = match self.dtype {
            Some(dtype) => dtype,
            None => {
                let code = take(1)?[0];
                DType::from_code(code)
                    .ok_or_else(|| Error::decode("the array has an unknown type code").with("code", code))?
            }
        };
        shape.clear();
        match &self.shape {
            Some(fixed) => shape.extend(fixed),
            None => {
                let head = take(1)?[0];
                let (dimensions, width) = (usize::from(head >> 2), 1 << (head & 3));
                let stored = take(dimensions * width)?;
                let length = |b: &[u8]| b.iter().rev().fold(0_u64, |n, b| n << 8 | u64::from(*b)) as usize;
                shape.extend(stored.chunks_exact(width).map(length));
            }
        }
        let values = rest;
        let expected = elements(shape).and_then(|n| n.checked_mul(dtype.size()));
        if shape.is_empty() || expected != Some(values.len()) || values.is_empty() {
            return Err(Error::decode("the array's shape and bytes do not fit")
                .with("shape", format!("{shape:?}"))
                .with("dtype", dtype)
                .with("bytes", values.len()));
        }
        Ok((dtype, values))
    }
}

/// Where the elements start in a ragged row of `dimensions` dimensions; a multiple of 8.
pub fn ragged_header_bytes(dimensions: usize) -> usize {
    8 + 8 * dimensions
}

/// Starts a ragged row: one byte [`DType`] as its place in [`DType::ALL`], one byte for the number of dimensions, six
/// zeros, every length as u64, then room for the elements, all in the machine's byte order. Gives out that room.
///
/// # Errors
/// More elements than memory can hold.
pub fn start_ragged<'a>(row: &'a mut Vec<u8>, dtype: DType, shape: &[usize]) -> Result<&'a mut [u8]> {
    let start = ragged_header_bytes(shape.len());
    let bytes = elements(shape).and_then(|n| n.checked_mul(dtype.size())).and_then(|n| n.checked_add(start));
    let bytes = bytes.ok_or_else(|| Error::decode("the array is too large").with("shape", format!("{shape:?}")))?;
    row.clear();
    row.reserve(bytes);
    let code = DType::ALL.iter().position(|d| *d == dtype).expect("every type is in the list");
    row.extend_from_slice(&[code as u8, shape.len() as u8, 0, 0, 0, 0, 0, 0]);
    shape.iter().for_each(|d| row.extend_from_slice(&(*d as u64).to_ne_bytes()));
    row.resize(bytes, 0);
    Ok(&mut row[start..])
}

/// Reads a ragged row back: type, shape, elements in the machine's byte order.
///
/// # Errors
/// Bytes that [`start_ragged`] did not make.
pub fn read_ragged(row: &[u8]) -> Result<(DType, Vec<usize>, &[u8])> {
    let bad = || Error::internal("a ragged row has a broken header");
    let (Some(code), Some(dimensions)) = (row.first(), row.get(1)) else { return Err(bad()) };
    let dtype = *DType::ALL.get(usize::from(*code)).ok_or_else(bad)?;
    let start = ragged_header_bytes(usize::from(*dimensions));
    let lengths = row.get(8..start).ok_or_else(bad)?;
    let shape: Vec<usize> = lengths.as_chunks().0.iter().map(|b| u64::from_ne_bytes(*b) as usize).collect();
    let expected = elements(&shape).and_then(|n| n.checked_mul(dtype.size()));
    if expected != Some(row.len() - start) {
        return Err(bad());
    }
    Ok((dtype, shape, &row[start..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoding(name: &str) -> ArrayEncoding {
        ArrayEncoding::parse(name).unwrap().unwrap()
    }

    #[test]
    fn the_three_forms_are_read() {
        let bytes = [0x11, 8, 2, 3, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0];
        for (name, skipped) in [("ndarray", 0), ("ndarray:int16", 1), ("ndarray:int16:2,3", 4)] {
            let mut shape = vec![9; 9];
            let read = encoding(name).read(&bytes[skipped..], &mut shape).unwrap();
            assert_eq!((read, &shape[..]), ((DType::Int16, &bytes[4..]), &[2, 3][..]), "{name}");
        }
    }

    #[test]
    fn names_that_mean_nothing_are_errors() {
        assert_eq!(ArrayEncoding::parse("int").unwrap(), None);
        for bad in [
            "ndarrays",
            "ndarray:",
            "ndarray:bool",
            "ndarray:bfloat16",
            "ndarray:int8:",
            "ndarray:int8:0",
            "ndarray:int8:1:2",
            "ndarray:int64:4294967296,4294967296",
        ] {
            assert!(ArrayEncoding::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn hostile_headers_are_errors() {
        for bytes in
            [&[][..], &[1], &[8], &[8, 0], &[8, 0, 1], &[8, 255], &[8, 7, 255, 255, 255, 255, 255, 255, 255, 255]]
        {
            assert!(encoding("ndarray").read(bytes, &mut Vec::new()).is_err(), "{bytes:?}");
        }
        let wrapping: Vec<u8> = [8, 2 << 2 | 3].into_iter().chain([0, 0, 0, 0, 1, 0, 0, 0].repeat(2)).collect();
        assert!(encoding("ndarray").read(&wrapping, &mut Vec::new()).is_err());
        assert!(encoding("ndarray:int8:4").read(&[1, 2, 3], &mut Vec::new()).is_err());
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
