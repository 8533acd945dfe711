//! Decoders that stop early, to measure stages.

use super::*;
use crate::jpeg::kernel::Kernels;
use crate::jpeg::native::NativeDecoder;
use crate::jpeg::stages::JpegStage;

/// Returns the samples and pixels after decoding up to a stage.
fn trace(last_stage: JpegStage, bytes: &[u8], index: &[u8], region: Region) -> (Vec<u8>, Vec<u8>) {
    let mut native = NativeDecoder::with_last_stage(Kernels::default(), last_stage);
    let mut pixels = Pixels::default();
    native.decode_scaled(bytes, (!index.is_empty()).then_some(index), Scale::Full, region, &mut pixels).unwrap();
    let samples = native.workspace.planes.iter().flat_map(|plane| &plane.bytes[..]).copied().collect();
    (samples, pixels.rgb().to_vec())
}

#[test]
fn a_decoder_that_stops_early_has_run_exactly_the_stages_before() {
    let mut random = Lcg(5);
    let region = Region { x: 30, y: 40, w: 45, h: 60 };
    for kind in KINDS {
        for progressive in [false, true] {
            let size = Size { w: 90, h: 120 };
            let bytes = encode(&picture(size, &mut random), size, 90, kind, progressive).unwrap();
            let mut index = Vec::new();
            assert_eq!(RowIndexer::default().append(&bytes, &mut index), !progressive);
            for index in [&[][..], &index] {
                let [first, second, third, last] =
                    [JpegStage::Bytes, JpegStage::Coefficients, JpegStage::Samples, JpegStage::Pixels]
                        .map(|last_stage| trace(last_stage, &bytes, index, region));
                let is_blank = |values: &[u8]| values.iter().all(|v| *v == 0);
                for early in [first, second] {
                    assert!(is_blank(&early.0) && is_blank(&early.1), "{kind:?} {progressive}");
                }
                assert!(!is_blank(&third.0) && third.0 == last.0, "{kind:?} {progressive}");
                assert!(is_blank(&third.1) && !is_blank(&last.1), "{kind:?} {progressive}");
            }
        }
    }
}

#[test]
fn damage_is_found_when_coefficients_are_decoded_and_not_before() {
    let size = Size { w: 90, h: 120 };
    for progressive in [false, true] {
        let mut bytes = encode(&picture(size, &mut Lcg(6)), size, 90, Subsampling::S420, progressive).unwrap();
        // The first scan's data up to the next marker is replaced by bits that are no code.
        let scan = bytes.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap() + 2;
        let start = scan + usize::from(u16::from_be_bytes([bytes[scan], bytes[scan + 1]]));
        let length = bytes[start..].windows(2).position(|pair| pair[0] == 0xff && pair[1] != 0).unwrap();
        bytes.splice(start..start + length, [0xff, 0x00].repeat(length / 2));
        let is_decoded = |last_stage| {
            let mut native = NativeDecoder::with_last_stage(Kernels::default(), last_stage);
            native.decode_scaled(&bytes, None, Scale::Full, Region::all(size), &mut Pixels::default()).is_ok()
        };
        assert!(is_decoded(JpegStage::Bytes));
        assert!(!is_decoded(JpegStage::Coefficients));
    }
}
