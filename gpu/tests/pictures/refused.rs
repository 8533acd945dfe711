//! Pictures that a backend does not take: the cores get them, or the host.

use super::rig::*;
use crate::fake::Rig;
use forebay_loader::decode::{DType, Layout};
use forebay_loader::delivery::DecodeOutcome;
use std::ffi::c_int;

#[test]
fn refused_pictures_come_back_and_the_others_are_not_decoded_again() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    let decoder = open(&rig, &nvjpeg);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    let (slot, rest, decoded) = form.refused(&rig, &decoder, 60, &[1, 4, 5], &all());
    let (before, rest_len) = (nvjpeg.counts(), rest.len());
    assert_eq!(before.0 + before.1, rest_len as c_int);
    let placed = form.place_again(&decoder, (slot, rest), &all(), decoded).expect("placed");
    let DecodeOutcome::Done { memory, on_engines } = placed else { panic!("nothing is left that could be refused") };
    assert_eq!(on_engines, before.0 as usize);
    assert_eq!(nvjpeg.counts(), (0, 0), "pictures were decoded twice");
    form.check(&rig, &*memory, 60, &all());
    drop(memory);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn a_refused_picture_ends_nobody_s_capture_of_a_graph() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    let before = rig.call("fake_cuda_strict_calls");
    let decoder = open(&rig, &nvjpeg);
    let form = Form::with_rows(130, DType::UInt8, Layout::Nhwc);
    let rows: Vec<usize> = (0..130).collect();
    for refused in [&[1, 4, 77][..], &rows] {
        drop(form.refused(&rig, &decoder, 60, refused, &rows));
    }
    assert!(decoder.take_fallbacks()[0].contains("the JPEG engines"), "they were given up");
    assert_eq!(rig.call("fake_cuda_strict_calls"), before, "calls that the driver refuses while a graph is captured");
    end(rig, &nvjpeg, decoder);
}

#[test]
fn pictures_that_are_done_move_up_where_samples_were_given_up() {
    for (refused, given_up) in [(vec![0], vec![0]), (vec![1, 4, 5], vec![1, 4]), (vec![17], vec![17])] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.moving().waits_move(true);
        let decoder = open(&rig, &nvjpeg);
        for (dtype, layout) in [(DType::UInt8, Layout::Nhwc), (DType::Float32, Layout::Nchw)] {
            let form = Form::new(dtype, layout);
            let rows: Vec<usize> = all().into_iter().filter(|row| !given_up.contains(row)).collect();
            let (slot, rest, decoded) = form.refused(&rig, &decoder, 60, &refused, &rows);
            nvjpeg.counts();
            let placed = form.place_again(&decoder, (slot, rest), &rows, decoded).expect("placed");
            let DecodeOutcome::Done { memory, .. } = placed else { panic!("nothing is left that could be refused") };
            assert_eq!(nvjpeg.counts(), (0, 0), "pictures were decoded twice");
            form.check(&rig, &*memory, 60, &rows);
        }
        end(rig, &nvjpeg, decoder);
    }
}

#[test]
fn a_batch_that_does_not_come_again_gives_its_memory_back() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    let decoder = open(&rig, &nvjpeg);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    drop(form.refused(&rig, &decoder, 60, &[3], &all()));
    let allocated = rig.call("fake_cuda_allocated");
    drop(form.refused(&rig, &decoder, 80, &[5, 6], &all()));
    // The other lane has its own memory for pixels.
    assert_eq!(rig.call("fake_cuda_allocated"), allocated + 1);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn a_library_that_refuses_every_picture_is_not_asked_again() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    let decoder = open(&rig, &nvjpeg);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    // First the engines, then the cores.
    for (is_open, expected) in [(true, "rejected the last"), (false, "decoded on the host from now on")] {
        let filled = form.fill(&rig, 60, &[], &all());
        let DecodeOutcome::Rejected { pictures, .. } = form.place(&decoder, filled, &all()).expect("an answer") else {
            panic!("no file can be decoded")
        };
        assert_eq!(pictures, all());
        assert_eq!(decoder.is_open(), is_open);
        let [sentence] = &decoder.take_fallbacks()[..] else { panic!("one fallback") };
        assert!(sentence.contains(expected), "{sentence}");
    }
    end(rig, &nvjpeg, decoder);
}

