//! The public decoder: native if possible, libjpeg-turbo otherwise.

use super::JpegDecoder;
use super::device_decodable::is_device_decodable;
use super::kernel::Kernels;
use super::native::NativeDecoder;
use super::turbo::Turbo;
use crate::geometry::{Region, Scale, Size};
use crate::pixels::{Pixels, RowSink};
use forebay_core::error::{ErrorKind, Result};

/// Decoder of JPEG files. Flawless pictures of the usual kinds are decoded natively, to the pixels of libjpeg-turbo.
/// All the rest go to libjpeg-turbo, which decodes or rejects them, so both agree about every whole file. They may
/// disagree about a region of a damaged one: the native decoder stops reading at the region's last block, libjpeg-turbo
/// reads to the end of its row and into the next, and rejects the region for damage there.
///
/// On a machine without the vector instructions that the kernels use, libjpeg-turbo decodes everything, because it is
/// faster there.
pub struct Decoder {
    native: Option<NativeDecoder>,
    row_indexes: RowIndexCounts,
}

/// Numbers of row indexes that a decoder used and rejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowIndexCounts {
    /// Pictures that were decoded with their index.
    pub used: u64,
    /// Indexes that did not fit their picture, which was then decoded without an index.
    pub rejected: u64,
}

impl Default for Decoder {
    fn default() -> Self {
        let kernels = Kernels::default();
        Self {
            native: kernels.use_vectors().then(|| NativeDecoder::new(kernels)),
            row_indexes: RowIndexCounts::default(),
        }
    }
}

impl Decoder {
    /// Returns true if devices can decode the file `bytes`: sequential, 8 bits, all components in one scan, grey, or
    /// YCbCr with whole or halved chroma, with no markers but restart markers in its data and with its end marker after
    /// them. All remaining files, and damage between the markers, are left to this decoder.
    pub fn is_device_decodable(&mut self, bytes: &[u8]) -> bool {
        is_device_decodable(bytes, self.native.as_mut())
    }

    /// Decodes as [`decode`](JpegDecoder::decode) does, at `scale`. `region` is a part of the scaled picture.
    ///
    /// With the picture's [`row index`](super::RowIndexer), entropy-coded data above, below and right of the region is
    /// not decoded. The pixels are the same. An index with a 32-bit check that does not match these bytes is not used.
    /// Decoding then takes longer, and damage has the same effect as without an index. `row_index` may be empty.
    ///
    /// # Errors
    ///
    /// As [`decode`](JpegDecoder::decode); `Unsupported` for a lossless file at less than the full scale.
    pub fn decode_scaled(
        &mut self,
        bytes: &[u8],
        row_index: &[u8],
        scale: Scale,
        region: Region,
        pixels: &mut Pixels,
    ) -> Result<()> {
        if let Some(native) = self.native.as_mut().filter(|_| !row_index.is_empty()) {
            match native.decode_scaled(bytes, Some(row_index), scale, region, pixels) {
                Ok(()) => {
                    self.row_indexes.used += 1;
                    return Ok(());
                }
                Err(reason) => {
                    self.row_indexes.rejected += 1;
                    log::debug!("a JPEG is decoded without its row index: {reason}");
                }
            }
        }
        if let Some(native) = &mut self.native {
            match native.decode_scaled(bytes, None, scale, region, pixels) {
                Ok(()) => return Ok(()),
                Err(reason) => log::trace!("libjpeg-turbo decodes a JPEG: {reason}"),
            }
        }
        Turbo::new()?.decode_scaled(bytes, scale, region, pixels)
    }

    /// Decodes exactly `region` as [`decode_scaled`](Self::decode_scaled) does, to the rows of `sink`: if they are used
    /// at once, they stay in the first-level cache.
    ///
    /// Returns false for a file that only `decode_scaled` can decode or reject. `sink` may have got some rows of it.
    pub fn decode_rows(
        &mut self,
        bytes: &[u8],
        row_index: &[u8],
        scale: Scale,
        region: Region,
        sink: &mut dyn RowSink,
    ) -> bool {
        let index = (!row_index.is_empty()).then_some(row_index);
        let Some(native) = &mut self.native else { return false };
        let is_decoded = native.decode_rows(bytes, index, scale, region, sink).is_ok();
        self.row_indexes.used += u64::from(is_decoded && index.is_some());
        is_decoded
    }

    /// Returns the counts since the last call.
    pub fn take_row_index_counts(&mut self) -> RowIndexCounts {
        std::mem::take(&mut self.row_indexes)
    }

    /// Decodes at least `region` as [`decode_scaled`](Self::decode_scaled) does. If that finds damage, decodes the
    /// whole picture as far as libjpeg-turbo can read it ([`Turbo::decode_damaged`]). Returns true if damage was found.
    ///
    /// # Errors
    /// Files without any readable part, and unsupported kinds of JPEG.
    pub fn decode_tolerant(
        &mut self,
        bytes: &[u8],
        row_index: &[u8],
        scale: Scale,
        region: Region,
        pixels: &mut Pixels,
    ) -> Result<bool> {
        match self.decode_scaled(bytes, row_index, scale, region, pixels) {
            Ok(()) => Ok(false),
            Err(error) if error.kind() == ErrorKind::Decode => {
                let damage = Turbo::new()?.decode_damaged(bytes, scale, pixels)?;
                log::debug!("decoded a damaged JPEG: {}", damage.as_deref().unwrap_or("without a warning"));
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }
}

impl JpegDecoder for Decoder {
    fn size(&mut self, bytes: &[u8]) -> Result<Size> {
        match NativeDecoder::size(bytes) {
            Ok(size) => Ok(size),
            Err(_) => Turbo::new()?.size(bytes),
        }
    }

    fn decode(&mut self, bytes: &[u8], region: Region, pixels: &mut Pixels) -> Result<()> {
        self.decode_scaled(bytes, &[], Scale::Full, region, pixels)
    }
}
