//! Output of pixels of 8 bits, and of values of 16 bits: element type, normalisation and layout, written directly into
//! the caller's row.

use half::f16;
use half::slice::HalfFloatSliceExt as _;

use super::field::PixelLayout;
use crate::error::{Error, Result};
use crate::format::encoding::DType;
use forebay_picture::geometry::{Region, Size};
use forebay_picture::pixels::{Factors, RowKernels, deep_value, interleaved, nearest_bfloat16};

/// Writer of one field's pictures.
#[derive(Clone, Debug)]
pub struct PictureWriter {
    dtype: DType,
    /// `None` for labels: one channel, unchanged.
    layout: Option<PixelLayout>,
    /// Channels: one, three or four.
    channels: usize,
    /// True for values of 16 bits, of one channel.
    is_deep: bool,
    /// value = grey level * scale + offset, per channel.
    scale: [f32; 4],
    offset: [f32; 4],
    /// The numbers of each channel, or of all channels of a pixel if these are adjacent.
    factors: Vec<Factors>,
    kernels: RowKernels,
}

/// Levels that are converted at a time if they are kept in between: whole pixels of one, three and four channels, and
/// periods of [`Factors`].
const BLOCK: usize = 192;

impl PictureWriter {
    /// Makes a writer of `dtype` in `layout`. Floats are grey levels / 255, then normalised with `mean` and `std`.
    ///
    /// # Errors
    /// An element type that pictures cannot have; normalisation of bytes; a `std` that is not above 0.
    pub fn new(dtype: DType, layout: PixelLayout, normalise: Option<([f32; 3], [f32; 3])>) -> Result<Self> {
        let normalise = normalise.as_ref().map(|(mean, std)| (&mean[..], &std[..]));
        Self::with_channels(dtype, layout, 3, normalise)
    }

    /// Makes a writer of `channels` channels, one, three or four, as [`new`](Self::new) does for three.
    ///
    /// # Errors
    /// As [`new`](Self::new); a different number of means or standard deviations.
    pub fn with_channels(
        dtype: DType,
        layout: PixelLayout,
        channels: usize,
        normalise: Option<(&[f32], &[f32])>,
    ) -> Result<Self> {
        if !matches!(dtype, DType::UInt8 | DType::Float16 | DType::BFloat16 | DType::Float32) {
            return Err(Error::config("pictures must be uint8, float16, bfloat16 or float32").with("dtype", dtype));
        }
        if dtype == DType::UInt8 && normalise.is_some() {
            return Err(Error::config("Normalize needs a float dtype: pass dtype=\"float32\" (or float16, bfloat16)"));
        }
        let (mean, std) = normalise.unwrap_or((&[0.0; 4][..channels], &[1.0; 4][..channels]));
        if mean.len() != channels || std.len() != channels {
            let message = "Normalize needs a mean and a standard deviation for each channel: three, one for an Image \
                           of mode L or I;16, and four for one of mode RGBA";
            return Err(Error::config(message)
                .with("mean", format!("{mean:?}"))
                .with("std", format!("{std:?}"))
                .with("channels", channels));
        }
        if !mean.iter().all(|m| m.is_finite()) || !std.iter().all(|s| s.is_finite() && *s > 0.0) {
            return Err(Error::config("Normalize needs finite means and standard deviations above 0"));
        }
        if mean.iter().chain(std).any(|value| *value > 1.0) {
            let message = "Normalize is for pixels from 0 to 1: divide means and standard deviations of grey levels by \
                           255, of mode I;16 by 65535";
            return Err(Error::config(message).with("mean", format!("{mean:?}")).with("std", format!("{std:?}")));
        }
        // In double precision, so that only the last product and sum round.
        let (mut scale, mut offset) = ([0.0; 4], [0.0; 4]);
        for (c, (mean, std)) in mean.iter().zip(std).enumerate() {
            scale[c] = (1.0 / (255.0 * f64::from(*std))) as f32;
            offset[c] = (-f64::from(*mean) / f64::from(*std)) as f32;
        }
        let per_factors = if layout == PixelLayout::Nhwc { channels } else { 1 };
        let channel_groups = scale[..channels].chunks(per_factors).zip(offset.chunks(per_factors));
        let factors = channel_groups.map(|(scale, offset)| Factors::new(scale, offset)).collect();
        let kernels = RowKernels::default();
        Ok(Self { dtype, layout: Some(layout), channels, is_deep: false, scale, offset, factors, kernels })
    }

