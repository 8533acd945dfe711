//! Shard of a file of ids: a range of the file, and the offsets of the samples in it.

use super::header::Header;
use super::survey::Cut;
use super::window::TokenWindow;
use crate::encoding::{ArrayType, DType, Encoding};
use crate::layout::Layout;
use crate::read_at::{ReadAt, ended};
use crate::table::{OffsetTable, offset_table};
use forebay_core::error::{Error, Result};

/// Name of the one column.
const COLUMN: &str = "tokens";

/// Range of a file of ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenPart {
    /// Type of the ids.
    pub dtype: DType,
    /// First byte of the range in the file.
    pub start: u64,
    /// Bytes of the range.
    pub bytes: u64,
    /// Samples in it.
    pub samples: Samples,
}

/// Samples of a [`TokenPart`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Samples {
    /// Windows, the first of them at the start of the range.
    Windows(TokenWindow),
    /// Documents of Megatron's file with this header, from the first cut to the second.
    Documents {
        /// Of the `.idx` file.
        header: Header,
        /// First document.
        from: Cut,
        /// Document after the last.
        to: Cut,
    },
}

impl TokenPart {
    /// Layout of the samples of files with ids of `dtype`: documents, or the windows of `window`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for a window of 4 GiB.
    pub fn layout(dtype: DType, window: Option<TokenWindow>) -> Result<Layout> {
        let encoding = match window {
            Some(window) => Encoding::parse(&format!("ndarray:{dtype}:{}", window.tokens))?,
            None => Encoding::Array(ArrayType::flat(dtype)),
        };
        Ok(Layout::plain(COLUMN, encoding))
    }

    /// Number of samples.
    pub fn len(&self) -> u64 {
        match self.samples {
            Samples::Windows(window) => window.count(self.bytes / self.token_bytes()),
            Samples::Documents { from, to, .. } => to.document - from.document,
        }
    }

