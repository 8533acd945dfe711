//! Data sets that have no `index.json`: the list of their files, from the texts of their users.
//!
//! ```text
//!   "s3://b/train-{000..146}.tar"        names: braces --> pipes --> root and common folder
//!        |                                                              |
//!        +---- shard_names ----> ShardNames { kind: TAR, root: "s3://b", names: ["train-000.tar", ..] }
//!                                             |                         |
//!                                     opened as a remote         keys below it
//! ```
//!
//! A kind of files has a folder with its [`FileKind`]: [`tars`], [`tables`] (Parquet and Arrow), [`tfrecords`],
//! [`array_records`], [`lines`] (JSON lines, CSV and TSV), [`tokens`] and [`files`]. A new kind is a folder and a line
//! in `kinds`, which lists them; the catalog has its opener.
//!
//! * [`names`]: the addresses of files as WebDataset's users write them, to one folder and names below it. `braces`
//!   expands braces, `pipes` finds the address in a command of `pipes_table`, `location` splits addresses, `wildcards`
//!   matches names of a listing.
//! * [`advice`]: the change that an address needs if nothing is read from it; [`dialects`]: the change of a list with
//!   wildcards of a different program.
//! * [`folder_names`]: folders that are hidden, or splits.
//! * `extension`, `parts`, `choice` and `yaml` are common to several kinds.
//!
//! All of it is pure: texts and bytes in, values out. The catalog asks the stores.

pub mod advice;
pub mod array_records;
pub mod arrays;
mod braces;
mod choice;
pub mod dialects;
mod extension;
pub mod files;
pub mod folder_names;
mod kind;
mod kinds;
pub mod lines;
mod location;
pub mod names;
mod parts;
mod pipes;
mod pipes_table;
pub mod tables;
pub mod tars;
pub mod tfrecords;
pub mod tokens;
mod wildcards;
mod yaml;

pub use kind::{FileKind, InFolder, Pair};
pub use kinds::{KINDS, kind_of, kind_of_folder};
pub use names::{Names, ShardNames, expanded, names_of_kind, sample_names, shard_names};
pub use wildcards::{Pattern, is_pattern};
