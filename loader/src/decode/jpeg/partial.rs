//! What the stages of our decoder take: the library side of `forebay-bench decode --stages`.
//!
//! Nothing is timed in here. A decoder that stops early does the same work in the same order as the one that does not, so
//! the time of a stage is what decoding to its end takes longer than to the end of the stage before.

#![forbid(unsafe_code)]

use super::kernel::Kernels;
use super::native::NativeDecoder;
use super::stages::DecodeStage;
use crate::decode::geometry::Region;
use crate::decode::pixels::Pixels;
use crate::error::{Error, ErrorKind, Result};

/// Our decoder, stopping early.
pub struct PartialDecoder {
    own: NativeDecoder,
}

impl PartialDecoder {
    /// A decoder for one thread that stops behind `last_stage`.
    ///
    /// # Errors
    /// `Unsupported` on a machine without the vectors that our kernels use: libjpeg-turbo decodes there.
    pub fn new(last_stage: DecodeStage) -> Result<Self> {
        let kernels = Kernels::new();
        if !kernels.use_vectors() {
            let why = "this machine lacks the vectors of our decoder; libjpeg-turbo decodes here";
            return Err(Error::new(ErrorKind::Unsupported, why));
        }
        Ok(Self { own: NativeDecoder::with_last_stage(kernels, last_stage) })
    }

    /// Decodes `region`, with the picture's row index or none. What comes out is only right if nothing was left out.
    ///
    /// # Errors
    /// `Unsupported`: pictures that our decoder leaves to libjpeg-turbo, and row indexes that do not fit.
    pub fn decode(&mut self, bytes: &[u8], row_index: &[u8], region: Region, pixels: &mut Pixels) -> Result<()> {
        let index = (!row_index.is_empty()).then_some(row_index);
        let declined =
            |reason| Error::new(ErrorKind::Unsupported, "our decoder does not take this").with("reason", reason);
        self.own.decode_from(bytes, index, region, pixels).map_err(declined)
    }
}
