//! Pictures that a backend rejects: the cores decode them, or the host.

use super::rig::*;
use crate::fake::Rig;
use forebay_loader::decode::{DType, PixelLayout};
use std::ffi::c_int;

#[test]
fn rejected_pictures_are_returned_and_the_others_are_decoded_once() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    let decoder = open(&rig, &nvjpeg);
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
    let batch = form.rejected(&rig, &decoder, 60, &[1, 4, 5], &all());
    let before = nvjpeg.counts();
    assert_eq!(before.0 + before.1, ROWS as c_int - 3);
    assert_eq!(batch.on_engines.len(), before.0 as usize);
    let memory = form.deliver(batch, &all()).expect("delivered");
    assert_eq!(nvjpeg.counts(), (0, 0), "pictures were decoded twice");
    form.check(&rig, &*memory, 60, &all());
    drop(memory);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn a_rejected_picture_ends_no_capture_of_a_graph() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    let before = rig.call("fake_cuda_strict_calls");
    let decoder = open(&rig, &nvjpeg);
    let form = BatchForm::with_rows(130, DType::UInt8, PixelLayout::Nhwc);
    let rows: Vec<usize> = (0..130).collect();
    for rejected in [&[1, 4, 77][..], &rows] {
        drop(form.rejected(&rig, &decoder, 60, rejected, &rows));
    }
    assert!(decoder.take_fallbacks()[0].contains("the JPEG engines"), "the engines were not abandoned");
    assert_eq!(rig.call("fake_cuda_strict_calls"), before, "calls that are not allowed while a graph is captured");
    end(rig, &nvjpeg, decoder);
}

#[test]
fn decoded_pictures_move_up_when_samples_were_skipped() {
    for (rejected, given_up) in [(vec![0], vec![0]), (vec![1, 4, 5], vec![1, 4]), (vec![17], vec![17])] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.wait_mode().advance(true);
        let decoder = open(&rig, &nvjpeg);
        for (dtype, layout) in [(DType::UInt8, PixelLayout::Nhwc), (DType::Float32, PixelLayout::Nchw)] {
            let form = BatchForm::new(dtype, layout);
            let rows: Vec<usize> = all().into_iter().filter(|row| !given_up.contains(row)).collect();
            let batch = form.rejected(&rig, &decoder, 60, &rejected, &rows);
            nvjpeg.counts();
            let memory = form.deliver(batch, &rows).expect("delivered");
            assert_eq!(nvjpeg.counts(), (0, 0), "pictures were decoded twice");
            form.check(&rig, &*memory, 60, &rows);
        }
        end(rig, &nvjpeg, decoder);
    }
}

#[test]
fn an_abandoned_batch_releases_its_memory() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    let decoder = open(&rig, &nvjpeg);
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
    drop(form.rejected(&rig, &decoder, 60, &[3], &all()));
    let allocated = rig.call("fake_cuda_allocated");
    drop(form.rejected(&rig, &decoder, 80, &[5, 6], &all()));
    // The second group slot has its own memory for pixels.
    assert_eq!(rig.call("fake_cuda_allocated"), allocated + 1);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn a_library_that_rejects_every_picture_is_abandoned() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    let decoder = open(&rig, &nvjpeg);
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
    // First the engines are abandoned, then the cores.
    for (is_open, expected) in [(true, "rejected the last"), (false, "decoded on the host from now on")] {
        let filled = form.fill(&rig, 60, &[], &all());
        let undecoded = form.submit(&decoder, filled, &all()).expect("finished").undecoded;
        assert_eq!(undecoded, all());
        assert_eq!(decoder.is_open(), is_open);
        let [sentence] = &decoder.take_fallbacks()[..] else { panic!("not exactly one sentence") };
        assert!(sentence.contains(expected), "{sentence}");
    }
    end(rig, &nvjpeg, decoder);
}

