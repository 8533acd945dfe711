//! Data sets that have no `index.json`: the list of their files, from the texts that people have.
//!
//! ```text
//!   "s3://b/train-{000..146}.tar"        names: braces --> pipes --> place and common folder
//!        |                                                              |
//!        +---- shard_names ----> ShardNames { kind: Tar, root: "s3://b", names: ["train-000.tar", ..] }
//!                                             |                          |
//!                                      opened as a remote         keys below it
//! ```
//!
//! * [`FileKind`]: the kinds of files, by their extensions; a list has files of one kind.
//! * [`names`]: the addresses of files as WebDataset's users write them, to one folder and names below it. `braces`
//!   expands braces, `pipes` finds the address in a command of `pipes_table`, `place` splits addresses, `wildcards`
//!   matches names of a listing, `packing` has the extensions of tars.
//! * [`files`]: files that are samples: those of a folder, their order and their shards.
//! * [`folder`]: the files of a data set in a folder that has no index.
//! * [`energon`]: the tars of a split in a folder that Megatron Energon has prepared.
//! * [`records`]: names of TFRecord and ArrayRecord files, and the indexes next to them.
//! * [`advice`]: the change that an address needs of which nothing is read.
//! * [`counts`]: numbers of samples of tars, from the files that other programs leave next to them.
//!
//! All of it is pure: texts and bytes in, values out. The catalog asks the stores.

pub mod advice;
mod braces;
pub mod counts;
pub mod energon;
mod extension;
pub mod files;
pub mod folder;
mod kind;
pub mod names;
mod packing;
mod pipes;
mod pipes_table;
mod place;
pub mod records;
mod wildcards;
mod yaml;

pub use kind::{FileKind, idx_of};
pub use names::{Names, ShardNames, names_of_kind, sample_names, shard_names};
pub use packing::Packing;
