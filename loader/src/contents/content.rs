//! Content of one object, unpacked if it is compressed.

use super::blocks::Blocks;
use super::pieces::{Pieces, replaced};
use crate::format::Compression;
use crate::{Error, Result};
use bytes::{Buf as _, Bytes};
use std::io::{self, BufRead, Read};

/// Bytes of a piece that is unpacked. It is in a cache of the CPU still when its lines are copied.
const UNPACKED_BYTES: u64 = 1 << 20;

/// Content of the object that [`Pieces::next_object`] has returned.
pub(super) enum Content<'a> {
    Plain(&'a mut Pieces),
    Unpacked(Unpacked<'a>),
}

pub(super) struct Unpacked<'a> {
    reader: Box<dyn Read + 'a>,
    blocks: Blocks,
    compression: Compression,
    /// Failure after the bytes that were returned.
    failure: Option<Error>,
}

impl<'a> Content<'a> {
    /// Content from the offset `start` on. `window_bytes` is as for [`ContentLimits`](super::ContentLimits).
    ///
    /// # Errors
    ///
    /// Errors of the store; `Format` for an object that cannot be unpacked, `Unsupported` for one with a larger window,
    /// and `Stale` for one that ends before `start`.
    pub(super) fn of(
        pieces: &'a mut Pieces,
        compression: Option<Compression>,
        window_bytes: Option<u64>,
        start: u64,
    ) -> Result<Self> {
        let Some(compression) = compression else { return Ok(Self::Plain(pieces)) };
        let blocks = pieces.blocks().clone();
        let (packed, window_bytes) = (PieceReader { pieces, piece: Bytes::new() }, window_bytes.unwrap_or(u64::MAX));
        let mut reader = compression.reader(packed, window_bytes)?;
        let skipped = io::copy(&mut reader.by_ref().take(start), &mut io::sink());
        if skipped.map_err(|e| compression.read_error(e))? < start {
            return Err(replaced());
        }
        Ok(Self::Unpacked(Unpacked { reader, blocks, compression, failure: None }))
    }

    /// Returns the next piece; `None` at the end.
    ///
    /// # Errors
    ///
    /// As [`of`](Self::of).
    pub(super) fn next(&mut self) -> Result<Option<Bytes>> {
        match self {
            Self::Plain(pieces) => pieces.next_piece(),
            Self::Unpacked(unpacked) => unpacked.next(),
        }
    }
}

impl Unpacked<'_> {
    fn next(&mut self) -> Result<Option<Bytes>> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let mut memory = self.blocks.take(UNPACKED_BYTES)?;
        let mut filled = 0;
        while filled < memory.len() {
            match self.reader.read(&mut memory[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if filled == 0 => return Err(self.compression.read_error(e)),
                Err(e) => {
                    self.failure = Some(self.compression.read_error(e));
                    break;
                }
            }
        }
        memory.truncate(filled);
        let piece = self.blocks.share(memory);
        Ok((filled > 0).then_some(piece))
    }
}

/// Pieces for a decoder.
struct PieceReader<'a> {
    pieces: &'a mut Pieces,
    piece: Bytes,
}

impl BufRead for PieceReader<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.piece.is_empty() {
            match self.pieces.next_piece().map_err(io::Error::other)? {
                Some(piece) => self.piece = piece,
                None => break,
            }
        }
        Ok(&self.piece)
    }

    fn consume(&mut self, bytes: usize) {
        self.piece.advance(bytes);
    }
}

impl Read for PieceReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let found = self.fill_buf()?;
        let len = found.len().min(into.len());
        into[..len].copy_from_slice(&found[..len]);
        self.consume(len);
        Ok(len)
    }
}
