//! The native decoder: reads the headers up to the first scan, then runs the decoder for this kind of picture.

use super::fallback::Fallback;
use super::kernel::Kernels;
use super::markers::Headers;
use super::pixel_writer::{Output, PixelWriter};
use super::progressive::Progressive;
use super::sequential;
use super::stages::JpegStage;
use super::workspace::Workspace;
use crate::geometry::{Region, Scale, Size};
use crate::pixels::{Pixels, RowSink};

/// Decoder of one thread. Its memory and tables are reused from picture to picture.
pub(super) struct NativeDecoder {
    pub workspace: Workspace,
    progressive: Progressive,
}

/// Target of pixels.
enum Target<'a> {
    Pixels(&'a mut Pixels),
    Rows(&'a mut dyn RowSink),
}

impl NativeDecoder {
    pub(super) fn new(kernels: Kernels) -> Self {
        Self::with_last_stage(kernels, JpegStage::Pixels)
    }

    pub(super) fn with_last_stage(kernels: Kernels, last_stage: JpegStage) -> Self {
        let workspace = Workspace { kernels, last_stage, ..Workspace::default() };
        Self { workspace, progressive: Progressive::default() }
    }

    /// Returns the size of a picture that [`decode_scaled`](Self::decode_scaled) may decode.
    pub(super) fn size(bytes: &[u8]) -> Result<Size, Fallback> {
        let (frame, _) = Headers::new(bytes)?.next_scan()?.ok_or(Fallback("no scan"))?;
        Ok(frame.size)
    }

    /// Decodes exactly `region` of the picture at `scale`. With a row index, decoding starts at each row of MCUs that
    /// the region needs.
    pub(super) fn decode_scaled(
        &mut self,
        bytes: &[u8],
        index: Option<&[u8]>,
        scale: Scale,
        region: Region,
        pixels: &mut Pixels,
    ) -> Result<(), Fallback> {
        self.decode(bytes, index, scale, region, Target::Pixels(pixels))
    }

    /// Decodes as [`decode_scaled`](Self::decode_scaled) does. On an error `sink` may have got some rows.
    pub(super) fn decode_rows(
        &mut self,
        bytes: &[u8],
        index: Option<&[u8]>,
        scale: Scale,
        region: Region,
        sink: &mut dyn RowSink,
    ) -> Result<(), Fallback> {
        self.decode(bytes, index, scale, region, Target::Rows(sink))
    }

    fn decode(
        &mut self,
        bytes: &[u8],
        index: Option<&[u8]>,
        scale: Scale,
        region: Region,
        target: Target<'_>,
    ) -> Result<(), Fallback> {
        let mut headers = Headers::new(bytes)?;
        let (frame, scan) = headers.next_scan()?.ok_or(Fallback("no scan"))?;
        let frame = frame.scaled(scale);
        let inside = |start: u32, length: u32, of: u32| length > 0 && start <= of && length <= of - start;
        if !inside(region.x, region.w, frame.decoded.w) || !inside(region.y, region.h, frame.decoded.h) {
            return Err(Fallback("a region outside the picture"));
        }
        if frame.is_progressive && index.is_some() {
            return Err(Fallback("a row index for a progressive picture"));
        }
        let out = match target {
            Target::Pixels(pixels) => Output::Pixels(pixels.start(region, 3)),
            Target::Rows(sink) => Output::Rows(sink),
        };
        let Workspace { kernels, last_stage, .. } = self.workspace;
        let emit = PixelWriter { kernels, last_stage, frame: &frame, region, out, done: 0 };
        if frame.is_progressive {
            self.progressive.decode(&mut self.workspace, &mut headers, scan, emit)
        } else {
            sequential::decode(&mut self.workspace, &mut headers, scan, index, emit)
        }
    }
}
