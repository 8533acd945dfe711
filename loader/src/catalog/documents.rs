//! Documents that are kept as the index of a stream, in JSON.

use super::found_files::FoundFile;
use crate::error::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Returns the bytes of a document.
///
/// # Errors
///
/// None that can be expected.
pub(super) fn to_bytes(document: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(document).map_err(|e| Error::internal("an index cannot be written").caused_by(e))
}

/// Parses the index of files that are `whose`.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] for other bytes.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8], whose: &str) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|e| Error::format(format!("the file is no index of {whose}")).caused_by(e))
}

/// Checks that an index with files of the names and lengths `kept` is of `files`.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] for an index of other files.
pub(super) fn check_files<'a>(kept: impl Iterator<Item = (&'a str, u64)>, files: &[FoundFile]) -> Result<()> {
    let found = files.iter().map(|file| (file.name.as_str(), file.bytes));
    let is_same = |((kept, length), (name, bytes)): &((&str, u64), (&str, Option<u64>))| {
        kept == name && bytes.is_none_or(|bytes| bytes == *length)
    };
    let mut kept = kept.peekable();
    let same = kept.by_ref().zip(found).take_while(is_same).count();
    if same == files.len() && kept.peek().is_none() {
        return Ok(());
    }
    Err(Error::format("the index is of other files").with("files", files.len()))
}
