//! Application of drawn actions to pixels.

use super::action::{Action, Sampling};
use crate::error::Result;
use forebay_picture::Interpolation;
use forebay_picture::geometry::{Region, Size};
use forebay_picture::jpeg::{Decoder, JpegDecoder as _, Subsampling, encode};
use forebay_picture::kept::{fit, release};
use forebay_picture::picture_ops as ops;
use forebay_picture::picture_ops::{LevelChange, PointOp, Rotation, Scratch, Shape};
use forebay_picture::pixels::{Content, Pixels};

/// Applies the actions of pictures in sequence, in one thread. It keeps its memory.
#[derive(Default)]
pub(crate) struct Augmenter {
    scratch: Scratch,
    /// Point operations in sequence: one pass over the pixels.
    points: Vec<PointOp>,
    mixture: Mixture,
    jpeg: Option<Decoder>,
}

/// Picture that a mixture started from, and the sum of those that were added.
#[derive(Default)]
struct Mixture {
    start: Vec<u8>,
    sum: Vec<f32>,
}

impl Augmenter {
    /// Applies `actions` to `picture`, a whole picture; of labels only those that move pixels. `spare` is memory for
    /// results.
    ///
    /// # Errors
    /// A picture that is too large for a JPEG.
    pub(crate) fn run(
        &mut self,
        actions: &[Action],
        content: Content,
        picture: &mut Pixels,
        spare: &mut Pixels,
    ) -> Result<()> {
        let applies = |action: &&Action| content != Content::Labels || action.moves();
        for action in actions.iter().filter(applies) {
            if let Some(point) = point(action) {
                self.points.push(point);
                continue;
            }
            self.apply_points(picture);
            if let Action::Jpeg { quality } = action {
                self.recompress(*quality, picture, spare)?;
                continue;
            }
            self.apply(action, content, picture, spare);
        }
        self.apply_points(picture);
        self.scratch.release();
        release(&mut self.mixture.start);
        release(&mut self.mixture.sum);
        Ok(())
    }

    /// Replaces a picture by the pixels of its JPEG, as Pillow writes it.
    fn recompress(&mut self, quality: u8, picture: &mut Pixels, spare: &mut Pixels) -> Result<()> {
        let Region { w, h, .. } = picture.region();
        let size = Size { w, h };
        let file = encode(picture.rgb_mut(), size, quality, Subsampling::S420, false)?;
        self.jpeg.get_or_insert_default().decode(&file, Region::all(size), spare)?;
        std::mem::swap(picture, spare);
        Ok(())
    }

    fn apply_points(&mut self, picture: &mut Pixels) {
        if !self.points.is_empty() {
            ops::points(shape(picture), picture.rgb_mut(), &self.points);
            self.points.clear();
        }
    }

    fn apply(&mut self, action: &Action, content: Content, picture: &mut Pixels, spare: &mut Pixels) {
        let shape = shape(picture);
        let pixels = picture.rgb_mut();
        match action {
            Action::HorizontalFlip => ops::flip_horizontal(shape, pixels),
            Action::VerticalFlip => ops::flip_vertical(shape, pixels),
            Action::AdjustSaturation { factor } => ops::saturation(shape, pixels, *factor),
            Action::AdjustHue { factor } => ops::hue(shape, pixels, *factor),
            Action::AdjustHsv { hue, saturation, value } => {
                let [saturation, value] = [saturation, value].map(|&[factor, addend]| LevelChange { factor, addend });
                ops::hsv(shape, pixels, *hue, saturation, value);
            }
            Action::AdjustSharpness { factor } => ops::sharpness(shape, pixels, *factor, &mut self.scratch),
            Action::PermuteChannels { permutation } => ops::permute_channels(shape, pixels, *permutation),
            Action::RgbToGrayscale => ops::grayscale(shape, pixels),
            Action::GaussianBlur { kernel_size, sigma } => {
                let kernel = kernel_size.map(|side| side as usize);
                ops::gaussian_blur(shape, pixels, kernel, [*sigma; 2], &mut self.scratch);
            }
            Action::GaussianNoise { mean, sigma, clip, noise } => {
                ops::gaussian_noise(pixels, *mean, *sigma, *clip, noise.clone().into_normals());
                if content == Content::Grey {
                    // One channel, which is three times here.
                    pixels.as_chunks_mut::<3>().0.iter_mut().for_each(|pixel| *pixel = [pixel[0]; 3]);
                }
            }
            Action::RadiusBlur { radius } => ops::radius_blur(shape, pixels, *radius, &mut self.scratch),
            Action::Rotate { angle, expand, center, sampling } => {
                let rotation = Rotation::new(shape, *angle, *expand, *center);
                let to = rotation.output(shape);
                let (filter, fill) = filter(*sampling, content);
                ops::rotate(pixels, shape, &rotation, filter, fill, start(spare, to), &mut self.scratch);
                std::mem::swap(picture, spare);
            }
            Action::Affine { angle, translate, scale, shear, center, sampling } => {
                let middle = [shape.width as f64 * 0.5, shape.height as f64 * 0.5];
                let matrix = ops::affine_matrix(center.unwrap_or(middle), *angle, *translate, *scale, *shear);
                let (filter, fill) = filter(*sampling, content);
                ops::affine(pixels, shape, &matrix, filter, fill, start(spare, shape), shape, &mut self.scratch);
                std::mem::swap(picture, spare);
            }
            Action::Transform { matrix, sampling } => {
                let (filter, fill) = filter(*sampling, content);
                ops::affine(pixels, shape, matrix, filter, fill, start(spare, shape), shape, &mut self.scratch);
                std::mem::swap(picture, spare);
            }
            Action::Perspective { coefficients, sampling, .. } => {
                let (filter, fill) = filter(*sampling, content);
                ops::perspective(pixels, shape, coefficients, filter, fill, start(spare, shape), shape);
                std::mem::swap(picture, spare);
            }
            Action::Elastic { sampling, .. } => {
                let size = Size { w: shape.width as u32, h: shape.height as u32 };
                let (filter, fill) = filter(*sampling, content);
                if let Some(displacement) = action.displacement(size) {
                    ops::elastic(pixels, shape, &displacement, filter, fill, start(spare, shape));
                    std::mem::swap(picture, spare);
                }
            }
            Action::StartMixture { weight } => self.mixture.start(pixels, *weight as f32),
            Action::AddToMixture { weight } => self.mixture.add(pixels, *weight as f32),
            Action::EndMixture => self.mixture.end(pixels),
            Action::BlendMixture { share } => self.mixture.blend(pixels, *share as f32),
            Action::AdjustBrightness { .. }
            | Action::AdjustContrast { .. }
            | Action::Invert
            | Action::Posterize { .. }
            | Action::Solarize { .. }
            | Action::SolarizeAdd { .. }
            | Action::Autocontrast
            | Action::Equalize
            | Action::Jpeg { .. } => {}
        }
    }
}

