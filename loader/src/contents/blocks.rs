//! Memory of pieces, which is used again.

use super::BLOCK_BYTES;
use crate::Result;
use crate::memory::prefer_huge_pages;
use crate::store::FetchRequest;
use crate::sync::{Arc, Mutex};
use bytes::{Bytes, BytesMut};

/// Blocks that are kept without a use.
const SPARE_MAX: usize = 16;

/// Blocks of [`BLOCK_BYTES`].
#[derive(Clone, Default)]
pub(super) struct Blocks(Arc<Mutex<Vec<BytesMut>>>);

impl Blocks {
    /// Returns memory of `len` bytes, with any contents.
    ///
    /// # Errors
    ///
    /// `Full` for more than a block that there is no memory for.
    pub(super) fn take(&self, len: u64) -> Result<BytesMut> {
        if len > BLOCK_BYTES as u64 {
            return Ok(FetchRequest::try_new("", len)?.into);
        }
        let spare = self.0.lock().pop();
        let mut memory = spare.unwrap_or_else(|| {
            let mut new = BytesMut::with_capacity(BLOCK_BYTES);
            prefer_huge_pages(new.spare_capacity_mut());
            new
        });
        // Writes zeros only if the last use was a shorter one.
        memory.resize(len as usize, 0);
        Ok(memory)
    }

    /// Makes bytes of memory that was taken. It comes back once the last reference to them is dropped.
    pub(super) fn share(&self, memory: BytesMut) -> Bytes {
        Bytes::from_owner(Block { memory, home: self.clone() })
    }
}

struct Block {
    memory: BytesMut,
    home: Blocks,
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.memory
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut spare = self.home.0.lock();
        // Larger ones are rare.
        if spare.len() < SPARE_MAX && self.memory.capacity() <= BLOCK_BYTES {
            spare.push(std::mem::take(&mut self.memory));
        }
    }
}
