//! Augmentation: operations on the pixels of a picture after its first crop and resize.
//!
//! ```text
//! list of operations --geometry--> crop, resize, window, mirror: while decoding
//!        |                                                          |
//!        '--Operation::draw--> Script: actions with their numbers --+--Augmenter--> pixels
//!                                                                             '--> pixels of a mask: only moves
//! ```
//!
//! An operation is a small value type. It checks its arguments, and draws the [`Action`]s for one picture: pure, from
//! the key of the sample. Compositions and policies are operations, too, and add the actions of their parts. The
//! [`Augmenter`] applies actions with the functions of [`picture_ops`](forebay_picture::picture_ops); it knows no
//! operation. A new operation is a type in a file of its family and a line in the table below.
//!
//! [`RandomErasing`] is apart, since it changes the finished row, after `Normalize`.
//!
//! Names, arguments and distributions are torchvision's, and pixels are the same as from torchvision's functions on
//! pictures of Pillow for the same numbers.

mod action;
mod apply;
mod by_chance;
mod colour;
mod compose;
mod corrupt;
mod distort;
mod elastic;
mod erase;
mod geometric;
mod hsv;
mod operation;
mod policy;

use serde::{Deserialize, Serialize};

use super::draw::{DrawKey, FieldDraws, OpDraws};
use crate::error::Result;

pub use action::{Action, Sampling};
pub(super) use apply::Augmenter;
pub use by_chance::{
    Grayscale, RandomAdjustSharpness, RandomAutocontrast, RandomEqualize, RandomGrayscale, RandomHorizontalFlip,
    RandomInvert, RandomPosterize, RandomSolarize, RandomVerticalFlip,
};
pub use colour::{ColorJitter, GaussianBlur, RadiusBlur};
pub use compose::{Composition, RandomApply, RandomChoice, RandomOrder};
pub use corrupt::{GaussianNoise, Jpeg};
pub use distort::{RandomChannelPermutation, RandomPhotometricDistort};
pub use elastic::ElasticTransform;
pub use erase::{Erasure, RandomErasing};
pub use geometric::{RandomAffine, RandomPerspective, RandomRotation};
pub use hsv::{HueSaturationValue, RandomHsv};
pub(super) use operation::{ALPHA_MIN, check_range, check_within};
pub use operation::{Operation, Script};
pub use policy::{AugMix, AutoAugment, LevelAugment, LevelKind, LevelOp, Policy, RandAugment, TrivialAugmentWide};

/// Declares the operations: number, which is part of the key of the draws and never changes, name in documents, and
/// type.
macro_rules! operations {
    ($($number:literal $name:literal $kind:ident $(<$inner:ty>)?;)*) => {
        /// Operation on the pixels of a picture.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "op")]
        pub enum Augment {
            $(
                #[doc = concat!("See [`", stringify!($kind), "`].")]
                #[serde(rename = $name)]
                $kind($kind $(<$inner>)?),
            )*
        }

        impl Augment {
            /// Returns the number and the operation.
            fn entry(&self) -> (u32, &dyn Operation) {
                match self { $(Self::$kind(operation) => ($number, operation),)* }
            }
        }
    };
}

operations! {
    1 "grayscale" Grayscale;
    2 "random_horizontal_flip" RandomHorizontalFlip;
    3 "random_vertical_flip" RandomVerticalFlip;
    4 "color_jitter" ColorJitter;
    5 "random_grayscale" RandomGrayscale;
    6 "gaussian_blur" GaussianBlur;
    7 "random_invert" RandomInvert;
    8 "random_posterize" RandomPosterize;
    9 "random_solarize" RandomSolarize;
    10 "random_autocontrast" RandomAutocontrast;
    11 "random_equalize" RandomEqualize;
    12 "random_adjust_sharpness" RandomAdjustSharpness;
    13 "random_rotation" RandomRotation;
    14 "random_affine" RandomAffine;
    15 "random_perspective" RandomPerspective;
    16 "random_apply" RandomApply<Augment>;
    17 "random_choice" RandomChoice<Augment>;
    18 "random_order" RandomOrder<Augment>;
    19 "trivial_augment_wide" TrivialAugmentWide;
    20 "rand_augment" RandAugment;
    21 "auto_augment" AutoAugment;
    22 "aug_mix" AugMix;
    23 "random_photometric_distort" RandomPhotometricDistort;
    24 "random_channel_permutation" RandomChannelPermutation;
    25 "level_augment" LevelAugment;
    26 "radius_blur" RadiusBlur;
    27 "gaussian_noise" GaussianNoise;
    28 "jpeg" Jpeg;
    29 "random_hsv" RandomHsv;
    30 "hue_saturation_value" HueSaturationValue;
    31 "elastic_transform" ElasticTransform;
}

impl Augment {
    /// Returns true if it moves pixels, unless it only mirrors: its numbers may be pixels.
    pub(super) fn counts_pixels(&self) -> bool {
        self.moves() && !matches!(self, Self::RandomHorizontalFlip(_) | Self::RandomVerticalFlip(_))
    }
}

impl Operation for Augment {
    fn check(&self) -> Result<()> {
        self.entry().1.check()
    }

    fn draw(&self, draws: OpDraws, script: &mut Script) {
        self.entry().1.draw(draws, script);
    }

    fn moves(&self) -> bool {
        self.entry().1.moves()
    }

    fn keeps_size(&self) -> bool {
        self.entry().1.keeps_size()
    }

    fn check_labels(&self) -> Result<()> {
        self.entry().1.check_labels()
    }
}

impl Augment {
    /// Number of its kind.
    pub(super) fn number(&self) -> u32 {
        self.entry().0
    }

    /// Returns the draws of the `occurrence`-th operation of its kind in the list of a field.
    pub(super) fn draws(&self, field: FieldDraws, key: DrawKey, occurrence: u32) -> OpDraws {
        OpDraws::new(field, key, self.number(), occurrence)
    }
}
