//! Reads of parts of a file, wherever it is.

use forebay_core::error::{Error, Result};
use std::io::{self, Read};

/// Bytes from which a reader is far from the end of a file, and most bytes that it reads at once there.
pub const AHEAD_BYTES: u64 = 2 << 20;

/// File that can be read at any offset.
pub trait ReadAt {
    /// Bytes of the file; [`u64::MAX`] for a file that is made while it is read, as long as its end is not known.
    fn bytes(&self) -> u64;

    /// Bytes of the file for a reader at `offset`. A file that is made while it is read knows its end if that is less
    /// than [`AHEAD_BYTES`] after the offset.
    fn bytes_seen_from(&self, _offset: u64) -> u64 {
        self.bytes()
    }

    /// Returns all bytes of a file in memory.
    fn in_memory(&self) -> Option<&[u8]> {
        None
    }

    /// Fills `into` with the bytes from `offset` on.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] if the file ends before; errors of its storage.
    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<()>;
}

impl<T: AsRef<[u8]> + ?Sized> ReadAt for T {
    fn bytes(&self) -> u64 {
        self.as_ref().len() as u64
    }

    fn in_memory(&self) -> Option<&[u8]> {
        Some(self.as_ref())
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = self.as_ref().get(start..).and_then(|rest| rest.get(..into.len()));
        into.copy_from_slice(found.ok_or_else(|| ended(self.bytes()))?);
        Ok(())
    }
}

/// File of any type, also one without a known size, as `&dyn ReadAt`.
pub(crate) struct ByRef<'a, R: ?Sized>(pub(crate) &'a R);

impl<R: ReadAt + ?Sized> ReadAt for ByRef<'_, R> {
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn bytes_seen_from(&self, offset: u64) -> u64 {
        self.0.bytes_seen_from(offset)
    }

    fn in_memory(&self) -> Option<&[u8]> {
        self.0.in_memory()
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        self.0.read_at(into, offset)
    }
}

/// Part of a file, as a file.
pub(crate) struct FilePart<'a, R: ?Sized> {
    pub(crate) file: &'a R,
    /// Its bytes in the file, which has as many.
    pub(crate) range: std::ops::Range<u64>,
}

impl<R: ReadAt + ?Sized> ReadAt for FilePart<'_, R> {
    fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        if offset.checked_add(into.len() as u64).is_none_or(|end| end > self.bytes()) {
            return Err(ended(self.bytes()));
        }
        self.file.read_at(into, self.range.start + offset)
    }
}

/// Bytes of a file from front to back.
pub struct FileReader<'a, R: ?Sized> {
    file: &'a R,
    at: u64,
}

impl<'a, R: ReadAt + ?Sized> FileReader<'a, R> {
    /// Starts at the front of `file`, which knows its size.
    pub fn new(file: &'a R) -> Self {
        Self { file, at: 0 }
    }
}

impl<R: ReadAt + ?Sized> Read for FileReader<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.file.bytes() - self.at).unwrap_or(usize::MAX);
        let bytes = into.len().min(left);
        self.file.read_at(&mut into[..bytes], self.at).map_err(io::Error::other)?;
        self.at += bytes as u64;
        Ok(bytes)
    }
}

/// Error for a file that ends too early.
pub fn ended(bytes: u64) -> Error {
    Error::format(format!("the file ends at byte {bytes}, before the end that it announces"))
}
