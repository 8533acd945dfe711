//! Pictures to be shown: decoded by the loader's decoder, with the boxes in them.

use super::boxes::{BoxForm, boxes};
use super::palette::{box_colour, colour};
use crate::samples::Content;
use forebay_loader::decode::fields::{Image, Mask};
use forebay_loader::decode::geometry::{PixelWindow, Region, Size, Stage};
use forebay_loader::decode::pixels::Pixels;
use forebay_loader::decode::ragged::read_ragged;
use forebay_loader::decode::resize::Resizer;
use forebay_loader::decode::{DType, DrawKey, FieldPlan, FieldSpec, Interpolation, Op, PictureMode, PixelLayout, Row};
use forebay_loader::format::Column;
use forebay_loader::sync::Arc;
use forebay_loader::{Error, Result};

/// Labels below this are classes: a grey picture has more levels.
const CLASSES_MAX: i64 = 64;

/// Decoded picture.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    pub(super) size: Size,
    /// Size of the stored picture, which boxes are relative to.
    stored_size: Size,
    /// Rows of red, green and blue.
    pub(super) rgb: Vec<u8>,
    /// True for a mask: its colours come from a palette.
    pub(super) is_mask: bool,
    /// Left, top, right and bottom of boxes, as shares of the picture's sides.
    pub(super) boxes: Vec<[f64; 4]>,
}

impl Picture {
    pub(super) fn new(size: Size, rgb: Vec<u8>) -> Self {
        Self { size, stored_size: size, rgb, is_mask: false, boxes: Vec::new() }
    }

    /// Picture of the labels of a mask.
    pub(super) fn of_labels(size: Size, labels: impl Iterator<Item = i64>) -> Self {
        let rgb = labels.flat_map(|label| colour(label.rem_euclid(256) as u8)).collect();
        Self { is_mask: true, ..Self::new(size, rgb) }
    }

    /// Decodes the picture that `stored` is, a value of `column`, with a longest side of `side_max`
    /// pixels at most. A file of small grey levels is a mask. `size` is its stored size.
    ///
    /// # Errors
    ///
    /// Damaged pictures, and kinds of files that are not decoded.
    pub(super) fn decode(column: &Column, stored: &[u8], size: Size, side_max: u32) -> Result<Self> {
        let resize = |interpolation| Op::Resize { size: None, max_size: Some(side_max), interpolation };
        let is_large = size.w.max(size.h) > side_max;
        let ops = |interpolation| if is_large { vec![resize(interpolation)] } else { Vec::new() };
        if is_grey_png(stored)
            && let Some(mask) = Self::decode_mask(column, stored, ops(Interpolation::Nearest))
        {
            return Ok(mask);
        }
        let field = FieldSpec::Image(Image {
            column: column.name.clone(),
            ops: ops(Interpolation::Bilinear),
            dtype: DType::UInt8,
            layout: PixelLayout::Nhwc,
            tolerant: false,
            apply_exif_orientation: true,
            scaled_decode: false,
            views: None,
            mode: PictureMode::Rgb,
        });
        let row = decoded(field, column, stored)?;
        let (_, shape, rgb) = read_ragged(&row)?;
        Ok(Self { stored_size: size, ..Self::new(size_of(&shape)?, rgb.to_vec()) })
    }

    /// Returns the mask that a grey file is; `None` if it has the levels of a picture.
    fn decode_mask(column: &Column, stored: &[u8], ops: Vec<Op>) -> Option<Self> {
        let field = FieldSpec::Mask(Mask { column: column.name.clone(), ops, dtype: DType::Int64 });
        let row = decoded(field, column, stored).ok()?;
        let (_, shape, labels) = read_ragged(&row).ok()?;
        let labels = || labels.as_chunks::<8>().0.iter().map(|bytes| i64::from_ne_bytes(*bytes));
        let is_class = |label: i64| (0..CLASSES_MAX).contains(&label) || label == 255;
        labels().all(is_class).then(|| size_of(&shape).map(|size| Self::of_labels(size, labels())).ok())?
    }

    /// Adds the boxes in `content`, if it has some in a known form.
    pub(super) fn add_boxes(&mut self, content: &Content<'_>, form: Option<BoxForm>) {
        if let Some(boxes) = boxes(content, form, self.stored_size) {
            self.boxes = boxes;
        }
    }

