//! Numbers of the dictionaries that columns need.

use arrow_schema::{DataType, Field};
use std::collections::HashSet;

/// Adds the numbers of the dictionaries of `field`, and of the fields in it, to `found`.
pub(super) fn add_ids(field: &Field, found: &mut HashSet<i64>) {
    // The library has only a deprecated way to them yet.
    #[expect(deprecated)]
    found.extend(field.dict_id());
    add_inner(field.data_type(), found);
}

fn add_inner(kind: &DataType, found: &mut HashSet<i64>) {
    match kind {
        DataType::Dictionary(_, values) => add_inner(values, found),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => add_ids(field, found),
        DataType::Struct(fields) => fields.iter().for_each(|field| add_ids(field, found)),
        DataType::Union(fields, _) => fields.iter().for_each(|(_, field)| add_ids(field, found)),
        DataType::RunEndEncoded(_, values) => add_ids(values, found),
        _ => {}
    }
}
