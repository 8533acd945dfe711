//! Columns of an archive: a column for each field, and one for the key.

use super::name::KEY;
use super::samples::FieldCounts;
use crate::format::columns::{Column, FIELDS};
use crate::format::encoding::Encoding;
use crate::format::layout::{ColumnUse, Layout, ShardFormat};

/// Returns the encoding of the files of `field`: by the last part of the name, as WebDataset decodes them.
pub fn encoding_of(field: &str) -> Encoding {
    match field.rsplit('.').next().unwrap_or(field) {
        KEY | FIELDS => Encoding::Str,
        "jpg" | "jpeg" => Encoding::Jpeg,
        "png" => Encoding::Png,
        "txt" | "text" | "transcript" => Encoding::Str,
        "cls" | "cls2" | "class" | "count" | "index" | "inx" | "id" => Encoding::StrInt,
        "json" | "jsn" => Encoding::Json,
        "npy" => Encoding::Npy,
        _ => Encoding::Bytes,
    }
}

/// Fields of a column, as in "jpg;png": its value is the first of them that a sample has.
pub(in crate::format) fn alternatives(name: &str) -> impl Iterator<Item = &str> {
    name.split(';')
}

/// Returns the encoding of the column `name`, whose value is any of its fields. Pictures of several formats are read as bytes, by their
/// own headers.
pub(in crate::format) fn encoding_of_any(name: &str) -> Encoding {
    let mut encodings = alternatives(name).map(encoding_of);
    let first = encodings.next().unwrap_or(Encoding::Bytes);
    if encodings.all(|other| other == first) { first } else { Encoding::Bytes }
}

impl Layout {
    /// Makes the layout of archives whose samples have the fields `counts`. Fields that some of the samples lack are
    /// optional.
    pub fn tar(counts: &FieldCounts) -> Self {
        let names = [KEY].into_iter().chain(counts.fields.keys().map(String::as_str));
        let columns = names.map(|name| Column::new(name, encoding_of(name))).collect();
        let optional = counts.fields.iter().filter(|(_, samples)| **samples < counts.samples);
        let optional = optional.map(|(field, _)| field.clone()).collect();
        Self { format: ShardFormat::Tar { optional, is_sampled: counts.is_sampled }, columns }
    }
}

/// Returns the layout with the columns `wanted` alone, those with a default optional; without `wanted`, with those that every
/// sample has. A name may be several, as in "jpg;png". The layout stays as it is if it lacks one of these without a default, so
/// that an error can name its columns.
pub(in crate::format) fn projected(layout: &Layout, optional: &[String], wanted: Option<&[ColumnUse<'_>]>) -> Layout {
    let found = |column: &ColumnUse<'_>| {
        // The index may be made of some samples. Others can have the field.
        if !column.has_default && column.name != FIELDS && !layout.has_column(column.name) {
            return None;
        }
        Some(Column::new(column.name, encoding_of_any(column.name)))
    };
    let columns = match wanted {
        None => layout.columns.iter().filter(|column| !optional.contains(&column.name)).cloned().map(Some).collect(),
        Some(wanted) => wanted.iter().map(found).collect::<Vec<_>>(),
    };
    let with_default = wanted.into_iter().flatten().filter(|column| column.has_default);
    let optional = with_default.map(|column| column.name.to_owned()).collect();
    match columns.into_iter().collect::<Option<Vec<_>>>() {
        Some(columns) => Layout { format: ShardFormat::Tar { optional, is_sampled: false }, columns },
        None => layout.clone(),
    }
}
