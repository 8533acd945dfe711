//! Jitter of colours, and blur.

use serde::{Deserialize, Serialize};

use super::action::Action;
use super::operation::{Operation, Script, check_range};
use crate::decode::draw::OpDraws;
use crate::error::{Error, Result};

/// Changes brightness, contrast, saturation and hue, in a drawn order. Each factor is uniform between its bounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColorJitter {
    /// Share of the picture in a blend with black; `None` leaves the brightness.
    #[serde(default)]
    pub brightness: Option<[f64; 2]>,
    /// Share of the picture in a blend with the mean of its luma.
    #[serde(default)]
    pub contrast: Option<[f64; 2]>,
    /// Share of the picture in a blend with its luma.
    #[serde(default)]
    pub saturation: Option<[f64; 2]>,
    /// Turns of the hue, from -0.5 to 0.5.
    #[serde(default)]
    pub hue: Option<[f64; 2]>,
}

impl Operation for ColorJitter {
    fn check(&self) -> Result<()> {
        for (name, range, least, most) in [
            ("brightness", self.brightness, 0.0, f64::MAX),
            ("contrast", self.contrast, 0.0, f64::MAX),
            ("saturation", self.saturation, 0.0, f64::MAX),
            ("hue", self.hue, -0.5, 0.5),
        ] {
            range.map_or(Ok(()), |range| check_range("ColorJitter", name, range, least, most))?;
        }
        Ok(())
    }

    fn draw(&self, draws: OpDraws, script: &mut Script) {
        let mut numbers = draws.numbers();
        let mut order = [0; 4];
        numbers.shuffle(&mut order);
        // Drawn even if it is not used, so that an argument does not change the draws of the rest.
        let mut factor = |range: Option<[f64; 2]>| {
            let share = numbers.unit();
            range.map(|[low, high]| low + share * (high - low))
        };
        let factors = [self.brightness, self.contrast, self.saturation, self.hue].map(&mut factor);
        for number in order {
            let Some(factor) = factors[usize::from(number)] else { continue };
            script.push(match number {
                0 => Action::AdjustBrightness { factor },
                1 => Action::AdjustContrast { factor },
                2 => Action::AdjustSaturation { factor },
                _ => Action::AdjustHue { factor },
            });
        }
    }
}

/// Blurs as Pillow's `GaussianBlur`, with a radius that is uniform between bounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RadiusBlur {
    /// Smallest and largest radius, which is the standard deviation, pixels.
    #[serde(default = "deviations")]
    pub radius: [f64; 2],
}

/// Upper bound of a radius, far above any that a picture can show.
const RADIUS_MAX: f64 = 1e4;

impl Operation for RadiusBlur {
    fn check(&self) -> Result<()> {
        check_range("RadiusBlur", "radius", self.radius, 0.0, RADIUS_MAX)
    }

    fn draw(&self, draws: OpDraws, script: &mut Script) {
        let [low, high] = self.radius;
        script.push(Action::RadiusBlur { radius: draws.numbers().uniform(low, high) });
    }
}

/// Convolves with a Gaussian kernel, its deviation uniform between bounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GaussianBlur {
    /// Columns and rows of the kernel, odd.
    pub kernel_size: [u32; 2],
    /// Smallest and largest standard deviation, pixels.
    #[serde(default = "deviations")]
    pub sigma: [f64; 2],
}

/// Upper bound of a kernel's side: a kernel must not be able to take minutes.
const KERNEL_MAX: u32 = 255;

fn deviations() -> [f64; 2] {
    [0.1, 2.0]
}

impl Operation for GaussianBlur {
    fn check(&self) -> Result<()> {
        if self.kernel_size.iter().any(|side| side % 2 == 0 || *side > KERNEL_MAX) {
            let message = format!("GaussianBlur needs odd sides of `kernel_size`, at most {KERNEL_MAX}");
            return Err(Error::config(message).with("kernel_size", format!("{:?}", self.kernel_size)));
        }
        check_range("GaussianBlur", "sigma", self.sigma, f64::MIN_POSITIVE, f64::MAX)
    }

    fn draw(&self, draws: OpDraws, script: &mut Script) {
        let [low, high] = self.sigma;
        script.push(Action::GaussianBlur { kernel_size: self.kernel_size, sigma: draws.numbers().uniform(low, high) });
    }
}
