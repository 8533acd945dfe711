//! WebDataset's tar files: the files of a sample are adjacent, and named by its key.
//!
//! ```text
//!   train/0007.jpg   train/0007.cls   train/0007.seg.png   train/0008.jpg ...
//!   '--- key --' '-- field              '---- field
//! ```
//!
//! * `member` — the files of an archive, in sequence: ustar, GNU and pax headers, long names;
//! * `pax` — their records; `sparse` — the content of files that are stored without their zeros;
//! * `name` — key and field of a file;
//! * `samples` — groups of files: the offsets of the samples, which a tar file does not list; the fields that they
//!   have;
//! * `split` — one sample's bytes to its columns; `fields` — encodings of fields, by their names;
//! * `tar_format` — the format, with the columns by the fields that the archive has.
//!
//! The bytes of a sample are those from its first header to the end of its last file, so they are read at once, and the
//! planes need nothing but an offset table, as for the remaining formats. The same files become samples as in
//! WebDataset, with two differences: hidden files, such as those that macOS adds, are never samples, and an archive
//! with damaged headers or with data after its end is an error where Python's `tarfile` ignores the rest.

mod fields;
mod member;
mod name;
mod pax;
mod samples;
mod sparse;
mod split;
mod tar_format;
#[cfg(test)]
mod tests;

pub use fields::encoding_of;
pub use member::{Member, Members, is_header};
pub use name::KEY;
pub use samples::{FieldCounts, count_fields, first_fields, front_fields};
pub use sparse::SparseMap;
pub(super) use tar_format::INDEXED;

/// Bytes of a block: a header's size, and the alignment of a file's content.
const BLOCK: u64 = 512;
