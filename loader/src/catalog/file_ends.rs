//! Ends of files, where some formats have the offsets of everything else: a request for each file, and a second one for
//! a long end.

use super::found_files::{FoundFile, sized};
use super::requests::{FileRange, fetch_ranges};
use crate::error::{Context, Error, Result};
use crate::store::Remote;

/// Outcome of a look at the last bytes of a file.
pub(super) enum End<T> {
    Read(T),
    /// It takes as many of the last bytes.
    Longer(u64),
}

/// Reader of the ends of files of one format.
pub(super) struct FileEnds {
    /// Bytes that are requested at first: the ends of most files have fewer.
    pub(super) bytes: u64,
    /// Bytes of the smallest file.
    pub(super) file_bytes_min: u64,
    /// Message for a smaller file.
    pub(super) too_short: &'static str,
}

impl FileEnds {
    /// Reads the ends of `files` in `remote`. `parse` is called with the number of a file, its last bytes and its
    /// length, again if it asks for more bytes. `progress` is called after each request.
    ///
    /// # Errors
    ///
    /// `Format` for a file that is too short; errors of the store and of `parse`, with the name of the file.
    pub(super) fn read<T>(
        &self,
        remote: &Remote,
        files: &[&FoundFile],
        progress: &(dyn Fn() + Sync),
        mut parse: impl FnMut(usize, &[u8], u64) -> Result<End<T>>,
    ) -> Result<Vec<T>> {
        let bytes = sized(remote, files.iter().copied())?;
        if let Some(short) = bytes.iter().position(|bytes| *bytes < self.file_bytes_min) {
            return Err(Error::format(self.too_short).with("file", &files[short].name));
        }
        let mut found: Vec<Option<T>> = files.iter().map(|_| None).collect();
        let mut asked: Vec<(usize, u64)> = bytes.iter().map(|bytes| self.bytes.min(*bytes)).enumerate().collect();
        for _ in 0..2 {
            let range = |(number, end): &(usize, u64)| {
                let (name, file_bytes) = (&*files[*number].name, bytes[*number]);
                FileRange { name, start: file_bytes - end, bytes: *end, file_bytes }
            };
            let ranges: Vec<_> = asked.iter().map(range).collect();
            let mut longer = Vec::new();
            fetch_ranges(remote, &ranges, |at, end, _| {
                progress();
                let (number, asked) = asked[at];
                match parse(number, end, bytes[number]).context("file", || &files[number].name)? {
                    End::Read(read) => found[number] = Some(read),
                    End::Longer(more) if more > asked && more <= bytes[number] => longer.push((number, more)),
                    End::Longer(_) => {
                        return Err(Error::internal("an end of a file was asked for that it does not have"));
                    }
                }
                Ok(())
            })?;
            asked = longer;
        }
        found.into_iter().collect::<Option<_>>().ok_or_else(|| Error::internal("the end of a file was not read"))
    }
}
