//! Failures that no picture causes: of memory and of the driver.

use super::rig::*;
use crate::fake::{self, Rig};
use forebay_loader::ErrorKind;
use forebay_loader::decode::geometry::Size;
use forebay_loader::decode::{DType, PixelLayout};

#[test]
fn a_failed_move_of_a_row_is_the_batch_s_error_and_nothing_leaks() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    let decoder = open(&rig, &nvjpeg);
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
    let rows: Vec<usize> = (1..ROWS).collect();
    let batch = form.rejected(&rig, &decoder, 60, &[0], &rows);
    rig.fail_nth("cuMemcpyDtoDAsync_v2", 3, 700);
    let error = form.deliver(batch, &rows).expect_err("a lost device");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    let memory = form.done(&decoder, form.fill(&rig, 30, &[], &[]), &all());
    form.check(&rig, &*memory, 30, &all());
    drop(memory);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn everything_is_rejected_after_memory_has_run_out() {
    for (of_driver, function, nth, code) in [
        (true, "cuMemAlloc_v2", 1, 2),
        (true, "cuMemAlloc_v2", 2, 2),
        // No memory even for the pixels of a single picture.
        (true, "cuMemAlloc_v2", -3, 2),
        (false, "nvjpegDecodeBatchedEx", 1, 5),
    ] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.wait_mode().advance(true);
        let decoder = open(&rig, &nvjpeg);
        let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
        if of_driver {
            rig.fail_nth(function, nth, code)
        } else {
            nvjpeg.fail(function, nth, code)
        }
        assert!(decoder.is_open());
        let strict = rig.call("fake_cuda_strict_calls");
        for _ in 0..2 {
            let filled = form.fill(&rig, 20, &[], &[]);
            let undecoded = form.submit(&decoder, filled, &all()).expect("finished").undecoded;
            assert_eq!(undecoded, all());
            assert!(!decoder.is_open());
        }
        let fallbacks = decoder.take_fallbacks();
        assert_eq!(fallbacks.len(), 1 + usize::from(nth < 0), "{fallbacks:?}");
        assert!(fallbacks.last().is_some_and(|last| last.contains("no memory left")), "{fallbacks:?}");
        assert_eq!(rig.call("fake_cuda_strict_calls"), strict, "a capture would have ended");
        rig.fail("", 0);
        end(rig, &nvjpeg, decoder);
    }
}

#[test]
fn with_little_memory_fewer_pictures_are_decoded_at_once() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    let decoder = open(&rig, &nvjpeg);
    let form = BatchForm::with_rows(130, DType::UInt8, PixelLayout::Nhwc);
    let rows: Vec<usize> = (0..130).collect();
    // All pixels together take two of the driver's pages.
    rig.piece_max(2 << 20);
    for seed in [20, 400] {
        let memory = form.done(&decoder, form.fill(&rig, seed, &[], &[]), &rows);
        form.check(&rig, &*memory, seed, &rows);
    }
    assert!(decoder.is_open());
    let [sentence] = &decoder.take_fallbacks()[..] else { panic!("not exactly one sentence") };
    assert!(sentence.contains("fewer pictures are decoded at once"), "{sentence}");
    end(rig, &nvjpeg, decoder);
}

#[test]
fn only_a_large_picture_without_memory_is_rejected() {
    const LARGE: [usize; 2] = [2, 7];
    // The driver has no memory for pixels, or the library has none for itself.
    for of_driver in [true, false] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.wait_mode().advance(true);
        // The cores decode whole pictures.
        nvjpeg.set_engines(if of_driver { 2 } else { 0 });
        let decoder = open(&rig, &nvjpeg);
        decoder.take_fallbacks();
        let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
        decoder.warm(&rig, &form);
        if of_driver {
            rig.piece_max(2 << 20);
        }
        for seed in [20, 400] {
            let text = |row| (!of_driver && LARGE.contains(&row)).then_some(REJECTED);
            let (slot, mut list) = form.fill_with(&rig, seed, &[], text);
            for row in LARGE {
                list[row].picture.size = Size { w: 6000, h: 5000 };
            }
            if !of_driver {
                nvjpeg.fail("cores", 1, 5);
            }
            let mut batch = form.submit(&decoder, (slot, list), &all()).expect("finished");
            assert_eq!(batch.undecoded, LARGE);
            form.decode_on_host(&mut batch.slot, seed, &LARGE);
            let memory = form.deliver(batch, &all()).expect("delivered");
            form.check(&rig, &*memory, seed, &all());
        }
        assert!(decoder.is_open());
        let sentences = decoder.take_fallbacks();
        assert!(matches!(&sentences[..], [one] if one.contains("no memory for a large picture")), "{sentences:?}");
        end(rig, &nvjpeg, decoder);
    }
}

