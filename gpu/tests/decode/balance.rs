//! Batches that engines and cores decode together.

use super::rig::*;
use crate::fake::Rig;
use forebay_loader::decode::{DType, PixelLayout};
use std::ffi::c_int;

/// Enough pictures for both.
const MANY: usize = 130;

#[test]
fn large_batches_are_split_and_equal_the_host_s() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    let decoder = open(&rig, &nvjpeg);
    let form = BatchForm::with_rows(MANY, DType::UInt8, PixelLayout::Nhwc);
    let rows: Vec<usize> = (0..MANY).collect();
    for seed in [0, 200] {
        let memory = form.done(&decoder, form.fill(&rig, seed, &[], &[]), &rows);
        form.check(&rig, &*memory, seed, &rows);
        let (by_engines, by_cores) = nvjpeg.counts();
        assert!(by_engines >= 50 && by_cores > 50 && by_engines + by_cores == MANY as c_int);
    }
    end(rig, &nvjpeg, decoder);
}

#[test]
fn engines_and_cores_decode_at_the_same_time_in_proportion_to_their_speeds() {
    // Microseconds per picture, and the engines' final share of a batch.
    for (engine, core, expected) in [(100, 100, 64), (50, 60, 70), (100, 500, 130)] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.wait_mode().advance(true);
        let decoder = open(&rig, &nvjpeg);
        let form = BatchForm::with_rows(MANY, DType::UInt8, PixelLayout::Nhwc);
        let rows: Vec<usize> = (0..MANY).collect();
        nvjpeg.set_times(engine, core, 0);
        let mut started = 0;
        for seed in 0..6 {
            // There are two group slots, so the third batch is split by the times of the first. Cores that get nothing
            // are tried again in the seventh.
            if seed == 3 {
                started = rig.call("fake_cuda_clock");
            }
            drop(form.done(&decoder, form.fill(&rig, seed, &[], &[]), &rows));
            rig.call("fake_cuda_run");
            let (by_engines, _) = nvjpeg.counts();
            assert!(seed < 3 || by_engines.abs_diff(expected) <= 4, "{by_engines} rather than {expected}");
        }
        let elapsed = rig.call("fake_cuda_clock") - started;
        let slower = (expected * engine).max((MANY as c_int - expected) * core) * 3;
        assert!(elapsed.abs_diff(slower) as c_int <= slower / 10, "{elapsed} us rather than {slower}");
        end(rig, &nvjpeg, decoder);
    }
}

#[test]
fn a_few_pictures_go_to_the_engines() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    let decoder = open(&rig, &nvjpeg);
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
    drop(form.done(&decoder, form.fill(&rig, 0, &[], &[]), &all()));
    assert_eq!(nvjpeg.counts(), (ROWS as c_int, 0));
    end(rig, &nvjpeg, decoder);
}