    /// Makes a writer of values of 16 bits, one channel. Floats are values / 65535, then normalised with `mean` and
    /// `std`.
    ///
    /// # Errors
    /// As [`new`](Self::new), with different element types.
    pub fn deep(dtype: DType, layout: PixelLayout, normalise: Option<(&[f32], &[f32])>) -> Result<Self> {
        if !dtype.is_float() && !matches!(dtype, DType::UInt16 | DType::Int32) || dtype == DType::Float64 {
            let message = "pictures of mode I;16 must be uint16, int32, float16, bfloat16 or float32";
            return Err(Error::config(message).with("dtype", dtype));
        }
        if !dtype.is_float() && normalise.is_some() {
            return Err(Error::config("Normalize needs a float dtype: pass dtype=\"float32\" (or float16, bfloat16)"));
        }
        // For the checks, and the factors of each value.
        let floats = if dtype.is_float() { dtype } else { DType::Float32 };
        let writer = Self::with_channels(floats, layout, 1, normalise)?;
        let scale = writer.scale.map(|scale| (f64::from(scale) * 255.0 / 65_535.0) as f32);
        Ok(Self { dtype, is_deep: true, scale, ..writer })
    }

    /// Makes a writer of labels: one channel, values unchanged.
    ///
    /// # Errors
    /// A type that is not an integer, or too small for 255.
    pub fn labels(dtype: DType) -> Result<Self> {
        if dtype.is_float() || dtype == DType::Int8 {
            return Err(Error::config("labels must be integers that hold 255").with("dtype", dtype));
        }
        let (scale, offset) = ([1.0; 4], [0.0; 4]);
        let (factors, kernels) = (Vec::new(), RowKernels::default());
        Ok(Self { dtype, layout: None, channels: 1, is_deep: true, scale, offset, factors, kernels })
    }

    /// Returns the largest label that a row of labels holds.
    pub(super) fn label_max(&self) -> u64 {
        match self.dtype {
            DType::UInt8 => u8::MAX.into(),
            DType::Int16 => i16::MAX as u64,
            _ => u16::MAX.into(),
        }
    }