    /// Returns the picture with sides of at most `bound`, and its boxes drawn.
    pub(super) fn fitted(&self, bound: Size) -> Self {
        let Size { w, h } = self.size;
        let share = (f64::from(bound.w) / f64::from(w)).min(f64::from(bound.h) / f64::from(h));
        let side = |side: u32| ((f64::from(side) * share).round() as u32).max(1);
        let size = if share < 1.0 { Size { w: side(w), h: side(h) } } else { self.size };
        let mut fitted = Self { size, rgb: self.resized(size), boxes: self.boxes.clone(), ..*self };
        fitted.draw_boxes();
        fitted
    }

    fn resized(&self, size: Size) -> Vec<u8> {
        if size == self.size {
            return self.rgb.clone();
        }
        let interpolation = if self.is_mask { Interpolation::Nearest } else { Interpolation::Bilinear };
        let window = PixelWindow { x: 0, y: 0, size };
        let stage = Stage { resized: size, window, interpolation, ..Stage::identity(self.size) };
        let (mut resizer, mut source, mut result) = (Resizer::default(), Pixels::default(), Pixels::default());
        source.start(Region::all(self.size), 3).copy_from_slice(&self.rgb);
        resizer.plan(&stage);
        resizer.run_into(&source, &mut result);
        result.rgb().to_vec()
    }

    fn draw_boxes(&mut self) {
        let Size { w, h } = self.size;
        // The last pixel of a side.
        let at = |share: f64, side: u32| ((share * f64::from(side)) as i64).clamp(0, i64::from(side) - 1) as u32;
        let edges = 1 + w.max(h) / 300;
        for (number, [left, top, right, bottom]) in self.boxes.clone().into_iter().enumerate() {
            let (x0, y0, x1, y1) = (at(left, w), at(top, h), at(right, w), at(bottom, h));
            for inset in 0..edges {
                for x in x0..=x1 {
                    self.dot(x, (y0 + inset).min(y1), number);
                    self.dot(x, y1.saturating_sub(inset).max(y0), number);
                }
                for y in y0..=y1 {
                    self.dot((x0 + inset).min(x1), y, number);
                    self.dot(x1.saturating_sub(inset).max(x0), y, number);
                }
            }
        }
    }

    fn dot(&mut self, x: u32, y: u32, number: usize) {
        let at = (y as usize * self.size.w as usize + x as usize) * 3;
        self.rgb[at..at + 3].copy_from_slice(&box_colour(number));
    }

    /// Returns the colour of a pixel.
    pub(super) fn pixel(&self, x: u32, y: u32) -> [u8; 3] {
        let at = (y as usize * self.size.w as usize + x as usize) * 3;
        [self.rgb[at], self.rgb[at + 1], self.rgb[at + 2]]
    }

    /// Encodes it as PNG.
    ///
    /// # Errors
    ///
    /// A picture that is too large for the format.
    pub(super) fn png(&self) -> Result<Vec<u8>> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.size.w, self.size.h);
        encoder.set_color(png::ColorType::Rgb);
        let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&self.rgb));
        written.map_err(|e| Error::internal("a picture cannot be encoded as PNG").caused_by(e))?;
        Ok(file)
    }
}

fn decoded(field: FieldSpec, column: &Column, stored: &[u8]) -> Result<Vec<u8>> {
    let plan = FieldPlan::compile(Some(&[(column.name.clone(), field)]), std::slice::from_ref(column), 0)?;
    let mut row = Vec::new();
    Arc::new(plan).decoder().decode(|_| Some(stored), |_| &[], DrawKey::default(), [Row::Var(&mut row)])?;
    Ok(row)
}

fn size_of(shape: &[usize]) -> Result<Size> {
    match shape {
        [h, w] | [h, w, _] => Ok(Size { w: *w as u32, h: *h as u32 }),
        _ => Err(Error::internal("a decoded picture has no sides")),
    }
}

/// Returns true for a PNG of one channel, by its header.
fn is_grey_png(stored: &[u8]) -> bool {
    stored.starts_with(b"\x89PNG\r\n\x1a\n") && stored.get(25) == Some(&0)
}
