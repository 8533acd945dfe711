//! Columns of values of a manifest, with the type that all cells of one have.

use crate::format::Encoding;
use crate::format::encoding::DType;
use crate::format::recipe::{Texts, Values};
use serde::{Deserialize, Serialize};

/// Column of values, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueColumn {
    /// Name.
    pub name: String,
    values: ManifestValues,
}

/// Values, one for each sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ManifestValues {
    Integers(Vec<i64>),
    /// Integers, some of them above the largest [`i64`], and none negative.
    Naturals(Vec<u64>),
    /// Bits of floating-point numbers: JSON cannot express all of them.
    Floats(Vec<u64>),
    Texts(Texts),
}

impl ValueColumn {
    /// Encoding of the values.
    pub(in crate::sources::files) fn encoding(&self) -> Encoding {
        match self.values {
            ManifestValues::Integers(_) => Encoding::Int,
            ManifestValues::Naturals(_) => Encoding::Scalar(DType::UInt64),
            ManifestValues::Floats(_) => Encoding::Scalar(DType::Float64),
            ManifestValues::Texts(_) => Encoding::Str,
        }
    }

    /// Number of values.
    pub(in crate::sources::files) fn len(&self) -> usize {
        match &self.values {
            ManifestValues::Integers(all) => all.len(),
            ManifestValues::Naturals(all) | ManifestValues::Floats(all) => all.len(),
            ManifestValues::Texts(all) => all.len(),
        }
    }

    /// Returns the values of `samples`, which exist.
    pub(in crate::sources::files) fn select(&self, samples: &[usize]) -> Values {
        match &self.values {
            ManifestValues::Integers(all) => Values::Numbers(samples.iter().map(|i| all[*i].to_le_bytes()).collect()),
            ManifestValues::Naturals(all) | ManifestValues::Floats(all) => {
                Values::Numbers(samples.iter().map(|i| all[*i].to_le_bytes()).collect())
            }
            ManifestValues::Texts(all) => Values::Texts(samples.iter().map(|i| all.get(*i)).collect()),
        }
    }

    pub(super) fn new(name: String, cells: Cells) -> Self {
        let integers = || cells.texts.iter().map(integer).collect::<Option<_>>();
        let naturals = || cells.texts.iter().map(natural).collect::<Option<_>>();
        let floats = || cells.texts.iter().map(float).collect::<Option<Vec<_>>>();
        let values = if cells.is_text {
            ManifestValues::Texts(cells.texts)
        } else if let Some(integers) = integers() {
            ManifestValues::Integers(integers)
        } else if let Some(naturals) = naturals() {
            ManifestValues::Naturals(naturals)
        } else if let Some(floats) = floats() {
            ManifestValues::Floats(floats.into_iter().map(f64::to_bits).collect())
        } else {
            ManifestValues::Texts(cells.texts)
        };
        Self { name, values }
    }
}

/// Returns the integer that `text` is. Texts such as `007` are no numbers, since they would lose zeros.
pub(super) fn integer(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number: &i64| number.to_string() == text)
}

/// Returns the integer that `text` is, if it is not negative.
fn natural(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}

/// Returns the number that `text` is, unless it is an integer that would be rounded.
pub(super) fn float(text: &str) -> Option<f64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_padded = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    // Rust also takes `+1`, which may be the start of a telephone number.
    let starts = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') || digits.eq_ignore_ascii_case("nan");
    let number = if is_padded || !starts { None } else { text.parse().ok() };
    let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit());
    number.filter(|number| !is_integer || is_exact(text, *number))
}

/// Returns true if the integer that `text` is has the value of `number`.
fn is_exact(text: &str, number: f64) -> bool {
    // Beyond this bound the conversion below is not exact.
    number.abs() < 1e38 && text.parse::<i128>() == Ok(number as i128)
}

/// Cells of a column.
#[derive(Debug, Default)]
pub(super) struct Cells {
    pub(super) texts: Texts,
    /// Some cell is a text although it may look like a number.
    pub(super) is_text: bool,
}