#[test]
fn large_pictures_without_memory_do_not_count_against_a_backend() {
    // The driver has no memory for pixels, or the library has none for itself.
    for (of_driver, engines) in [(true, 0), (false, 0), (false, 2)] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.wait_mode().advance(true);
        nvjpeg.set_engines(engines);
        let decoder = open(&rig, &nvjpeg);
        let decoders = decoder.pictures_min();
        decoder.take_fallbacks();
        let form = BatchForm::with_rows(1, DType::UInt8, PixelLayout::Nhwc);
        decoder.warm(&rig, &form);
        if of_driver {
            rig.piece_max(2 << 20);
        }
        // More consecutive rejections than those after which a backend is abandoned.
        for seed in 20..40 {
            let (slot, mut list) = form.fill_with(&rig, seed, &[], |_| (!of_driver).then_some(NO_MEMORY));
            list[0].picture.size = Size { w: 6000, h: 5000 };
            // The engines decode a small region of it, which takes memory for the whole picture.
            assert_eq!(form.submit(&decoder, (slot, list), &[0]).expect("finished").undecoded, [0]);
        }
        assert!(decoder.is_open(), "{:?}", decoder.take_fallbacks());
        assert_eq!(decoder.pictures_min(), decoders, "the engines were abandoned");
        let memory = form.done(&decoder, form.fill(&rig, 20, &[], &[]), &[0]);
        form.check(&rig, &*memory, 20, &[0]);
        drop(memory);
        let sentences = decoder.take_fallbacks();
        assert!(matches!(&sentences[..], [one] if one.contains("no memory for a large picture")), "{sentences:?}");
        end(rig, &nvjpeg, decoder);
    }
}

#[test]
fn memory_for_a_single_group_is_enough() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    let decoder = open(&rig, &nvjpeg);
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
    // The allocation with some spare memory fails, the one without succeeds.
    rig.fail_nth("cuMemAlloc_v2", 3, 2);
    let memory = form.done(&decoder, form.fill(&rig, 20, &[], &[]), &all());
    form.check(&rig, &*memory, 20, &all());
    assert!(decoder.take_fallbacks().is_empty());
    drop(memory);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn a_slot_without_memory_is_returned_after_its_started_work() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    let decoder = open(&rig, &nvjpeg);
    let form = BatchForm::with_rows(130, DType::UInt8, PixelLayout::Nhwc);
    let rows: Vec<usize> = (0..130).collect();
    // The cores have their part already.
    nvjpeg.fail("engines", 1, 5);
    let batch = form.submit(&decoder, form.fill(&rig, 20, &[], &[]), &rows).expect("finished");
    assert_eq!(batch.undecoded, rows);
    assert!(nvjpeg.counts().1 > 0);
    assert_eq!(rig.call("fake_cuda_queued"), 0, "the device still reads a returned slot");
    drop(batch);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn a_slot_without_memory_is_kept_if_the_end_of_its_work_is_unknown() {
    // Such memory is never freed, so this takes a separate process.
    let child = fake::child("failure::runs_out_of_memory_on_a_lost_device").output().expect("a child");
    let output = String::from_utf8_lossy(&child.stdout) + String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success() && output.contains("1 passed"), "{}\n{output}", child.status);
}

#[test]
#[ignore = "a child of a test"]
fn runs_out_of_memory_on_a_lost_device() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    let decoder = open(&rig, &nvjpeg);
    let form = BatchForm::with_rows(130, DType::UInt8, PixelLayout::Nhwc);
    let rows: Vec<usize> = (0..130).collect();
    decoder.warm(&rig, &form);
    let filled = form.fill(&rig, 20, &[], &[]);
    let free = rig.pool.free_bytes();
    nvjpeg.counts();
    // The first wait is for the group slot, and the cores have their part before the second.
    nvjpeg.fail("engines", 1, 5);
    rig.fail_nth("cuEventSynchronize", -2, 700);
    let error = form.submit(&decoder, filled, &rows).expect_err("a lost device");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(nvjpeg.counts().1 > 0, "nothing was submitted");
    assert_eq!(rig.pool.free_bytes(), free, "the device may still read a returned slot");
}

#[test]
fn a_failure_that_no_picture_causes_is_the_batch_s_error_and_nothing_leaks() {
    for (function, code) in
        [("cuLaunchKernel", 700), ("cuMemcpyHtoDAsync_v2", 700), ("cuEventRecord", 700), ("cuStreamWaitEvent", 700)]
    {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.wait_mode().advance(true);
        let decoder = open(&rig, &nvjpeg);
        let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
        rig.fail(function, code);
        let error = form.submit(&decoder, form.fill(&rig, 20, &[], &[]), &all()).expect_err(function);
        assert_eq!(error.kind(), ErrorKind::Io, "{function}: {error}");
        assert!(error.to_string().contains("device 0"), "{error}");
        // The slot was released, and the next batch is complete.
        let memory = form.done(&decoder, form.fill(&rig, 30, &[], &[]), &all());
        form.check(&rig, &*memory, 30, &all());
        drop(memory);
        end(rig, &nvjpeg, decoder);
    }
}
