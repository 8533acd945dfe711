//! Groups of similar pictures, by their headers.

use clap::ValueEnum;

/// Property that defines the groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// One group of all pictures
    #[default]
    Nothing,
    /// Sequential or progressive
    Process,
    /// Subsampling: grey, 4:4:4, 4:2:2, 4:2:0 and the rest
    Subsampling,
    /// Number of pixels
    Size,
    /// Quality setting of libjpeg
    Quality,
}

/// Relevant fields of a JPEG header.
#[derive(Default)]
struct Header {
    /// Frame marker.
    frame: u8,
    pixels: u64,
    /// Sampling factors by component, `0xHV`.
    factors: Vec<u8>,
    /// Sum of the first quantisation table.
    steps: u32,
}

/// Returns the group of a picture, empty if there is only one.
pub(super) fn group(picture: &[u8], by: By) -> String {
    let header = Header::read(picture).unwrap_or_default();
    let name = match by {
        By::Nothing => "",
        By::Process => match header.frame {
            0xc0 | 0xc1 => "sequential",
            0xc2 => "progressive",
            _ => "other",
        },
        By::Subsampling => match header.factors[..] {
            [_] => "grey",
            [0x11, 0x11, 0x11] => "4:4:4",
            [0x21, 0x11, 0x11] => "4:2:2",
            [0x12, 0x11, 0x11] => "4:4:0",
            [0x22, 0x11, 0x11] => "4:2:0",
            [0x41, 0x11, 0x11] => "4:1:1",
            _ => "other",
        },
        By::Size => match header.pixels {
            0..100_000 => "below 0.1 megapixels",
            100_000..300_000 => "0.1 to 0.3 megapixels",
            300_000..1_000_000 => "0.3 to 1 megapixels",
            _ => "1 megapixel and more",
        },
        By::Quality => match quality(header.steps) {
            0..75 => "quality below 75",
            75..90 => "quality 75 to 89",
            _ => "quality 90 and more",
        },
    };
    name.to_owned()
}

/// Returns the quality setting for which libjpeg scales the standard's luma table to this sum.
fn quality(steps: u32) -> u32 {
    /// Sum of the standard's luma table.
    const STANDARD: u32 = 3_688;
    let percent = (steps * 100 / STANDARD).max(1);
    if percent <= 100 { (200 - percent) / 2 } else { 5_000 / percent }
}

impl Header {
    fn read(picture: &[u8]) -> Option<Self> {
        let mut header = Self::default();
        let mut rest = picture.get(2..)?;
        loop {
            let [0xff, code, high, low, ..] = *rest else { return None };
            let body = rest.get(4..2 + usize::from(u16::from_be_bytes([high, low])))?;
            match code {
                0xdb if header.steps == 0 => {
                    let bytes = 1 + usize::from(body.first()? >> 4);
                    let values = body.get(1..=64 * bytes)?.chunks(bytes);
                    header.steps = values.map(|v| v.iter().fold(0, |sum, b| sum << 8 | u32::from(*b))).sum();
                }
                0xc0..=0xc3 | 0xc9 | 0xca => {
                    let [_, h1, h0, w1, w0, _, components @ ..] = body else { return None };
                    let side = |bytes: [u8; 2]| u64::from(u16::from_be_bytes(bytes));
                    header.pixels = side([*h1, *h0]) * side([*w1, *w0]);
                    header.factors = components.chunks_exact(3).map(|c| c[1]).collect();
                    header.frame = code;
                }
                0xda => return Some(header),
                _ => {}
            }
            rest = &rest[4 + body.len()..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_loader::decode::geometry::Size;
    use forebay_loader::decode::jpeg::{Subsampling, encode};

    #[test]
    fn pictures_are_grouped_by_the_settings_of_their_encoder() {
        let size = Size { w: 400, h: 300 };
        let rgb = vec![77; 400 * 300 * 3];
        let by = [By::Nothing, By::Process, By::Subsampling, By::Size, By::Quality];
        let groups = |quality, subsampling, progressive| {
            let picture = encode(&rgb, size, quality, subsampling, progressive).expect("encoded");
            by.map(|by| group(&picture, by))
        };
        let of = ["", "progressive", "4:2:0", "0.1 to 0.3 megapixels", "quality 75 to 89"];
        assert_eq!(groups(85, Subsampling::S420, true), of);
        let of = ["", "sequential", "grey", "0.1 to 0.3 megapixels", "quality 90 and more"];
        assert_eq!(groups(90, Subsampling::Grey, false), of);
        assert_eq!(groups(40, Subsampling::S444, false)[4], "quality below 75");
        assert_eq!(group(b"no picture", By::Process), "other");
    }
}
