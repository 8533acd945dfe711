//! Framing: operations that resize a picture, or keep a part of it with borders, by numbers that are drawn for the
//! picture or that depend on its size and boxes.
//!
//! ```text
//! list of operations --Reframe::draw--> Cut: resize | window --fold--> stages, as crops and resizes without draws
//! ```
//!
//! An operation is a small value type. It checks its arguments, and draws one [`Cut`] of a picture: pure, from the key
//! of the sample, the picture's size and, if it asks for them, the boxes around its objects. The fold of stages
//! applies cuts; it knows no operation. A new operation is a type in a file of its family and a line in the table
//! below.
//!
//! Names, arguments and distributions are torchvision's, its reference scripts', or timm's.

mod crop_or_pad;
mod iou_crop;
mod keep_ratio;
mod operation;
mod scale;
mod trim;
mod zoom_out;

use serde::{Deserialize, Serialize};

use super::draw::{DrawKey, FieldDraws, OpDraws};
use crate::error::Result;
use forebay_picture::geometry::Size;

pub(super) use crop_or_pad::center;
pub use crop_or_pad::{CenterCropOrPad, FixedSizeCrop, PadIfSmaller, RandomCropOrPad};
pub use iou_crop::RandomIoUCrop;
pub(super) use iou_crop::is_middle_inside;
pub use keep_ratio::ResizeKeepRatio;
pub use operation::{Cut, Framed, Reframe};
pub use scale::{RandomShortestSize, ScaleJitter};
pub use trim::TrimBorder;
pub use zoom_out::RandomZoomOut;

/// Declares the operations: number, which is part of the key of the draws and never changes, name in documents, and
/// type. The numbers differ from the numbers of the operations on pixels.
macro_rules! operations {
    ($($number:literal $name:literal $kind:ident;)*) => {
        /// Operation on the size and the frame of a picture.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "op")]
        pub enum Framing {
            $(
                #[doc = concat!("See [`", stringify!($kind), "`].")]
                #[serde(rename = $name)]
                $kind($kind),
            )*
        }

        impl Framing {
            /// Returns true for the name of one of them in documents.
            pub(super) fn is_named(name: &str) -> bool {
                [$($name),*].contains(&name)
            }

            /// Returns the number and the operation.
            fn entry(&self) -> (u32, &dyn Reframe) {
                match self { $(Self::$kind(operation) => ($number, operation),)* }
            }

            fn entry_mut(&mut self) -> &mut dyn Reframe {
                match self { $(Self::$kind(operation) => operation,)* }
            }
        }
    };
}

operations! {
    120 "random_zoom_out" RandomZoomOut;
    121 "random_iou_crop" RandomIoUCrop;
    122 "scale_jitter" ScaleJitter;
    123 "random_shortest_size" RandomShortestSize;
    124 "fixed_size_crop" FixedSizeCrop;
    125 "pad_if_smaller" PadIfSmaller;
    126 "resize_keep_ratio" ResizeKeepRatio;
    127 "center_crop_or_pad" CenterCropOrPad;
    128 "random_crop_or_pad" RandomCropOrPad;
    129 "trim_border" TrimBorder;
}

impl Reframe for Framing {
    fn check(&self, size: Option<Size>) -> Result<Option<Size>> {
        self.entry().1.check(size)
    }

    fn draw(&self, draws: OpDraws, picture: Framed<'_>) -> Cut {
        self.entry().1.draw(draws, picture)
    }

    fn become_labels(&mut self) {
        self.entry_mut().become_labels();
    }

    fn fill_mut(&mut self) -> Option<&mut [u8; 3]> {
        self.entry_mut().fill_mut()
    }

    fn is_random(&self) -> bool {
        self.entry().1.is_random()
    }

    fn counts_pixels(&self) -> bool {
        self.entry().1.counts_pixels()
    }

    fn repeats_picture(&self) -> bool {
        self.entry().1.repeats_picture()
    }

    fn needs_boxes(&self) -> bool {
        self.entry().1.needs_boxes()
    }
}

impl Framing {
    /// Number of its kind.
    pub(super) fn number(&self) -> u32 {
        self.entry().0
    }

    /// Returns the draws of the `occurrence`-th operation of its kind in the list of a field.
    pub(super) fn draws(&self, field: FieldDraws, key: DrawKey, occurrence: u32) -> OpDraws {
        OpDraws::new(field, key, self.number(), occurrence)
    }
}

#[cfg(test)]
mod tests;
