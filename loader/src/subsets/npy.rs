//! Arrays of numpy with one dimension, of whole numbers or bools.

use crate::error::{Error, ErrorKind, Result};
use crate::format::encoding::NpyArray;

/// Contents of an array.
pub(super) enum Numbers<'a> {
    /// A byte for each bool.
    Mask(&'a [u8]),
    /// Whole numbers.
    Whole(Box<dyn Iterator<Item = i128> + 'a>),
}

/// Reads an array; `None` if `bytes` are not one of numpy.
///
/// # Errors
///
/// `Format` for an array of a wrong type, with more dimensions, or that is cut.
pub(super) fn read(bytes: &[u8]) -> Result<Option<Numbers<'_>>> {
    if !NpyArray::is_start(bytes) {
        return Ok(None);
    }
    let unfit = |problem: &str| Error::format(format!("an index file of numpy {problem}"));
    let wrong_type = || unfit("has whole numbers or bools, and this array has a different type");
    let mut shape = Vec::new();
    let array = NpyArray::read(bytes, &mut shape).map_err(|e| match e.kind() {
        // Its own message is about fields.
        ErrorKind::Unsupported => wrong_type(),
        _ => e,
    })?;
    if shape.len() != 1 {
        return Err(
            unfit("has one dimension, and this array has a different shape").with("shape", format!("{shape:?}"))
        );
    }
    if array.are_bools {
        return Ok(Some(Numbers::Mask(array.data)));
    }
    let dtype = array.dtype;
    let numbers = array.whole_numbers().ok_or_else(|| wrong_type().with("type", dtype))?;
    Ok(Some(Numbers::Whole(Box::new(numbers))))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::numbers::of_file;

    const MAGIC: &[u8] = b"\x93NUMPY";

    /// Array as `numpy.save` writes it.
    pub(in crate::subsets) fn array(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
        while (10 + header.len() + 1) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let length = (header.len() as u16).to_le_bytes();
        [MAGIC, &[1, 0], &length, header.as_bytes(), data].concat()
    }

    #[test]
    fn arrays_of_any_whole_type_list_numbers() {
        let of = |descr: &str, data: &[u8], count: usize| of_file(&array(descr, &format!("({count},)"), data), 300);
        assert_eq!(of("|u1", &[5, 6, 2], 3).expect("u1"), [2..3, 5..7]);
        assert_eq!(of("<i2", &[1, 1, 3, 0], 2).expect("i2"), [3..4, 257..258]);
        assert_eq!(of(">i4", &[0, 0, 1, 2, 0, 0, 0, 3], 2).expect("i4"), [3..4, 258..259]);
        assert_eq!(of("<u8", &[7_u64, 9].map(u64::to_le_bytes).concat(), 2).expect("u8"), [7..8, 9..10]);
        let mask: Vec<u8> = (0..300).map(|n| u8::from(n == 4 || n == 299)).collect();
        assert_eq!(of("|b1", &mask, 300).expect("mask"), [4..5, 299..300]);
    }

    #[test]
    fn arrays_that_are_no_list_of_samples_are_rejected() {
        for (bytes, message) in [
            (array("<i8", "(1,)", &(-1_i64).to_le_bytes()), "outside of the stream"),
            (array("<i8", "(1,)", &300_i64.to_le_bytes()), "(number 300)"),
            (array("<u8", "(1,)", &u64::MAX.to_le_bytes()), "(number 18446744073709551615)"),
            (array("<f8", "(1,)", &[0; 8]), "whole numbers or bools"),
            (array("<i8", "(1, 1)", &[0; 8]), "one dimension"),
            (array("<i8", "()", &[0; 8]), "one dimension"),
            (array("<i8", "(2,)", &[0; 8]), "shape and bytes do not fit"),
            (array("<i8", "(18446744073709551615,)", &[0; 8]), "shape and bytes do not fit"),
            (array("|b1", "(8,)", &[0; 8]), "(bools 8, samples 300)"),
            (array("|O", "(1,)", &[0; 8]), "a different type"),
            (MAGIC.to_vec(), "cut off"),
            ([MAGIC, &[1, 0, 255, 255]].concat(), "cut off"),
            ([MAGIC, &[3, 0, 255, 255, 255, 255]].concat(), "header of an array is too long"),
            (array("", "", &[]), "header of an array was not written by"),
        ] {
            let error = of_file(&bytes, 300).expect_err(message).to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
