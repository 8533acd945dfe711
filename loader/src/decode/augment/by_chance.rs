//! Operations that do one thing or nothing, by chance.

use serde::{Deserialize, Serialize};

use super::action::Action;
use super::operation::{Operation, Script, check_within};
use crate::decode::draw::OpDraws;
use crate::error::Result;

fn half() -> f64 {
    0.5
}

fn tenth() -> f64 {
    0.1
}

/// Declares operations: documentation, name, default of the probability, further arguments with their bounds, the
/// action, and if it moves pixels.
macro_rules! by_chance {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident($p:literal) {
            $($(#[doc = $field_doc:literal])+ $field:ident: $type:ty = $least:literal..$most:expr,)*
        }
        => |$op:ident| $action:expr, moves: $moves:literal;
    )*) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[doc = $field_doc])+ pub $field: $type,)*
            /// The probability.
            #[serde(default = $p)]
            pub p: f64,
        }

        impl Operation for $name {
            fn check(&self) -> Result<()> {
                $(check_within(stringify!($name), stringify!($field), f64::from(self.$field), $least, $most)?;)*
                check_within(stringify!($name), "p", self.p, 0.0, 1.0)
            }

            fn draw(&self, draws: OpDraws, script: &mut Script) {
                if draws.numbers().unit() < self.p {
                    let $op = self;
                    script.push($action);
                }
            }

            fn moves(&self) -> bool {
                $moves
            }
        }
    )*};
}

by_chance! {
    /// Mirrors left and right, inside of a composition. In a field's own list it is part of the crop.
    RandomHorizontalFlip("half") {} => |_op| Action::HorizontalFlip, moves: true;
    /// Mirrors top and bottom.
    RandomVerticalFlip("half") {} => |_op| Action::VerticalFlip, moves: true;
    /// Replaces the colours by their luma.
    RandomGrayscale("tenth") {} => |_op| Action::RgbToGrayscale, moves: false;
    /// Replaces every level by 255 minus it.
    RandomInvert("half") {} => |_op| Action::Invert, moves: false;
    /// Keeps the upper bits of every level.
    RandomPosterize("half") {
        /// Bits that are kept.
        bits: u8 = 0.0..8.0,
    } => |op| Action::Posterize { bits: op.bits }, moves: false;
    /// Inverts the levels from a threshold on.
    RandomSolarize("half") {
        /// The lowest level that is inverted.
        threshold: f64 = 0.0..256.0,
    } => |op| Action::Solarize { threshold: op.threshold }, moves: false;
    /// Stretches the levels of each channel to 0 to 255.
    RandomAutocontrast("half") {} => |_op| Action::Autocontrast, moves: false;
    /// Makes the levels of each channel equally frequent.
    RandomEqualize("half") {} => |_op| Action::Equalize, moves: false;
    /// Blends with a smoothed picture.
    RandomAdjustSharpness("half") {
        /// Share of the picture: 0 smooths, 1 changes nothing, 2 sharpens.
        sharpness_factor: f64 = 0.0..f64::MAX,
    } => |op| Action::AdjustSharpness { factor: op.sharpness_factor }, moves: false;
}

/// Replaces the colours by their luma, always.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grayscale {}

impl Operation for Grayscale {
    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn draw(&self, _: OpDraws, script: &mut Script) {
        script.push(Action::RgbToGrayscale);
    }
}
