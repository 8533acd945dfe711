//! What a library and a device turn out to be when the decoder is opened.

use super::rig::*;
use crate::fake::{self, Rig};
use forebay_loader::ErrorKind;
use forebay_loader::decode::{DType, Layout};
use forebay_loader::delivery::{DecodeOutcome, Delivery};
use std::ffi::c_int;

#[test]
fn without_engines_the_cores_decode_and_it_is_said_once() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    nvjpeg.engines(0);
    let decoder = open(&rig, &nvjpeg);
    assert_eq!(decoder.describe(), "nvJPEG 12.4 without engines");
    let [sentence] = &decoder.take_fallbacks()[..] else { panic!("one fallback") };
    assert!(sentence.contains("ARCH_MISMATCH"), "{sentence}");
    assert!(decoder.take_fallbacks().is_empty());
    let form = Form::new(DType::UInt8, Layout::Nchw);
    let memory = form.done(&decoder, form.fill(&rig, 70, &[], &[]), &all());
    form.check(&rig, &*memory, 70, &all());
    assert_eq!(nvjpeg.counts(), (0, ROWS as c_int));
    drop(memory);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn what_is_missing_is_said() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    let libraries = forebay_gpu::Libraries { nvjpeg: Some("/nowhere/libnvjpeg.so.12".into()), ..fake::libraries() };
    let target = forebay_gpu::CudaDelivery::with_libraries(0, &libraries).expect("a target");
    let error = target.picture_decoder().expect_err("no library");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("/nowhere/libnvjpeg.so.12"), "{error}");
    drop(target);
    // An old driver does not know the kernel's version of PTX.
    rig.fail("cuModuleLoadData", 222);
    let error = rig.target.picture_decoder().expect_err("no kernel");
    assert!(error.to_string().contains("cuModuleLoadData"), "{error}");
    nvjpeg.fail("nvjpegCreateEx", EVERY, 1);
    assert!(rig.target.picture_decoder().is_err());
    nvjpeg.fail("", 0, 0);
    nothing_is_left(rig, &nvjpeg);
}

/// What decodes on the device decodes this batch as the host does.
fn decodes(rig: &Rig, nvjpeg: &NvJpeg, decoder: &Opened, by: (usize, usize)) {
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    let memory = form.done(decoder, form.fill(rig, 70, &[], &[]), &all());
    form.check(rig, &*memory, 70, &all());
    assert_eq!(nvjpeg.counts(), (by.0 as c_int, by.1 as c_int));
}

#[test]
fn engines_that_decode_something_else_are_not_used() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    nvjpeg.spoil(ENGINES);
    let decoder = open(&rig, &nvjpeg);
    assert_eq!(decoder.describe(), "nvJPEG 12.4 without engines");
    let [sentence] = &decoder.take_fallbacks()[..] else { panic!("one fallback") };
    assert!(sentence.contains("pixels differ from the host's: grey levels differ by"), "{sentence}");
    decodes(&rig, &nvjpeg, &decoder, (0, ROWS));
    end(rig, &nvjpeg, decoder);
}

#[test]
fn engines_that_decode_one_kind_of_pictures_wrongly_are_not_used() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    nvjpeg.spoil(ENGINES | ODD);
    let decoder = open(&rig, &nvjpeg);
    assert_eq!(decoder.describe(), "nvJPEG 12.4 without engines");
    let [sentence] = &decoder.take_fallbacks()[..] else { panic!("one fallback") };
    assert!(sentence.contains("157x117"), "{sentence}");
    decodes(&rig, &nvjpeg, &decoder, (0, ROWS));
    end(rig, &nvjpeg, decoder);
}

#[test]
fn cores_that_decode_something_else_leave_all_to_the_engines() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    nvjpeg.spoil(CORES);
    let decoder = open(&rig, &nvjpeg);
    assert_eq!(decoder.describe(), "nvJPEG 12.4 with 2 engines alone");
    let [sentence] = &decoder.take_fallbacks()[..] else { panic!("one fallback") };
    assert!(sentence.contains("pixels differ from the host's"), "{sentence}");
    decodes(&rig, &nvjpeg, &decoder, (ROWS, 0));
    end(rig, &nvjpeg, decoder);
}

#[test]
fn without_either_all_is_left_to_the_host() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    nvjpeg.spoil(CORES);
    nvjpeg.engines(0);
    let error = rig.target.picture_decoder().expect_err("wrong pixels");
    assert!(error.to_string().contains("ARCH_MISMATCH"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("pixels differ from the host's"), "{error}");
    nothing_is_left(rig, &nvjpeg);
}

