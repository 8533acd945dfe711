//! What libjpeg-turbo gives out, to bytes of RGB: samples of another depth, grey, ink.

use crate::error::{Error, ErrorKind, Result};
use std::ffi::c_int;
use turbojpeg_sys as tj;

/// Bits of a sample, by the function that decodes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// 2 to 8.
    Byte(u32),
    /// 9 to 12.
    Twelve(u32),
    /// 13 to 16.
    Sixteen(u32),
}

impl Depth {
    /// Of a picture whose header says so many bits. Only lossless pictures have others than 8 and 12.
    ///
    /// # Errors
    /// `Unsupported` for numbers that no JPEG has.
    pub(super) fn of(bits: c_int) -> Result<Self> {
        match bits {
            2..=8 => Ok(Self::Byte(bits as u32)),
            9..=12 => Ok(Self::Twelve(bits as u32)),
            13..=16 => Ok(Self::Sixteen(bits as u32)),
            _ => {
                let message = "no JPEG has samples of so many bits";
                Err(Error::decode(message).of_kind(ErrorKind::Unsupported).with("bits", bits))
            }
        }
    }

    /// The largest sample.
    fn max(self) -> u32 {
        let (Self::Byte(bits) | Self::Twelve(bits) | Self::Sixteen(bits)) = self;
        (1 << bits) - 1
    }

    /// Memory for so many samples that are no bytes.
    pub(super) fn room(self, samples: usize) -> Vec<u16> {
        match self {
            Self::Byte(_) => Vec::new(),
            Self::Twelve(_) | Self::Sixteen(_) => vec![0; samples],
        }
    }

    /// Samples to bytes, the largest one to 255: those of `deep`, or those that are in `out` already.
    pub(super) fn to_bytes(self, deep: &[u16], out: &mut [u8]) {
        let max = self.max();
        let byte = |sample: u32| ((sample.min(max) * 255 + max / 2) / max) as u8;
        match self {
            Self::Byte(8) => {}
            Self::Byte(_) => out.iter_mut().for_each(|sample| *sample = byte(u32::from(*sample))),
            _ => out.iter_mut().zip(deep).for_each(|(out, sample)| *out = byte(u32::from(*sample))),
        }
    }
}

/// The samples of a pixel that the library is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputFormat {
    Rgb,
    /// Four inks, of what is stored as such.
    Cmyk,
    /// Of lossless grey pictures the library makes nothing else.
    Grey,
}

impl OutputFormat {
    /// Of a picture that is stored as `stored`.
    pub(super) fn of(stored: c_int, is_lossless: bool) -> Self {
        match stored as tj::TJCS {
            tj::TJCS_TJCS_CMYK | tj::TJCS_TJCS_YCCK => Self::Cmyk,
            tj::TJCS_TJCS_GRAY if is_lossless => Self::Grey,
            _ => Self::Rgb,
        }
    }

    /// Samples of a pixel.
    pub(super) fn channels(self) -> usize {
        match self {
            Self::Rgb => 3,
            Self::Cmyk => 4,
            Self::Grey => 1,
        }
    }

    /// Bytes of a pixel that there must be room for: its samples, and RGB.
    pub(super) fn room(self) -> usize {
        self.channels().max(3)
    }

    /// The library's name.
    pub(super) fn format(self) -> c_int {
        match self {
            Self::Rgb => tj::TJPF_TJPF_RGB as c_int,
            Self::Cmyk => tj::TJPF_TJPF_CMYK as c_int,
            Self::Grey => tj::TJPF_TJPF_GRAY as c_int,
        }
    }

    /// Makes RGB of the pixels at the front of `pixels`, in place.
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

/// Adobe stores CMYK inverted, and every reader takes four channels to be Adobe's. Pillow's arithmetic, packing four
/// bytes to three in place.
fn rgb_from_inverted_cmyk(pixels: &mut [u8]) {
    for i in 0..pixels.len() / 4 {
        let [c, m, y, k] = [pixels[4 * i], pixels[4 * i + 1], pixels[4 * i + 2], pixels[4 * i + 3]];
        for (channel, ink) in [c, m, y].into_iter().enumerate() {
            pixels[3 * i + channel] = crate::decode::rgb::rgb_channel(255 - ink, 255 - k);
        }
    }
}
