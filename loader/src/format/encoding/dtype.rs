//! Element types of columns on disk and of batches.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The type of one element. The names in JSON are numpy's, in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "every variant is the type of its name")]
pub enum DType {
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Int8,
    Int16,
    Int32,
    Int64,
    Float16,
    BFloat16,
    Float32,
    Float64,
}

impl DType {
    /// All types, in the order of their declaration.
    pub const ALL: [Self; 12] = [
        Self::UInt8,
        Self::UInt16,
        Self::UInt32,
        Self::UInt64,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Float16,
        Self::BFloat16,
        Self::Float32,
        Self::Float64,
    ];

    /// Types that a data set can store: all but `bfloat16`, which has no code. In the order of their codes.
    pub const STORED: [Self; 11] = [
        Self::UInt8,
        Self::Int8,
        Self::UInt16,
        Self::Int16,
        Self::Float16,
        Self::UInt32,
        Self::Int32,
        Self::Float32,
        Self::UInt64,
        Self::Int64,
        Self::Float64,
    ];

    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Self::UInt8 | Self::Int8 => 1,
            Self::UInt16 | Self::Int16 | Self::Float16 | Self::BFloat16 => 2,
            Self::UInt32 | Self::Int32 | Self::Float32 => 4,
            Self::UInt64 | Self::Int64 | Self::Float64 => 8,
        }
    }

    /// numpy's name, as in `ndarray:uint16:2048`; `bfloat16` is torch's.
    pub fn name(self) -> &'static str {
        match self {
            Self::UInt8 => "uint8",
            Self::UInt16 => "uint16",
            Self::UInt32 => "uint32",
            Self::UInt64 => "uint64",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float16 => "float16",
            Self::BFloat16 => "bfloat16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
        }
    }

    /// Returns the type that a data set calls `name`. There is none for `bfloat16`, which data sets cannot store.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::STORED.into_iter().find(|d| d.name() == name)
    }

    /// First byte of an MDS `ndarray` whose column does not fix the type; `None` for `bfloat16`.
    pub fn code(self) -> Option<u8> {
        Some(match self {
            Self::UInt8 => 8,
            Self::Int8 => 9,
            Self::UInt16 => 16,
            Self::Int16 => 17,
            Self::Float16 => 18,
            Self::UInt32 => 32,
            Self::Int32 => 33,
            Self::Float32 => 34,
            Self::UInt64 => 64,
            Self::Int64 => 65,
            Self::Float64 => 66,
            Self::BFloat16 => return None,
        })
    }

    /// Returns the type with this [`code`](Self::code).
    pub fn from_code(code: u8) -> Option<Self> {
        Self::STORED.into_iter().find(|d| d.code() == Some(code))
    }

    /// Returns true for floating-point types.
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
            assert_eq!(DType::STORED.contains(&d), d.code().is_some());
        }
        assert_eq!(DType::from_code(0), None);
        assert_eq!(DType::from_name("bool"), None);
    }
}
