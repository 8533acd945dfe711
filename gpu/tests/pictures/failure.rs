//! Failures that are no picture's: of memory, of the driver.

use super::rig::*;
use crate::fake::Rig;
use forebay_loader::ErrorKind;
use forebay_loader::decode::geometry::Size;
use forebay_loader::decode::{DType, Layout};
use forebay_loader::delivery::DecodeOutcome;

#[test]
fn a_row_that_cannot_be_moved_is_the_batch_s_error_and_nothing_is_lost() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    let decoder = open(&rig, &nvjpeg);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    let rows: Vec<usize> = (1..ROWS).collect();
    let (slot, rest, decoded) = form.refused(&rig, &decoder, 60, &[0], &rows);
    rig.fail_nth("cuMemcpyDtoDAsync_v2", 3, 700);
    let error = form.place_again(&decoder, (slot, rest), &rows, decoded).expect_err("a lost device");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    let memory = form.done(&decoder, form.fill(&rig, 30, &[], &[]), &all());
    form.check(&rig, &*memory, 30, &all());
    drop(memory);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn where_memory_ends_everything_is_refused_from_then_on() {
    for (of_driver, function, nth, code) in [
        (true, "cuMemAlloc_v2", 1, 2),
        (true, "cuMemAlloc_v2", 2, 2),
        // Nor for pixels of a single picture.
        (true, "cuMemAlloc_v2", -3, 2),
        (false, "nvjpegDecodeBatchedEx", 1, 5),
    ] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.moving().waits_move(true);
        let decoder = open(&rig, &nvjpeg);
        let form = Form::new(DType::UInt8, Layout::Nhwc);
        match of_driver {
            true => rig.fail_nth(function, nth, code),
            false => nvjpeg.fail(function, nth, code),
        }
        assert!(decoder.is_open());
        let strict = rig.call("fake_cuda_strict_calls");
        for _ in 0..2 {
            let filled = form.fill(&rig, 20, &[], &[]);
            let DecodeOutcome::Rejected { pictures, .. } = form.place(&decoder, filled, &all()).expect("an answer")
            else {
                panic!("there was no memory")
            };
            assert_eq!(pictures, all());
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
    rig.moving().waits_move(true);
    let decoder = open(&rig, &nvjpeg);
    let form = Form::with_rows(130, DType::UInt8, Layout::Nhwc);
    let rows: Vec<usize> = (0..130).collect();
    // The pixels of all take two of the driver's pages.
    rig.piece_max(2 << 20);
    for seed in [20, 400] {
        let memory = form.done(&decoder, form.fill(&rig, seed, &[], &[]), &rows);
        form.check(&rig, &*memory, seed, &rows);
    }
    assert!(decoder.is_open());
    let [sentence] = &decoder.take_fallbacks()[..] else { panic!("it is said once") };
    assert!(sentence.contains("fewer pictures are decoded at once"), "{sentence}");
    end(rig, &nvjpeg, decoder);
}

#[test]
fn a_large_picture_that_finds_no_memory_is_refused_alone() {
    const LARGE: [usize; 2] = [2, 7];
    // Of the driver, for pixels; of the library, for what it needs.
    for of_driver in [true, false] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.moving().waits_move(true);
        // Cores decode whole pictures.
        nvjpeg.engines(if of_driver { 2 } else { 0 });
        let decoder = open(&rig, &nvjpeg);
        decoder.take_fallbacks();
        let form = Form::new(DType::UInt8, Layout::Nhwc);
        decoder.warm(&rig, &form);
        if of_driver {
            rig.piece_max(2 << 20);
        }
        for seed in [20, 400] {
            let text = |row| (!of_driver && LARGE.contains(&row)).then_some(REFUSED);
            let (slot, mut list) = form.fill_with(&rig, seed, &[], text);
            for row in LARGE {
                list[row].picture.size = Size { w: 6000, h: 5000 };
            }
            if !of_driver {
                nvjpeg.fail("cores", 1, 5);
            }
            let rest = list.iter().filter(|picture| !LARGE.contains(&picture.row)).copied().collect();
            let DecodeOutcome::Rejected { slot, pictures, on_device: decoded } =
                form.place(&decoder, (slot, list), &all()).expect("an answer")
            else {
                panic!("there was memory")
            };
            assert_eq!(pictures, LARGE);
            let slot = form.with_rows_of_host(slot, seed, &LARGE);
            let DecodeOutcome::Done { memory, .. } =
                form.place_again(&decoder, (slot, rest), &all(), decoded).expect("placed")
            else {
                panic!("nothing is left to decode")
            };
            form.check(&rig, &*memory, seed, &all());
        }
        assert!(decoder.is_open());
        let said = decoder.take_fallbacks();
        assert!(matches!(&said[..], [one] if one.contains("no memory for a large picture")), "{said:?}");
        end(rig, &nvjpeg, decoder);
    }
}

