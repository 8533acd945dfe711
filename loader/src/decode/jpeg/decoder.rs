//! The decoder that pictures go to: ours for what it takes, libjpeg-turbo for the rest.

#![forbid(unsafe_code)]

use super::JpegDecoder;
use super::device_decodable::is_device_decodable;
use super::kernel::Kernels;
use super::native::NativeDecoder;
use super::turbo::Turbo;
use crate::decode::geometry::{Region, Scale, Size};
use crate::decode::pixels::Pixels;
use crate::error::{ErrorKind, Result};

/// Decodes ordinary pictures without libjpeg-turbo, to the same pixels. Whatever is not a flawless picture of an
/// ordinary kind goes to libjpeg-turbo, which decodes or refuses it; so the two do not disagree about a file. They may
/// about a part of a damaged one: where this decoder stops reading at the part's last block, libjpeg-turbo reads to the
/// end of its row and into the next, and refuses the part for damage there.
///
/// On a machine without vectors that our kernels use, libjpeg-turbo decodes everything: there it is faster.
pub struct Decoder {
    own: Option<NativeDecoder>,
    /// Made with the first picture that needs it.
    turbo: Option<Turbo>,
    row_indexes: RowIndexCounts,
}

/// What became of the row indexes that a decoder was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowIndexCounts {
    /// Pictures that were decoded with their help.
    pub used: u64,
    /// Indexes that did not fit their picture, which was then decoded without.
    pub refused: u64,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder for one thread.
    pub fn new() -> Self {
        let kernels = Kernels::new();
        Self {
            own: kernels.use_vectors().then(|| NativeDecoder::new(kernels)),
            turbo: None,
            row_indexes: RowIndexCounts::default(),
        }
    }

    /// Whether `bytes` is an ordinary file: sequential, 8 bits, all components in one scan, grey or YCbCr whose chroma is whole
    /// or halved, with nothing but restart markers in its data and with its end behind them. Decoders on devices take these;
    /// the others, and damage of what lies between the markers, are this one's.
    pub fn is_device_decodable(&mut self, bytes: &[u8]) -> bool {
        is_device_decodable(bytes, self.own.as_mut())
    }

    /// As [`decode`](JpegDecoder::decode), with the picture's [`row index`](super::RowIndexer): entropy-coded data above,
    /// below and right of the region is not decoded. The pixels are the same. An index that does not match these
    /// bytes, by a check of 32 bits, is not used, which costs time only; so damage is met as it is without one.
    ///
    /// # Errors
    ///
    /// As [`decode`](JpegDecoder::decode).
    pub fn decode_indexed(
        &mut self,
        bytes: &[u8],
        row_index: &[u8],
        region: Region,
        pixels: &mut Pixels,
    ) -> Result<()> {
        self.decode_scaled(bytes, row_index, Scale::Full, region, pixels)
    }

    /// The same of the picture at `scale`, which `region` is a part of.
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
        if let Some(own) = self.own.as_mut().filter(|_| !row_index.is_empty()) {
            match own.decode_scaled(bytes, Some(row_index), scale, region, pixels) {
                Ok(()) => {
                    self.row_indexes.used += 1;
                    return Ok(());
                }
                Err(declined) => {
                    self.row_indexes.refused += 1;
                    log::debug!("a JPEG is decoded without its row index: {declined}");
                }
            }
        }
        if let Some(own) = &mut self.own {
            match own.decode_scaled(bytes, None, scale, region, pixels) {
                Ok(()) => return Ok(()),
                Err(declined) => log::trace!("libjpeg-turbo decodes a JPEG: {declined}"),
            }
        }
        self.turbo()?.decode_scaled(bytes, scale, region, pixels)
    }

    /// The counts since the last call.
    pub fn take_row_index_counts(&mut self) -> RowIndexCounts {
        std::mem::take(&mut self.row_indexes)
    }

    /// Decodes at least `region` as [`decode_scaled`](Self::decode_scaled) does, and where that finds damage, all of the picture
    /// as far as libjpeg-turbo can read it ([`Turbo::decode_damaged`]). Returns whether damage was found.
    ///
    /// # Errors
    /// Files of which nothing can be read, and kinds of JPEG that are not supported.
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
                let damage = self.turbo()?.decode_damaged(bytes, scale, pixels)?;
                log::debug!("decoded a damaged JPEG: {}", damage.as_deref().unwrap_or("without a warning"));
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    fn turbo(&mut self) -> Result<&mut Turbo> {
        match &mut self.turbo {
            Some(turbo) => Ok(turbo),
            none => Ok(none.insert(Turbo::new()?)),
        }
    }
}

impl JpegDecoder for Decoder {
    fn size(&mut self, bytes: &[u8]) -> Result<Size> {
        match NativeDecoder::size(bytes) {
            Ok(size) => Ok(size),
            Err(_) => self.turbo()?.size(bytes),
        }
    }

    fn decode(&mut self, bytes: &[u8], region: Region, pixels: &mut Pixels) -> Result<()> {
        self.decode_indexed(bytes, &[], region, pixels)
    }
}
