//! Units of times in tables: the same number is a different time in files with different units.

use super::columns::{element, find, value_type};
use arrow_schema::{DataType, Fields};

/// Returns the type of the column `name` of a table with `fields`, which may be a path with dots.
pub fn column_type<'a>(fields: &'a Fields, name: &str) -> Option<&'a DataType> {
    find(fields, name)?.last().map(|field| field.data_type())
}

/// Returns true if the values of `a` and `b` have the same units, or none. A number without a unit differs from a time.
pub fn have_same_units(a: &DataType, b: &DataType) -> bool {
    use DataType::{Date32, Date64, Duration, Map, Null, Struct, Time32, Time64, Timestamp};
    let (a, b) = (value_type(a), value_type(b));
    if let (Some((a, _)), Some((b, _))) = (element(a), element(b)) {
        return have_same_units(a.data_type(), b.data_type());
    }
    match (a, b) {
        // The zone is for display: all zones count from the same instant. Without a zone the instant is unknown.
        (Timestamp(a, zone), Timestamp(b, other)) => a == b && zone.is_some() == other.is_some(),
        (Duration(a), Duration(b)) | (Time32(a) | Time64(a), Time32(b) | Time64(b)) => a == b,
        (Date32, Date32) | (Date64, Date64) | (Null, _) | (_, Null) => true,
        (Struct(a), Struct(b)) => a.iter().all(|field| {
            let other = b.iter().find(|other| other.name() == field.name());
            other.is_none_or(|other| have_same_units(field.data_type(), other.data_type()))
        }),
        (Map(a, _), Map(b, _)) => have_same_units(a.data_type(), b.data_type()),
        (a, b) => !has_unit(a) && !has_unit(b),
    }
}

fn has_unit(kind: &DataType) -> bool {
    use DataType::{Date32, Date64, Duration, Time32, Time64, Timestamp};
    matches!(kind, Timestamp(..) | Duration(_) | Time32(_) | Time64(_) | Date32 | Date64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::{Field, TimeUnit};
    use std::sync::Arc;

    fn list(kind: DataType) -> DataType {
        DataType::List(Arc::new(Field::new("item", kind, true)))
    }

    fn table(name: &str, kind: DataType) -> DataType {
        DataType::Struct(vec![Field::new("first", DataType::Int8, true), Field::new(name, kind, true)].into())
    }

    #[test]
    fn types_differ_by_their_units_alone() {
        use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        let time = |unit, zone: Option<&str>| DataType::Timestamp(unit, zone.map(Arc::from));
        let dictionary = |kind| DataType::Dictionary(Box::new(DataType::Int8), Box::new(kind));
        for (a, b, is_same) in [
            (time(Millisecond, None), time(Millisecond, None), true),
            (time(Millisecond, None), time(Microsecond, None), false),
            (time(Millisecond, Some("UTC")), time(Millisecond, Some("Europe/Berlin")), true),
            (time(Millisecond, Some("UTC")), time(Millisecond, None), false),
            (time(Millisecond, None), DataType::Int64, false),
            (time(Millisecond, None), DataType::Null, true),
            (DataType::Duration(Second), DataType::Duration(Nanosecond), false),
            (DataType::Date32, DataType::Date64, false),
            (DataType::Date32, DataType::Int32, false),
            (DataType::Time32(Second), DataType::Time32(Millisecond), false),
            (DataType::Time64(Nanosecond), DataType::Time64(Nanosecond), true),
            (list(time(Second, None)), list(time(Millisecond, None)), false),
            (list(DataType::Int32), DataType::LargeList(Arc::new(Field::new("x", DataType::Int64, true))), true),
            (table("t", DataType::Date32), table("t", DataType::Date64), false),
            (table("t", DataType::Date32), table("u", DataType::Date64), true),
            (dictionary(time(Second, None)), time(Second, None), true),
            (DataType::Decimal128(9, 2), DataType::Decimal128(9, 3), true),
            (DataType::Int32, DataType::Int64, true),
        ] {
            assert_eq!(have_same_units(&a, &b), is_same, "{a} {b}");
            assert_eq!(have_same_units(&b, &a), is_same, "{b} {a}");
        }
    }
}
