//! Memory for the bytes of uploads, which is used again: the allocator would keep more of it than is in use.

use forebay_loader::store::UploadBuffer;
use forebay_loader::sync::{Arc, Mutex};

/// Most bytes of a buffer.
const BUFFER_BYTES: usize = 1 << 20;

/// Buffers that are not in use.
#[derive(Clone, Default)]
pub(super) struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

impl Buffers {
    /// Returns an empty buffer with room for `bytes`, or as many as one may have.
    pub(super) fn take(&self, bytes: Option<u64>) -> Buffer {
        let room =
            bytes.and_then(|bytes| usize::try_from(bytes).ok()).map_or(BUFFER_BYTES, |all| all.min(BUFFER_BYTES));
        let spare = if room == BUFFER_BYTES { self.0.lock().pop() } else { None };
        Buffer { bytes: spare.unwrap_or_else(|| Vec::with_capacity(room)), home: self.clone() }
    }
}

/// Buffer that is filled. Its memory comes back once the store has it.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    home: Buffers,
}

impl Buffer {
    /// Appends the bytes that there is room for, and returns the rest.
    pub(super) fn fill<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (now, later) = bytes.split_at(bytes.len().min(self.bytes.capacity() - self.bytes.len()));
        self.bytes.extend_from_slice(now);
        later
    }

    pub(super) fn into_bytes(self) -> UploadBuffer {
        UploadBuffer::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.bytes.capacity() == BUFFER_BYTES {
            self.bytes.clear();
            self.home.0.lock().push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_buffer_is_used_again() {
        let buffers = Buffers::default();
        let mut buffer = buffers.take(None);
        let bytes = vec![7; BUFFER_BYTES + 3];
        assert_eq!(buffer.fill(&bytes), [7; 3]);
        let full = buffer.into_bytes();
        let address = full.as_ptr();
        assert_eq!(full.len(), BUFFER_BYTES);
        drop(full);
        let again = buffers.take(Some(u64::MAX));
        assert_eq!((again.bytes.as_ptr(), again.bytes.len()), (address, 0));
        assert_eq!(buffers.take(Some(5)).bytes.capacity(), 5, "of a small object");
    }
}
