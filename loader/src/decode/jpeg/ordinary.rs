//! Files that a decoder on a device takes.

#![forbid(unsafe_code)]

use super::frame::{Colours, Frame};
use super::markers::{Headers, Scan};

/// Whether `bytes` is an ordinary file: sequential, 8 bits, all components in one scan, grey or YCbCr whose chroma is whole
/// or halved, and with its end where it should be. Decoders on devices take these; for the others, and for damage that
/// shows only in the entropy-coded data, ask [`Decoder`](super::Decoder).
pub fn is_ordinary(bytes: &[u8]) -> bool {
    let scan = Headers::new(bytes).and_then(|mut headers| headers.next_scan()).ok().flatten();
    scan.is_some_and(|(frame, scan)| is_plain(&frame, &scan)) && bytes.ends_with(&[0xff, 0xd9])
}

fn is_plain(frame: &Frame, scan: &Scan) -> bool {
    let components = frame.components();
    let is_halved_at_most = frame.h_max <= 2 && frame.v_max <= 2;
    let is_whole = components.first().is_some_and(|first| (first.h, first.v) == (frame.h_max, frame.v_max));
    let chroma = components.iter().skip(1).all(|c| (c.h, c.v) == (1, 1));
    !frame.is_progressive
        && frame.colours != Colours::Rgb
        && scan.components().len() == components.len()
        && is_halved_at_most
        && is_whole
        && chroma
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::geometry::Size;
    use crate::decode::jpeg::{Subsampling, encode};

    fn file(kind: Subsampling, is_progressive: bool) -> Vec<u8> {
        let size = Size { w: 40, h: 24 };
        let pixels: Vec<u8> = (0..40 * 24 * 3).map(|i| (i * 7) as u8).collect();
        encode(&pixels, size, 90, kind, is_progressive).unwrap()
    }

    #[test]
    fn baseline_files_with_whole_or_halved_chroma_are_ordinary() {
        for kind in [Subsampling::S444, Subsampling::S422, Subsampling::S420, Subsampling::S440, Subsampling::Grey] {
            assert!(is_ordinary(&file(kind, false)), "{kind:?}");
            assert!(!is_ordinary(&file(kind, true)), "{kind:?}, progressive");
        }
        for kind in [Subsampling::S411, Subsampling::S441] {
            assert!(!is_ordinary(&file(kind, false)), "{kind:?}");
        }
    }

    #[test]
    fn a_file_without_its_end_is_not() {
        let whole = file(Subsampling::S420, false);
        for end in 0..whole.len() {
            assert!(!is_ordinary(&whole[..end]), "{end}");
        }
    }
}
