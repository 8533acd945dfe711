//! Files that are stored without their zeros, in the four ways of GNU tar.

use tar::{GnuExtSparseHeader, GnuSparseHeader, Header};

use super::BLOCK;
use super::pax::{damaged, number};
use crate::read_at::ReadAt;
use forebay_core::error::{Error, Result};

/// Most pieces of a file.
const PIECES_MAX: usize = 1 << 16;

/// Most bytes of the sparse files of a sample with their zeros: a damaged header could describe any number.
const BYTES_MAX: u64 = 1 << 30;

/// Offsets of the stored pieces of a file.
#[derive(Clone, Debug, Default)]
pub struct SparseMap {
    /// Bytes of the file with its zeros.
    bytes: u64,
    /// Offset in the file and bytes of each piece, in their order in the archive.
    pieces: Vec<(u64, u64)>,
}

impl SparseMap {
    /// Reads the map in `header` and the blocks after it, which begin at `at`. Returns it with the offset of the
    /// content.
    pub(super) fn from_header<R: ReadAt + ?Sized>(archive: &R, header: &Header, mut at: u64) -> Result<(Self, u64)> {
        let header = header.as_gnu().ok_or_else(|| Error::format("a sparse file without a header of GNU tar"))?;
        let mut map = Self { bytes: header.real_size().map_err(damaged)?, pieces: Vec::new() };
        map.add_all(&header.sparse)?;
        let mut continues = header.is_extended();
        while continues {
            let mut block = GnuExtSparseHeader::new();
            archive.read_at(block.as_mut_bytes(), at)?;
            map.add_all(&block.sparse)?;
            continues = block.is_extended();
            at += BLOCK;
        }
        Ok((map, at))
    }

    fn add_all(&mut self, pieces: &[GnuSparseHeader]) -> Result<()> {
        for piece in pieces.iter().take_while(|piece| !piece.is_empty()) {
            self.add((piece.offset().map_err(damaged)?, piece.length().map_err(damaged)?))?;
        }
        Ok(())
    }

    fn add(&mut self, piece: (u64, u64)) -> Result<()> {
        if self.pieces.len() == PIECES_MAX {
            return Err(Error::format(format!("a sparse file has more than {PIECES_MAX} pieces")));
        }
        self.pieces.push(piece);
        Ok(())
    }

    /// Checks that the pieces are in the file, in order, and that the archive has `stored` bytes for them.
    pub(super) fn check(&self, stored: u64) -> Result<()> {
        if self.bytes > BYTES_MAX {
            return Err(Error::format(format!("a sparse file of {} bytes; at most {BYTES_MAX} are read", self.bytes)));
        }
        let (mut end, mut needed) = (0_u64, 0_u64);
        for (offset, bytes) in &self.pieces {
            let is_after = *offset >= end;
            end = offset.saturating_add(*bytes);
            if !is_after || end > self.bytes {
                return Err(Error::format("the pieces of a sparse file overlap or are after its end"));
            }
            needed += bytes;
        }
        if needed > stored {
            return Err(Error::format(format!("a sparse file has {stored} bytes stored of {needed}")));
        }
        Ok(())
    }

    /// Checks that the file, after `before` bytes of files of its sample, is within the bound of one.
    pub(super) fn check_room(&self, before: usize) -> Result<()> {
        if (before as u64).saturating_add(self.bytes) > BYTES_MAX {
            return Err(Error::format(format!("the sparse files of a sample have more than {BYTES_MAX} bytes")));
        }
        Ok(())
    }

    /// Bytes of the file with its zeros.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Offset in the file and bytes of each piece, which do not overlap and are in their order.
    pub fn pieces(&self) -> &[(u64, u64)] {
        &self.pieces
    }

