//! Arrays as numpy's `save` writes them.
//!
//! ```text
//! 0x93 "NUMPY" | u8 major | u8 minor | u16, from version 2 u32: length | header, a dict of Python | values
//! ```

use super::dtype::{DType, values_bytes};
use super::scalar::Scalar;
use forebay_core::error::{Error, ErrorKind, Result};

const MAGIC: &[u8] = b"\x93NUMPY";

/// Most bytes of a header, all of them numbers and three names.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// Most dimensions, as in numpy.
const AXES_MAX: usize = 64;

/// Array of a file. Its values may have a different order than the values of a batch.
#[derive(Debug, PartialEq, Eq)]
pub struct NpyArray<'a> {
    /// Type of the elements; `uint8` for booleans.
    pub dtype: DType,
    /// Elements as they are stored.
    pub data: &'a [u8],
    /// The elements are booleans.
    pub are_bools: bool,
    /// The first dimension changes fastest.
    is_fortran: bool,
    is_big_endian: bool,
}

impl<'a> NpyArray<'a> {
    /// Returns true if `bytes` begin like such a file.
    pub fn is_start(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    /// Reads the file `bytes`, and replaces `shape` with its shape.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for bytes that are no such file; [`ErrorKind::Unsupported`] for values that are not
    /// numbers.
    pub fn read(bytes: &'a [u8], shape: &mut Vec<usize>) -> Result<Self> {
        let broken = || Error::format("the file is cut off, or is not an array written by numpy.save");
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(broken)?;
        let (&[major, _], rest) = rest.split_first_chunk::<2>().ok_or_else(broken)?;
        let (length, rest) = match major {
            1 => rest.split_first_chunk().map(|(length, rest)| (u32::from(u16::from_le_bytes(*length)), rest)),
            2 | 3 => rest.split_first_chunk().map(|(length, rest)| (u32::from_le_bytes(*length), rest)),
            _ => return Err(Error::format("the version of the array's file is not known").with("version", major)),
        }
        .ok_or_else(broken)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > HEADER_BYTES_MAX {
            return Err(Error::format("the header of an array is too long").with("bytes", length));
        }
        let (header, data) = rest.split_at_checked(length).ok_or_else(broken)?;
        let header = Header::parse(std::str::from_utf8(header).map_err(|_| broken())?.trim(), shape)?;
        let (dtype, is_big_endian) = element_type(header.descr)?;
        let are_bools = header.descr.ends_with("b1");
        if values_bytes(dtype, shape) != Some(data.len()) {
            return Err(Error::format("the array's shape and bytes do not fit")
                .with("shape", format!("{shape:?}"))
                .with("dtype", dtype)
                .with("bytes", data.len()));
        }
        Ok(Self { dtype, data, are_bools, is_fortran: header.is_fortran, is_big_endian })
    }

    /// Returns the elements in their stored order; `None` for fractions.
    pub fn whole_numbers(self) -> Option<impl Iterator<Item = i128> + 'a> {
        use DType::{Int8, Int16, Int32, Int64};
        let is_signed = matches!(self.dtype, Int8 | Int16 | Int32 | Int64);
        let (size, is_big_endian) = (self.dtype.size(), self.is_big_endian);
        let number = move |bytes: &[u8]| {
            let mut little = [0_u8; 16];
            little[..size].copy_from_slice(bytes);
            if is_big_endian {
                little[..size].reverse();
            }
            let (value, unused) = (i128::from_le_bytes(little), 128 - 8 * size as u32);
            if is_signed { value << unused >> unused } else { value }
        };
        (!self.dtype.is_float()).then(|| self.data.chunks_exact(size).map(number))
    }

