//! Creation of row indexes.

#![forbid(unsafe_code)]

use super::kernel::Kernels;
use super::native::NativeDecoder;

/// Maker of row indexes for [`Decoder::decode_indexed`](super::Decoder::decode_indexed).
pub struct RowIndexer(NativeDecoder);

impl Default for RowIndexer {
    fn default() -> Self {
        Self(NativeDecoder::new(Kernels::new()))
    }
}

impl RowIndexer {
    /// Appends the row index of the JPEG file `bytes` to `out`: some 6 bytes for each row of MCUs. Returns false, with
    /// `out` unchanged, for bytes that cannot have an index: everything except a flawless picture in one sequential
    /// scan.
    pub fn append(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        self.0.index(bytes, out).inspect_err(|reason| log::trace!("no row index for a value: {reason}")).is_ok()
    }
}
