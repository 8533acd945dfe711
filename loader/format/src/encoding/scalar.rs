//! Single numbers with a type.

use half::f16;

use super::dtype::DType;

/// Declares [`Scalar`]: each variant with its type's name in [`DType`] and the Rust type that holds it.
macro_rules! scalars {
    (
        integers { $($int:ident, $int_dtype:ident, $int_type:ty;)* }
        floats { $($float:ident, $float_dtype:ident, $float_type:ty;)* }
    ) => {
        /// A number with a type that data sets can store: little-endian, without padding.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[allow(missing_docs, reason = "the variants are the types")]
        pub enum Scalar {
            $($int($int_type),)*
            $($float($float_type),)*
        }

        impl Scalar {
            /// Reads a number of type `dtype`; returns `None` unless `bytes` has exactly the type's size.
            #[inline]
            pub fn read(dtype: DType, bytes: &[u8]) -> Option<Self> {
                match dtype {
                    $(DType::$int_dtype => Some(Self::$int(<$int_type>::from_le_bytes(bytes.try_into().ok()?))),)*
                    $(DType::$float_dtype => Some(Self::$float(<$float_type>::from_le_bytes(bytes.try_into().ok()?))),)*
                    DType::BFloat16 => None,
                }
            }

            /// Returns the type of the number.
            #[inline]
            pub fn dtype(self) -> DType {
                match self {
                    $(Self::$int(_) => DType::$int_dtype,)*
                    $(Self::$float(_) => DType::$float_dtype,)*
                }
            }

            /// Appends the number's bytes to `out`.
            pub fn write(self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$int(number) => out.extend(number.to_le_bytes()),)*
                    $(Self::$float(number) => out.extend(number.to_le_bytes()),)*
                }
            }

            /// Returns `int` as `dtype`, or `None` if it is out of range, as in numpy 2. Floats may round it.
            #[inline]
            pub fn of_int(dtype: DType, int: i64) -> Option<Self> {
                match dtype {
                    $(DType::$int_dtype => int.try_into().ok().map(Self::$int),)*
                    // Through a 64-bit float it would be rounded twice.
                    DType::Float32 => Some(Self::F32(int as f32)),
                    _ => Self::of_float(dtype, int as f64),
                }
            }

            /// Range of `dtype`, as the end of a sentence.
            pub(super) fn range(dtype: DType) -> String {
                match dtype {
                    $(DType::$int_dtype => format!("whole numbers from {} to {}", <$int_type>::MIN, <$int_type>::MAX),)*
                    $(DType::$float_dtype => {
                        format!("numbers from {:e} to {:e}", <$float_type>::MIN, <$float_type>::MAX)
                    })*
                    DType::BFloat16 => "no numbers".into(),
                }
            }

            /// The number as a float, rounded if necessary.
            #[inline]
            pub fn as_f64(self) -> f64 {
                match self {
                    $(Self::$int(number) => number as f64,)*
                    $(Self::$float(number) => number.into(),)*
                }
            }

            /// The number as a 64-bit integer; `None` for fractions and for numbers out of range.
            #[inline]
            pub fn as_i64(self) -> Option<i64> {
                let float = match self {
                    $(Self::$int(number) => return number.try_into().ok(),)*
                    $(Self::$float(number) => f64::from(number),)*
                };
                if float.fract() == 0.0 { Self::of_float(DType::Int64, float).and_then(Self::as_i64) } else { None }
            }
        }
    };
}

scalars! {
    integers {
        U8, UInt8, u8; I8, Int8, i8; U16, UInt16, u16; I16, Int16, i16;
        U32, UInt32, u32; I32, Int32, i32; U64, UInt64, u64; I64, Int64, i64;
    }
    floats { F16, Float16, f16; F32, Float32, f32; F64, Float64, f64; }
}

