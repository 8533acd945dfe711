//! Element types of scalars and arrays, under numpy's names.

use half::f16;

/// A number type as it stands in a file: little-endian, without padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the variants are numpy's names")]
pub enum Dtype {
    U8,
    I8,
    U16,
    I16,
    F16,
    U32,
    I32,
    F32,
    U64,
    I64,
    F64,
}

impl Dtype {
    /// All of them, by their codes.
    pub const ALL: [Self; 11] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::F16,
        Self::U32,
        Self::I32,
        Self::F32,
        Self::U64,
        Self::I64,
        Self::F64,
    ];

    /// The type that numpy calls `name`.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// numpy's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "uint8",
            Self::I8 => "int8",
            Self::U16 => "uint16",
            Self::I16 => "int16",
            Self::F16 => "float16",
            Self::U32 => "uint32",
            Self::I32 => "int32",
            Self::F32 => "float32",
            Self::U64 => "uint64",
            Self::I64 => "int64",
            Self::F64 => "float64",
        }
    }

    /// The byte that stands for it in an array whose type the column does not fix.
    pub fn code(self) -> u8 {
        match self {
            Self::U8 => 8,
            Self::I8 => 9,
            Self::U16 => 16,
            Self::I16 => 17,
            Self::F16 => 18,
            Self::U32 => 32,
            Self::I32 => 33,
            Self::F32 => 34,
            Self::U64 => 64,
            Self::I64 => 65,
            Self::F64 => 66,
        }
    }

    /// The type with this [`code`](Self::code).
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.code() == code)
    }

    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        usize::from(self.code() / 8)
    }

    /// The value that `bytes` hold, if they are exactly one element.
    pub fn read(self, bytes: &[u8]) -> Option<Scalar> {
        Some(match self {
            Self::U8 => Scalar::U8(u8::from_le_bytes(bytes.try_into().ok()?)),
            Self::I8 => Scalar::I8(i8::from_le_bytes(bytes.try_into().ok()?)),
            Self::U16 => Scalar::U16(u16::from_le_bytes(bytes.try_into().ok()?)),
            Self::I16 => Scalar::I16(i16::from_le_bytes(bytes.try_into().ok()?)),
            Self::F16 => Scalar::F16(f16::from_le_bytes(bytes.try_into().ok()?)),
            Self::U32 => Scalar::U32(u32::from_le_bytes(bytes.try_into().ok()?)),
            Self::I32 => Scalar::I32(i32::from_le_bytes(bytes.try_into().ok()?)),
            Self::F32 => Scalar::F32(f32::from_le_bytes(bytes.try_into().ok()?)),
            Self::U64 => Scalar::U64(u64::from_le_bytes(bytes.try_into().ok()?)),
            Self::I64 => Scalar::I64(i64::from_le_bytes(bytes.try_into().ok()?)),
            Self::F64 => Scalar::F64(f64::from_le_bytes(bytes.try_into().ok()?)),
        })
    }

    /// `int` as this type; none when it is out of range, as numpy 2 has it.
    pub fn of_int(self, int: i64) -> Option<Scalar> {
        Some(match self {
            Self::U8 => Scalar::U8(int.try_into().ok()?),
            Self::I8 => Scalar::I8(int.try_into().ok()?),
            Self::U16 => Scalar::U16(int.try_into().ok()?),
            Self::I16 => Scalar::I16(int.try_into().ok()?),
            Self::U32 => Scalar::U32(int.try_into().ok()?),
            Self::I32 => Scalar::I32(int.try_into().ok()?),
            Self::U64 => Scalar::U64(int.try_into().ok()?),
            Self::I64 => Scalar::I64(int),
            Self::F16 => Scalar::F16(f16::from_f64(int as f64)),
            Self::F32 => Scalar::F32(int as f32),
            Self::F64 => Scalar::F64(int as f64),
        })
    }

    /// `float` as this type: integers drop the fraction; none when it is out of their range.
    pub fn of_float(self, float: f64) -> Option<Scalar> {
        match self {
            Self::F16 => Some(Scalar::F16(f16::from_f64(float))),
            Self::F32 => Some(Scalar::F32(float as f32)),
            Self::F64 => Some(Scalar::F64(float)),
            Self::U64 => {
                let whole = float.trunc();
                // 2^64 is exact as a float; its predecessor is the largest that fits.
                (0.0..18_446_744_073_709_551_616.0).contains(&whole).then_some(Scalar::U64(whole as u64))
            }
            _ => {
                let whole = float.trunc();
                let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&whole);
                if fits { self.of_int(whole as i64) } else { None }
            }
        }
    }
}

