//! Texts with a record in each line: JSON lines, CSV and TSV, plain or compressed.

use super::extension::has_extension;
use super::kind::{FileKind, InFolder};
use crate::error::Result;
use crate::format::Compression;
use crate::format::INDEX_BASENAME;
use crate::format::compression::{readable_extensions, without_extension};
use crate::format::lines::LineForm;

/// Files with a JSON object in each line.
pub static JSON_LINES: FileKind = FileKind {
    name: "json lines",
    noun: "JSON-lines file",
    extensions: ".jsonl, .ndjson or .json",
    hints: &JSON_EXTENSIONS,
    is_of: |name| is_of(name, &JSON_EXTENSIONS),
    in_folder: InFolder::Texts,
    ..FileKind::LISTED
};
const JSON_EXTENSIONS: [&str; 3] = [".jsonl", ".ndjson", ".json"];

/// Files with rows of cells, after a line with the names of the columns.
pub static CELLS: FileKind = FileKind {
    name: "cells",
    noun: "CSV file",
    extensions: ".csv or .tsv",
    hints: &CELL_EXTENSIONS,
    is_of: |name| is_of(name, &CELL_EXTENSIONS),
    in_folder: InFolder::Texts,
    ..FileKind::LISTED
};
const CELL_EXTENSIONS: [&str; 2] = [".csv", ".tsv"];

fn is_of(name: &str, extensions: &[&str]) -> Result<bool> {
    let is_index = name.rsplit('/').next() == Some(INDEX_BASENAME);
    let is_of = !is_index && has_extension(without_extension(name), extensions);
    if is_of {
        compression_of(name)?;
    }
    Ok(is_of)
}

/// Returns the compression that the name of a text declares.
///
/// # Errors
///
/// [`crate::ErrorKind::Unsupported`] for a compression that cannot be read.
pub fn compression_of(name: &str) -> Result<Option<Compression>> {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    Compression::of_extension(extension)
        .map_err(|e| e.hinting(format!("Write the text as it is, or as {}", readable_extensions(".jsonl"))))
}

/// Returns the form of the records of the text `name`.
pub fn form_of(name: &str) -> LineForm {
    match without_extension(name) {
        name if has_extension(name, &[".tsv"]) => LineForm::Tsv,
        name if has_extension(name, &[".csv"]) => LineForm::Csv,
        _ => LineForm::Json,
    }
}

/// Returns true for a name that a description of files may have, too.
pub(super) fn may_describe(name: &str) -> bool {
    has_extension(without_extension(name), &[".json"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_known_by_their_names_plain_and_compressed() {
        for (name, form, is_packed) in [
            ("a/0.jsonl", LineForm::Json, false),
            ("0.NDJSON", LineForm::Json, false),
            ("0.json.gz", LineForm::Json, true),
            ("0.csv.zst", LineForm::Csv, true),
            ("0.TSV.bz2", LineForm::Tsv, true),
            ("x.y.tsv", LineForm::Tsv, false),
        ] {
            let kind = if form == LineForm::Json { &JSON_LINES } else { &CELLS };
            assert!((kind.is_of)(name).unwrap(), "{name}");
            assert_eq!((form_of(name), compression_of(name).unwrap().is_some()), (form, is_packed), "{name}");
        }
        assert!(is_of("a.csv.xz", &CELL_EXTENSIONS).unwrap_err().to_string().contains(".jsonl.gz"));
        for name in ["", "json", "a.json/b", "a/index.json", "a.jsonl.idx", "a.txt", "csv.gz"] {
            assert!(!is_of(name, &JSON_EXTENSIONS).unwrap() && !is_of(name, &CELL_EXTENSIONS).unwrap(), "{name}");
        }
    }
}
