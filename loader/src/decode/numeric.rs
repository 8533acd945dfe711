//! Checked conversion of stored numbers to the elements of a batch.
//!
//! Stored values are little-endian, elements have the machine's byte order. A value that the output type cannot hold is
//! an error, never a wrapped number: integers must fit, and a fraction does not become an integer. Narrower floats
//! round.

use half::{bf16, f16};
use std::num::IntErrorKind;

use crate::error::{Error, Result};
use crate::format::encoding::DType;

/// A number of any type, without loss.
#[derive(Clone, Copy)]
enum Wide {
    Signed(i64),
    Unsigned(u64),
    Float(f64),
}

/// Element type of this module's loops. Everything inlines, so a widening copy becomes a vector loop.
trait Element: Copy + Default {
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
    fn widen(self) -> Wide;
    fn narrow(wide: Wide) -> Option<Self>;
}

/// Implements [`Element`] for a type with the given conversions to and from [`Wide`].
macro_rules! element {
    ($t:ty, |$value:ident| $widen:expr, |$wide:ident| $narrow:expr) => {
        impl Element for $t {
            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("chunks have the element's size"))
            }
            #[inline(always)]
            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }
            #[inline(always)]
            fn widen(self) -> Wide {
                let $value = self;
                $widen
            }
            #[inline(always)]
            fn narrow($wide: Wide) -> Option<Self> {
                $narrow
            }
        }
    };
}

macro_rules! integer {
    ($($t:ty, $variant:ident, $wide:ty;)*) => {$(
        element!($t, |value| Wide::$variant(<$wide>::from(value)), |wide| match wide {
            Wide::Signed(v) => Self::try_from(v).ok(),
            Wide::Unsigned(v) => Self::try_from(v).ok(),
            // `as` saturates, so the conversion back differs for every value that does not fit or has a fraction.
            Wide::Float(v) => Some(v as Self).filter(|i| {
                *i as f64 == v && (*i != Self::MAX || v < Self::MAX as f64 + 1.0 && size_of::<Self>() < 8)
            }),
        });
    )*};
}

integer! {
    u8, Unsigned, u64; u16, Unsigned, u64; u32, Unsigned, u64; u64, Unsigned, u64;
    i8, Signed, i64; i16, Signed, i64; i32, Signed, i64; i64, Signed, i64;
}

macro_rules! float {
    ($($t:ty, $from:expr;)*) => {$(
        element!($t, |value| Wide::Float(f64::from(value)), |wide| {
            let value = match wide {
                Wide::Signed(v) => v as f64,
                Wide::Unsigned(v) => v as f64,
                Wide::Float(v) => v,
            };
            let narrowed: $t = ($from)(value);
            // A finite number that becomes infinite does not fit.
            (f64::from(narrowed).is_finite() || !value.is_finite()).then_some(narrowed)
        });
    )*};
}

float! { f16, f16::from_f64; bf16, bf16::from_f64; f32, |v| v as f32; f64, |v| v; }

/// Calls `$run` with the type of `$dtype` as its first generic argument.
macro_rules! with_type {
    ($dtype:expr, $run:ident $(, $t:ty)*; $($arg:expr),*) => {
        match $dtype {
            DType::UInt8 => $run::<u8 $(, $t)*>($($arg),*),
            DType::UInt16 => $run::<u16 $(, $t)*>($($arg),*),
            DType::UInt32 => $run::<u32 $(, $t)*>($($arg),*),
            DType::UInt64 => $run::<u64 $(, $t)*>($($arg),*),
            DType::Int8 => $run::<i8 $(, $t)*>($($arg),*),
            DType::Int16 => $run::<i16 $(, $t)*>($($arg),*),
            DType::Int32 => $run::<i32 $(, $t)*>($($arg),*),
            DType::Int64 => $run::<i64 $(, $t)*>($($arg),*),
            DType::Float16 => $run::<f16 $(, $t)*>($($arg),*),
            DType::BFloat16 => $run::<bf16 $(, $t)*>($($arg),*),
            DType::Float32 => $run::<f32 $(, $t)*>($($arg),*),
            DType::Float64 => $run::<f64 $(, $t)*>($($arg),*),
        }
    };
}

