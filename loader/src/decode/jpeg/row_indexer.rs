//! Creation of row indexes.

use super::kernel::Kernels;
use super::sequential::Sequential;
use super::stages::JpegStage;
use super::workspace::Workspace;

/// Maker of row indexes for [`Decoder::decode_scaled`](super::Decoder::decode_scaled).
pub struct RowIndexer {
    workspace: Workspace,
    sequential: Sequential,
}

impl Default for RowIndexer {
    fn default() -> Self {
        Self { workspace: Workspace::new(Kernels::new(), JpegStage::Coefficients), sequential: Sequential::default() }
    }
}

impl RowIndexer {
    /// Appends the row index of the JPEG file `bytes` to `out`: some 6 bytes for each row of MCUs. Returns false, with
    /// `out` unchanged, for bytes that cannot have an index: everything except a flawless picture in one sequential
    /// scan.
    pub fn append(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        let made = self.sequential.index(&mut self.workspace, bytes, out);
        made.inspect_err(|reason| log::trace!("no row index for a value: {reason}")).is_ok()
    }
}
