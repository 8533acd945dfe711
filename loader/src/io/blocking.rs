//! Blocking reads and writes.

use crate::error::{Error, ErrorKind, Result};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

/// Most bytes per write call: a large buffered write blocks its thread for tens of milliseconds.
pub(crate) const WRITE_PIECE_BYTES: usize = 1 << 20;

/// Fills `into` with the bytes of `file` from `offset`, through the page cache, on the calling thread.
///
/// # Errors
///
/// [`ErrorKind::Format`] when the file ends early, else by the error number.
pub fn read_exact_at(file: impl AsFd, into: &mut [u8], offset: u64) -> Result<()> {
    let filled = read_up_to_at(file, into, offset)?;
    if filled == into.len() {
        return Ok(());
    }
    Err(ended_early(offset, into.len(), filled))
}

/// Fills uninitialised memory like [`read_exact_at`]. All of `into` is initialised if it returns `Ok`.
///
/// # Errors
///
/// As [`read_exact_at`].
pub(crate) fn read_exact_uninit_at(file: impl AsFd, into: &mut [MaybeUninit<u8>], offset: u64) -> Result<()> {
    let (fd, len) = (file.as_fd(), into.len());
    let mut filled = 0;
    while filled < len {
        match rustix::io::pread(fd, &mut into[filled..], offset.saturating_add(filled as u64)) {
            Ok(([], _)) => return Err(ended_early(offset, len, filled)),
            Ok((read, _)) => filled += read.len(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(unreadable(errno, offset, len)),
        }
    }
    Ok(())
}

/// Error for a file that ends before the requested bytes.
fn ended_early(offset: u64, bytes: usize, found: usize) -> Error {
    Error::format("a file ends before the requested bytes")
        .with("offset", offset)
        .with("bytes", bytes)
        .with("found", found)
}

/// Error for a read that the system refuses.
fn unreadable(errno: Errno, offset: u64, bytes: usize) -> Error {
    Error::from_io(errno.into(), "a file cannot be read").with("offset", offset).with("bytes", bytes)
}

/// Reads up to `into.len()` bytes from `offset`, as many as the file has, and returns their number.
///
/// # Errors
///
/// By the error number.
pub(crate) fn read_up_to_at(file: impl AsFd, into: &mut [u8], offset: u64) -> Result<usize> {
    let (fd, len) = (file.as_fd(), into.len());
    let mut filled = 0;
    while filled < len {
        match rustix::io::pread(fd, &mut into[filled..], offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(unreadable(errno, offset, len)),
        }
    }
    Ok(filled)
}

/// Writes all of `bytes` at `offset`, in pieces of at most [`WRITE_PIECE_BYTES`].
///
/// # Errors
///
/// [`ErrorKind::Full`] for a full disk, quota or size limit, else by the error number.
pub(crate) fn write_pieces(file: impl AsFd, bytes: &[u8], offset: u64) -> Result<()> {
    let fd = file.as_fd();
    let mut written = 0;
    while written < bytes.len() {
        let piece = &bytes[written..bytes.len().min(written + WRITE_PIECE_BYTES)];
        match rustix::io::pwrite(fd, piece, offset.saturating_add(written as u64)) {
            Ok(0) => return Err(Error::new(ErrorKind::Full, "a file takes no more bytes").with("written", written)),
            Ok(n) => written += n,
            Err(Errno::INTR) => {}
            Err(errno) => {
                return Err(Error::from_io(errno.into(), "a file cannot be written")
                    .with("offset", offset)
                    .with("bytes", bytes.len())
                    .with("written", written));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_written_in_pieces_are_read_back() {
        let file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..3 * WRITE_PIECE_BYTES + 17).map(|i| (i % 251) as u8).collect();
        write_pieces(&file, &bytes, 5).unwrap();
        let mut back = vec![0; bytes.len()];
        read_exact_at(&file, &mut back, 5).unwrap();
        assert!(back == bytes);
        let e = read_exact_at(&file, &mut back, 6).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Format);
        assert!(e.to_string().contains(&format!("found {}", bytes.len() - 1)), "{e}");
    }

    #[test]
    fn a_full_device_has_its_own_kind_of_error() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert_eq!(write_pieces(&full, b"x", 0).unwrap_err().kind(), ErrorKind::Full);
    }
}