    /// Returns the largest level of rows that hold levels as they are; `None` for floats.
    pub(super) fn level_max(&self) -> Option<u16> {
        let level_max = if self.is_deep { u16::MAX } else { u8::MAX.into() };
        (!self.dtype.is_float()).then_some(level_max)
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Channels of a picture.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The order of the dimensions; `None` for labels.
    pub fn layout(&self) -> Option<PixelLayout> {
        self.layout
    }

    /// Returns the form of pictures of `size`; `None` for labels, and without three channels.
    pub fn form(&self, size: Size) -> Option<PictureForm> {
        let &Self { dtype, layout, channels: 3, scale: [r, g, b, _], offset: [x, y, z, _], .. } = self else {
            return None;
        };
        let (scale, offset) = ([r, g, b], [x, y, z]);
        Some(PictureForm { size, dtype, layout: layout?, scale, offset })
    }

    /// Returns the shape of a picture of `size`.
    pub fn shape(&self, size: Size) -> Vec<usize> {
        let (w, h) = (size.w as usize, size.h as usize);
        match self.layout {
            Some(PixelLayout::Nchw) => vec![self.channels, h, w],
            Some(PixelLayout::Nhwc) => vec![h, w, self.channels],
            None => vec![h, w],
        }
    }

    /// Bytes of a picture of `size`.
    pub fn bytes(&self, size: Size) -> usize {
        size.pixels() as usize * self.channels * self.dtype.size()
    }

    /// Writes row `y` of a picture of `size`, given as its red, green and blue, into `out`, which is the whole picture.
    /// A writer of one channel writes the first, and one of labels or values of 16 bits these.
    pub fn write(&self, out: &mut [u8], size: Size, y: u32, row: [&[u8]; 3]) {
        let Some(layout) = self.layout else {
            let item = self.dtype.size();
            let bytes = size.w as usize * item;
            return labels(&mut out[y as usize * bytes..][..bytes], item, row);
        };
        if self.is_deep {
            return self.write_values(out, size, y, row);
        }
        self.write_channels(layout, out, size, y, &row[..self.channels]);
    }

    fn write_values(&self, out: &mut [u8], size: Size, y: u32, row: [&[u8]; 3]) {
        let item = self.dtype.size();
        let bytes = size.w as usize * item;
        let out = &mut out[y as usize * bytes..][..bytes];
        let (scale, offset) = (self.scale[0], self.offset[0]);
        let value = |pixel| f32::from(deep_value(pixel)) * scale + offset;
        match self.dtype {
            DType::UInt16 | DType::Int32 => labels(out, item, row),
            DType::Float32 => write_pixels(out.as_chunks_mut().0, row, |pixel| value(pixel).to_ne_bytes()),
            DType::BFloat16 => {
                write_pixels(out.as_chunks_mut().0, row, |pixel| nearest_bfloat16(value(pixel)).to_ne_bytes())
            }
            _ => write_pixels(out.as_chunks_mut().0, row, |pixel| f16::from_f32(value(pixel)).to_bits().to_ne_bytes()),
        }
    }

    /// Writes row `y` of a picture with an opacity, as [`write`](Self::write) does.
    pub(super) fn write_with_opacity(&self, out: &mut [u8], size: Size, y: u32, row: [&[u8]; 4]) {
        if let Some(layout) = self.layout {
            self.write_channels(layout, out, size, y, &row);
        }
    }

    fn write_channels(&self, layout: PixelLayout, out: &mut [u8], size: Size, y: u32, row: &[&[u8]]) {
        let (w, h, y, item) = (size.w as usize, size.h as usize, y as usize, self.dtype.size());
        if layout == PixelLayout::Nchw || row.len() == 1 {
            for (c, (levels, factors)) in row.iter().zip(&self.factors).enumerate() {
                self.convert(levels, factors, &mut out[(c * h + y) * w * item..][..w * item]);
            }
            return;
        }
        let out = &mut out[y * w * row.len() * item..][..w * row.len() * item];
        if self.dtype == DType::UInt8 {
            return self.interleave(row, 0, out);
        }
        let mut levels = [0; BLOCK];
        for (number, out) in out.chunks_mut(BLOCK * item).enumerate() {
            let levels = &mut levels[..out.len() / item];
            self.interleave(row, number * BLOCK / row.len(), levels);
            self.convert(levels, &self.factors[0], out);
        }
    }

    /// Writes the levels of the pixels from column `first` on, the channels of a pixel side by side.
    fn interleave(&self, row: &[&[u8]], first: usize, out: &mut [u8]) {
        if let &[red, green, blue] = row {
            let planes = [red, green, blue].map(|plane| &plane[first..]);
            return self.kernels.interleave(planes, out.as_chunks_mut().0);
        }
        for (x, pixel) in (first..).zip(out.chunks_exact_mut(row.len())) {
            pixel.iter_mut().zip(row).for_each(|(out, plane)| *out = plane[x]);
        }
    }

    /// Converts levels to the element type.
    fn convert(&self, levels: &[u8], factors: &Factors, out: &mut [u8]) {
        match self.dtype {
            DType::UInt8 => out.copy_from_slice(&levels[..out.len()]),
            DType::Float32 => self.kernels.float32(levels, factors, out.as_chunks_mut().0),
            DType::BFloat16 => self.kernels.bfloat16(levels, factors, out.as_chunks_mut().0),
            _ => {
                let (mut floats, mut halves) = ([[0; 4]; BLOCK], [f16::ZERO; BLOCK]);
                for (levels, out) in levels.chunks(BLOCK).zip(out.as_chunks_mut::<2>().0.chunks_mut(BLOCK)) {
                    self.kernels.float32(levels, factors, &mut floats[..levels.len()]);
                    halves.convert_from_f32_slice(&floats.map(f32::from_ne_bytes));
                    out.iter_mut().zip(&halves).for_each(|(out, half)| *out = half.to_ne_bytes());
                }
            }
        }
    }

    /// Replaces `region` of a picture of `size` by `value`, which returns the next value of a channel: all of one
    /// channel by rows, then the values of the next. They are written as they are, not normalised. Labels stay.
    pub(super) fn replace(&self, out: &mut [u8], size: Size, region: Region, mut value: impl FnMut(usize) -> f32) {
        let Some(layout) = self.layout else { return };
        let form = (layout, self.channels);
        match self.dtype {
            DType::UInt8 => replace_each(form, out, size, region, |c| [value(c) as u8]),
            DType::UInt16 => replace_each(form, out, size, region, |c| (value(c) as u16).to_ne_bytes()),
            DType::Int32 => replace_each(form, out, size, region, |c| (value(c) as i32).to_ne_bytes()),
            DType::Float32 => replace_each(form, out, size, region, |c| value(c).to_ne_bytes()),
            DType::BFloat16 => replace_each(form, out, size, region, |c| nearest_bfloat16(value(c)).to_ne_bytes()),
            _ => replace_each(form, out, size, region, |c| f16::from_f32(value(c)).to_bits().to_ne_bytes()),
        }
    }
}

/// Replaces the elements of a box. `element` returns a channel's next one.
fn replace_each<const BYTES: usize>(
    (layout, channels): (PixelLayout, usize),
    out: &mut [u8],
    size: Size,
    region: Region,
    mut element: impl FnMut(usize) -> [u8; BYTES],
) {
    let (w, h) = (size.w as usize, size.h as usize);
    let (left, top, columns, rows) = (region.x as usize, region.y as usize, region.w as usize, region.h as usize);
    let out = out.as_chunks_mut::<BYTES>().0;
    for c in 0..channels {
        for y in top..top + rows {
            for x in left..left + columns {
                let place = match layout {
                    PixelLayout::Nchw => (c * h + y) * w + x,
                    PixelLayout::Nhwc => (y * w + x) * channels + c,
                };
                out[place] = element(c);
            }
        }
    }
}

/// Form of the pictures of one output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PictureForm {
    /// Columns and rows.
    pub size: Size,
    /// The element type.
    pub dtype: DType,
    /// The order of the dimensions.
    pub layout: PixelLayout,
    /// Factor per channel from grey level to value; `uint8` pictures keep the grey level.
    pub scale: [f32; 3],
    /// Offset per channel, added after that.
    pub offset: [f32; 3],
}

