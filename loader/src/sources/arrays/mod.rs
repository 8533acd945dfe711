//! Arrays of numpy in files: a file is a sample.

use super::extension::has_extension;
use super::files::check_name;
use super::kind::{FileContent, FileKind, InFolder, SampleFiles};
use crate::format::Encoding;
use crate::format::npz::Npz;

/// Files of one array each, as `numpy.save` writes them.
pub static NPY: FileKind = FileKind {
    name: "npy",
    noun: "npy file",
    extensions: ".npy",
    hints: &[".npy"],
    is_of: |name| Ok(has_extension(name, &[".npy"])),
    check_name,
    in_folder: InFolder::Alone,
    samples: Some(SampleFiles {
        noun: "npy file",
        contents: &[FileContent { extensions: &[".npy"], column: "npy", encoding: Encoding::Npy, format: None }],
    }),
    ..FileKind::LISTED
};

/// Files of several arrays each, as `numpy.savez` writes them. Each array is a column.
pub static NPZ: FileKind = FileKind {
    name: "npz",
    noun: "npz file",
    extensions: ".npz",
    hints: &[".npz"],
    is_of: |name| Ok(has_extension(name, &[".npz"])),
    check_name,
    in_folder: InFolder::Alone,
    samples: Some(SampleFiles {
        noun: "npz file",
        contents: &[FileContent {
            extensions: &[".npz"],
            column: "npz",
            encoding: Encoding::Bytes,
            format: Some(&Npz),
        }],
    }),
    ..FileKind::LISTED
};
