//! Decoding up to a stage, for `forebay-bench decode --stages`: the same work in the same order as in a complete
//! decoder, and nothing is timed in here.

use super::kernel::Kernels;
use super::native::NativeDecoder;
use super::stages::JpegStage;
use crate::geometry::{Region, Scale};
use crate::pixels::Pixels;
use forebay_core::error::{Error, ErrorKind, Result};

/// Native decoder that stops after a stage.
pub struct PartialDecoder {
    decoder: NativeDecoder,
}

impl PartialDecoder {
    /// Returns a decoder for one thread that stops after `last_stage`.
    ///
    /// # Errors
    /// `Unsupported` on a machine without the vector instructions that the kernels use; libjpeg-turbo decodes there.
    pub fn new(last_stage: JpegStage) -> Result<Self> {
        let kernels = Kernels::default();
        if !kernels.use_vectors() {
            let why = "this machine lacks the vector instructions of the native decoder; libjpeg-turbo decodes here";
            return Err(Error::new(ErrorKind::Unsupported, why));
        }
        Ok(Self { decoder: NativeDecoder::with_last_stage(kernels, last_stage) })
    }

    /// Decodes `region`, with the picture's row index or an empty one. The pixels are right only if the last stage is
    /// [`JpegStage::Pixels`].
    ///
    /// # Errors
    /// `Unsupported`: pictures that the native decoder leaves to libjpeg-turbo, and row indexes that do not fit.
    pub fn decode(&mut self, bytes: &[u8], row_index: &[u8], region: Region, pixels: &mut Pixels) -> Result<()> {
        let index = (!row_index.is_empty()).then_some(row_index);
        let unsupported = |reason| {
            Error::new(ErrorKind::Unsupported, "the native decoder does not support this JPEG").with("reason", reason)
        };
        self.decoder.decode_scaled(bytes, index, Scale::Full, region, pixels).map_err(unsupported)
    }
}