/// Converts stored elements of type `from` into elements of type `to`; the counts must agree.
///
/// # Errors
/// Counts that differ; a value that `to` cannot hold, with its index.
pub fn convert(stored: &[u8], from: DType, out: &mut [u8], to: DType) -> Result<()> {
    if !stored.len().is_multiple_of(from.size()) || stored.len() / from.size() * to.size() != out.len() {
        return Err(Error::decode("the number of stored elements of the sample differs from the expected one")
            .with("bytes", stored.len())
            .with("dtype", from)
            .with("expected", out.len() / to.size()));
    }
    if from == to && cfg!(target_endian = "little") {
        out.copy_from_slice(stored);
        return Ok(());
    }
    if with_type!(from, convert_from; stored, out, to) {
        return Ok(());
    }
    let index = (0..stored.len() / from.size()).find(|i| {
        let (f, t) = (from.size(), to.size());
        !with_type!(from, convert_from; &stored[i * f..][..f], &mut out[i * t..][..t], to)
    });
    Err(Error::decode("a number does not fit the requested type")
        .with("element", index.unwrap_or(0))
        .with("stored", from)
        .with("dtype", to))
}

fn convert_from<S: Element>(stored: &[u8], out: &mut [u8], to: DType) -> bool {
    with_type!(to, convert_loop, S; stored, out)
}

fn convert_loop<D: Element, S: Element>(stored: &[u8], out: &mut [u8]) -> bool {
    let mut fits = true;
    for (stored, out) in stored.chunks_exact(size_of::<S>()).zip(out.chunks_exact_mut(size_of::<D>())) {
        let value = D::narrow(S::read(stored).widen());
        fits &= value.is_some();
        value.unwrap_or_default().write(out);
    }
    fits
}

/// Converts token ids into elements of type `to`; the counts must agree.
///
/// # Errors
/// An id that `to` cannot hold, with its index.
pub fn convert_ids(ids: &[u32], out: &mut [u8], to: DType) -> Result<()> {
    if ids.len().checked_mul(to.size()) != Some(out.len()) {
        return Err(Error::internal("a row has room for a different number of ids"));
    }
    if with_type!(to, convert_ids_to; ids, out) {
        return Ok(());
    }
    let one = |id: &u32| with_type!(to, convert_ids_to; &[*id], &mut [0; 8][..to.size()]);
    let index = ids.iter().position(|id| !one(id)).unwrap_or(0);
    Err(Error::decode("a token id does not fit the requested type").with("token", index).with("dtype", to))
}

fn convert_ids_to<D: Element>(ids: &[u32], out: &mut [u8]) -> bool {
    let mut fits = true;
    for (id, out) in ids.iter().zip(out.chunks_exact_mut(size_of::<D>())) {
        let value = D::narrow(Wide::Unsigned(u64::from(*id)));
        fits &= value.is_some();
        value.unwrap_or_default().write(out);
    }
    fits
}

/// Fills `out` with `value`.
///
/// # Errors
/// A value that `to` cannot hold.
pub fn fill(value: i64, out: &mut [u8], to: DType) -> Result<()> {
    let mut one = [0; 8];
    convert(&value.to_le_bytes(), DType::Int64, &mut one[..to.size()], to)?;
    out.chunks_exact_mut(to.size()).for_each(|out| out.copy_from_slice(&one[..to.size()]));
    Ok(())
}

