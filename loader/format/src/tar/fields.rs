//! Fields of samples, by their names.

use super::name::KEY;
use crate::columns::FIELDS;
use crate::encoding::Encoding;

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
pub(super) fn alternatives(name: &str) -> impl Iterator<Item = &str> {
    name.split(';')
}

/// Name of a field without the extension of a compressed file, which WebDataset unpacks before it decodes the content;
/// `None` for the remaining fields.
pub(super) fn unpacked(field: &str) -> Option<&str> {
    if field == GZIP { Some("") } else { field.strip_suffix(GZIP)?.strip_suffix('.') }
}

/// Extension of compressed files.
const GZIP: &str = "gz";

/// Returns the encoding of the column `name`. Its value is any of its fields. Pictures of several formats are read as
/// bytes, by their own headers.
pub(super) fn encoding_of_any(name: &str) -> Encoding {
    common_encoding(alternatives(name))
}

/// Returns the encoding of the column `name` with its compressed files unpacked.
pub(super) fn encoding_of_unpacked(name: &str) -> Encoding {
    common_encoding(alternatives(name).map(|field| unpacked(field).unwrap_or(field)))
}

fn common_encoding<'a>(fields: impl Iterator<Item = &'a str>) -> Encoding {
    let mut encodings = fields.map(encoding_of);
    let first = encodings.next().unwrap_or(Encoding::Bytes);
    if encodings.all(|other| other == first) { first } else { Encoding::Bytes }
}
