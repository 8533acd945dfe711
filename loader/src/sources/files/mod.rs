//! Files that are samples, such as the pictures of a folder.
//!
//! ```text
//!   listing --> FileList --> Selection::choose --> FileSet --> bytes that are kept, FileSet::index --> shards
//!               paths, bytes     which, in order     + columns                          deal: which file in which
//! ```
//!
//! * `list`: paths with lengths, and their order;
//! * `selection`: the files of a folder, or those that a list names;
//! * `manifest`: files by a CSV or JSON-lines file, with more columns;
//! * `stems`: samples of several files that share the start of their names;
//! * `columns`: samples of several files in different folders;
//! * `set`: the list as it is kept, and the shards that it is divided into;
//! * `unpacked`: columns of files that have several;
//! * `deal`: the order of samples: files of one folder are spread over all shards.

mod columns;
mod deal;
mod list;
mod manifest;
mod selection;
mod set;
mod stems;
mod unpacked;

use super::kind::{FileContent, FileKind, InFolder, SampleFiles};
use crate::error::{Error, Result};
use crate::format::Encoding;
use crate::format::recipe::FileColumns;
pub use columns::StemColumns;
pub use list::{FileList, PICTURES, is_picture};
pub use manifest::{Manifest, first_manifest_in};
pub use selection::Selection;
pub use set::FileSet;

/// Files that are a sample each: pictures by their names, and files of any kind on request.
pub static FILE: FileKind = FileKind {
    name: "file",
    noun: "file",
    extensions: ".jpg, .png or the like",
    hints: &PICTURES,
    is_of: |name| Ok(is_picture(name)),
    check_name,
    in_folder: InFolder::All,
    samples: Some(SampleFiles { noun: "picture", contents: &[JPEG, PNG] }),
    ..FileKind::LISTED
};

const JPEG: FileContent =
    FileContent { extensions: &[".jpg", ".jpeg"], column: FileColumns::FILE, encoding: Encoding::Jpeg, format: None };
const PNG: FileContent =
    FileContent { extensions: &[".png"], column: FileColumns::FILE, encoding: Encoding::Png, format: None };

/// Applies the rules for the paths of samples, which are read where they are or fetched by their keys.
pub(super) fn check_name(name: &str) -> Result<()> {
    if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(Error::config("the path of a file has an empty part, . or ..: write it without").with("file", name));
    }
    Ok(())
}