/// Parses a number in text, as in JSONL, CSV and the encodings `str_int` and `str_float`, as type `of` (int64 or
/// float64), and converts it to one element of `out`.
///
/// # Errors
/// Text that is not such a number; a value that `to` cannot hold.
pub fn parse(text: &[u8], of: DType, out: &mut [u8], to: DType) -> Result<()> {
    let bad_text = |message: &str| Error::decode(message).with("text", text[..text.len().min(40)].escape_ascii());
    let not_a_number = || bad_text("the text is not a number").with("expected", of);
    let trimmed = std::str::from_utf8(text).map_err(|_| not_a_number())?.trim();
    let stored = if of == DType::Int64 {
        let parsed = trimmed.parse::<i64>().map_err(|e| match e.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => bad_text(
                "the number does not fit an int64, the type of numbers in text: make the column a Text \
                 field",
            ),
            _ => not_a_number(),
        });
        parsed?.to_le_bytes()
    } else {
        trimmed.parse::<f64>().map_err(|_| not_a_number())?.to_le_bytes()
    };
    convert(&stored, of, out, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one<T: Element>(value: T, from: DType, to: DType) -> Result<Vec<u8>> {
        let mut stored = vec![0; size_of::<T>()];
        value.write(&mut stored);
        let mut out = vec![0; to.size()];
        convert(&stored, from, &mut out, to).map(|()| out)
    }

    #[test]
    fn tokens_are_widened() {
        let stored: Vec<u8> = (0..1000_u16).map(|i| i * 65).flat_map(u16::to_le_bytes).collect();
        let mut out = vec![0; 8000];
        convert(&stored, DType::UInt16, &mut out, DType::Int64).unwrap();
        let got: Vec<i64> = out.chunks_exact(8).map(|c| i64::from_ne_bytes(c.try_into().unwrap())).collect();
        assert_eq!(got, (0..1000).map(|i| i * 65).collect::<Vec<i64>>());
    }

    #[test]
    fn ids_are_elements_of_any_type_that_has_room_for_them() {
        for to in DType::ALL {
            let (mut out, mut expected) = (vec![0; to.size() * 3], vec![0; to.size() * 3]);
            convert_ids(&[0, 7, 126], &mut out, to).unwrap();
            convert(&[0, 7, 126], DType::UInt8, &mut expected, to).unwrap();
            assert_eq!(out, expected, "{to}");
        }
        let mut out = [0; 16];
        convert_ids(&[u32::MAX, 1], &mut out, DType::Int64).unwrap();
        assert_eq!(out[..8], i64::from(u32::MAX).to_ne_bytes());
        let e = convert_ids(&[1, u32::MAX], &mut out[..8], DType::Int32).unwrap_err().to_string();
        assert!(e.contains("token id") && e.contains("token 1"), "{e}");
        assert!(convert_ids(&[1], &mut out, DType::Int64).is_err());
    }

    #[test]
    fn every_pair_of_types_keeps_small_integers() {
        for from in DType::ALL {
            let mut stored = vec![0; from.size() * 3];
            for (i, chunk) in stored.chunks_exact_mut(from.size()).enumerate() {
                fill(i as i64 + 40, chunk, from).unwrap();
            }
            for to in DType::ALL {
                let mut out = vec![0; to.size() * 3];
                convert(&stored, from, &mut out, to).unwrap();
                let mut back = vec![0; 24];
                convert(&out, to, &mut back, DType::Int64).unwrap();
                assert_eq!(back, [40_i64, 41, 42].iter().flat_map(|i| i.to_ne_bytes()).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_number_that_does_not_fit_is_an_error() {
        use DType::*;
        assert!(one(-1_i64, Int64, UInt8).is_err());
        assert!(one(256_i64, Int64, UInt8).is_err());
        assert!(one(u64::MAX, UInt64, Int64).is_err());
        assert!(one(0.5_f64, Float64, Int64).is_err());
        assert!(one(f64::NAN, Float64, Int64).is_err());
        assert!(one(9.3e18_f64, Float64, Int64).is_err());
        assert!(one(9_223_372_036_854_775_808.0_f64, Float64, Int64).is_err());
        assert!(one(18_446_744_073_709_551_616.0_f64, Float64, UInt64).is_err());
        assert!(one(256.0_f64, Float64, UInt8).is_err());
        assert!(one(255.0_f64, Float64, UInt8).is_ok());
        assert!(one(2_147_483_647.0_f64, Float64, Int32).is_ok());
        assert!(one(1e300_f64, Float64, Float32).is_err());
        assert!(one(f64::INFINITY, Float64, Float32).is_ok());
        assert!(one(1e5_f32, Float32, Float16).is_err());
        let e = convert(&[1, 0, 0, 1], UInt16, &mut [0; 2], UInt8).unwrap_err();
        assert!(e.to_string().contains("element 1"), "{e}");
    }

    #[test]
    fn counts_must_agree() {
        assert!(convert(&[0; 7], DType::UInt16, &mut [0; 8], DType::UInt16).is_err());
        assert!(convert(&[0; 6], DType::UInt16, &mut [0; 8], DType::UInt16).is_err());
    }

    #[test]
    fn text_becomes_numbers() {
        let mut out = [0; 8];
        parse(b" 42\n", DType::Int64, &mut out, DType::Int64).unwrap();
        assert_eq!(i64::from_ne_bytes(out), 42);
        parse(b"-1.5e3", DType::Float64, &mut out, DType::Float64).unwrap();
        assert_eq!(f64::from_ne_bytes(out), -1500.0);
        for bad in [&b""[..], b"x", b"1.5", b"9223372036854775808", b"\xff"] {
            assert!(parse(bad, DType::Int64, &mut out, DType::Int64).is_err(), "{bad:?}");
        }
        for (bad, says) in [(&b"100000000000000000000"[..], "does not fit an int64"), (b"1e3", "is not a number")] {
            let e = parse(bad, DType::Int64, &mut out, DType::Int64).unwrap_err();
            assert!(e.to_string().contains(says), "{e}");
        }
    }
}
