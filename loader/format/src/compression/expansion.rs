//! Bound of the bytes that stored ones become, for streams and encodings that may declare any number: a decompression
//! bomb of some kilobytes would take gigabytes of memory and disk before it is found to be no data set.

use forebay_core::error::Error;
use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

/// Bytes that any stored bytes may become.
const BYTES_MAX: u64 = 256 << 20;

/// Bytes that each stored byte may become beyond them. Text is 5 to 20 times smaller when it is packed, and pictures
/// and tokens less. Only repeated bytes are 1,000 to 30,000 times smaller.
const RATIO_MAX: u64 = 250;

/// Checks the bytes `bytes` that `stored` bytes have become so far.
///
/// # Errors
///
/// [`forebay_core::error::ErrorKind::Format`] for more than any data of that size.
pub fn check_expansion(stored: u64, bytes: u64) -> Result<(), Error> {
    if bytes <= BYTES_MAX.max(stored.saturating_mul(RATIO_MAX)) {
        return Ok(());
    }
    let message = format!(
        "{stored} stored bytes become more than {RATIO_MAX} times as many and {} MiB, as in a decompression bomb",
        BYTES_MAX >> 20
    );
    Err(Error::format(message).hinting("if they are data, write them into smaller files"))
}

/// Packed stream that counts the bytes that are used of it.
pub(super) struct Used<R> {
    packed: R,
    bytes: Rc<Cell<u64>>,
}

impl<R> Used<R> {
    pub(super) fn new(packed: R) -> (Self, Rc<Cell<u64>>) {
        let bytes = Rc::new(Cell::new(0));
        (Self { packed, bytes: bytes.clone() }, bytes)
    }
}

impl<R: BufRead> BufRead for Used<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.packed.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes as u64);
        self.packed.consume(bytes);
    }
}

impl<R: BufRead> Read for Used<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.packed.read(into)?;
        self.bytes.set(self.bytes.get() + read as u64);
        Ok(read)
    }
}

/// Unpacked stream that fails where it becomes larger than any data. Its error is an [`Error`].
pub(super) struct Bounded<'a> {
    pub(super) unpacked: Box<dyn Read + 'a>,
    /// Packed bytes that were used.
    pub(super) used: Rc<Cell<u64>>,
    /// Bytes so far.
    pub(super) bytes: u64,
}

impl Read for Bounded<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.unpacked.read(into)?;
        self.bytes += read as u64;
        check_expansion(self.used.get(), self.bytes).map_err(io::Error::other)?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Compression;

    #[test]
    fn few_bytes_become_at_most_a_fixed_number_and_many_a_multiple() {
        assert!(check_expansion(0, 256 << 20).is_ok() && check_expansion(1 << 20, 256 << 20).is_ok());
        assert!(check_expansion(1 << 20, (256 << 20) + 1).is_err());
        assert!(check_expansion(1 << 30, 250 << 30).is_ok() && check_expansion(1 << 30, (250 << 30) + 1).is_err());
    }

    #[test]
    fn a_bomb_is_refused_whatever_its_compression_and_the_size_that_is_declared() {
        let raw = vec![0; 257 << 20];
        for compression in [Compression::GZIP, Compression::ZSTD, Compression::ZLIB] {
            let packed = match compression.compress(&raw) {
                Ok(packed) => packed,
                Err(_) => continue,
            };
            assert!(packed.len() < 1 << 20);
            for e in [
                compression.decompress(&packed, raw.len() as u64, &mut Vec::new()).unwrap_err(),
                compression.decompress_all(&packed, u64::MAX).unwrap_err(),
            ] {
                assert!(e.to_string().contains("decompression bomb"), "{compression}: {e}");
            }
            let mut reader = compression.reader(&*packed, 0).unwrap();
            let e = io::copy(&mut reader, &mut io::sink()).unwrap_err();
            assert!(e.downcast::<Error>().is_ok_and(|e| e.to_string().contains("decompression bomb")));
        }
    }
}
