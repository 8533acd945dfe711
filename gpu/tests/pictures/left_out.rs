//! Pictures that a backend says it decodes and does not.

use super::rig::*;
use crate::fake::Rig;
use forebay_loader::decode::{DType, Layout};
use forebay_loader::delivery::DecodeOutcome;
use std::ffi::c_int;

#[test]
fn pictures_that_are_left_out_come_back_and_the_others_are_not_decoded_again() {
    // By engines that are asked for parts, and for wholes; by cores. The crops reach into the lower half.
    for (engines, ways) in [(2, PARTS), (2, WHOLES), (0, PARTS)] {
        for text in [LEFT_OUT, CUT_SHORT] {
            let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
            rig.moving().waits_move(true);
            nvjpeg.engines(engines);
            nvjpeg.ways(ways);
            let decoder = open(&rig, &nvjpeg);
            decoder.take_fallbacks();
            for (dtype, layout) in [(DType::UInt8, Layout::Nhwc), (DType::Float32, Layout::Nchw)] {
                let form = Form::new(dtype, layout);
                let (slot, rest, decoded) = form.refused_with(&rig, &decoder, 60, (&[1, 12, 17], text), &all());
                nvjpeg.counts();
                let placed = form.place_again(&decoder, (slot, rest), &all(), decoded).expect("placed");
                let DecodeOutcome::Done { memory, on_engines } = placed else { panic!("nothing is left out any more") };
                assert_eq!(on_engines, if engines > 0 { ROWS - 3 } else { 0 });
                assert_eq!(nvjpeg.counts(), (0, 0), "pictures were decoded twice");
                form.check(&rig, &*memory, 60, &all());
            }
            let [sentence] = &decoder.take_fallbacks()[..] else { panic!("it is said once") };
            assert!(sentence.contains("leaves pictures undecoded"), "{sentence}");
            assert!(decoder.is_open());
            end(rig, &nvjpeg, decoder);
        }
    }
}

#[test]
fn a_picture_that_is_left_out_beside_one_that_is_refused_comes_back_with_it() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    let decoder = open(&rig, &nvjpeg);
    // For engines and cores; what engines had begun of the batch that they then refused is in the places.
    let form = Form::with_rows(130, DType::UInt8, Layout::Nhwc);
    let rows: Vec<usize> = (0..130).collect();
    let text = |row| match row {
        3 | 100 => Some(REFUSED),
        4 | 20 | 101 | 120 => Some(LEFT_OUT),
        30 | 122 => Some(CUT_SHORT),
        _ => None,
    };
    for seed in [20, 200] {
        let DecodeOutcome::Rejected { pictures, .. } =
            form.place(&decoder, form.fill_with(&rig, seed, &[], text), &rows).expect("an answer")
        else {
            panic!("not all can be decoded")
        };
        assert_eq!(pictures, [3, 4, 20, 30, 100, 101, 120, 122]);
    }
    end(rig, &nvjpeg, decoder);
}

#[test]
fn pictures_that_are_left_out_of_a_batch_behind_another_are_found() {
    let (rig, nvjpeg) = (Rig::with_slots(3, "", 0), NvJpeg::new());
    let decoder = open(&rig, &nvjpeg);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    // The places have the same pictures' pixels, if nobody sees to it.
    for _ in 0..2 {
        drop(form.done(&decoder, form.fill(&rig, 200, &[], &[]), &all()));
    }
    rig.call("fake_cuda_run");
    let first = form.start(&decoder, form.fill(&rig, 100, &[], &[]));
    let second = form.start(&decoder, form.fill_with(&rig, 200, &[], |row| (row == 7).then_some(LEFT_OUT)));
    form.check(&rig, &*decoder.ended(first), 100, &all());
    let DecodeOutcome::Rejected { pictures, .. } = decoder.moved(|| decoder.wait(second)).expect("an answer") else {
        panic!("a picture was left out")
    };
    assert_eq!(pictures, [7]);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn engines_that_leave_everything_out_are_given_up_and_then_the_cores_are() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    let decoder = open(&rig, &nvjpeg);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    for (is_open, expected) in [(true, "left them undecoded"), (false, "decoded on the host from now on")] {
        let filled = form.fill_with(&rig, 60, &[], |_| Some(LEFT_OUT));
        let DecodeOutcome::Rejected { pictures, .. } = form.place(&decoder, filled, &all()).expect("an answer") else {
            panic!("no file is decoded")
        };
        assert_eq!(pictures, all());
        assert_eq!(decoder.is_open(), is_open);
        let sentences = decoder.take_fallbacks();
        assert!(sentences.last().is_some_and(|sentence| sentence.contains(expected)), "{sentences:?}");
        let by = nvjpeg.counts();
        assert_eq!(by, if is_open { (ROWS as c_int, 0) } else { (0, ROWS as c_int) });
    }
    end(rig, &nvjpeg, decoder);
}

#[test]
fn engines_that_leave_a_picture_out_now_and_then_are_kept() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    let decoder = open(&rig, &nvjpeg);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    for seed in 0..20 {
        let (.., decoded) = form.refused_with(&rig, &decoder, seed, (&[seed as usize % ROWS], LEFT_OUT), &all());
        drop(decoded);
        assert_eq!(nvjpeg.counts(), (ROWS as c_int, 0));
    }
    assert_eq!(decoder.take_fallbacks().len(), 1);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn pictures_that_are_left_out_behind_a_group_that_failed_are_found() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    let decoder = open(&rig, &nvjpeg);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    decoder.warm(&rig, &form);
    rig.fail("cuLaunchKernel", 700);
    form.place(&decoder, form.fill(&rig, 60, &[], &[]), &all()).expect_err("a failure");
    // In the other lane, and then in that one.
    for _ in 0..2 {
        let filled = form.fill_with(&rig, 60, &[], |row| (row == 7).then_some(LEFT_OUT));
        let DecodeOutcome::Rejected { pictures, .. } = form.place(&decoder, filled, &all()).expect("an answer") else {
            panic!("a picture was left out")
        };
        assert_eq!(pictures, [7]);
    }
    end(rig, &nvjpeg, decoder);
}
