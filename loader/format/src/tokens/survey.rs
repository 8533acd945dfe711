//! Pass over the tables of an `.idx`: checks all of it, and finds the offsets at which the `.bin` file is cut.

use super::header::{Header, check_end, misplaced};
use crate::read_at::ReadAt;
use forebay_core::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Bytes of a table that are read at once: as many as a store delivers well.
const BLOCK_BYTES: u64 = 8 << 20;

/// Documents of a shard at most, because an open shard has an offset of each in memory.
const DOCUMENTS_MAX: u64 = 1 << 20;

/// Position between two documents.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Serialize)]
#[serde(from = "[u64; 3]", into = "[u64; 3]")]
pub struct Cut {
    /// Number of the document that starts here.
    pub document: u64,
    /// Number of its first sequence.
    pub sequence: u64,
    /// Number of its first token.
    pub token: u64,
}

impl From<[u64; 3]> for Cut {
    fn from([document, sequence, token]: [u64; 3]) -> Self {
        Self { document, sequence, token }
    }
}

impl From<Cut> for [u64; 3] {
    fn from(cut: Cut) -> Self {
        [cut.document, cut.sequence, cut.token]
    }
}

impl Header {
    /// Checks `cuts` that were kept, for a `.bin` file of `bin_bytes` bytes.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for cuts that are not in the files, or not in order.
    pub fn check_cuts(&self, cuts: &[Cut], bin_bytes: u64) -> Result<()> {
        self.check()?;
        let are_in_order = cuts.windows(2).all(|pair| {
            let (a, b) = (pair[0], pair[1]);
            a.document <= b.document && a.sequence <= b.sequence && a.token <= b.token
        });
        let end = cuts.last().copied().unwrap_or_default();
        let bytes = end.token.checked_mul(self.token_bytes());
        let is_inside = end.document <= self.documents() && end.sequence <= self.sequences;
        if are_in_order && is_inside && bytes.is_some_and(|bytes| bytes <= bin_bytes) {
            return Ok(());
        }
        Err(Error::format("the kept shards are not in the file"))
    }

    /// Number of documents.
    pub fn documents(&self) -> u64 {
        self.bound_count().map_or(self.sequences, |bounds| bounds - 1)
    }

    /// Number of bounds that documents have; `None` where each sequence is a document.
    pub(super) fn bound_count(&self) -> Option<u64> {
        // A writer that never ends a document leaves one bound, the first.
        self.bounds.filter(|bounds| *bounds > 1)
    }

    /// Returns the cuts between shards of about `shard_bytes` bytes: the start of each shard, and the end of the last.
    /// All tables of `idx` are read and checked. `bin_bytes` is the size of the `.bin` file.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for lengths, offsets and bounds that cannot be, with their number; errors of the
    /// file's storage.
    pub fn cuts<R: ReadAt + ?Sized>(&self, idx: &R, bin_bytes: u64, shard_bytes: u64) -> Result<Vec<Cut>> {
        let token_bytes = self.token_bytes();
        let mut lengths = Table::new(idx, self.lengths_at(), 4 * self.sequences);
        let mut pointers = Table::new(idx, self.pointers_at(), 8 * self.sequences);
        let mut ends = Ends::new(self, idx)?;
        let (mut cuts, mut start, mut at) = (vec![Cut::default()], Cut::default(), Cut::default());
        for document in 0..self.documents() {
            let end = ends.next(document)?;
            if end < at.sequence || end > self.sequences {
                let error = Error::format("a document ends before it starts, or after the last sequence");
                return Err(error.with("document", document).with("start", at.sequence).with("end", end));
            }
            let mut token = at.token;
            for sequence in at.sequence..end {
                let (length, pointer) = (i32::from_le_bytes(lengths.next()?), i64::from_le_bytes(pointers.next()?));
                // No overflow: all tokens before are in the `.bin` file.
                if u64::try_from(pointer) != Ok(token * token_bytes) {
                    return Err(misplaced(sequence, pointer, token * token_bytes));
                }
                let Ok(tokens) = u64::try_from(length) else {
                    let error = Error::format("a sequence has a negative length");
                    return Err(error.with("sequence", sequence).with("length", length));
                };
                token += tokens;
                check_end(token * token_bytes, bin_bytes).map_err(|e| e.with("sequence", sequence))?;
            }
            let is_full = (token - start.token) * token_bytes > shard_bytes && at.token > start.token;
            if is_full || document - start.document >= DOCUMENTS_MAX {
                cuts.push(at);
                start = at;
            }
            at = Cut { document: document + 1, sequence: end, token };
        }
        if at.sequence != self.sequences {
            let error = Error::format("there are sequences after the last document");
            return Err(error.with("end", at.sequence).with("sequences", self.sequences));
        }
        if at != start {
            cuts.push(at);
        }
        Ok(cuts)
    }
}

/// Ends of the documents, in sequence.
struct Ends<'a, R: ?Sized> {
    bounds: Option<Table<'a, R>>,
}

impl<'a, R: ReadAt + ?Sized> Ends<'a, R> {
    fn new(header: &Header, idx: &'a R) -> Result<Self> {
        let Some(count) = header.bound_count() else { return Ok(Self { bounds: None }) };
        let mut bounds = Table::new(idx, header.bounds_at(), 8 * count);
        let first = i64::from_le_bytes(bounds.next()?);
        if first != 0 {
            return Err(Error::format("the first document does not start at the first sequence").with("start", first));
        }
        Ok(Self { bounds: Some(bounds) })
    }

    /// Returns the number of the sequence after the last of `document`.
    fn next(&mut self, document: u64) -> Result<u64> {
        let Some(bounds) = &mut self.bounds else { return Ok(document + 1) };
        let end = i64::from_le_bytes(bounds.next()?);
        let negative = || Error::format("a document ends at a negative sequence").with("document", document);
        u64::try_from(end).map_err(|_| negative().with("end", end))
    }
}

/// Entries of a table, in sequence.
struct Table<'a, R: ?Sized> {
    file: &'a R,
    /// Offset and bytes of the part that has not been read.
    at: u64,
    left: u64,
    block: Vec<u8>,
    /// Bytes of the block that have been taken.
    taken: usize,
}

impl<'a, R: ReadAt + ?Sized> Table<'a, R> {
    fn new(file: &'a R, at: u64, bytes: u64) -> Self {
        Self { file, at, left: bytes, block: Vec::new(), taken: 0 }
    }

    /// Returns the next entry, which exists.
    fn next<const BYTES: usize>(&mut self) -> Result<[u8; BYTES]> {
        if self.taken == self.block.len() {
            let bytes = self.left.min(BLOCK_BYTES);
            self.block.resize(bytes as usize, 0);
            self.file.read_at(&mut self.block, self.at)?;
            (self.at, self.left, self.taken) = (self.at + bytes, self.left - bytes, 0);
        }
        let entry = self.block.get(self.taken..).and_then(|rest| rest.first_chunk());
        self.taken += BYTES;
        entry.copied().ok_or_else(|| Error::internal("a table has fewer entries than it was made for"))
    }
}
