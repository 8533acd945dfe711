//! Fields at the front of an `.idx` file, and the offsets of its tables.
//!
//! ```text
//! "MMIDIDX\0\0" | u64 1 | u8 type | u64 sequences | u64 bounds | i32 length of each sequence | i64 first byte of each
//!     | i64 sequence at which each document starts, and their number | perhaps i8 mode of each sequence
//! ```
//!
//! fairseq's files have the same name and no bounds of documents: each of their sequences is one.

use crate::encoding::DType;
use crate::read_at::ReadAt;
use forebay_core::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// First bytes of an `.idx` file.
pub const MAGIC: &[u8; 9] = b"MMIDIDX\0\0";
const VERSION: u64 = 1;

/// Bytes before the number of bounds.
const SHORT_BYTES: u64 = 26;
/// Bytes with it.
const LONG_BYTES: u64 = 34;

/// Front of an `.idx` file. The tables that it announces are in the file.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Type of the ids in the `.bin` file: an integer.
    pub dtype: DType,
    /// Number of sequences.
    pub sequences: u64,
    /// Number of bounds of documents, one more than there are documents; `None` where each sequence is a document.
    pub bounds: Option<u64>,
    /// Bytes of the file.
    pub bytes: u64,
}

impl Header {
    /// Reads the front of `file`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for a file of a different kind, or with tables that differ from its announcement;
    /// [`ErrorKind::Unsupported`] for ids that are not integers; errors of the file's storage.
    pub fn read<R: ReadAt + ?Sized>(file: &R) -> Result<Self> {
        let bytes = file.bytes();
        let mut front = [0; LONG_BYTES as usize];
        let len = (bytes.min(LONG_BYTES)) as usize;
        file.read_at(&mut front[..len], 0)?;
        let front = &front[..len];
        if !front.starts_with(MAGIC) {
            let is_old = front.starts_with(b"TNTIDX\0\0");
            let why = "this is not the index of a memory-mapped token file: it must start with MMIDIDX";
            let error = Error::format(why);
            return Err(if is_old { error.hinting("it has fairseq's older format: convert it") } else { error });
        }
        let word = |at: usize| front.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let (Some(version), Some(code), Some(sequences)) = (word(9), front.get(17), word(18)) else {
            return Err(Error::format("the file ends inside its header").with("bytes", bytes));
        };
        if version != VERSION {
            return Err(Error::format(format!("version {version} of the format is not known, only {VERSION}")));
        }
        let dtype = dtype(*code)?;
        let short = Self { dtype, sequences, bounds: None, bytes };
        if short.has_its_bytes() {
            return Ok(short);
        }
        let header = Self { bounds: word(26), ..short };
        header.check().map(|()| header)
    }

    /// Checks that the file has as many bytes as the tables need.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] if not.
    pub fn check(&self) -> Result<()> {
        if self.has_its_bytes() {
            return Ok(());
        }
        let needed = self.needed().map_or("more than any file".to_owned(), |needed| needed.to_string());
        let bytes = self.bytes;
        let message =
            format!("its tables need {needed} bytes, and the file has {bytes}: it is damaged or not complete");
        let bounds = self.bounds.map_or("none".to_owned(), |bounds| bounds.to_string());
        Err(Error::format(message).with("sequences", self.sequences).with("bounds", bounds))
    }

    fn has_its_bytes(&self) -> bool {
        let needed = self.needed();
        // Only Megatron's files have modes.
        let with_modes = needed.and_then(|needed| needed.checked_add(self.sequences)).filter(|_| self.bounds.is_some());
        needed == Some(self.bytes) || with_modes == Some(self.bytes)
    }

    /// Bytes of header and tables; `None` for counts from outside that overflow.
    fn needed(&self) -> Option<u64> {
        let front = if self.bounds.is_some() { LONG_BYTES } else { SHORT_BYTES };
        let bounds = self.bounds.unwrap_or(0).checked_mul(8)?;
        self.sequences.checked_mul(4 + 8)?.checked_add(bounds)?.checked_add(front)
    }

    /// Offset of the first length.
    pub(super) fn lengths_at(&self) -> u64 {
        if self.bounds.is_some() { LONG_BYTES } else { SHORT_BYTES }
    }

    /// Offset of the first pointer.
    pub(super) fn pointers_at(&self) -> u64 {
        self.lengths_at() + 4 * self.sequences
    }

    /// Offset of the first bound.
    pub(super) fn bounds_at(&self) -> u64 {
        self.pointers_at() + 8 * self.sequences
    }

    /// Bytes of an id.
    pub fn token_bytes(&self) -> u64 {
        self.dtype.size() as u64
    }

    /// Number of tokens, only by the offset and the length of the last sequence: a writer puts each after the one
    /// before.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for an offset outside of a `.bin` file of `bin_bytes` bytes; errors of the file's storage.
    pub fn tokens<R: ReadAt + ?Sized>(&self, file: &R, bin_bytes: u64) -> Result<u64> {
        let Some(last) = self.sequences.checked_sub(1) else { return Ok(0) };
        let (mut length, mut pointer, mut first) = ([0; 4], [0; 8], [0; 8]);
        file.read_at(&mut first, self.pointers_at())?;
        file.read_at(&mut length, self.lengths_at() + 4 * last)?;
        file.read_at(&mut pointer, self.pointers_at() + 8 * last)?;
        if first != [0; 8] {
            return Err(misplaced(0, i64::from_le_bytes(first), 0));
        }
        let (length, pointer) = (i32::from_le_bytes(length), i64::from_le_bytes(pointer));
        let start = u64::try_from(pointer).ok().filter(|start| start.is_multiple_of(self.token_bytes()));
        let end = start
            .zip(u64::try_from(length).ok())
            .and_then(|(start, length)| start.checked_add(length.checked_mul(self.token_bytes())?));
        let Some(end) = end else {
            let error = Error::format("the last sequence is outside of the .bin file");
            return Err(error.with("sequence", last).with("length", length).with("pointer", pointer));
        };
        check_end(end, bin_bytes)?;
        Ok(end / self.token_bytes())
    }
}

/// Checks that a `.bin` file of `bin_bytes` bytes has all ids up to byte `end`.
pub(super) fn check_end(end: u64, bin_bytes: u64) -> Result<()> {
    if end <= bin_bytes {
        return Ok(());
    }
    let message =
        "the .bin file ends before the last sequence of its .idx: it is not complete, or belongs to a different .idx";
    Err(Error::format(message).with("bin_bytes", bin_bytes).with("needed", end))
}

/// Error for a sequence that does not start at the end of the one before.
pub(super) fn misplaced(sequence: u64, pointer: i64, expected: u64) -> Error {
    let message =
        "a sequence does not start at the end of the one before, so the file is not a concatenation of its documents";
    Error::format(message).with("sequence", sequence).with("pointer", pointer).with("expected", expected)
}

fn dtype(code: u8) -> Result<DType> {
    Ok(match code {
        1 => DType::UInt8,
        2 => DType::Int8,
        3 => DType::Int16,
        4 => DType::Int32,
        5 => DType::Int64,
        8 => DType::UInt16,
        6 | 7 => {
            let message = "the elements are floating-point numbers, and token ids are integers";
            return Err(Error::new(ErrorKind::Unsupported, message).with("code", code));
        }
        _ => return Err(Error::format("the type of the ids is not known").with("code", code)),
    })
}