    /// Returns the elements in their stored order, as doubles.
    pub fn floats(self) -> impl Iterator<Item = f64> + 'a {
        let (size, dtype, is_big_endian) = (self.dtype.size(), self.dtype, self.is_big_endian);
        self.data.chunks_exact(size).map(move |bytes| {
            let mut little = [0_u8; 8];
            little[..size].copy_from_slice(bytes);
            if is_big_endian {
                little[..size].reverse();
            }
            Scalar::read(dtype, &little[..size]).map_or(f64::NAN, Scalar::as_f64)
        })
    }

    /// Returns the elements of an array of this `shape` in C order, little-endian. `side` is used where they are stored
    /// in a different order.
    pub fn into_values(self, shape: &[usize], side: &'a mut Vec<u8>) -> &'a [u8] {
        let is_one_column = shape.iter().filter(|d| **d != 1).count() <= 1;
        let (is_turned, is_swapped) = (self.is_fortran && !is_one_column, self.is_big_endian && self.dtype.size() > 1);
        if self.data.is_empty() || !is_turned && !is_swapped {
            return self.data;
        }
        let size = self.dtype.size();
        side.clear();
        if is_turned {
            turn(self.data, size, shape, side);
        } else {
            side.extend_from_slice(self.data);
        }
        if is_swapped {
            side.chunks_exact_mut(size).for_each(<[u8]>::reverse);
        }
        side
    }
}

/// Appends the elements of `data`, with the first dimension changing fastest, to `out` in C order.
fn turn(data: &[u8], size: usize, shape: &[usize], out: &mut Vec<u8>) {
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = size;
    for length in shape {
        strides.push(stride);
        stride *= length;
    }
    let mut place = vec![0; shape.len()];
    let mut at = 0;
    out.reserve(data.len());
    while out.len() < data.len() {
        out.extend_from_slice(&data[at..][..size]);
        for axis in (0..shape.len()).rev() {
            place[axis] += 1;
            at += strides[axis];
            if place[axis] < shape[axis] {
                break;
            }
            at -= strides[axis] * shape[axis];
            place[axis] = 0;
        }
    }
}

/// Type of an array's elements by its name in a header, such as `<f4`; true if they are big-endian.
fn element_type(descr: &str) -> Result<(DType, bool)> {
    let unsupported = || {
        let message = "the values of the array are not numbers that a batch can have: save them as numbers, or take \
                       the file as a Bytes field";
        Error::new(ErrorKind::Unsupported, message).with("type", descr.chars().take(40).collect::<String>())
    };
    let order = descr.chars().next().filter(char::is_ascii).ok_or_else(unsupported)?;
    let dtype = match &descr[1..] {
        "b1" | "u1" => DType::UInt8,
        "u2" => DType::UInt16,
        "u4" => DType::UInt32,
        "u8" => DType::UInt64,
        "i1" => DType::Int8,
        "i2" => DType::Int16,
        "i4" => DType::Int32,
        "i8" => DType::Int64,
        "f2" => DType::Float16,
        "f4" => DType::Float32,
        "f8" => DType::Float64,
        _ => return Err(unsupported()),
    };
    match order {
        '<' | '|' | '=' => Ok((dtype, false)),
        '>' => Ok((dtype, true)),
        _ => Err(unsupported()),
    }
}

/// Values of the dict `{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }`, but for the shape.
struct Header<'a> {
    descr: &'a str,
    is_fortran: bool,
}

impl<'a> Header<'a> {
    fn parse(text: &'a str, shape: &mut Vec<usize>) -> Result<Self> {
        let broken = || Error::format("the header of an array was not written by numpy.save");
        let mut rest = text.strip_prefix('{').ok_or_else(broken)?.trim_start();
        let (mut descr, mut is_fortran, mut has_shape) = (None, None, false);
        while rest != "}" {
            let (key, after) = quoted(rest).ok_or_else(broken)?;
            let value = after.trim_start().strip_prefix(':').ok_or_else(broken)?.trim_start();
            rest = match key {
                "descr" => match quoted(value) {
                    Some((text, after)) => {
                        descr = Some(text);
                        after
                    }
                    // A list of fields.
                    None => return element_type(value).and(Err(broken())),
                },
                "fortran_order" => {
                    let (flag, after) = ["True", "False"]
                        .into_iter()
                        .find_map(|word| Some((word, value.strip_prefix(word)?)))
                        .ok_or_else(broken)?;
                    is_fortran = Some(flag == "True");
                    after
                }
                "shape" => {
                    let (inside, after) =
                        value.strip_prefix('(').and_then(|value| value.split_once(')')).ok_or_else(broken)?;
                    shape.clear();
                    let lengths = inside.split(',').map(str::trim).filter(|length| !length.is_empty());
                    for length in lengths.take(AXES_MAX + 1) {
                        // Python 2 wrote long integers.
                        let length = length.strip_suffix('L').unwrap_or(length);
                        shape.push(length.parse().map_err(|_| broken())?);
                    }
                    has_shape = shape.len() <= AXES_MAX;
                    after
                }
                _ => return Err(broken()),
            };
            rest = rest.trim_start();
            rest = match rest.strip_prefix(',') {
                Some(after) => after.trim_start(),
                None if rest == "}" => rest,
                None => return Err(broken()),
            };
        }
        match (descr, is_fortran, has_shape) {
            (Some(descr), Some(is_fortran), true) => Ok(Self { descr, is_fortran }),
            _ => Err(broken()),
        }
    }
}

