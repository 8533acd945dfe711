//! Pictures of mode I;16: values of 16 bits, each as a pixel of three bytes that stages move as a whole. Filters work
//! on the values.

use super::opacity::flip_vertically;
use crate::decode::augment::Action;
use crate::decode::normalise::PictureWriter;
use crate::error::{Error, Result};
use forebay_picture::Interpolation;
use forebay_picture::geometry::{Region, Stage};
use forebay_picture::kept::release;
use forebay_picture::pixels::{Pixels, deep_pixel, deep_value};
use forebay_picture::resize::{ExactWeights, Resizer, exact_weights, is_rows_first_in_pillow};

/// Memory of one thread for deep pictures.
#[derive(Default)]
pub(super) struct Deep {
    /// Values of the box that is resized, and those between the two directions.
    values: Vec<u16>,
    between: Vec<u16>,
    /// Channels of the row that is written.
    row: [Vec<u8>; 3],
}

impl Deep {
    /// Runs `stage`, which is planned, and the `actions` after it on `source`, which has the whole box of the stage.
    /// `between` is memory for results.
    pub(super) fn run(
        &mut self,
        resizer: &mut Resizer,
        stage: &Stage,
        actions: &[Action],
        source: &mut Pixels,
        between: &mut Pixels,
    ) {
        if stage.is_resized() && stage.interpolation != Interpolation::Nearest {
            // The rest of the stage moves whole pixels, and needs this part of the resized picture.
            let crop = Region::all(stage.resized);
            let part = resizer.plan(&Stage { crop, interpolation: Interpolation::Nearest, ..*stage });
            self.resize(stage, part, source, between);
            std::mem::swap(source, between);
        }
        resizer.run_into(source, between);
        std::mem::swap(source, between);
        flip_vertically(actions, source);
    }

    /// Computes `part` of the resized box of `stage` as Pillow does: in double precision, in the same order of rows and
    /// columns, rounded after each.
    fn resize(&mut self, stage: &Stage, part: Region, source: &Pixels, to: &mut Pixels) {
        let Stage { crop, resized, interpolation, .. } = *stage;
        let Self { values, between, .. } = self;
        values.clear();
        for y in 0..crop.h {
            let row = source.from(crop.x, crop.y + y);
            values.extend(row.as_chunks::<3>().0[..crop.w as usize].iter().copied().map(deep_value));
        }
        let across = exact_weights(interpolation, crop.w, resized.w, part.x..part.x + part.w);
        let down = exact_weights(interpolation, crop.h, resized.h, part.y..part.y + part.h);
        let (old, new) = (crop.w as usize, part.w as usize);
        if is_rows_first_in_pillow(stage) {
            blend_rows(values, old, &down, between);
            blend_columns(between, old, &across, values);
        } else {
            blend_columns(values, old, &across, between);
            blend_rows(between, new, &down, values);
        }
        let out = to.start(part, 3).as_chunks_mut::<3>().0;
        out.iter_mut().zip(values.iter()).for_each(|(out, value)| *out = deep_pixel(*value));
        release(values);
        release(between);
    }

    /// Writes the finished picture to `out`.
    pub(super) fn write(&mut self, source: &Pixels, writer: &PictureWriter, out: &mut [u8]) {
        let size = source.region().size();
        for (y, pixels) in (0..size.h).zip(source.rgb().chunks_exact(size.w as usize * 3)) {
            for (c, channel) in self.row.iter_mut().enumerate() {
                channel.clear();
                channel.extend(pixels.iter().skip(c).step_by(3));
            }
            writer.write(out, size, y, self.row.each_ref().map(|channel| &channel[..]));
        }
    }
}

/// Blends each row of `width` values along x.
fn blend_columns(values: &[u16], width: usize, weights: &ExactWeights, out: &mut Vec<u16>) {
    out.clear();
    for row in values.chunks_exact(width) {
        out.extend(weights.iter().map(|(first, weights)| blend(weights, row[*first..].iter().copied())));
    }
}

/// Blends the rows of `width` values.
fn blend_rows(values: &[u16], width: usize, weights: &ExactWeights, out: &mut Vec<u16>) {
    out.clear();
    for (first, weights) in weights {
        let column = |x| values[first * width + x..].iter().step_by(width).copied();
        out.extend((0..width).map(|x| blend(weights, column(x))));
    }
}

/// Returns the sum of weighted values, rounded.
fn blend(weights: &[f64], values: impl Iterator<Item = u16>) -> u16 {
    let sum: f64 = weights.iter().zip(values).map(|(weight, value)| weight * f64::from(value)).sum();
    // Saturates.
    (sum + 0.5).floor() as u16
}

/// Checks that labels fit the type of their row.
pub(super) fn check_labels(pixels: &Pixels, writer: &PictureWriter) -> Result<()> {
    let max = writer.label_max();
    if max >= u16::MAX.into() {
        return Ok(());
    }
    let values = pixels.rgb().as_chunks::<3>().0.iter().copied().map(deep_value);
    match values.map(u64::from).find(|value| *value > max) {
        Some(value) => Err(Error::decode(
            "the mask has a label that its dtype does not hold: pass dtype=\"int32\" or \"int64\" to Mask",
        )
        .with("label", value)
        .with("dtype", writer.dtype())),
        None => Ok(()),
    }
}
