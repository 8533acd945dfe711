//! Outputs of the loader: what most trainings do with such columns.

use crate::samples::{Content, Record};
use forebay_loader::KnownColumn;
use forebay_loader::decode::{FieldPlan, FieldSpec};
use serde_json::json;

/// Returns the fields of `columns`: a random crop of each picture, and the rest as it is. Columns that samples may lack
/// are left out. `first` is a sample.
pub(super) fn of<'a>(
    columns: impl Iterator<Item = &'a KnownColumn>,
    first: &Record,
    size: u32,
) -> Vec<(String, FieldSpec)> {
    let needed: Vec<_> = columns.filter(|known| !known.is_optional).map(|known| known.column.clone()).collect();
    let is_picture = |name: &str| {
        let mut values = first.columns().filter(|(column, _)| column.name == name);
        let content = values.find_map(|(column, value)| Content::of(column, value?).ok());
        matches!(content, Some(Content::Picture { format, .. }) if format != "pixels")
    };
    let field = |(name, plain): (String, FieldSpec)| {
        let crop = json!({"op": "random_resized_crop", "size": [size, size]});
        let image = json!({"kind": "image", "column": name, "ops": [crop]});
        let image = serde_json::from_value(image).ok().filter(|_| is_picture(&name));
        (name, image.unwrap_or(plain))
    };
    FieldPlan::fields_of(&needed).into_iter().map(field).collect()
}
