//! JPEG. A decoder is given the region that is wanted and skips the rest.
//!
//! [`Decoder`] is what pictures go to. It decodes sequential and progressive Huffman files of 8 bits, grey, YCbCr or RGB
//! in any usual subsampling, by itself, to the pixels that libjpeg-turbo's full decode gives (accurate integer transform,
//! fancy upsampling). Everything else is left to [`turbo`], libjpeg-turbo: arithmetic and lossless files, samples of other
//! than 8 bits (which become bytes, the largest sample 255), CMYK, and whatever is damaged, incomplete or odd, so that there is
//! one opinion on what can be decoded.
//!
//! ```text
//! bytes --markers--> frame (geometry), tables, scans
//!   scan --unstuff--> segments between restart markers --mcu--> blocks --entropy--> coefficients of a row of MCUs
//!                                  (skipped outside the region)    huffman: tables by content
//!   coefficients --kernel::idct--> plane (samples per component) --pixel_writer: upsampling, colours--> pixels
//! ```
//!
//! [`native`] reads the headers. [`sequential`] drives this; [`progressive`] reads all scans first ([`band`]), into the
//! region's coefficients ([`spectrum`]), and goes on as above. Where a file has a row index ([`row_index`]), each row of MCUs
//! that the region needs is read from its start to the region's last column, and nothing else of the scan is decoded. For
//! measuring, decoding can stop early ([`stages`]).
//!
//! Only `kernel` knows vectors, and only it and `turbo` have `unsafe`: entropy-coded data, headers and geometry are
//! handled by safe code.
//!
//! Coefficients that no encoder writes become what libjpeg-turbo makes of them: on x86 here as well, and on ARM, where its
//! vectors drop bits, there alone.
//!
//! Pictures that are decoded smaller go the same way: the transform makes blocks of 4, 2 or 1 samples across and down, to
//! libjpeg-turbo's pixels at that size.

#![deny(unsafe_code)]

mod band;
mod decoder;
mod device_decodable;
mod entropy;
mod fallback;
mod frame;
mod huffman;
#[allow(unsafe_code, reason = "vectors")]
mod kernel;
mod markers;
mod mcu;
mod mcu_blocks;
mod native;
mod order;
mod partial;
mod pixel_writer;
mod plane;
mod progressive;
mod row_index;
mod row_indexer;
mod scan_limit;
mod sequential;
mod spectrum;
mod stages;
#[allow(unsafe_code, reason = "a library in C")]
pub mod turbo;
mod unstuff;
mod workspace;

use super::geometry::{Region, Size};
use super::pixels::Pixels;
use crate::error::Result;

pub use decoder::{Decoder, RowIndexCounts};
pub use partial::PartialDecoder;
pub use row_indexer::RowIndexer;
pub use stages::DecodeStage;
pub use turbo::{Subsampling, Turbo, encode, to_baseline};

/// Decodes regions of JPEG files. A decoder belongs to one thread and keeps its state from picture to picture.
pub trait JpegDecoder: Send {
    /// The picture's size, from the header alone.
    ///
    /// # Errors
    /// Bytes that are not a JPEG header.
    fn size(&mut self, bytes: &[u8]) -> Result<Size>;

    /// Decodes to RGB at least `region`, which lies inside the picture; `pixels` says what came out. Bytes behind the
    /// region are not looked at: damage there goes unnoticed.
    ///
    /// # Errors
    /// Damaged or truncated data within or before the region, and kinds of JPEG that are not supported. A picture
    /// that would only be decoded with wrong pixels is an error, too.
    fn decode(&mut self, bytes: &[u8], region: Region, pixels: &mut Pixels) -> Result<()>;
}

#[cfg(test)]
mod tests;
