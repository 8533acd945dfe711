//! Pictures of mode RGBA: colours and opacity go through the same stages, each as a picture of three channels.
//!
//! As in Pillow, colours are multiplied by their opacity before a resize and divided by the opacity of the result after
//! it, so that the colours of transparent pixels do not show.

use crate::decode::augment::Action;
use crate::decode::normalise::PictureWriter;
use forebay_picture::Interpolation;
use forebay_picture::geometry::{Region, Size, Stage};
use forebay_picture::orientation::Orientation;
use forebay_picture::picture_ops::{Shape, flip_vertical};
use forebay_picture::pixels::Pixels;
use forebay_picture::resize::Resizer;

/// Opacity of the current picture, in three equal channels.
#[derive(Default)]
pub(super) struct Opacity {
    source: Pixels,
    between: Pixels,
    /// Channels of the row that is written.
    row: [Vec<u8>; 4],
}

impl Opacity {
    /// Memory for the opacity of a decoded part.
    pub(super) fn source(&mut self) -> &mut Pixels {
        &mut self.source
    }

    /// Sets the opacity of `region` of a file without one.
    pub(super) fn fill(&mut self, region: Region) {
        self.source.start(region, 3).fill(255);
    }

    /// Turns the opacity of a decoded part of a picture of the stored `size` upright, to `region`.
    pub(super) fn turn(&mut self, orientation: Orientation, size: Size, region: Region) {
        orientation.apply(&self.source, size, region, &mut self.between);
        std::mem::swap(&mut self.source, &mut self.between);
    }

    /// Runs `stage`, which is planned, and the `actions` after it on the colours `source`. `between` is memory for
    /// results.
    pub(super) fn run(
        &mut self,
        resizer: &mut Resizer,
        stage: &Stage,
        actions: &[Action],
        source: &mut Pixels,
        between: &mut Pixels,
    ) {
        let is_blended = stage.is_resized() && stage.interpolation != Interpolation::Nearest;
        if is_blended {
            multiply(source, &self.source);
        }
        resizer.run_into(&self.source, &mut self.between);
        resizer.run_into(source, between);
        if is_blended {
            divide(between, &self.between);
        }
        std::mem::swap(source, between);
        std::mem::swap(&mut self.source, &mut self.between);
        flip_vertically(actions, source);
        flip_vertically(actions, &mut self.source);
    }

    /// Writes the finished picture, with the colours `source`, to `out`.
    pub(super) fn write(&mut self, source: &Pixels, writer: &PictureWriter, out: &mut [u8]) {
        let Self { source: opacity, row, .. } = self;
        let size = source.region().size();
        let stride = size.w as usize * 3;
        let rows = source.rgb().chunks_exact(stride).zip(opacity.rgb().chunks_exact(stride));
        for (y, (colours, opacity)) in (0..size.h).zip(rows) {
            for (c, channel) in row.iter_mut().enumerate() {
                channel.clear();
                let from = if c < 3 { colours } else { opacity };
                channel.extend(from.iter().skip(c % 3).step_by(3));
            }
            let [red, green, blue, alpha] = &*row;
            writer.write_with_opacity(out, size, y, [red, green, blue, alpha]);
        }
    }
}

/// Runs `actions`, which are flips: all remaining actions are rejected when the field is compiled.
pub(super) fn flip_vertically(actions: &[Action], picture: &mut Pixels) {
    if actions.iter().filter(|action| matches!(action, Action::VerticalFlip)).count() % 2 == 1 {
        let Region { w, h, .. } = picture.region();
        flip_vertical(Shape::new(w as usize, h as usize, 3), picture.rgb_mut());
    }
}

/// Multiplies each colour by its opacity, rounded as in Pillow.
fn multiply(colours: &mut Pixels, opacity: &Pixels) {
    for (level, alpha) in colours.rgb_mut().iter_mut().zip(opacity.rgb()) {
        let product = u32::from(*level) * u32::from(*alpha) + 128;
        *level = ((product + (product >> 8)) >> 8) as u8;
    }
}

/// Divides each colour by its opacity, as Pillow does: without the fraction, and not where nothing shows.
fn divide(colours: &mut Pixels, opacity: &Pixels) {
    for (level, alpha) in colours.rgb_mut().iter_mut().zip(opacity.rgb()) {
        if *alpha != 0 {
            *level = (255 * u32::from(*level) / u32::from(*alpha)).min(255) as u8;
        }
    }
}
