//! Making row indexes.

#![forbid(unsafe_code)]

use super::kernel::Kernels;
use super::native::NativeDecoder;

/// Makes row indexes, for [`Decoder::decode_indexed`](super::Decoder::decode_indexed).
pub struct RowIndexer(NativeDecoder);

impl Default for RowIndexer {
    fn default() -> Self {
        Self(NativeDecoder::new(Kernels::new()))
    }
}

impl RowIndexer {
    /// Appends the row index of the JPEG file `bytes` to `out`: some 6 bytes for each row of MCUs. False, with `out` as it
    /// was, for bytes that get none: whatever is not a flawless picture in one sequential scan.
    pub fn append(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        self.0.index(bytes, out).inspect_err(|declined| log::trace!("no row index for a value: {declined}")).is_ok()
    }
}
