//! JPEG decoders. They decode the requested region of a picture and skip the rest.
//!
//! [`Decoder`] is the entry point. Its native decoder takes sequential and progressive Huffman files of 8 bits, grey,
//! YCbCr or RGB in any usual subsampling. Its pixels equal the pixels of libjpeg-turbo's full decode (accurate integer
//! transform, fancy upsampling). Everything else falls back to [`turbo`], libjpeg-turbo: arithmetic and lossless files,
//! samples with a depth that is not 8 bits (scaled to bytes, the largest sample becomes 255), CMYK, and all files that
//! are damaged, incomplete or odd. So libjpeg-turbo alone decides which of these can be decoded.
//!
//! ```text
//! bytes --markers--> frame (geometry), tables, scans
//!   scan --unstuff--> segments between restart markers --mcu--> blocks --entropy--> coefficients of a row of MCUs
//!                                  (skipped outside the region)    huffman: tables by content
//!   coefficients --kernel::idct--> plane (samples per component) --pixel_writer: upsampling, colours--> pixels, or
//!                                                                             rows by channels for a `RowSink`
//! ```
//!
//! [`native`] reads the headers. [`sequential`] runs the steps above. [`progressive`] first reads all scans ([`band`])
//! into the region's coefficients and then continues in the same way; [`progression`] has the bits that the scans
//! bring. If a file has a row index ([`row_index`]), each row of MCUs that the region needs is read from its start to
//! the region's last column, and nothing else of the scan is decoded. To measure single stages, decoding can stop early
//! ([`stages`]).
//!
//! Only `kernel` uses vector instructions, and only `kernel` and `turbo` contain `unsafe`: entropy-coded data, headers
//! and geometry are handled by safe code.
//!
//! Coefficients that no encoder writes give the pixels of libjpeg-turbo too: on x86 in the native decoder, on ARM,
//! where libjpeg-turbo's vector code drops bits, by falling back to it.
//!
//! Pictures that are decoded at a smaller scale take the same steps: the transform makes blocks of 4, 2 or 1 samples
//! across and down, with libjpeg-turbo's pixels at that size.

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
mod progression;
mod progressive;
mod row_index;
mod row_indexer;
mod scan_limit;
mod sequential;
mod stages;
#[allow(unsafe_code, reason = "a library in C")]
pub mod turbo;
mod unstuff;
mod workspace;

use super::geometry::{Region, Size};
use super::pixels::Pixels;
use forebay_core::error::Result;

pub use decoder::{Decoder, RowIndexCounts};
pub use partial::PartialDecoder;
pub use row_indexer::RowIndexer;
pub use stages::JpegStage;
pub use turbo::{Subsampling, Turbo, encode, to_baseline};

/// Decoder of regions of JPEG files. A decoder belongs to one thread and keeps its state from picture to picture.
pub trait JpegDecoder: Send {
    /// Returns the picture's size, from its header.
    ///
    /// # Errors
    /// Bytes that are not a JPEG header.
    fn size(&mut self, bytes: &[u8]) -> Result<Size>;

    /// Decodes at least `region`, which must be inside the picture, to RGB. `pixels` records the region that was
    /// decoded. Bytes after the region are not read, so damage there is not noticed. A file that lacks only its end
    /// marker is not damaged, also if zeros follow its data.
    ///
    /// # Errors
    /// Damaged or truncated data within or before the region, and unsupported kinds of JPEG. A picture that could only
    /// be decoded with wrong pixels is an error, too.
    fn decode(&mut self, bytes: &[u8], region: Region, pixels: &mut Pixels) -> Result<()>;
}

#[cfg(test)]
mod tests;