#[test]
fn a_failed_batch_is_tried_in_halves() {
    for (function, code) in [
        ("nvjpegDecodeBatchedEx", 6),
        ("nvjpegDecodeBatchedEx", 8),
        ("nvjpegDecodeBatchedInitialize", 8),
        ("cores", 1),
        ("engines", 7),
    ] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.wait_mode().advance(true);
        let decoder = open(&rig, &nvjpeg);
        // Enough pictures for engines and cores.
        let form = BatchForm::with_rows(130, DType::UInt8, PixelLayout::Nhwc);
        let rows: Vec<usize> = (0..130).collect();
        nvjpeg.fail(function, 1, code);
        let memory = form.done(&decoder, form.fill(&rig, 20, &[], &[]), &rows);
        form.check(&rig, &*memory, 20, &rows);
        assert!(decoder.take_fallbacks().is_empty(), "{function} {code}");
        let (by_engines, by_cores) = nvjpeg.counts();
        assert!(by_engines > 0 && by_cores > 0, "{by_engines} and {by_cores}");
        drop(memory);
        end(rig, &nvjpeg, decoder);
    }
}

/// Submits a batch with too few pictures to abandon a backend. Returns true if all of them were rejected.
fn are_rejected(rig: &Rig, decoder: &TestDecoder, form: &BatchForm, seed: u32) -> bool {
    let few: Vec<usize> = (0..FEW).collect();
    let (slot, mut pictures) = form.fill(rig, seed, &[], &[]);
    pictures.truncate(FEW);
    let batch = form.submit(decoder, (slot, pictures), &few).expect("finished");
    if batch.undecoded.is_empty() {
        form.check(rig, &*form.deliver(batch, &few).expect("delivered"), seed, &few);
        return false;
    }
    assert_eq!(batch.undecoded, few);
    true
}

const FEW: usize = ROWS / 2;

#[test]
fn engines_that_reject_everything_are_abandoned_and_the_cores_decode() {
    for code in [4, 6, 8] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.wait_mode().advance(true);
        let decoder = open(&rig, &nvjpeg);
        let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
        nvjpeg.fail("engines", EVERY, code);
        // In all more consecutive rejected pictures than the limit of 16.
        for seed in 0..2 {
            assert!(decoder.take_fallbacks().is_empty());
            assert!(are_rejected(&rig, &decoder, &form, seed));
        }
        let [sentence] = &decoder.take_fallbacks()[..] else { panic!("not exactly one sentence") };
        assert!(sentence.contains("only its cores decode from now on"), "{sentence}");
        // The engines are not used again, although they would work now.
        nvjpeg.fail("engines", 0, 0);
        assert!(!are_rejected(&rig, &decoder, &form, 90));
        assert_eq!(nvjpeg.counts(), (0, FEW as c_int));
        assert!(decoder.is_open());
        end(rig, &nvjpeg, decoder);
    }
}

#[test]
fn engines_that_occasionally_reject_a_batch_are_kept() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    let decoder = open(&rig, &nvjpeg);
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
    for seed in 0..8 {
        nvjpeg.fail("engines", if seed % 2 == 0 { EVERY } else { 0 }, 6);
        assert_eq!(are_rejected(&rig, &decoder, &form, seed), seed % 2 == 0, "batch {seed}");
        assert_eq!(nvjpeg.counts().0 > 0, seed % 2 == 1, "batch {seed}");
    }
    assert!(decoder.take_fallbacks().is_empty());
    end(rig, &nvjpeg, decoder);
}

#[test]
fn the_host_decodes_if_the_library_fails_for_every_picture() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    let decoder = open(&rig, &nvjpeg);
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
    nvjpeg.fail("nvjpegDecodeBatchedInitialize", EVERY, 6);
    for is_open in [true, false] {
        let filled = form.fill(&rig, 60, &[], &[]);
        let undecoded = form.submit(&decoder, filled, &all()).expect("finished").undecoded;
        assert_eq!(undecoded, all());
        assert_eq!(decoder.is_open(), is_open);
    }
    end(rig, &nvjpeg, decoder);
}

#[test]
fn cores_that_reject_consecutive_small_batches_are_abandoned() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    nvjpeg.set_engines(0);
    let decoder = open(&rig, &nvjpeg);
    decoder.take_fallbacks();
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
    nvjpeg.fail("cores", EVERY, 6);
    assert!(are_rejected(&rig, &decoder, &form, 0));
    nvjpeg.fail("cores", 0, 0);
    assert!(!are_rejected(&rig, &decoder, &form, 1), "a decoded picture does not end the run");
    nvjpeg.fail("cores", EVERY, 6);
    for is_open in [true, false] {
        assert!(are_rejected(&rig, &decoder, &form, 2));
        assert_eq!(decoder.is_open(), is_open);
    }
    assert_eq!(decoder.take_fallbacks().len(), 1);
    end(rig, &nvjpeg, decoder);
}
