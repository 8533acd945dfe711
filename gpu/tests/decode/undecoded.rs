//! Pictures that a backend reports as decoded and never decodes.

use super::rig::*;
use crate::fake::Rig;
use forebay_loader::decode::{DType, PixelLayout};
use std::ffi::c_int;

#[test]
fn undecoded_pictures_are_returned_and_the_others_are_decoded_once() {
    // By engines that decode regions, by engines that decode whole pictures, and by cores. The crops include pixels of
    // the lower half.
    for (engines, modes) in [(2, REGIONS), (2, WHOLE), (0, REGIONS)] {
        for text in [UNDECODED, CUT_SHORT] {
            let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
            rig.wait_mode().advance(true);
            nvjpeg.set_engines(engines);
            nvjpeg.set_modes(modes);
            let decoder = open(&rig, &nvjpeg);
            decoder.take_fallbacks();
            for (dtype, layout) in [(DType::UInt8, PixelLayout::Nhwc), (DType::Float32, PixelLayout::Nchw)] {
                let form = BatchForm::new(dtype, layout);
                let batch = form.rejected_with(&rig, &decoder, 60, (&[1, 12, 17], text), &all());
                nvjpeg.counts();
                assert_eq!(batch.on_engines.len(), if engines > 0 { ROWS - 3 } else { 0 });
                let memory = form.deliver(batch, &all()).expect("delivered");
                assert_eq!(nvjpeg.counts(), (0, 0), "pictures were decoded twice");
                form.check(&rig, &*memory, 60, &all());
            }
            let [sentence] = &decoder.take_fallbacks()[..] else { panic!("not exactly one sentence") };
            assert!(sentence.contains("leaves pictures undecoded"), "{sentence}");
            assert!(decoder.is_open());
            end(rig, &nvjpeg, decoder);
        }
    }
}

#[test]
fn undecoded_and_rejected_pictures_of_a_batch_are_returned_together() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    let decoder = open(&rig, &nvjpeg);
    // Enough for engines and cores. The memory of the pixels has parts that the engines wrote of a batch that they then
    // rejected.
    let form = BatchForm::with_rows(130, DType::UInt8, PixelLayout::Nhwc);
    let rows: Vec<usize> = (0..130).collect();
    let text = |row| match row {
        3 | 100 => Some(REJECTED),
        4 | 20 | 101 | 120 => Some(UNDECODED),
        30 | 122 => Some(CUT_SHORT),
        _ => None,
    };
    for seed in [20, 200] {
        let undecoded =
            form.submit(&decoder, form.fill_with(&rig, seed, &[], text), &rows).expect("finished").undecoded;
        assert_eq!(undecoded, [3, 4, 20, 30, 100, 101, 120, 122]);
    }
    end(rig, &nvjpeg, decoder);
}

#[test]
fn undecoded_pictures_of_a_second_batch_in_flight_are_found() {
    let (rig, nvjpeg) = (Rig::with_slots(3, "", 0), NvJpeg::new());
    let decoder = open(&rig, &nvjpeg);
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
    // Without a fill, the memory would have the pixels of the same pictures.
    for _ in 0..2 {
        drop(form.done(&decoder, form.fill(&rig, 200, &[], &[]), &all()));
    }
    rig.call("fake_cuda_run");
    let first = form.start(&decoder, form.fill(&rig, 100, &[], &[]));
    let second = form.start(&decoder, form.fill_with(&rig, 200, &[], |row| (row == 7).then_some(UNDECODED)));
    form.check(&rig, &*form.finish(&decoder, first), 100, &all());
    let undecoded = decoder.advancing(|| second.wait()).expect("finished").undecoded;
    assert_eq!(undecoded, [7]);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn engines_that_decode_nothing_are_abandoned_and_then_the_cores_are() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    let decoder = open(&rig, &nvjpeg);
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
    for (is_open, expected) in [(true, "left them undecoded"), (false, "decoded on the host from now on")] {
        let filled = form.fill_with(&rig, 60, &[], |_| Some(UNDECODED));
        let undecoded = form.submit(&decoder, filled, &all()).expect("finished").undecoded;
        assert_eq!(undecoded, all());
        assert_eq!(decoder.is_open(), is_open);
        let sentences = decoder.take_fallbacks();
        assert!(sentences.last().is_some_and(|sentence| sentence.contains(expected)), "{sentences:?}");
        let by = nvjpeg.counts();
        assert_eq!(by, if is_open { (ROWS as c_int, 0) } else { (0, ROWS as c_int) });
    }
    end(rig, &nvjpeg, decoder);
}

#[test]
fn engines_that_occasionally_leave_a_picture_undecoded_are_kept() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    let decoder = open(&rig, &nvjpeg);
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
    for seed in 0..20 {
        drop(form.rejected_with(&rig, &decoder, seed, (&[seed as usize % ROWS], UNDECODED), &all()));
        assert_eq!(nvjpeg.counts(), (ROWS as c_int, 0));
    }
    assert_eq!(decoder.take_fallbacks().len(), 1);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn undecoded_pictures_after_a_failed_group_are_found() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    let decoder = open(&rig, &nvjpeg);
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
    decoder.warm(&rig, &form);
    rig.fail("cuLaunchKernel", 700);
    form.submit(&decoder, form.fill(&rig, 60, &[], &[]), &all()).expect_err("a failure");
    // In the second group slot, and then in the failed group's.
    for _ in 0..2 {
        let filled = form.fill_with(&rig, 60, &[], |row| (row == 7).then_some(UNDECODED));
        let undecoded = form.submit(&decoder, filled, &all()).expect("finished").undecoded;
        assert_eq!(undecoded, [7]);
    }
    end(rig, &nvjpeg, decoder);
}
