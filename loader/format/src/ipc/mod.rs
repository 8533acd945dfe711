//! Arrow's stream and file formats: messages in sequence; the first one has the schema. A file ends with a
//! footer, which has the schema and the offsets of the batches.
//!
//! ```text
//!   stream: schema | dictionary | batch | batch | ..          file: ARROW1 | stream | footer | length | ARROW1
//! ```
//!
//! * [`batches`]: positions of the rows of a file, by `footer` or, without one, by a `scan` of its messages;
//! * `batches`: the positions of the rows of a file;
//! * `message`: the description of a message; `alignment` repairs descriptions of old versions of polars;
//! * [`TableHead`]: the columns of a file, and its [`Reader`] of rows; `dictionaries` has the numbers of those that
//!   columns need.
//!
//! The crate `arrow-ipc` decodes. Files are not trusted: all declared numbers have bounds, and a panic of the crate is
//! an error.

mod alignment;
mod batches;
mod dictionaries;
mod footer;
mod guard;
mod head;
mod message;
mod scan;
#[cfg(test)]
mod tests;

pub use batches::{Batch, Batches, Dictionary};
pub use head::{Reader, TableHead};

use super::read_at::{FilePart, ReadAt};
use forebay_core::error::{Error, ErrorKind, Result};
use message::MAGIC;
use std::ops::Range;

/// First bytes of Feather's first version, which is a different format. The second one is the file format.
const FEATHER1: &[u8; 4] = b"FEA1";

/// Returns the positions of all rows of `file`.
///
/// # Errors
///
/// [`ErrorKind::Format`] for a different file, with the offset; [`ErrorKind::Unsupported`] for version 1 of Feather;
/// errors of its storage.
pub fn batches<R: ReadAt + ?Sized>(file: &R) -> Result<Batches> {
    let mut front = [0; 8];
    if file.bytes() >= front.len() as u64 {
        file.read_at(&mut front, 0)?;
    }
    if front.starts_with(FEATHER1) {
        let why = "the file is in version 1 of Feather, which is not Arrow's format: write it with version=2";
        return Err(Error::new(ErrorKind::Unsupported, why));
    }
    if !front.starts_with(MAGIC) {
        return scan::batches(file, 0);
    }
    // A program that was interrupted has written no footer.
    match footer::batches(file)? {
        Some(found) => Ok(found),
        None => scan::batches(file, front.len() as u64),
    }
}

/// Returns the positions in `file` of all rows of the Arrow file in its `range`.
///
/// # Errors
///
/// As [`batches`].
pub fn batches_in<R: ReadAt + ?Sized>(file: &R, range: Range<u64>) -> Result<Batches> {
    let start = range.start;
    let mut found = batches(&FilePart { file, range })?;
    found.batches.iter_mut().for_each(|batch| batch.start += start);
    found.dictionaries.iter_mut().for_each(|dictionary| dictionary.start += start);
    Ok(found)
}