impl Scalar {
    /// Returns `float` as `dtype`, rounded if that is a float; `None` for a fraction in an integer type, and for a
    /// number out of range.
    #[inline]
    pub fn of_float(dtype: DType, float: f64) -> Option<Self> {
        let in_range = |rounded: f64| rounded.is_finite() || !float.is_finite();
        match dtype {
            DType::BFloat16 => None,
            DType::Float16 => Some(f16::from_f64(float)).filter(|half| in_range(half.to_f64())).map(Self::F16),
            DType::Float32 => Some(float as f32).filter(|single| in_range(f64::from(*single))).map(Self::F32),
            DType::Float64 => Some(Self::F64(float)),
            // NaN, which differs too, for infinity and NaN.
            _ if float.fract() != 0.0 => None,
            DType::UInt64 => {
                // 2^64 is exact as a float; its predecessor is the largest that fits.
                (0.0..18_446_744_073_709_551_616.0).contains(&float).then_some(Self::U64(float as u64))
            }
            _ => {
                let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float);
                if fits { Self::of_int(dtype, float as i64) } else { None }
            }
        }
    }

    /// Returns the whole number with these decimal digits, and a sign before them, as `dtype`; `None` if it is out of
    /// range.
    pub(super) fn of_digits(dtype: DType, digits: &str) -> Option<Self> {
        match dtype {
            DType::UInt64 => digits.parse().ok().map(Self::U64),
            _ if dtype.is_float() => digits
                .parse()
                .ok()
                .filter(|float: &f64| float.is_finite())
                .and_then(|float| Self::of_float(dtype, float)),
            _ => digits.parse().ok().and_then(|int| Self::of_int(dtype, int)),
        }
    }

    /// Converts the number to a different type by the rules of [`of_int`](Self::of_int) and
    /// [`of_float`](Self::of_float).
    #[inline]
    pub fn cast(self, dtype: DType) -> Option<Self> {
        match self {
            _ if self.dtype() == dtype => Some(self),
            Self::U64(x) if dtype == DType::Float32 => Some(Self::F32(x as f32)),
            Self::U64(x) if i64::try_from(x).is_err() => Self::of_float(dtype, x as f64),
            Self::F16(_) | Self::F32(_) | Self::F64(_) => Self::of_float(dtype, self.as_f64()),
            _ => Self::of_int(dtype, self.as_i64()?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_reads_back_its_own_values() {
        for dtype in DType::stored() {
            let mut bytes = Vec::new();
            Scalar::of_int(dtype, 100).unwrap().write(&mut bytes);
            assert_eq!(bytes.len(), dtype.size());
            assert_eq!(Scalar::read(dtype, &bytes).unwrap().as_i64(), Some(100));
            assert_eq!(Scalar::read(dtype, &bytes[1..]), None);
        }
    }

    #[test]
    fn numbers_that_a_type_cannot_hold_are_rejected() {
        assert_eq!(Scalar::of_int(DType::UInt8, 256), None);
        assert_eq!(Scalar::of_int(DType::UInt8, -1), None);
        for dtype in DType::stored().filter(|dtype| !dtype.is_float()) {
            assert_eq!(Scalar::of_float(dtype, 3.7), None, "{dtype}");
            assert_eq!(Scalar::F32(0.5).cast(dtype), None, "{dtype}");
            assert_eq!(Scalar::of_float(dtype, f64::INFINITY), None, "{dtype}");
        }
        assert_eq!(Scalar::of_float(DType::UInt8, 3.0), Some(Scalar::U8(3)));
        assert_eq!(Scalar::of_float(DType::Int8, -0.0), Some(Scalar::I8(0)));
        assert_eq!(Scalar::of_float(DType::Int64, 1e300), None);
        assert_eq!(Scalar::of_float(DType::Int64, f64::NAN), None);
        assert_eq!(Scalar::of_float(DType::UInt64, 18_446_744_073_709_551_616.0), None);
        assert_eq!(Scalar::U64(u64::MAX).cast(DType::Int64), None);
        assert_eq!(Scalar::F32(2.5).cast(DType::Float64), Some(Scalar::F64(2.5)));
    }

    #[test]
    fn a_float_rounds_but_never_becomes_infinite() {
        let half = |number: f32| Some(Scalar::F16(f16::from_f32(number)));
        assert_eq!(Scalar::of_float(DType::Float16, 65_519.0), half(65_504.0));
        assert_eq!(Scalar::of_float(DType::Float16, 65_520.0), None);
        assert_eq!(Scalar::of_float(DType::Float16, f64::NEG_INFINITY), half(f32::NEG_INFINITY));
        assert_eq!(Scalar::of_int(DType::Float16, 100_000), None);
        assert_eq!(Scalar::F64(1e300).cast(DType::Float32), None);
        assert_eq!(Scalar::of_float(DType::Float32, 0.1), Some(Scalar::F32(0.1)));
        assert!(matches!(Scalar::of_float(DType::Float16, f64::NAN), Some(Scalar::F16(nan)) if nan.is_nan()));
    }

    #[test]
    fn digits_beyond_an_int64_are_a_number_of_the_types_that_hold_it() {
        let digits = "18446744073709551615";
        assert_eq!(Scalar::of_digits(DType::UInt64, digits), Some(Scalar::U64(u64::MAX)));
        assert_eq!(Scalar::of_digits(DType::UInt64, "18446744073709551616"), None);
        assert_eq!(Scalar::of_digits(DType::Int64, digits), None);
        assert_eq!(Scalar::of_digits(DType::Float64, digits), Some(Scalar::F64(18_446_744_073_709_551_616.0)));
        assert_eq!(Scalar::of_digits(DType::Float16, digits), None);
        assert_eq!(Scalar::of_digits(DType::Float64, &"9".repeat(400)), None);
    }
}
