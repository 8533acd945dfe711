//! Recipes of training, as `scripts/recipes.py` has them in torchvision and in forebay.

use serde::Serialize;

/// Source of the recipes, for scripts that import it.
pub(super) const SCRIPT: (&str, &str) = ("recipes.py", include_str!("../../scripts/recipes.py"));

/// Operations on a picture between its decode and the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Recipe {
    /// Random crop and flip, as uint8
    Crop,
    /// torchvision's recipe for ResNet-50: TrivialAugmentWide, normalised, RandomErasing of one picture in ten, MixUp
    /// or CutMix
    Resnet,
    /// RandAugment, ColorJitter, normalised, RandomErasing of one picture in four, as for DeiT
    Deit,
    /// One view of SimCLR: ColorJitter, RandomGrayscale, GaussianBlur, normalised
    Simclr,
    /// DINO's two large and six small crops: ColorJitter, RandomGrayscale, GaussianBlur, RandomSolarize, normalised
    Dino,
}

impl Recipe {
    /// Returns its name for a table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Crop => "crop and flip alone",
            Self::Resnet => "ResNet-50's recipe",
            Self::Deit => "DeiT's recipe",
            Self::Simclr => "a view of SimCLR's recipe",
            Self::Dino => "DINO's recipe",
        }
    }

    /// Returns the operations after the random crop and the flip, for a title.
    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Crop => "uint8",
            Self::Resnet => "TrivialAugmentWide, normalised, RandomErasing, MixUp or CutMix",
            Self::Deit => "RandAugment, ColorJitter, normalised, RandomErasing",
            Self::Simclr => "ColorJitter, RandomGrayscale, GaussianBlur, normalised",
            Self::Dino => "8 views: ColorJitter, RandomGrayscale, GaussianBlur, RandomSolarize, normalised",
        }
    }
}