impl Mixture {
    fn start(&mut self, pixels: &[u8], weight: f32) {
        fit(&mut self.start, pixels.len(), 0);
        fit(&mut self.sum, pixels.len(), 0.0);
        self.start[..pixels.len()].copy_from_slice(pixels);
        self.sum.iter_mut().zip(pixels).for_each(|(sum, level)| *sum = weight * f32::from(*level));
    }

    fn add(&mut self, pixels: &mut [u8], weight: f32) {
        self.sum.iter_mut().zip(&*pixels).for_each(|(sum, level)| *sum += weight * f32::from(*level));
        pixels.copy_from_slice(&self.start[..pixels.len()]);
    }

    /// Writes the sum without its fraction, as torchvision does.
    fn end(&mut self, pixels: &mut [u8]) {
        pixels.iter_mut().zip(&self.sum).for_each(|(level, sum)| *level = *sum as u8);
    }

    /// Blends the kept picture, which `pixels` are again, with the sum, both without fractions, as timm does by Pillow.
    fn blend(&self, pixels: &mut [u8], share: f32) {
        for (level, sum) in pixels.iter_mut().zip(&self.sum) {
            let (kept, mixed) = (f32::from(*level), f32::from(*sum as u8));
            *level = (kept + share * (mixed - kept)) as u8;
        }
    }
}

/// Returns the point operation of an action that is one.
fn point(action: &Action) -> Option<PointOp> {
    Some(match *action {
        Action::AdjustBrightness { factor } => PointOp::Brightness(factor),
        Action::AdjustContrast { factor } => PointOp::Contrast(factor),
        Action::Invert => PointOp::Invert,
        Action::Posterize { bits } => PointOp::Posterize(bits),
        Action::Solarize { threshold } => PointOp::Solarize(threshold),
        Action::SolarizeAdd { add, threshold } => PointOp::SolarizeAdd { add, threshold },
        Action::Autocontrast => PointOp::AutoContrast,
        Action::Equalize => PointOp::Equalize,
        _ => return None,
    })
}

fn shape(picture: &Pixels) -> Shape {
    let region = picture.region();
    Shape::new(region.w as usize, region.h as usize, 3)
}

/// Makes room for a whole picture.
fn start(pixels: &mut Pixels, shape: Shape) -> &mut [u8] {
    pixels.start(Region::all(Size { w: shape.width as u32, h: shape.height as u32 }), 3)
}

/// Returns the filter and the colour outside. Labels are never blended, and have the first number of the colour.
fn filter(sampling: Sampling, content: Content) -> (Interpolation, [u8; 3]) {
    match content {
        Content::Labels => (Interpolation::Nearest, [sampling.fill[0]; 3]),
        _ => (sampling.interpolation, sampling.fill),
    }
}