#[test]
fn that_there_is_no_memory_for_large_pictures_says_nothing_of_others() {
    // Of the driver, for pixels; of the library, for what it needs.
    for (of_driver, engines) in [(true, 0), (false, 0), (false, 2)] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.moving().waits_move(true);
        nvjpeg.engines(engines);
        let decoder = open(&rig, &nvjpeg);
        let decoders = decoder.pictures_min();
        decoder.take_fallbacks();
        let form = Form::with_rows(1, DType::UInt8, Layout::Nhwc);
        decoder.warm(&rig, &form);
        if of_driver {
            rig.piece_max(2 << 20);
        }
        // More of them, one behind the other, than say of a decoder that it takes none.
        for seed in 20..40 {
            let (slot, mut list) = form.fill_with(&rig, seed, &[], |_| (!of_driver).then_some(NO_MEMORY));
            list[0].picture.size = Size { w: 6000, h: 5000 };
            // The engines are asked for a part of it that is small, which takes memory for the whole.
            let placed = form.place(&decoder, (slot, list), &[0]).expect("an answer");
            assert!(matches!(&placed, DecodeOutcome::Rejected { pictures, .. } if pictures[..] == [0]), "{placed:?}");
        }
        assert!(decoder.is_open(), "{:?}", decoder.take_fallbacks());
        assert_eq!(decoder.pictures_min(), decoders, "the engines were given up");
        let memory = form.done(&decoder, form.fill(&rig, 20, &[], &[]), &[0]);
        form.check(&rig, &*memory, 20, &[0]);
        drop(memory);
        let said = decoder.take_fallbacks();
        assert!(matches!(&said[..], [one] if one.contains("no memory for a large picture")), "{said:?}");
        end(rig, &nvjpeg, decoder);
    }
}

#[test]
fn memory_that_is_there_for_one_group_and_no_more_is_enough() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    let decoder = open(&rig, &nvjpeg);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    // With room to spare it is too much.
    rig.fail_nth("cuMemAlloc_v2", 3, 2);
    let memory = form.done(&decoder, form.fill(&rig, 20, &[], &[]), &all());
    form.check(&rig, &*memory, 20, &all());
    assert!(decoder.take_fallbacks().is_empty());
    drop(memory);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn where_memory_ends_the_slot_comes_back_when_what_was_begun_is_done() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    let decoder = open(&rig, &nvjpeg);
    let form = Form::with_rows(130, DType::UInt8, Layout::Nhwc);
    let rows: Vec<usize> = (0..130).collect();
    // The cores have got their part.
    nvjpeg.fail("engines", 1, 5);
    let DecodeOutcome::Rejected { slot, .. } =
        form.place(&decoder, form.fill(&rig, 20, &[], &[]), &rows).expect("an answer")
    else {
        panic!("there was no memory")
    };
    assert!(nvjpeg.counts().1 > 0);
    assert_eq!(rig.call("fake_cuda_queued"), 0, "the device still reads a slot that has come back");
    drop(slot);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn a_failure_that_is_no_picture_s_is_the_batch_s_error_and_nothing_is_lost() {
    for (function, code) in
        [("cuLaunchKernel", 700), ("cuMemcpyHtoDAsync_v2", 700), ("cuEventRecord", 700), ("cuStreamWaitEvent", 700)]
    {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.moving().waits_move(true);
        let decoder = open(&rig, &nvjpeg);
        let form = Form::new(DType::UInt8, Layout::Nhwc);
        rig.fail(function, code);
        let error = form.place(&decoder, form.fill(&rig, 20, &[], &[]), &all()).expect_err(function);
        assert_eq!(error.kind(), ErrorKind::Io, "{function}: {error}");
        assert!(error.to_string().contains("device 0"), "{error}");
        // The slot is there again, and the next batch is whole.
        let memory = form.done(&decoder, form.fill(&rig, 30, &[], &[]), &all());
        form.check(&rig, &*memory, 30, &all());
        drop(memory);
        end(rig, &nvjpeg, decoder);
    }
}
