//! Files with tables: their rows are samples.
//!
//! * [`folder`]: the files of a data set in a folder without an index;
//! * `card`: the file README.md of a data set, which may list configurations and the files of their splits;
//! * `splits`: the split that a file belongs to, by its path;
//! * [`partitions`]: columns that are parts of the paths of files.

mod card;
pub mod folder;
pub mod partitions;
pub(in crate::sources) mod splits;

use super::extension::has_extension;
use super::kind::{FileKind, InFolder};

/// Parquet files.
pub static PARQUET: FileKind = FileKind {
    name: "parquet",
    noun: "Parquet file",
    extensions: ".parquet",
    hints: &PARQUET_EXTENSIONS,
    is_of: |name| Ok(has_extension(name, &PARQUET_EXTENSIONS)),
    in_folder: InFolder::Tables,
    ..FileKind::LISTED
};
const PARQUET_EXTENSIONS: [&str; 3] = [".parquet", ".parq", ".pq"];

/// Files in Arrow's formats.
pub static ARROW: FileKind = FileKind {
    name: "arrow",
    noun: "Arrow file",
    extensions: ".arrow, .feather or .ipc",
    hints: &ARROW_EXTENSIONS,
    is_of: |name| Ok(has_extension(name, &ARROW_EXTENSIONS)),
    in_folder: InFolder::Tables,
    ..FileKind::LISTED
};
// Feather is the file format, since its version 2. `.arrows` is Arrow's proposal for streams.
const ARROW_EXTENSIONS: [&str; 4] = [".arrow", ".arrows", ".feather", ".ipc"];
