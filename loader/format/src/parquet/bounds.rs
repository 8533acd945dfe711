//! Least and largest values of a column in a group of rows, by which a filter skips groups.
//!
//! Bounds of whole numbers, floats, truth values and text in UTF-8 are kept. Of further types the order in the file may
//! be different from the order of the values, and old writers compared text as signed bytes, which the footer shows.

use parquet::basic::{ColumnOrder, ConvertedType, LogicalType, SortOrder, Type};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use serde::{Deserialize, Serialize};

/// Longest text that is kept.
const TEXT_BYTES_MAX: usize = 64;

/// Least and largest value, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// Values of all rows but those with nulls, and NaN.
    pub values: Values,
    /// True if some rows may have nulls.
    pub has_nulls: bool,
}

/// Range of values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Values {
    /// Any.
    #[default]
    Unknown,
    /// There are no values but nulls.
    None,
    /// Whole numbers.
    Int(i64, i64),
    /// Floats, by their bits.
    Float(u64, u64),
    /// Texts. The bounds may be shorter than the values.
    Text(String, String),
}

impl Bounds {
    /// Returns the bounds of a column in a group, for values in this order.
    pub(super) fn of(chunk: &ColumnChunkMetaData, order: ColumnOrder) -> Self {
        let may_be_null = chunk.column_descr().max_def_level() > 0;
        let unknown = Self { values: Values::Unknown, has_nulls: may_be_null };
        let Some(found) = chunk.statistics() else { return unknown };
        let nulls = found.null_count_opt();
        let all = u64::try_from(chunk.num_values()).ok();
        let has_nulls = may_be_null && nulls != Some(0);
        if has_nulls && nulls == all {
            return Self { values: Values::None, has_nulls };
        }
        Self { values: values(chunk, found, order).unwrap_or_default(), has_nulls }
    }

    /// Returns the bounds of both.
    #[must_use]
    pub fn joined(&self, other: &Self) -> Self {
        let float = |bits: u64| f64::from_bits(bits);
        let values = match (&self.values, &other.values) {
            (Values::None, values) | (values, Values::None) => values.clone(),
            (Values::Int(a, b), Values::Int(c, d)) => Values::Int(*a.min(c), *b.max(d)),
            (Values::Float(a, b), Values::Float(c, d)) => {
                Values::Float(float(*a).min(float(*c)).to_bits(), float(*b).max(float(*d)).to_bits())
            }
            (Values::Text(a, b), Values::Text(c, d)) => Values::Text(a.min(c).clone(), b.max(d).clone()),
            _ => Values::Unknown,
        };
        Self { values, has_nulls: self.has_nulls || other.has_nulls }
    }
}

/// Returns the range of a chunk's values, if it has a known type and order.
fn values(chunk: &ColumnChunkMetaData, found: &Statistics, order: ColumnOrder) -> Option<Values> {
    let column = chunk.column_descr();
    let (logical, converted) = (column.logical_type_ref(), column.converted_type());
    let is_signed = match logical {
        Some(LogicalType::Integer(of)) => of.is_signed,
        Some(_) => false,
        None => {
            use ConvertedType as Converted;
            matches!(
                converted,
                Converted::NONE | Converted::INT_8 | Converted::INT_16 | Converted::INT_32 | Converted::INT_64
            )
        }
    };
    let is_text = matches!((logical, converted), (Some(LogicalType::String), _) | (None, ConvertedType::UTF8));
    let is_plain = logical.is_none() && converted == ConvertedType::NONE;
    match (column.physical_type(), found) {
        (Type::BOOLEAN, Statistics::Boolean(found)) if is_plain => {
            int(found.min_opt().copied().map(i64::from), found.max_opt().copied().map(i64::from))
        }
        (Type::INT32, Statistics::Int32(found)) if is_signed => {
            int(found.min_opt().copied().map(i64::from), found.max_opt().copied().map(i64::from))
        }
        (Type::INT64, Statistics::Int64(found)) if is_signed => int(found.min_opt().copied(), found.max_opt().copied()),
        (Type::FLOAT, Statistics::Float(found)) if is_plain => {
            float(f64::from(*found.min_opt()?), f64::from(*found.max_opt()?))
        }
        (Type::DOUBLE, Statistics::Double(found)) if is_plain => float(*found.min_opt()?, *found.max_opt()?),
        (Type::BYTE_ARRAY, Statistics::ByteArray(found)) if is_text => {
            let is_ordered = order == ColumnOrder::TYPE_DEFINED_ORDER(SortOrder::UNSIGNED);
            if !is_ordered || found.is_min_max_backwards_compatible() {
                return None;
            }
            let text = |bytes: &[u8]| {
                let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= TEXT_BYTES_MAX)?;
                Some(text.to_owned())
            };
            let (min, max) = (text(found.min_opt()?.data())?, text(found.max_opt()?.data())?);
            (min <= max).then_some(Values::Text(min, max))
        }
        _ => None,
    }
}

fn int(min: Option<i64>, max: Option<i64>) -> Option<Values> {
    let (min, max) = (min?, max?);
    (min <= max).then_some(Values::Int(min, max))
}

fn float(min: f64, max: f64) -> Option<Values> {
    // False with NaN.
    (min <= max).then_some(Values::Float(min.to_bits(), max.to_bits()))
}
