//! Element types of columns on disk and of batches.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Declares [`DType`]: each variant with its name, the bytes of an element and the code in MDS files.
macro_rules! dtypes {
    ($($variant:ident, $name:literal, $size:literal, $code:expr;)*) => {
        /// The type of one element. The names in JSON are numpy's, in lower case.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        #[allow(missing_docs, reason = "every variant is the type of its name")]
        pub enum DType {
            $($variant,)*
        }

        impl DType {
            /// All types, in the order of their declaration.
            pub const ALL: [Self; 12] = [$(Self::$variant),*];

            /// Bytes of one element.
            #[inline]
            pub fn size(self) -> usize {
                match self {
                    $(Self::$variant => $size,)*
                }
            }

            /// numpy's name, as in `ndarray:uint16:2048`; `bfloat16` is torch's.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// First byte of an MDS `ndarray` if its column does not fix the type; `None` for `bfloat16`.
            pub fn code(self) -> Option<u8> {
                match self {
                    $(Self::$variant => $code,)*
                }
            }
        }
    };
}

dtypes! {
    UInt8, "uint8", 1, Some(8);
    UInt16, "uint16", 2, Some(16);
    UInt32, "uint32", 4, Some(32);
    UInt64, "uint64", 8, Some(64);
    Int8, "int8", 1, Some(9);
    Int16, "int16", 2, Some(17);
    Int32, "int32", 4, Some(33);
    Int64, "int64", 8, Some(65);
    Float16, "float16", 2, Some(18);
    BFloat16, "bfloat16", 2, None;
    Float32, "float32", 4, Some(34);
    Float64, "float64", 8, Some(66);
}

/// Bytes of the values of an array, unless they overflow.
pub(super) fn values_bytes(dtype: DType, shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(dtype.size(), |bytes, &d| bytes.checked_mul(d))
}

impl DType {
    /// Returns the types that a data set can store: all but `bfloat16`, which has no code.
    pub fn stored() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|d| d.code().is_some())
    }

    /// Returns the type that a data set calls `name`. There is none for `bfloat16`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::stored().find(|d| d.name() == name)
    }

    /// Returns the type with this [`code`](Self::code).
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.code() == Some(code))
    }

    /// Returns true for floating-point types.
    #[inline]
    pub fn is_float(self) -> bool {
        matches!(self, Self::Float16 | Self::BFloat16 | Self::Float32 | Self::Float64)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_lead_back_to_their_type() {
        for d in DType::ALL {
            assert_eq!(serde_json::to_string(&d).unwrap(), format!("\"{}\"", d.name()));
            assert_eq!(DType::from_name(d.name()), d.code().map(|_| d));
            assert_eq!(d.code().and_then(DType::from_code), d.code().map(|_| d));
        }
        assert_eq!(DType::from_code(0), None);
        assert_eq!(DType::from_name("bool"), None);
    }
}