    /// Returns true if there is no sample.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn token_bytes(&self) -> u64 {
        self.dtype.size() as u64
    }

    /// Ranges of the `.idx` file with the offsets of the samples, as offset and bytes; none for windows.
    pub fn index_ranges(&self) -> Vec<(u64, u64)> {
        let Samples::Documents { header, from, to } = &self.samples else { return Vec::new() };
        let lengths = (header.lengths_at() + 4 * from.sequence, 4 * (to.sequence - from.sequence));
        let bounds = header.bound_count();
        let bounds = bounds.map(|_| (header.bounds_at() + 8 * from.document, 8 * (to.document - from.document + 1)));
        [lengths].into_iter().chain(bounds).collect()
    }

    /// Returns the offsets of the samples in the whole file of `file_bytes` bytes. `idx` is the `.idx` file; for
    /// windows it is not read.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for an `.idx` that has changed; errors of its storage.
    pub fn offsets_in_file<R: ReadAt + ?Sized>(&self, idx: &R, file_bytes: u64) -> Result<OffsetTable> {
        let Samples::Windows(window) = self.samples else {
            let read = |(at, bytes): (u64, u64)| {
                // The numbers of an index may be of a longer file.
                if at.checked_add(bytes).is_none_or(|end| end > idx.bytes()) {
                    return Err(ended(idx.bytes()));
                }
                let mut table = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
                idx.read_at(&mut table, at).map(|()| table)
            };
            let tables = self.index_ranges().into_iter().map(read).collect::<Result<Vec<_>>>()?;
            let sizes = self.document_tokens(&tables)?;
            let offsets = OffsetTable::of_units(&sizes, self.token_bytes() as u32)?;
            return Ok(offsets.shifted(self.start, file_bytes));
        };
        Ok(self.windows(window)?.shifted(self.start, file_bytes))
    }

    /// Returns the offsets of the samples in the range, by the [ranges](Self::index_ranges) of the `.idx`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for an `.idx` that has changed.
    pub fn offsets(&self, tables: &[impl AsRef<[u8]>]) -> Result<OffsetTable> {
        match self.samples {
            Samples::Windows(window) => self.windows(window),
            Samples::Documents { .. } => {
                OffsetTable::of_units(&self.document_tokens(tables)?, self.token_bytes() as u32)
            }
        }
    }

    /// Returns the offsets of the samples in a file that [`assembled`](Self::assembled) has made, if it does not have
    /// them.
    pub fn offsets_assembled(&self) -> Option<Result<OffsetTable>> {
        match self.samples {
            Samples::Windows(window) => Some(self.windows(window)),
            Samples::Documents { .. } => None,
        }
    }

    fn windows(&self, window: TokenWindow) -> Result<OffsetTable> {
        let bytes = u64::from(window.tokens) * self.token_bytes();
        let stride = u64::from(window.stride) * self.token_bytes();
        OffsetTable::of_windows(self.len(), bytes, stride, self.bytes)
    }

    /// Bytes of the file that [`assembled`](Self::assembled) makes.
    pub fn assembled_bytes(&self) -> u64 {
        match self.samples {
            Samples::Windows(_) => self.bytes,
            Samples::Documents { .. } => self.bytes.saturating_add(OffsetTable::bytes(self.len())),
        }
    }

    /// Makes the shard's own file: of windows the bytes as they are; of documents an offset table and the bytes.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for an `.idx` that has changed; [`crate::ErrorKind::Config`] for documents of more
    /// than 4 GiB; [`crate::ErrorKind::Full`] without memory.
    pub fn assembled(&self, tables: &[impl AsRef<[u8]>], ids: &[u8]) -> Result<Vec<u8>> {
        let mut file = match self.samples {
            Samples::Windows(_) => Vec::new(),
            Samples::Documents { .. } => {
                let token_bytes = self.dtype.size() as u32;
                let tokens = self.document_tokens(tables)?;
                let sizes: Vec<_> = tokens.iter().map(|tokens| tokens.saturating_mul(token_bytes)).collect();
                offset_table(&sizes, OffsetTable::bytes(self.len()), &[])?
            }
        };
        file.try_reserve_exact(ids.len()).map_err(|_| Error::new(crate::ErrorKind::Full, "no memory for a shard"))?;
        file.extend_from_slice(ids);
        Ok(file)
    }

    /// Returns the number of tokens of each document, by the [ranges](Self::index_ranges) of the `.idx`.
    fn document_tokens(&self, tables: &[impl AsRef<[u8]>]) -> Result<Vec<u32>> {
        let Samples::Documents { from, to, .. } = &self.samples else { return Ok(Vec::new()) };
        // The index of the stream was made of the same file, which was checked as a whole then.
        let changed = || Error::format("the .idx file has changed since the loader's index was made: remove that");
        let lengths = tables.first().ok_or_else(changed)?.as_ref().chunks_exact(4);
        let mut lengths = lengths.map(|l| u32::from_le_bytes([l[0], l[1], l[2], l[3]]));
        let documents: Vec<u32> = match tables.get(1) {
            None => lengths.collect(),
            Some(bounds) => {
                let bounds = bounds.as_ref().chunks_exact(8).map(|b| b.try_into().map(u64::from_le_bytes));
                let bounds = bounds.collect::<Result<Vec<u64>, _>>().map_err(|_| changed())?;
                let document = |pair: &[u64]| {
                    let count = pair[1].checked_sub(pair[0]).filter(|count| *count <= to.sequence - from.sequence);
                    let sequences = lengths.by_ref().take(count.ok_or_else(changed)? as usize);
                    let tokens = sequences.map(u64::from).sum::<u64>();
                    u32::try_from(tokens).map_err(|_| Error::format("a document has more than 2^32 tokens"))
                };
                bounds.windows(2).map(document).collect::<Result<_>>()?
            }
        };
        let tokens: u64 = documents.iter().copied().map(u64::from).sum();
        if documents.len() as u64 != self.len() || tokens.saturating_mul(self.token_bytes()) != self.bytes {
            return Err(changed());
        }
        Ok(documents)
    }
}