/// One number with its type.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants are the types")]
pub enum Scalar {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    F16(f16),
    U32(u32),
    I32(i32),
    F32(f32),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl Scalar {
    /// Its type.
    pub fn dtype(self) -> Dtype {
        match self {
            Self::U8(_) => Dtype::U8,
            Self::I8(_) => Dtype::I8,
            Self::U16(_) => Dtype::U16,
            Self::I16(_) => Dtype::I16,
            Self::F16(_) => Dtype::F16,
            Self::U32(_) => Dtype::U32,
            Self::I32(_) => Dtype::I32,
            Self::F32(_) => Dtype::F32,
            Self::U64(_) => Dtype::U64,
            Self::I64(_) => Dtype::I64,
            Self::F64(_) => Dtype::F64,
        }
    }

    /// The number as a float, rounded where it must be.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::U8(x) => x.into(),
            Self::I8(x) => x.into(),
            Self::U16(x) => x.into(),
            Self::I16(x) => x.into(),
            Self::F16(x) => x.to_f64(),
            Self::U32(x) => x.into(),
            Self::I32(x) => x.into(),
            Self::F32(x) => x.into(),
            Self::U64(x) => x as f64,
            Self::I64(x) => x as f64,
            Self::F64(x) => x,
        }
    }

    /// The number as a 64-bit integer; none for fractions and for what does not fit.
    pub fn as_i64(self) -> Option<i64> {
        match self {
            Self::U8(x) => Some(x.into()),
            Self::I8(x) => Some(x.into()),
            Self::U16(x) => Some(x.into()),
            Self::I16(x) => Some(x.into()),
            Self::U32(x) => Some(x.into()),
            Self::I32(x) => Some(x.into()),
            Self::U64(x) => x.try_into().ok(),
            Self::I64(x) => Some(x),
            Self::F16(_) | Self::F32(_) | Self::F64(_) => {
                let float = self.as_f64();
                if float.fract() == 0.0 { Dtype::I64.of_float(float).and_then(Self::as_i64) } else { None }
            }
        }
    }

    /// This number as another type, as [`Dtype::of_int`] and [`Dtype::of_float`] have it.
    pub fn cast(self, dtype: Dtype) -> Option<Self> {
        match self {
            _ if self.dtype() == dtype => Some(self),
            Self::U64(x) if dtype == Dtype::U64 || i64::try_from(x).is_err() => dtype.of_float(x as f64),
            Self::F16(_) | Self::F32(_) | Self::F64(_) => dtype.of_float(self.as_f64()),
            _ => dtype.of_int(self.as_i64()?),
        }
    }

    /// Appends the bytes.
    pub fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::U8(x) => out.extend(x.to_le_bytes()),
            Self::I8(x) => out.extend(x.to_le_bytes()),
            Self::U16(x) => out.extend(x.to_le_bytes()),
            Self::I16(x) => out.extend(x.to_le_bytes()),
            Self::F16(x) => out.extend(x.to_le_bytes()),
            Self::U32(x) => out.extend(x.to_le_bytes()),
            Self::I32(x) => out.extend(x.to_le_bytes()),
            Self::F32(x) => out.extend(x.to_le_bytes()),
            Self::U64(x) => out.extend(x.to_le_bytes()),
            Self::I64(x) => out.extend(x.to_le_bytes()),
            Self::F64(x) => out.extend(x.to_le_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_names_and_sizes_agree() {
        for dtype in Dtype::ALL {
            assert_eq!(Dtype::from_code(dtype.code()), Some(dtype));
            assert_eq!(Dtype::parse(dtype.name()), Some(dtype));
            let mut bytes = Vec::new();
            dtype.of_int(100).unwrap().write(&mut bytes);
            assert_eq!(bytes.len(), dtype.bytes());
            assert_eq!(dtype.read(&bytes).unwrap().as_i64(), Some(100));
            assert_eq!(dtype.read(&bytes[1..]), None);
        }
        assert_eq!(Dtype::parse("bool"), None);
        assert_eq!(Dtype::from_code(0), None);
    }

    #[test]
    fn what_does_not_fit_is_refused_and_fractions_are_dropped() {
        assert_eq!(Dtype::U8.of_int(256), None);
        assert_eq!(Dtype::U8.of_int(-1), None);
        assert_eq!(Dtype::U8.of_float(3.9), Some(Scalar::U8(3)));
        assert_eq!(Dtype::I8.of_float(-3.9), Some(Scalar::I8(-3)));
        assert_eq!(Dtype::I64.of_float(1e300), None);
        assert_eq!(Dtype::I64.of_float(f64::NAN), None);
        assert_eq!(Dtype::U64.of_float(18_446_744_073_709_551_616.0), None);
        assert_eq!(Scalar::U64(u64::MAX).cast(Dtype::I64), None);
        assert_eq!(Scalar::F32(2.5).cast(Dtype::F64), Some(Scalar::F64(2.5)));
    }
}