#[test]
fn engines_that_do_not_decode_parts_or_blend_chroma_decode_otherwise_and_it_is_said() {
    let (whole, stored) = ("whole rather than in regions", "without blending chroma");
    for (ways, said, unsaid) in [
        (WHOLES | PARTS_AS_STORED, vec![whole], vec![stored]),
        (PARTS_AS_STORED | WHOLES_AS_STORED, vec![stored], vec![whole]),
        (WHOLES_AS_STORED, vec![whole, stored], vec![]),
    ] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.moving().waits_move(true);
        nvjpeg.ways(ways);
        let decoder = open(&rig, &nvjpeg);
        assert_eq!(decoder.describe(), "nvJPEG 12.4 with 2 engines");
        let [sentence] = &decoder.take_fallbacks()[..] else { panic!("one fallback") };
        assert!(sentence.starts_with("the engines") && sentence.contains("JPEG_NOT_SUPPORTED"), "{sentence}");
        assert!(said.iter().all(|part| sentence.contains(part)), "{sentence}");
        assert!(!unsaid.iter().any(|part| sentence.contains(part)), "{sentence}");
        decodes(&rig, &nvjpeg, &decoder, (ROWS, 0));
        end(rig, &nvjpeg, decoder);
    }
}

#[test]
fn engines_alone_decode_whole_pictures_where_they_do_not_decode_parts() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    nvjpeg.ways(WHOLES);
    nvjpeg.spoil(CORES);
    let decoder = open(&rig, &nvjpeg);
    assert_eq!(decoder.describe(), "nvJPEG 12.4 with 2 engines alone");
    decodes(&rig, &nvjpeg, &decoder, (ROWS, 0));
    end(rig, &nvjpeg, decoder);
}

#[test]
fn a_version_that_does_not_know_how_to_blend_chroma_is_asked_without() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    nvjpeg.fail("nvjpegCreateEx", 1, 2);
    let decoder = open(&rig, &nvjpeg);
    let [sentence] = &decoder.take_fallbacks()[..] else { panic!("one fallback") };
    assert!(sentence.contains("INVALID_PARAMETER"), "{sentence}");
    end(rig, &nvjpeg, decoder);
}

#[test]
fn what_cannot_be_tried_is_an_error_and_nothing_is_left() {
    for (of_driver, function, code) in [
        (true, "cuMemAlloc_v2", 2),
        (true, "cuMemcpyDtoHAsync_v2", 700),
        (false, "nvjpegDecodeBatchedInitialize", 8),
        (false, "nvjpegDecodeParamsCreate", 5),
    ] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.moving().waits_move(true);
        match of_driver {
            // Both times that it is tried.
            true => rig.fail_nth(function, EVERY, code),
            false => nvjpeg.fail(function, EVERY, code),
        }
        assert!(rig.target.picture_decoder().is_err(), "{function}");
        nvjpeg.fail("", 0, 0);
        rig.fail("", 0);
        nothing_is_left(rig, &nvjpeg);
    }
}

#[test]
fn engines_alone_decode_and_leave_what_they_refuse_to_the_host() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    nvjpeg.fail("cores", EVERY, 9);
    let decoder = open(&rig, &nvjpeg);
    assert_eq!(decoder.describe(), "nvJPEG 12.4 with 2 engines alone");
    let [sentence] = &decoder.take_fallbacks()[..] else { panic!("one fallback") };
    assert!(sentence.contains("IMPLEMENTATION_NOT_SUPPORTED"), "{sentence}");
    let form = Form::with_rows(130, DType::UInt8, Layout::Nhwc);
    let rows: Vec<usize> = (0..130).collect();
    let (slot, rest, decoded) = form.refused(&rig, &decoder, 60, &[1, 4, 77], &rows);
    assert_eq!(nvjpeg.counts(), (127, 0));
    let placed = form.place_again(&decoder, (slot, rest), &rows, decoded).expect("placed");
    let DecodeOutcome::Done { memory, on_engines: 127 } = placed else {
        panic!("nothing is left that could be refused")
    };
    form.check(&rig, &*memory, 60, &rows);
    drop(memory);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn engines_alone_that_come_to_refuse_everything_leave_all_to_the_host() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    nvjpeg.fail("cores", EVERY, 9);
    let decoder = open(&rig, &nvjpeg);
    decoder.take_fallbacks();
    nvjpeg.fail("engines", EVERY, 6);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    let DecodeOutcome::Rejected { pictures, .. } =
        form.place(&decoder, form.fill(&rig, 60, &[], &[]), &all()).expect("an answer")
    else {
        panic!("nothing can be decoded")
    };
    assert_eq!(pictures, all());
    assert!(!decoder.is_open());
    let [sentence] = &decoder.take_fallbacks()[..] else { panic!("one fallback") };
    assert!(sentence.contains("decoded on the host from now on"), "{sentence}");
    end(rig, &nvjpeg, decoder);
}
