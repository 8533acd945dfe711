//! Arrays of numpy with one dimension, of whole numbers or bools.

use crate::error::{Error, Result};

const MAGIC: &[u8] = b"\x93NUMPY";

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
/// `Format` for an array of another type, with more dimensions, or that is cut.
pub(super) fn read(bytes: &[u8]) -> Result<Option<Numbers<'_>>> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else { return Ok(None) };
    let cut = || Error::format("the array of numpy ends within its header");
    // The length of the header has 2 bytes in version 1, and 4 in later ones.
    let length_bytes = if *rest.first().ok_or_else(cut)? == 1 { 2 } else { 4 };
    let length = rest.get(2..2 + length_bytes).ok_or_else(cut)?;
    let length = length.iter().rev().fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
    let rest = &rest[2 + length_bytes..];
    let header = rest.get(..length).ok_or_else(cut)?;
    let header = String::from_utf8_lossy(header);
    let data = &rest[length..];
    let descr = value_of(&header, "descr").map(|value| value.trim_matches(['\'', '"', ' ']).to_owned());
    let descr = descr.unwrap_or_default();
    let count = value_of(&header, "shape").and_then(|shape| {
        let inner = shape.strip_prefix('(')?;
        inner.trim_end().trim_end_matches(',').trim().parse::<u64>().ok()
    });
    let unfit = |problem: &str| Error::format(format!("an index file of numpy {problem}")).with("type", &descr);
    let count = count.ok_or_else(|| unfit("has one dimension, and this array has another shape"))?;
    let is_big = descr.starts_with('>');
    let (is_signed, width) = match descr.trim_start_matches(['<', '>', '|', '=']) {
        "b1" => (false, 1),
        "i1" => (true, 1),
        "i2" => (true, 2),
        "i4" => (true, 4),
        "i8" => (true, 8),
        "u1" => (false, 1),
        "u2" => (false, 2),
        "u4" => (false, 4),
        "u8" => (false, 8),
        _ => return Err(unfit("has whole numbers or bools, and this array has another type")),
    };
    if count.checked_mul(width) != Some(data.len() as u64) {
        return Err(unfit("has another length than its header"));
    }
    if descr.ends_with("b1") {
        return Ok(Some(Numbers::Mask(data)));
    }
    let number = move |bytes: &[u8]| {
        let mut little = [0_u8; 16];
        little[..bytes.len()].copy_from_slice(bytes);
        if is_big {
            little[..bytes.len()].reverse();
        }
        let value = i128::from_le_bytes(little);
        let bits = 8 * bytes.len() as u32;
        if is_signed { value << (128 - bits) >> (128 - bits) } else { value }
    };
    Ok(Some(Numbers::Whole(Box::new(data.chunks_exact(width as usize).map(number)))))
}

/// Text of the value of `key` in a dict of Python, up to the next comma outside of brackets.
fn value_of<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = header.split_once(&format!("'{key}':"))?;
    let rest = rest.trim_start();
    let end = if rest.starts_with('(') { rest.find(')') } else { rest.find([',', '}']) };
    Some(&rest[..end?])
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::numbers::of_file;
    use super::*;

    /// Array as `numpy.save` writes it.
    fn array(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
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
            (array("<i8", "(2,)", &[0; 8]), "another length"),
            (array("<i8", "(18446744073709551615,)", &[0; 8]), "another length"),
            (array("|b1", "(8,)", &[0; 8]), "(bools 8, samples 300)"),
            (array("|O", "(1,)", &[0; 8]), "another type"),
            (MAGIC.to_vec(), "ends within its header"),
            ([MAGIC, &[1, 0, 255, 255]].concat(), "ends within its header"),
            ([MAGIC, &[3, 0, 255, 255, 255, 255]].concat(), "ends within its header"),
            (array("", "", &[]), "one dimension"),
        ] {
            let error = of_file(&bytes, 300).expect_err(message).to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
