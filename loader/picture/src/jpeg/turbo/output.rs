//! Conversion of libjpeg-turbo's output to bytes of RGB: all sample depths, grey, CMYK.

use std::ffi::c_int;
use turbojpeg_sys as tj;

/// Scales samples of `bits` to bytes, the largest one to 255: samples of `deep`, or samples that are in `out` already
/// if they have no more than 8 bits.
pub(super) fn scale_to_bytes(bits: u32, deep: &[u16], out: &mut [u8]) {
    let max = (1 << bits) - 1;
    let byte = |sample: u32| ((sample.min(max) * 255 + max / 2) / max) as u8;
    match bits {
        8 => {}
        ..8 => out.iter_mut().for_each(|sample| *sample = byte(u32::from(*sample))),
        _ => out.iter_mut().zip(deep).for_each(|(out, sample)| *out = byte(u32::from(*sample))),
    }
}

/// Samples of a pixel that the library is requested to decode to, with the library's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputFormat {
    Rgb = tj::TJPF_TJPF_RGB as isize,
    /// Four inks, for pictures that are stored as such.
    Cmyk = tj::TJPF_TJPF_CMYK as isize,
    /// One sample; the library decodes lossless grey pictures to nothing else.
    Grey = tj::TJPF_TJPF_GRAY as isize,
}

impl OutputFormat {
    /// Returns the format for a picture that is stored as `stored`.
    pub(super) fn new(stored: c_int, is_lossless: bool) -> Self {
        match stored as tj::TJCS {
            tj::TJCS_TJCS_CMYK | tj::TJCS_TJCS_YCCK => Self::Cmyk,
            tj::TJCS_TJCS_GRAY if is_lossless => Self::Grey,
            _ => Self::Rgb,
        }
    }

    /// Returns the samples of a pixel.
    pub(super) fn channels(self) -> usize {
        match self {
            Self::Rgb => 3,
            Self::Cmyk => 4,
            Self::Grey => 1,
        }
    }

    /// Returns the bytes that a pixel needs: for its samples, and for RGB.
    pub(super) fn room(self) -> usize {
        self.channels().max(3)
    }

    /// Converts the pixels at the start of `pixels` to RGB, in their memory.
    pub(super) fn make_rgb(self, pixels: &mut [u8]) {
        match self {
            Self::Rgb => {}
            Self::Cmyk => rgb_from_inverted_cmyk(pixels),
            Self::Grey => {
                for at in (0..pixels.len() / 3).rev() {
                    let level = pixels[at];
                    pixels[3 * at..][..3].fill(level);
                }
            }
        }
    }
}

/// Converts CMYK to RGB, packing four bytes to three in the same memory, with Pillow's arithmetic. Adobe stores CMYK
/// inverted, and every reader assumes that four channels are Adobe's.
fn rgb_from_inverted_cmyk(pixels: &mut [u8]) {
    for i in 0..pixels.len() / 4 {
        let [c, m, y, k] = [pixels[4 * i], pixels[4 * i + 1], pixels[4 * i + 2], pixels[4 * i + 3]];
        for (channel, ink) in [c, m, y].into_iter().enumerate() {
            pixels[3 * i + channel] = crate::rgb::rgb_channel(255 - ink, 255 - k);
        }
    }
}
