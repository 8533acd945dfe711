//! Operations on decoded pictures, as torchvision's transforms do them to a PIL image.
//!
//! ```text
//! points     look-up tables: brightness, contrast, posterize, solarize, invert, equalize, autocontrast;
//!            a run of them is one pass
//! colour     saturation, grayscale, hue, order of the channels
//! hsv        hue, saturation and value, in OpenCV's HSV
//! blur       torchvision's Gaussian blur; radius_blur has Pillow's
//! sharpness  a blend with a smoothed copy
//! warp       affine and perspective transforms, rotation; matrices has their parameters
//! elastic    fields of displacements
//! flips      mirrored pictures
//! noise      normally distributed noise
//! kernel     inner loops, each compiled for the vectors that a machine may have; all give the same bits
//! ```
//!
//! A picture is a slice of [`Shape::bytes`] bytes: rows without gaps, the channels of a pixel in sequence.
//! Parameters are the parameters of the Python functions, already drawn. Results are Pillow's own, which rounds
//! differently from operation to operation: a single precision product in a blend, a truncation there, a division by 13
//! elsewhere. Each file names its source in Pillow or torchvision. No operation fails, and none allocates once its
//! [`Scratch`] has the size of the pictures.

mod blur;
mod colour;
mod elastic;
mod flips;
mod hsv;
mod kernel;
mod matrices;
mod noise;
mod points;
mod radius_blur;
mod sharpness;
mod warp;

use super::kept::release;

pub use blur::gaussian_blur;
pub use colour::{grayscale, hue, permute_channels, saturation};
pub use elastic::{Displacement, elastic};
pub use flips::{flip_horizontal, flip_vertical};
pub use hsv::{LevelChange, hsv};
pub use matrices::{Rotation, affine_matrix, perspective_coefficients};
pub use noise::gaussian_noise;
pub use points::{Histogram, PointOp, Tables, points};
pub use radius_blur::radius_blur;
pub use sharpness::sharpness;
pub use warp::{affine, perspective, rotate};

/// Size of a picture and its number of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Columns, at least 1.
    pub width: usize,
    /// Rows, at least 1.
    pub height: usize,
    /// Bytes of a pixel: 1 (grey) or 3 (red, green, blue).
    pub channels: usize,
}

impl Shape {
    /// Returns the shape of a picture of `width` by `height` pixels.
    pub fn new(width: usize, height: usize, channels: usize) -> Self {
        debug_assert!(channels == 1 || channels == 3, "grey or colours");
        Self { width, height, channels }
    }

    /// Bytes of a row.
    pub fn row_bytes(self) -> usize {
        self.width * self.channels
    }

    /// Bytes of the picture.
    pub fn bytes(self) -> usize {
        self.row_bytes() * self.height
    }
}

/// Memory of one thread for operations that need more than the picture. It grows to the largest picture until it is
/// released.
#[derive(Debug, Default)]
pub struct Scratch {
    bytes: Vec<u8>,
    floats: Vec<f32>,
    /// Weights of a convolution along x and along y.
    weights: [Vec<f32>; 2],
    /// Starts of the rows that a convolution adds up.
    starts: Vec<usize>,
}

impl Scratch {
    /// Releases the memory of a far larger picture.
    pub fn release(&mut self) {
        release(&mut self.bytes);
        release(&mut self.floats);
        self.weights.iter_mut().for_each(release);
        release(&mut self.starts);
    }
}

#[cfg(test)]
mod tests;