fn labels(out: &mut [u8], item: usize, row: [&[u8]; 3]) {
    match item {
        1 => out.copy_from_slice(row[0]),
        2 => write_pixels(out.as_chunks_mut().0, row, |pixel| deep_value(pixel).to_ne_bytes()),
        4 => write_pixels(out.as_chunks_mut().0, row, |pixel| u32::from(deep_value(pixel)).to_ne_bytes()),
        _ => write_pixels(out.as_chunks_mut().0, row, |pixel| u64::from(deep_value(pixel)).to_ne_bytes()),
    }
}

/// Writes an element for each pixel of `row`.
fn write_pixels<T>(out: &mut [T], row: [&[u8]; 3], element: impl Fn([u8; 3]) -> T) {
    out.iter_mut().zip(interleaved(row)).for_each(|(out, pixel)| *out = element(pixel));
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
    const STD: [f32; 3] = [0.229, 0.224, 0.225];
    const SIZE: Size = Size { w: 256, h: 2 };

    fn level(x: usize, c: usize) -> u8 {
        (x + 50 * c) as u8
    }

    fn picture(writer: &PictureWriter) -> Vec<u8> {
        let row: [Vec<u8>; 3] = [0, 1, 2].map(|c| (0..256).map(|x| level(x, c)).collect());
        let row = [&row[0][..], &row[1], &row[2]];
        let mut out = vec![0xee; writer.bytes(SIZE)];
        writer.write(&mut out, SIZE, 0, row);
        writer.write(&mut out, SIZE, 1, row);
        out
    }

    #[test]
    fn every_type_and_layout_holds_the_normalised_levels() {
        for dtype in [DType::UInt8, DType::Float32, DType::Float16, DType::BFloat16] {
            for layout in [PixelLayout::Nchw, PixelLayout::Nhwc] {
                let normalise = (dtype != DType::UInt8).then_some((MEAN, STD));
                let writer = PictureWriter::new(dtype, layout, normalise).unwrap();
                let out = picture(&writer);
                for y in 0..2 {
                    for x in 0..256 {
                        for c in 0..3 {
                            let i =
                                if layout == PixelLayout::Nchw { (c * 2 + y) * 256 + x } else { (y * 256 + x) * 3 + c };
                            let bytes = &out[i * dtype.size()..][..dtype.size()];
                            let want = (f32::from(level(x, c)) / 255.0 - MEAN[c]) / STD[c];
                            match dtype {
                                DType::UInt8 => assert_eq!(bytes[0], level(x, c)),
                                DType::Float32 => {
                                    let got = f32::from_ne_bytes(bytes.try_into().unwrap());
                                    assert!((got - want).abs() < 1e-6, "{got} {want}");
                                }
                                DType::Float16 => {
                                    let got = f16::from_ne_bytes(bytes.try_into().unwrap()).to_f32();
                                    assert!((got - want).abs() < 1.1e-3, "{got} {want}");
                                }
                                _ => {
                                    let got = half::bf16::from_ne_bytes(bytes.try_into().unwrap()).to_f32();
                                    assert!((got - want).abs() < 8.5e-3, "{got} {want}");
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn invalid_settings_are_rejected() {
        assert!(PictureWriter::new(DType::UInt8, PixelLayout::Nchw, Some((MEAN, STD))).is_err());
        assert!(PictureWriter::new(DType::Int32, PixelLayout::Nchw, None).is_err());
        assert!(PictureWriter::new(DType::Float32, PixelLayout::Nchw, Some((MEAN, [0.0, 1.0, 1.0]))).is_err());
    }
}
