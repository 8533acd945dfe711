//! Parts of a file in memory, as the library reads them.

use bytes::{Buf as _, Bytes, buf::Reader};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// Parts of a file that were fetched.
pub(crate) struct Parts {
    /// First byte and content of each, in the order of the file.
    parts: Vec<(u64, Bytes)>,
    file_bytes: u64,
}

impl Parts {
    pub(crate) fn new(parts: Vec<(u64, Bytes)>, file_bytes: u64) -> Self {
        Self { parts, file_bytes }
    }

    /// Returns all bytes from `start` to the end of their part.
    fn from(&self, start: u64) -> Result<Bytes> {
        let number = self.parts.partition_point(|(first, _)| *first <= start).checked_sub(1);
        let (first, content) = number.map(|number| &self.parts[number]).ok_or_else(|| absent(start))?;
        let at = usize::try_from(start - first).ok().filter(|at| *at < content.len());
        at.map(|at| content.slice(at..)).ok_or_else(|| absent(start))
    }
}

fn absent(start: u64) -> ParquetError {
    ParquetError::EOF(format!("byte {start} is outside of the columns"))
}

impl Length for Parts {
    fn len(&self) -> u64 {
        self.file_bytes
    }
}

impl ChunkReader for Parts {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        self.from(start).map(Bytes::reader)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        if length == 0 {
            return Ok(Bytes::new());
        }
        let content = self.from(start)?;
        if length > content.len() {
            return Err(ParquetError::EOF(format!("{length} bytes at byte {start} are outside of the columns")));
        }
        Ok(content.slice(..length))
    }
}
