//! Kinds of files that a list can name, by their extensions.

use super::extension::ends_with;
use super::packing::Packing;
use crate::error::Result;

/// Extensions of pictures and other files that are samples.
const SAMPLES: [&str; 8] = [".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"];

/// Extension of Megatron's files of token ids.
const BIN: &str = ".bin";

/// Returns the name of the `.idx` file of the `.bin` file `name`.
pub fn idx_of(name: &str) -> String {
    let stem = if ends_with(name, BIN) { &name[..name.len() - BIN.len()] } else { name };
    format!("{stem}.idx")
}

/// Kind of the files of a list: all of them have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// WebDataset's tars, plain or compressed: a shard each.
    Tar,
    /// Files that are a sample each.
    Sample,
    /// Megatron's files of token ids, each with an `.idx` of the same name.
    Megatron,
}

impl FileKind {
    /// Returns the kind that a file's name declares; `None` for another name, which may be a folder's. Case has no meaning.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Unsupported`] for a known kind in a form that cannot be read.
    pub fn of(name: &str) -> Result<Option<Self>> {
        if Packing::of(name)?.is_some() {
            return Ok(Some(Self::Tar));
        }
        if ends_with(name, BIN) {
            return Ok(Some(Self::Megatron));
        }
        Ok(SAMPLES.iter().any(|extension| ends_with(name, extension)).then_some(Self::Sample))
    }

    /// Returns true if `list` may be meant as a list of files, whatever its form.
    pub(super) fn is_hinted(list: &str) -> bool {
        ["tar", "tgz", BIN].iter().chain(&SAMPLES).any(|hint| list.contains(hint))
    }

    /// Noun for one file, in messages.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Tar => "tar",
            Self::Sample => "file",
            Self::Megatron => "bin",
        }
    }

    /// Form of the names of its files, in messages.
    pub(super) fn extensions(self) -> &'static str {
        match self {
            Self::Tar => ".tar, .tar.gz or the like",
            Self::Sample => ".jpg, .png or the like",
            Self::Megatron => BIN,
        }
    }
}
