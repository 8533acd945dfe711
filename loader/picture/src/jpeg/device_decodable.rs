//! Test for files that a device can decode.

use super::frame::{Colours, Frame};
use super::markers::{Headers, Scan};
use super::native::NativeDecoder;
use super::workspace::Workspace;

/// See [`Decoder::is_device_decodable`](super::Decoder::is_device_decodable). Without `decoder`, only the headers and
/// the last bytes are checked.
pub(super) fn is_device_decodable(bytes: &[u8], decoder: Option<&mut NativeDecoder>) -> bool {
    let Ok(mut headers) = Headers::new(bytes) else { return false };
    let Ok(Some((frame, scan))) = headers.next_scan() else { return false };
    if !is_supported(&frame, &scan) || !bytes.ends_with(&EOI) {
        return false;
    }
    let Some(NativeDecoder { workspace: Workspace { segments, kernels, .. }, .. }) = decoder else { return true };
    // Restart markers in the data must count up.
    segments.read_scan(*kernels, &mut headers, &scan).is_ok() && headers.at == bytes.len() - EOI.len()
}

const EOI: [u8; 2] = [0xff, 0xd9];

fn is_supported(frame: &Frame, scan: &Scan) -> bool {
    let components = frame.components();
    let are_factors_small = frame.h_max <= 2 && frame.v_max <= 2;
    let is_luma_whole = components.first().is_some_and(|first| (first.h, first.v) == (frame.h_max, frame.v_max));
    let is_rest_single = components.iter().skip(1).all(|c| (c.h, c.v) == (1, 1));
    !frame.is_progressive
        && frame.colours != Colours::Rgb
        && scan.components().len() == components.len()
        && are_factors_small
        && is_luma_whole
        && is_rest_single
}

#[cfg(test)]
mod tests {
    use crate::geometry::Size;
    use crate::jpeg::kernel::Kernels;
    use crate::jpeg::native::NativeDecoder;
    use crate::jpeg::{Subsampling, encode};

    fn is_device_decodable(bytes: &[u8]) -> bool {
        // Not by way of `Decoder`, which has no native decoder on machines without vector instructions.
        super::is_device_decodable(bytes, Some(&mut NativeDecoder::new(Kernels::default())))
    }

    fn file(kind: Subsampling, is_progressive: bool) -> Vec<u8> {
        let size = Size { w: 40, h: 24 };
        let pixels: Vec<u8> = (0..40 * 24 * 3).map(|i| (i * 7) as u8).collect();
        encode(&pixels, size, 90, kind, is_progressive).unwrap()
    }

    #[test]
    fn baseline_files_with_whole_or_halved_chroma_are_device_decodable() {
        for kind in [Subsampling::S444, Subsampling::S422, Subsampling::S420, Subsampling::S440, Subsampling::Grey] {
            assert!(is_device_decodable(&file(kind, false)), "{kind:?}");
            assert!(!is_device_decodable(&file(kind, true)), "{kind:?}, progressive");
        }
        for kind in [Subsampling::S411, Subsampling::S441] {
            assert!(!is_device_decodable(&file(kind, false)), "{kind:?}");
        }
    }

    #[test]
    fn a_file_with_a_marker_in_its_data_is_not_device_decodable() {
        let whole = file(Subsampling::S420, false);
        let data = whole.windows(2).position(|two| two == [0xff, 0xda]).expect("a scan") + 14;
        for marker in [0xd0, 0xd9, 0xc4, 0xff, 0x01] {
            let mut damaged = whole.clone();
            damaged[data + 40..][..2].copy_from_slice(&[0xff, marker]);
            assert!(!is_device_decodable(&damaged), "{marker:x}");
        }
        assert!(!is_device_decodable(&[&whole[..], &whole].concat()), "two files");
    }

    #[test]
    fn a_file_without_its_end_is_not_device_decodable() {
        let whole = file(Subsampling::S420, false);
        for end in 0..whole.len() {
            assert!(!is_device_decodable(&whole[..end]), "{end}");
        }
    }
}
