//! Operations of the policies, and the ranges of their strengths.

use crate::decode::augment::action::{Action, Sampling};
use crate::decode::augment::operation::Script;
use forebay_picture::geometry::Size;

/// Operation of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PolicyOp {
    Identity,
    ShearX,
    ShearY,
    TranslateX,
    TranslateY,
    Rotate,
    Brightness,
    Color,
    Contrast,
    Sharpness,
    Posterize,
    Solarize,
    AutoContrast,
    Equalize,
    Invert,
}

/// Strengths of an operation.
#[derive(Clone, Copy, Debug)]
enum Strengths {
    /// It has none.
    None,
    /// From 0 to this number; the sign is drawn.
    Signed(f64),
    /// From 0 to this fraction of the width, or of the height; the sign is drawn.
    OfWidth(f64),
    OfHeight(f64),
    /// From 1 to 0.
    Falling,
    /// Bits: from the first number, and fewer by up to the second.
    Bits(f32, f32),
}

/// Operation with its strengths.
#[derive(Clone, Copy, Debug)]
pub(super) struct PolicyEntry {
    kind: PolicyOp,
    strengths: Strengths,
}

const fn entry_of(kind: PolicyOp, strengths: Strengths) -> PolicyEntry {
    PolicyEntry { kind, strengths }
}

/// Returns the entry of an operation. Every operation of AutoAugment's tables is in its space.
pub(super) fn entry(space: &'static [PolicyEntry], kind: PolicyOp) -> &'static PolicyEntry {
    space.iter().find(|entry| entry.kind == kind).unwrap_or(&space[0])
}

use PolicyOp::*;
use Strengths::{Bits, Falling, OfHeight, OfWidth, Signed};

/// TrivialAugment's wide space.
pub(super) const TRIVIAL_WIDE: [PolicyEntry; 14] = [
    entry_of(Identity, Strengths::None),
    entry_of(ShearX, Signed(0.99)),
    entry_of(ShearY, Signed(0.99)),
    entry_of(TranslateX, Signed(32.0)),
    entry_of(TranslateY, Signed(32.0)),
    entry_of(Rotate, Signed(135.0)),
    entry_of(Brightness, Signed(0.99)),
    entry_of(Color, Signed(0.99)),
    entry_of(Contrast, Signed(0.99)),
    entry_of(Sharpness, Signed(0.99)),
    entry_of(Posterize, Bits(8.0, 6.0)),
    entry_of(Solarize, Falling),
    entry_of(AutoContrast, Strengths::None),
    entry_of(Equalize, Strengths::None),
];

/// RandAugment's space.
pub(super) const RAND: [PolicyEntry; 14] = [
    entry_of(Identity, Strengths::None),
    entry_of(ShearX, Signed(0.3)),
    entry_of(ShearY, Signed(0.3)),
    entry_of(TranslateX, OfWidth(150.0 / 331.0)),
    entry_of(TranslateY, OfHeight(150.0 / 331.0)),
    entry_of(Rotate, Signed(30.0)),
    entry_of(Brightness, Signed(0.9)),
    entry_of(Color, Signed(0.9)),
    entry_of(Contrast, Signed(0.9)),
    entry_of(Sharpness, Signed(0.9)),
    entry_of(Posterize, Bits(8.0, 4.0)),
    entry_of(Solarize, Falling),
    entry_of(AutoContrast, Strengths::None),
    entry_of(Equalize, Strengths::None),
];

/// AutoAugment's space: RandAugment's, and `Invert`.
pub(super) const AUTO: [PolicyEntry; 15] = {
    let mut all = [entry_of(Invert, Strengths::None); 15];
    let mut i = 0;
    while i < RAND.len() {
        all[i] = RAND[i];
        i += 1;
    }
    all
};

/// AugMix's space. The first nine are those without changes of colours' strength.
pub(super) const MIX: [PolicyEntry; 13] = [
    entry_of(ShearX, Signed(0.3)),
    entry_of(ShearY, Signed(0.3)),
    entry_of(TranslateX, OfWidth(1.0 / 3.0)),
    entry_of(TranslateY, OfHeight(1.0 / 3.0)),
    entry_of(Rotate, Signed(30.0)),
    entry_of(Posterize, Bits(4.0, 4.0)),
    entry_of(Solarize, Falling),
    entry_of(AutoContrast, Strengths::None),
    entry_of(Equalize, Strengths::None),
    entry_of(Brightness, Signed(0.9)),
    entry_of(Color, Signed(0.9)),
    entry_of(Contrast, Signed(0.9)),
    entry_of(Sharpness, Signed(0.9)),
];

impl PolicyEntry {
    /// Adds the operation with strength number `bin` of `bins`.
    pub(super) fn push(&self, bin: u32, bins: u32, is_negative: bool, sampling: Sampling, script: &mut Script) {
        let magnitude = self.strengths.at(bin, bins, is_negative, script.size);
        let affine =
            |translate, shear, center| Action::Affine { angle: 0.0, translate, scale: 1.0, shear, center, sampling };
        let corner = Some([0.0, 0.0]);
        script.push(match self.kind {
            Identity => return,
            ShearX => affine([0.0; 2], [magnitude.atan().to_degrees(), 0.0], corner),
            ShearY => affine([0.0; 2], [0.0, magnitude.atan().to_degrees()], corner),
            // Adding 0 turns -0 into 0.
            TranslateX => affine([magnitude.trunc() + 0.0, 0.0], [0.0; 2], None),
            TranslateY => affine([0.0, magnitude.trunc() + 0.0], [0.0; 2], None),
            Rotate => Action::Rotate { angle: magnitude, expand: false, center: None, sampling },
            Brightness => Action::AdjustBrightness { factor: 1.0 + magnitude },
            Color => Action::AdjustSaturation { factor: 1.0 + magnitude },
            Contrast => Action::AdjustContrast { factor: 1.0 + magnitude },
            Sharpness => Action::AdjustSharpness { factor: 1.0 + magnitude },
            Posterize => Action::Posterize { bits: magnitude as u8 },
            Solarize => Action::Solarize { threshold: 255.0 * magnitude },
            AutoContrast => Action::Autocontrast,
            Equalize => Action::Equalize,
            Invert => Action::Invert,
        });
    }
}

impl Strengths {
    /// Returns strength number `bin` of `bins`, for a picture of `size`.
    fn at(self, bin: u32, bins: u32, is_negative: bool, size: Size) -> f64 {
        let signed = |most: f64| {
            let strength = spaced(0.0, most, bin, bins);
            if is_negative { -strength } else { strength }
        };
        match self {
            Self::None => 0.0,
            Signed(most) => signed(most),
            OfWidth(share) => signed(share * f64::from(size.w)),
            OfHeight(share) => signed(share * f64::from(size.h)),
            Falling => spaced(1.0, 0.0, bin, bins),
            Bits(from, fewer) => {
                let step = ((f64::from(bins) - 1.0) / f64::from(fewer)) as f32;
                f64::from((from - bin as f32 / step).round_ties_even().max(0.0))
            }
        }
    }
}

/// Returns number `bin` of `bins` evenly spaced numbers, as torch's `linspace` computes them: in single precision from
/// the nearer end, with one rounding for product and sum.
fn spaced(from: f64, to: f64, bin: u32, bins: u32) -> f64 {
    let (from, to) = (from as f32, to as f32);
    let step = (to - from) / (bins - 1) as f32;
    let number =
        if bin < bins / 2 { step.mul_add(bin as f32, from) } else { (-step).mul_add((bins - 1 - bin) as f32, to) };
    f64::from(number)
}
