//! Kinds of files that a list can name, by their extensions.

use super::extension::ends_with;
use super::files::{PICTURES, is_picture};
use super::packing::Packing;
use super::records::{is_array_record, is_tfrecord};
use crate::error::{Error, Result};

/// Extension of Megatron's files of token ids.
const BIN: &str = ".bin";

/// Returns the name of the `.idx` file of the `.bin` file `name`.
pub fn idx_of(name: &str) -> String {
    let stem = if ends_with(name, BIN) { &name[..name.len() - BIN.len()] } else { name };
    format!("{stem}.idx")
}

/// Extensions of Parquet files.
const PARQUET: [&str; 3] = [".parquet", ".parq", ".pq"];

/// Extension of Arrow files.
const ARROW: [&str; 1] = [".arrow"];

/// Kind of the files of a list: all of them have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// WebDataset's tars, plain or compressed: a shard each.
    Tar,
    /// Parquet files, whose rows are samples.
    Parquet,
    /// Files in Arrow's formats, whose rows are samples.
    Arrow,
    /// TensorFlow's record files, plain or compressed: a shard each.
    TfRecord,
    /// ArrayRecord files, as Grain and TensorFlow Datasets use them.
    ArrayRecord,
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
        if PARQUET.iter().any(|extension| ends_with(name, extension)) {
            return Ok(Some(Self::Parquet));
        }
        if ARROW.iter().any(|extension| ends_with(name, extension)) {
            return Ok(Some(Self::Arrow));
        }
        if is_tfrecord(name) {
            return Ok(Some(Self::TfRecord));
        }
        if is_array_record(name) {
            return Ok(Some(Self::ArrayRecord));
        }
        Ok(is_picture(name).then_some(Self::Sample))
    }

    /// Returns the kind of a folder's files, of which some are `names`; `None` if none of them has one.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for files of two kinds, of which the user has to name one.
    pub fn of_folder(names: &[String]) -> Result<Option<Self>> {
        let mut found: Option<(Self, &String)> = None;
        for name in names {
            // Files in a form that cannot be read are not the folder's only hint, and many programs write `.bin`.
            let Ok(Some(kind @ (Self::Tar | Self::Sample))) = Self::of(name) else { continue };
            match found {
                Some((first, other)) if first != kind => {
                    let message = "the folder has no index.json, and files of two kinds: name those to read, such as *.tar or \
                                   **/*.jpg";
                    return Err(Error::config(message).with("file", other).with("file", name));
                }
                _ => found = Some((kind, name)),
            }
        }
        Ok(found.map(|(kind, _)| kind))
    }

    /// Returns true if `list` may be meant as a list of files, whatever its form.
    pub(super) fn is_hinted(list: &str) -> bool {
        let hints = ["tar", "tgz", ".tfr", "-of-", ".array", BIN];
        hints.iter().chain(&PARQUET).chain(&ARROW).chain(&PICTURES).any(|hint| list.contains(hint))
    }

    /// Noun for one file, in messages.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Tar => "tar",
            Self::Parquet => "Parquet file",
            Self::Arrow => "Arrow file",
            Self::TfRecord => "TFRecord file",
            Self::ArrayRecord => "ArrayRecord file",
            Self::Sample => "file",
            Self::Megatron => "bin",
        }
    }

    /// Form of the names of its files, in messages.
    pub(super) fn extensions(self) -> &'static str {
        match self {
            Self::Tar => ".tar, .tar.gz or the like",
            Self::Parquet => ".parquet",
            Self::Arrow => ".arrow",
            Self::TfRecord => ".tfrecord, -00000-of-00128 or the like",
            Self::ArrayRecord => ".array_record, .array_record-00000-of-00128",
            Self::Sample => ".jpg, .png or the like",
            Self::Megatron => BIN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_folder_is_that_of_its_files() {
        let kind = |names: &[&str]| FileKind::of_folder(&names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
        assert_eq!(kind(&["labels.csv", "a/0.JPEG", "a/1.png"]).unwrap(), Some(FileKind::Sample));
        assert_eq!(kind(&["0.tar", "1.tar.gz", "sizes.json"]).unwrap(), Some(FileKind::Tar));
        assert_eq!(kind(&["shard.00000.mds"]).unwrap(), None);
        let e = kind(&["0.tar", "preview.png"]).unwrap_err();
        assert!(e.to_string().contains("0.tar") && e.to_string().contains("preview.png"), "{e}");
    }
}
