//! Memory that a fetch fills.
//!
//! The caller makes a [`FetchBuffer`], gives it away with the request and gets it back filled. In between it is cut
//! into one piece for every ranged request, so that several of them write side by side, each byte once, without locks
//! and without a copy when the pieces are put together again.

use bytes::{Bytes, BytesMut};

/// A contiguous region of ordinary memory, initialised, of a fixed length.
#[derive(Debug, Default)]
pub struct FetchBuffer(BytesMut);

impl FetchBuffer {
    /// `len` zero bytes. The pages are first touched by the fetch thread that writes them.
    pub fn zeroed(len: usize) -> Self {
        Self(BytesMut::zeroed(len))
    }

    /// The same memory for another object of `len` bytes; what it held does not matter. Reusing buffers saves the page
    /// faults, which cost more than the copy.
    #[must_use]
    pub fn resized(mut self, len: usize) -> Self {
        self.0.resize(len, 0);
        self
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it holds no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes, shared and immutable from here on, without a copy.
    pub fn freeze(self) -> Bytes {
        self.0.freeze()
    }

    /// Cuts the region into pieces of `lens` bytes, which sum up to its length.
    pub(crate) fn split(mut self, lens: &[usize]) -> Vec<BytesMut> {
        lens.iter().map(|&n| self.0.split_to(n)).collect()
    }

    /// Puts pieces together again in the order of the split; no copy, because they are neighbours.
    pub(crate) fn join(pieces: impl IntoIterator<Item = BytesMut>) -> Self {
        let mut whole = BytesMut::new();
        for piece in pieces {
            whole.unsplit(piece);
        }
        Self(whole)
    }
}

impl From<Vec<u8>> for FetchBuffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self(BytesMut::from(Bytes::from(bytes)))
    }
}

impl From<FetchBuffer> for Vec<u8> {
    /// Without a copy: a buffer that has come back is in one piece and nobody else's.
    fn from(buffer: FetchBuffer) -> Self {
        buffer.0.into()
    }
}

impl std::ops::Deref for FetchBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl std::ops::DerefMut for FetchBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_in_place_after_its_pieces_were_written() {
        let buffer = FetchBuffer::zeroed(10);
        let at = buffer.as_ptr();
        let mut pieces = buffer.split(&[4, 4, 2]);
        for (i, piece) in pieces.iter_mut().enumerate() {
            piece.fill(i as u8 + 1);
        }
        let buffer = FetchBuffer::join(pieces);
        assert_eq!(&*buffer, &[1, 1, 1, 1, 2, 2, 2, 2, 3, 3]);
        assert_eq!(buffer.as_ptr(), at, "joined without a copy");
    }
}
