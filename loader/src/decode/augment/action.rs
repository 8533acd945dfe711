//! Actions: operations on pixels, with drawn numbers.
//!
//! The arguments are the same as for torchvision's functions of the same name, so that a picture can be compared with
//! torchvision's for the same numbers.

use serde::Serialize;

use crate::decode::draw::Draws;
use forebay_picture::Interpolation;
use forebay_picture::geometry::Size;
use forebay_picture::picture_ops::{Displacement, Rotation, Shape};

/// Resampling, and the colour outside of the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sampling {
    /// The filter.
    pub interpolation: Interpolation,
    /// Red, green and blue; a mask has the first.
    pub fill: [u8; 3],
}

/// Operation with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// Mirrors left and right.
    HorizontalFlip,
    /// Mirrors top and bottom.
    VerticalFlip,
    /// Rotates about a point, counter-clockwise.
    Rotate {
        /// Degrees.
        angle: f64,
        /// True if the picture grows to hold all of its pixels.
        expand: bool,
        /// Column and row; `None` is the middle.
        center: Option<[f64; 2]>,
        /// Resampling.
        #[serde(flatten)]
        sampling: Sampling,
    },
    /// Rotates clockwise, scales, shears and moves.
    Affine {
        /// Degrees.
        angle: f64,
        /// Columns and rows.
        translate: [f64; 2],
        /// Factor.
        scale: f64,
        /// Degrees, along columns and along rows.
        shear: [f64; 2],
        /// Column and row; `None` is the middle.
        center: Option<[f64; 2]>,
        /// Resampling.
        #[serde(flatten)]
        sampling: Sampling,
    },
    /// Takes each pixel from the position that a matrix gives, as Pillow's `Image.transform`.
    Transform {
        /// Two rows of three numbers: from a position in the result to one in the picture.
        matrix: [f64; 6],
        /// Resampling.
        #[serde(flatten)]
        sampling: Sampling,
    },
    /// Moves the corners.
    Perspective {
        /// Corners of the result, from the upper left one clockwise: column and row.
        endpoints: [[f64; 2]; 4],
        /// From a position in the result to one in the picture.
        coefficients: [f64; 8],
        /// Resampling.
        #[serde(flatten)]
        sampling: Sampling,
    },
    /// Moves each pixel by a smooth field of displacements.
    Elastic {
        /// Strength along columns and along rows.
        alpha: [f64; 2],
        /// Deviations of the kernel that smooths the displacements, pixels.
        sigma: [f64; 2],
        /// Resampling.
        #[serde(flatten)]
        sampling: Sampling,
        /// Source of the displacements.
        #[serde(skip)]
        noise: Draws,
    },
    /// Blends with black.
    AdjustBrightness {
        /// Share of the picture.
        factor: f64,
    },
    /// Blends with the mean of its luma.
    AdjustContrast {
        /// Share of the picture.
        factor: f64,
    },
    /// Blends with its luma.
    AdjustSaturation {
        /// Share of the picture.
        factor: f64,
    },
    /// Turns the hues.
    AdjustHue {
        /// Turns, from -0.5 to 0.5.
        factor: f64,
    },
    /// Changes hue, saturation and value in OpenCV's HSV of 8 bits.
    AdjustHsv {
        /// Number that is added to the hues, of two degrees each.
        hue: f64,
        /// Factor and addend of the saturation.
        saturation: [f64; 2],
        /// Factor and addend of the value.
        value: [f64; 2],
    },
    /// Blends with a smoothed picture.
    AdjustSharpness {
        /// Share of the picture.
        factor: f64,
    },
    /// Replaces the colours by their luma.
    RgbToGrayscale,
    /// Exchanges the channels.
    PermuteChannels {
        /// Channel that each channel of the result was before.
        permutation: [u8; 3],
    },
    /// Replaces every level by 255 minus it.
    Invert,
    /// Keeps the upper bits of every level.
    Posterize {
        /// Bits, at most 8.
        bits: u8,
    },
    /// Inverts levels from a threshold on.
    Solarize {
        /// The lowest level that is inverted.
        threshold: f64,
    },
    /// Adds to levels below a threshold.
    SolarizeAdd {
        /// Number that is added.
        add: u8,
        /// The lowest level that stays.
        threshold: u8,
    },
    /// Stretches the levels of each channel to 0 to 255.
    Autocontrast,
    /// Makes the levels of each channel equally frequent.
    Equalize,
    /// Convolves with a Gaussian kernel.
    GaussianBlur {
        /// Columns and rows, odd.
        kernel_size: [u32; 2],
        /// Standard deviation, pixels.
        sigma: f64,
    },
    /// Blurs as Pillow's `GaussianBlur`.
    RadiusBlur {
        /// Standard deviation, pixels.
        radius: f64,
    },
    /// Adds normally distributed noise.
    GaussianNoise {
        /// Mean, for levels from 0 to 1.
        mean: f64,
        /// Standard deviation, for levels from 0 to 1.
        sigma: f64,
        /// True if levels out of range become the nearest one; they wrap around otherwise.
        clip: bool,
        /// Source of the noise.
        #[serde(skip)]
        noise: Draws,
    },
    /// Compresses to a JPEG and back.
    Jpeg {
        /// From 1 to 100.
        quality: u8,
    },
    /// Starts a mixture: keeps the picture, and its share.
    StartMixture {
        /// Weight of the picture.
        weight: f64,
    },
    /// Adds the picture, as changed since the start, to the mixture, and returns to the kept picture.
    AddToMixture {
        /// Weight of the changed picture.
        weight: f64,
    },
    /// Replaces the picture by the mixture.
    EndMixture,
    /// Replaces the picture by a blend of the kept one with the mixture.
    BlendMixture {
        /// Share of the mixture, from 0 to 1.
        share: f64,
    },
}

impl Action {
    /// Returns true if it moves pixels.
    pub fn moves(&self) -> bool {
        matches!(
            self,
            Self::HorizontalFlip
                | Self::VerticalFlip
                | Self::Rotate { .. }
                | Self::Affine { .. }
                | Self::Transform { .. }
                | Self::Perspective { .. }
                | Self::Elastic { .. }
        )
    }

    /// Returns the displacements of an elastic transform of a picture of `size`.
    pub(in crate::decode) fn displacement(&self, size: Size) -> Option<Displacement> {
        let Self::Elastic { alpha, sigma, noise, .. } = self else { return None };
        let mut noise = noise.clone();
        Some(Displacement::new([size.w as usize, size.h as usize], *alpha, *sigma, || noise.unit() as f32))
    }

    /// Returns the size of the result for a picture of `size`.
    pub fn output(&self, size: Size) -> Size {
        match self {
            Self::Rotate { angle, expand: true, center, .. } => {
                let shape = Shape::new(size.w as usize, size.h as usize, 3);
                let turned = Rotation::new(shape, *angle, true, *center).output(shape);
                let [w, h] = [turned.width, turned.height].map(|side| u32::try_from(side).unwrap_or(u32::MAX));
                Size { w, h }
            }
            _ => size,
        }
    }
}
