//! Arrays of an `.npz` file.

use super::zip::{Member, members};
use crate::columns::FIELDS;
use crate::encoding::Encoding;
use crate::read_at::ReadAt;
use crate::sample_format::{SampleFile, SampleFormat, SurveyedFile};
use forebay_core::error::{Error, ErrorKind, Result};
use std::collections::HashSet;

/// Extension of members that are arrays. It is no part of their names.
const ARRAY: &str = ".npy";

/// Most bytes of all arrays of a file, as of any sample: a bomb of zeros takes no more memory.
const SAMPLE_BYTES_MAX: u64 = 1 << 30;

/// The format of `.npz` files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Npz;

/// Open file, with its arrays by name.
struct OpenFile<'a> {
    content: &'a [u8],
    arrays: Vec<(String, Member)>,
}

impl SampleFormat for Npz {
    fn name(&self) -> &'static str {
        "npz"
    }

    fn survey(&self, file: &dyn ReadAt) -> Result<SurveyedFile> {
        let arrays = arrays(file)?;
        let bytes = arrays.iter().map(|(_, member)| member.bytes).sum();
        let column = |(name, member): (String, Member)| {
            let encoding = if member.name.ends_with(ARRAY) { Encoding::Npy } else { Encoding::Bytes };
            (name, encoding)
        };
        Ok(SurveyedFile { columns: arrays.into_iter().map(column).collect(), bytes })
    }

    fn open<'a>(&self, content: &'a [u8]) -> Result<Box<dyn SampleFile + 'a>> {
        Ok(Box::new(OpenFile { content, arrays: arrays(&content)? }))
    }
}

impl SampleFile for OpenFile<'_> {
    fn append(&self, name: &str, out: &mut Vec<u8>) -> Result<()> {
        let found = self.arrays.iter().find(|(known, _)| known == name);
        let Some((_, member)) = found else {
            let message = "the file has no array of this name, which the first file of the data set has: add it, or \
                           leave the file out";
            return Err(Error::format(message));
        };
        member.unpack(self.content, out)
    }
}

/// Returns the arrays of `file`, by their names.
fn arrays(file: &dyn ReadAt) -> Result<Vec<(String, Member)>> {
    let mut names = HashSet::new();
    let mut arrays = Vec::new();
    for member in members(file)? {
        let name = member.name.strip_suffix(ARRAY).unwrap_or(&member.name).to_owned();
        if name == FIELDS {
            let message = "forebay keeps the names of a sample's fields in a column of this name: save the array \
                           under a different name";
            return Err(Error::new(ErrorKind::Unsupported, message).with("array", name));
        }
        if !names.insert(name.clone()) {
            return Err(Error::format("the file has two arrays of one name").with("array", name));
        }
        arrays.push((name, member));
    }
    if arrays.is_empty() {
        return Err(Error::format("the file has no arrays"));
    }
    let bytes = arrays.iter().map(|(_, member)| member.bytes).fold(0, u64::saturating_add);
    if bytes > SAMPLE_BYTES_MAX {
        let message = "the arrays of the file have more than 1 GiB, the limit of a sample: save them in several files";
        return Err(Error::new(ErrorKind::Unsupported, message).with("bytes", bytes));
    }
    Ok(arrays)
}
