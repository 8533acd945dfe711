//! Memory that a fetch fills.
//!
//! The caller creates a [`FetchBuffer`], passes it to the request and gets it back filled. During the fetch it is split
//! into one piece per ranged request, so that several of them write in parallel, each byte once, without locks and
//! without a copy when the pieces are joined.

use bytes::{Bytes, BytesMut};

/// Contiguous region of initialised memory of a fixed length.
#[derive(Debug, Default)]
pub struct FetchBuffer(BytesMut);

impl FetchBuffer {
    /// Allocates `len` zero bytes. The pages are first touched by the fetch thread that writes them.
    pub fn zeroed(len: usize) -> Self {
        Self(BytesMut::zeroed(len))
    }

    /// Resizes the memory to `len` bytes for another object; its content is unspecified. Reuse of buffers saves page
    /// faults, which cost more than a copy.
    #[must_use]
    pub fn resized(mut self, len: usize) -> Self {
        self.0.resize(len, 0);
        self
    }

    /// Splits the region into pieces of `lens` bytes, which sum up to its length.
    pub(crate) fn split(mut self, lens: &[usize]) -> Vec<BytesMut> {
        lens.iter().map(|&n| self.0.split_to(n)).collect()
    }

    /// Joins pieces in the order of the split, without a copy because they are adjacent.
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
    /// Makes no copy: a buffer after its fetch is in one piece and has one owner.
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
    fn a_buffer_is_joined_in_place_after_its_pieces_were_written() {
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
