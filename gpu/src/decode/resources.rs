//! Streams and kernels of a decoder.

use super::fallbacks::FallbackLog;
use crate::context::Stream;
use crate::device::CudaDevice;
use crate::kernel::Kernels;
use forebay_loader::Result;
use forebay_loader::sync::Arc;

/// Streams, kernels and fallback log, which all batches of a decoder use.
pub(super) struct DecodeResources {
    pub(super) device: Arc<CudaDevice>,
    pub(super) kernels: Arc<Kernels>,
    /// Stream for decoding on the cores, row copies and the kernels.
    pub(super) stream: Arc<Stream>,
    /// Stream for decoding on the engines.
    pub(super) engines_stream: Arc<Stream>,
    pub(super) fallbacks: FallbackLog,
}

impl DecodeResources {
    /// Waits on the host for all work that batches have queued on both streams. It does not wait for the device, which
    /// would include the model's work and end the capture of a graph.
    pub(super) fn wait_for_streams(&self) -> Result<()> {
        self.stream.wait()?;
        self.engines_stream.wait()
    }
}