#[test]
fn a_batch_that_the_library_fails_at_is_tried_by_halves() {
    for (function, code) in [
        ("nvjpegDecodeBatchedEx", 6),
        ("nvjpegDecodeBatchedEx", 8),
        ("nvjpegDecodeBatchedInitialize", 8),
        ("cores", 1),
        ("engines", 7),
    ] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.moving().waits_move(true);
        let decoder = open(&rig, &nvjpeg);
        // Enough for engines and cores.
        let form = Form::with_rows(130, DType::UInt8, Layout::Nhwc);
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

/// Places a batch of so few pictures that they are no reason for anything: whether they came back, all of them.
fn are_refused(rig: &Rig, decoder: &Opened, form: &Form, seed: u32) -> bool {
    let few: Vec<usize> = (0..FEW).collect();
    let (slot, mut pictures) = form.fill(rig, seed, &[], &[]);
    pictures.truncate(FEW);
    match form.place(decoder, (slot, pictures), &few).expect("an answer") {
        DecodeOutcome::Rejected { pictures, .. } => {
            assert_eq!(pictures, few);
            true
        }
        DecodeOutcome::Done { memory, .. } => {
            form.check(rig, &*memory, seed, &few);
            false
        }
        other => panic!("{other:?}"),
    }
}

const FEW: usize = ROWS / 2;

#[test]
fn engines_that_refuse_everything_are_given_up_and_the_cores_decode() {
    for code in [4, 6, 8] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.moving().waits_move(true);
        let decoder = open(&rig, &nvjpeg);
        let form = Form::new(DType::UInt8, Layout::Nhwc);
        nvjpeg.fail("engines", EVERY, code);
        // Of 16 that are refused one behind the other.
        for seed in 0..2 {
            assert!(decoder.take_fallbacks().is_empty());
            assert!(are_refused(&rig, &decoder, &form, seed));
        }
        let [sentence] = &decoder.take_fallbacks()[..] else { panic!("one fallback") };
        assert!(sentence.contains("only its cores decode from now on"), "{sentence}");
        // Nobody asks them again.
        nvjpeg.fail("engines", 0, 0);
        assert!(!are_refused(&rig, &decoder, &form, 90));
        assert_eq!(nvjpeg.counts(), (0, FEW as c_int));
        assert!(decoder.is_open());
        end(rig, &nvjpeg, decoder);
    }
}

#[test]
fn engines_that_refuse_a_batch_now_and_then_are_kept() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    let decoder = open(&rig, &nvjpeg);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    for seed in 0..8 {
        nvjpeg.fail("engines", if seed % 2 == 0 { EVERY } else { 0 }, 6);
        assert_eq!(are_refused(&rig, &decoder, &form, seed), seed % 2 == 0, "batch {seed}");
        assert_eq!(nvjpeg.counts().0 > 0, seed % 2 == 1, "batch {seed}");
    }
    assert!(decoder.take_fallbacks().is_empty());
    end(rig, &nvjpeg, decoder);
}

#[test]
fn a_library_that_fails_at_every_picture_leaves_them_to_the_host() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    let decoder = open(&rig, &nvjpeg);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    nvjpeg.fail("nvjpegDecodeBatchedInitialize", EVERY, 6);
    for is_open in [true, false] {
        let filled = form.fill(&rig, 60, &[], &[]);
        let DecodeOutcome::Rejected { pictures, .. } = form.place(&decoder, filled, &all()).expect("an answer") else {
            panic!("nothing can be decoded")
        };
        assert_eq!(pictures, all());
        assert_eq!(decoder.is_open(), is_open);
    }
    end(rig, &nvjpeg, decoder);
}

#[test]
fn cores_that_refuse_small_batches_one_behind_the_other_are_not_asked_again() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    nvjpeg.engines(0);
    let decoder = open(&rig, &nvjpeg);
    decoder.take_fallbacks();
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    nvjpeg.fail("cores", EVERY, 6);
    assert!(are_refused(&rig, &decoder, &form, 0));
    nvjpeg.fail("cores", 0, 0);
    assert!(!are_refused(&rig, &decoder, &form, 1), "one that is decoded counts");
    nvjpeg.fail("cores", EVERY, 6);
    for is_open in [true, false] {
        assert!(are_refused(&rig, &decoder, &form, 2));
        assert_eq!(decoder.is_open(), is_open);
    }
    assert_eq!(decoder.take_fallbacks().len(), 1);
    end(rig, &nvjpeg, decoder);
}
