//! Interface of the formats of files that are a sample each, with several columns in one file.
//!
//! Such a file becomes columns when its shard enters the cache: the [recipe](super::recipe) of the shard opens each
//! file. A format is a folder next to this one with an implementation of [`SampleFormat`]; its kind of files, which
//! `sources` describes, names it.

use super::encoding::Encoding;
use super::read_at::ReadAt;
use forebay_core::error::Result;
use std::fmt;

/// Format of files that are a sample each.
pub trait SampleFormat: fmt::Debug + Sync {
    /// Name, by which formats are compared and kept.
    fn name(&self) -> &'static str;

    /// Reads the columns of `file`, which are taken for the columns of all files of its data set.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a damaged file; [`crate::ErrorKind::Unsupported`] for one in a form that is not
    /// read; errors of its storage.
    fn survey(&self, file: &dyn ReadAt) -> Result<SurveyedFile>;

    /// Opens the file with this content.
    ///
    /// # Errors
    ///
    /// As [`survey`](Self::survey).
    fn open<'a>(&self, content: &'a [u8]) -> Result<Box<dyn SampleFile + 'a>>;
}

/// Columns of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurveyedFile {
    /// Names, which differ, and encodings.
    pub columns: Vec<(String, Encoding)>,
    /// Bytes of all values.
    pub bytes: u64,
}

/// Open file of a sample.
pub trait SampleFile {
    /// Appends the value of the column `name`, in its encoding, to `out`. After an error `out` may have more bytes than
    /// before.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a file without this column, and for a damaged value;
    /// [`crate::ErrorKind::Full`] without memory.
    fn append(&self, name: &str, out: &mut Vec<u8>) -> Result<()>;
}
