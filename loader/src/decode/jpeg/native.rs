//! The native decoder: reads the headers up to the first scan, then runs the decoder for this kind of picture.

#![forbid(unsafe_code)]

use super::fallback::Fallback;
use super::kernel::Kernels;
use super::markers::{Headers, Scan};
use super::pixel_writer::PixelWriter;
use super::progressive::Progressive;
use super::sequential::Sequential;
use super::stages::JpegStage;
use super::unstuff::Part;
use super::workspace::Workspace;
use crate::decode::geometry::{Region, Scale, Size};
use crate::decode::pixels::Pixels;

/// Decoder of one thread. Its memory and tables are reused from picture to picture.
pub(super) struct NativeDecoder {
    workspace: Workspace,
    sequential: Sequential,
    progressive: Progressive,
}

impl NativeDecoder {
    pub(super) fn new(kernels: Kernels) -> Self {
        Self::with_last_stage(kernels, JpegStage::Pixels)
    }

    /// Returns a decoder that stops after `last_stage`.
    pub(super) fn with_last_stage(kernels: Kernels, last_stage: JpegStage) -> Self {
        let (sequential, progressive) = (Sequential::default(), Progressive::default());
        Self { workspace: Workspace::new(kernels, last_stage), sequential, progressive }
    }

    /// The workspace, with the last picture's contents.
    #[cfg(test)]
    pub(super) fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Returns the size of a picture that [`decode_scaled`](Self::decode_scaled) may decode.
    pub(super) fn size(bytes: &[u8]) -> Result<Size, Fallback> {
        match Headers::new(bytes)?.next_scan()? {
            Some((frame, _)) => Ok(frame.size),
            None => Err(Fallback("no scan")),
        }
    }

    /// Returns the offset in the file at which the entropy-coded data of `scan` ends. Restart markers in it must count
    /// up.
    pub(super) fn end_of_data(&mut self, headers: &Headers<'_>, scan: &Scan) -> Result<usize, Fallback> {
        let part = Part { start: scan.data, restarts: 0, end: None };
        let Workspace { segments, kernels, .. } = &mut self.workspace;
        segments.read(*kernels, headers.bytes(), &part, headers.restart_interval > 0)
    }

    /// Appends the row index of the picture `bytes` to `out`. On an error `out` is unchanged.
    pub(super) fn index(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Fallback> {
        self.sequential.index(&mut self.workspace, bytes, out)
    }

    /// Decodes exactly `region` at full scale. With a row index, decoding starts at each row of MCUs that the region
    /// needs.
    pub(super) fn decode_from(
        &mut self,
        bytes: &[u8],
        index: Option<&[u8]>,
        region: Region,
        pixels: &mut Pixels,
    ) -> Result<(), Fallback> {
        self.decode_scaled(bytes, index, Scale::Full, region, pixels)
    }

    /// Decodes exactly `region` of the picture at `scale`; see [`decode_from`](Self::decode_from).
    pub(super) fn decode_scaled(
        &mut self,
        bytes: &[u8],
        index: Option<&[u8]>,
        scale: Scale,
        region: Region,
        pixels: &mut Pixels,
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
        let out = pixels.start(region, 3);
        let Workspace { kernels, last_stage, .. } = self.workspace;
        let emit = PixelWriter { kernels, last_stage, frame: &frame, region, out, done: 0 };
        if frame.is_progressive {
            self.progressive.decode(&mut self.workspace, &mut headers, scan, emit)
        } else {
            self.sequential.decode(&mut self.workspace, &mut headers, scan, index, emit)
        }
    }
}