    /// Appends the file with its zeros to `into`. `stored` is its content in the archive.
    pub(super) fn expand(&self, stored: &[u8], into: &mut Vec<u8>) {
        let start = into.len();
        into.resize(start + self.bytes as usize, 0);
        let mut rest = stored;
        for (offset, bytes) in &self.pieces {
            // Within both, as `check` ensures.
            let (piece, later) = rest.split_at(*bytes as usize);
            into[start + *offset as usize..][..piece.len()].copy_from_slice(piece);
            rest = later;
        }
    }
}

/// Records of a pax header that describe a sparse file: of version 0.0, 0.1 or 1.0.
#[derive(Default)]
pub(super) struct Records {
    name: Option<Vec<u8>>,
    bytes: Option<u64>,
    /// Offsets and sizes by turns; `None` without any.
    numbers: Option<Vec<u64>>,
    is_in_content: bool,
}

impl Records {
    /// Records the pair, if it is about a sparse file.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match key {
            b"GNU.sparse.name" => self.name = Some(value.to_vec()),
            b"GNU.sparse.size" | b"GNU.sparse.realsize" => self.bytes = Some(number(value)?),
            b"GNU.sparse.offset" | b"GNU.sparse.numbytes" => {
                // The bound of the records is one of their numbers; the bound of the pieces is checked by `add`.
                self.numbers.get_or_insert_default().push(number(value)?);
            }
            b"GNU.sparse.map" => {
                let numbers = value.split(|byte| *byte == b',').map(number);
                self.numbers = Some(if value.is_empty() { Vec::new() } else { numbers.collect::<Result<_>>()? });
            }
            b"GNU.sparse.major" => self.is_in_content = number(value)? == 1,
            _ => {}
        }
        Ok(())
    }

    /// Name of the file, if the records have it.
    pub(super) fn name(&self) -> Option<&[u8]> {
        self.name.as_deref()
    }

    /// Returns the map, and its bytes at the start of the file's content of `stored` bytes at `at`; `None` for a file
    /// that is not sparse.
    pub(super) fn map<R: ReadAt + ?Sized>(
        &self,
        archive: &R,
        at: u64,
        stored: u64,
    ) -> Result<Option<(SparseMap, u64)>> {
        let Some(bytes) = self.bytes.filter(|_| self.is_in_content || self.numbers.is_some()) else { return Ok(None) };
        let mut map = SparseMap { bytes, pieces: Vec::new() };
        let (numbers, in_content) = if self.is_in_content {
            numbers_in_content(archive, at, stored)?
        } else {
            (self.numbers.clone().unwrap_or_default(), 0)
        };
        for piece in numbers.chunks(2) {
            let &[offset, bytes] = piece else {
                return Err(Error::format("a piece of a sparse file without its size"));
            };
            map.add((offset, bytes))?;
        }
        Ok(Some((map, in_content)))
    }
}

/// Reads the numbers at the start of a file's content: their pairs' count, then the pairs, a line each, in whole
/// blocks.
fn numbers_in_content<R: ReadAt + ?Sized>(archive: &R, at: u64, stored: u64) -> Result<(Vec<u64>, u64)> {
    let mut numbers = Vec::new();
    let (mut text, mut line) = ([0; BLOCK as usize], Vec::new());
    let mut wanted = 1;
    let mut read = 0;
    while numbers.len() < wanted {
        if read + BLOCK > stored {
            return Err(Error::format("the map of a sparse file is cut off"));
        }
        archive.read_at(&mut text, at + read)?;
        read += BLOCK;
        for byte in text {
            match byte {
                b'\n' => numbers.push(number(&std::mem::take(&mut line))?),
                // No number is longer.
                byte if line.len() < 20 => line.push(byte),
                _ => return Err(Error::format("a damaged map of a sparse file")),
            }
            if let (1, &[pieces]) = (wanted, &numbers[..]) {
                if pieces > PIECES_MAX as u64 {
                    return Err(Error::format(format!("a sparse file has more than {PIECES_MAX} pieces")));
                }
                wanted = 1 + 2 * pieces as usize;
            }
            if numbers.len() == wanted {
                break;
            }
        }
    }
    numbers.remove(0);
    Ok((numbers, read))
}