/// Text of the literal that `text` begins with, and the rest.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    text[1..].split_once(quote)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, values: &[u8]) -> Vec<u8> {
        let length = (header.len() as u16).to_le_bytes();
        [MAGIC, &[1, 0], &length, header.as_bytes(), values].concat()
    }

    #[test]
    fn values_are_returned_in_c_order_and_little_endian() {
        let mut shape = Vec::new();
        for (header, stored, expected) in [
            (
                "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }   \n",
                [1, 2, 3, 4, 5, 6],
                [1, 2, 3, 4, 5, 6],
            ),
            ("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", [1, 2, 3, 4, 5, 6], [1, 3, 5, 2, 4, 6]),
            ("{\"shape\":(3L,),\"fortran_order\":False,\"descr\":\">i2\"}", [1, 2, 3, 4, 5, 6], [2, 1, 4, 3, 6, 5]),
            ("{'descr': '>u2', 'fortran_order': True, 'shape': (1, 3), }", [1, 2, 3, 4, 5, 6], [2, 1, 4, 3, 6, 5]),
        ] {
            let (file, mut side) = (file(header, &stored), Vec::new());
            let array = NpyArray::read(&file, &mut shape).unwrap();
            assert_eq!(array.into_values(&shape, &mut side), expected, "{header}");
        }
    }

    #[test]
    fn every_cut_and_every_wrong_header_is_an_error() {
        let good = "{'descr': '<f8', 'fortran_order': False, 'shape': (), }";
        let whole = file(good, &[0; 8]);
        let mut shape = Vec::new();
        assert!(NpyArray::read(&whole, &mut shape).is_ok() && shape.is_empty());
        for len in 0..whole.len() {
            assert_eq!(NpyArray::read(&whole[..len], &mut shape).unwrap_err().kind(), ErrorKind::Format, "{len}");
        }
        for (header, kind) in [
            ("", ErrorKind::Format),
            ("{}", ErrorKind::Format),
            ("{'descr': '<f8', 'fortran_order': False}", ErrorKind::Format),
            ("{'descr': '<f8', 'fortran_order': 0, 'shape': ()}", ErrorKind::Format),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}", ErrorKind::Format),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (9223372036854775807, 4)}", ErrorKind::Format),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': () 'a': 1}", ErrorKind::Format),
            ("{'descr': '|O', 'fortran_order': False, 'shape': ()}", ErrorKind::Unsupported),
            ("{'descr': 'é8', 'fortran_order': False, 'shape': ()}", ErrorKind::Unsupported),
            ("{'descr': '', 'fortran_order': False, 'shape': ()}", ErrorKind::Unsupported),
            ("{'descr': '<c16', 'fortran_order': False, 'shape': ()}", ErrorKind::Unsupported),
            ("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': ()}", ErrorKind::Unsupported),
        ] {
            let e = NpyArray::read(&file(header, &[0; 8]), &mut shape).unwrap_err();
            assert_eq!(e.kind(), kind, "{header}: {e}");
        }
        let long =
            file(&format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({})}}", "1,".repeat(65)), &[0; 8]);
        assert!(NpyArray::read(&long, &mut shape).is_err());
    }
}
