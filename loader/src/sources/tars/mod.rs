//! WebDataset's tars.
//!
//! * [`Packing`]: their extensions, and the compression that these declare;
//! * [`energon`]: the tars of a split in a folder that Megatron Energon has prepared;
//! * [`counts`]: numbers of samples, from the files that some programs leave next to them.

pub mod counts;
pub mod energon;
mod packing;

use super::kind::{FileKind, InFolder};
pub use packing::Packing;

/// Tars, plain or compressed: a shard each.
pub static TAR: FileKind = FileKind {
    name: "tar",
    noun: "tar",
    extensions: ".tar, .tar.gz or the like",
    hints: &["tar", "tgz"],
    is_of: |name| Packing::of(name).map(|packing| packing.is_some()),
    in_folder: InFolder::All,
    ..FileKind::LISTED
};
