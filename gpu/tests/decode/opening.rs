//! Opening of the decoder with all kinds of libraries and devices.

use super::rig::*;
use crate::fake::{self, Rig};
use forebay_loader::ErrorKind;
use forebay_loader::decode::{DType, PixelLayout};
use forebay_loader::delivery::Delivery;
use std::ffi::c_int;

#[test]
fn without_engines_the_cores_decode_and_it_is_reported_once() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    nvjpeg.set_engines(0);
    let decoder = open(&rig, &nvjpeg);
    assert_eq!(decoder.describe(), "nvJPEG 12.4 without engines");
    let [sentence] = &decoder.take_fallbacks()[..] else { panic!("not exactly one sentence") };
    assert!(sentence.contains("ARCH_MISMATCH"), "{sentence}");
    assert!(decoder.take_fallbacks().is_empty());
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nchw);
    let memory = form.done(&decoder, form.fill(&rig, 70, &[], &[]), &all());
    form.check(&rig, &*memory, 70, &all());
    assert_eq!(nvjpeg.counts(), (0, ROWS as c_int));
    drop(memory);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn errors_name_a_missing_library_or_kernel() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    let libraries = forebay_gpu::Libraries { nvjpeg: Some("/nowhere/libnvjpeg.so.12".into()), ..fake::libraries() };
    let target = forebay_gpu::CudaDelivery::with_libraries(0, &libraries).expect("a delivery");
    let error = target.picture_decoder().expect_err("no library");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("/nowhere/libnvjpeg.so.12"), "{error}");
    drop(target);
    // An old driver does not support the PTX version of the kernel.
    rig.fail("cuModuleLoadData", 222);
    let error = rig.delivery.picture_decoder().expect_err("no kernel");
    assert!(error.to_string().contains("cuModuleLoadData"), "{error}");
    nvjpeg.fail("nvjpegCreateEx", EVERY, 1);
    assert!(rig.delivery.picture_decoder().is_err());
    nvjpeg.fail("", 0, 0);
    check_leaks(rig, &nvjpeg);
}

/// Decodes a batch, compares it with the host's pixels and checks the numbers of pictures `by` engines and cores.
fn decodes(rig: &Rig, nvjpeg: &NvJpeg, decoder: &TestDecoder, by: (usize, usize)) {
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
    let memory = form.done(decoder, form.fill(rig, 70, &[], &[]), &all());
    form.check(rig, &*memory, 70, &all());
    assert_eq!(nvjpeg.counts(), (by.0 as c_int, by.1 as c_int));
}

#[test]
fn engines_with_wrong_pixels_are_not_used() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    nvjpeg.set_wrong(ENGINES);
    let decoder = open(&rig, &nvjpeg);
    assert_eq!(decoder.describe(), "nvJPEG 12.4 without engines");
    let [sentence] = &decoder.take_fallbacks()[..] else { panic!("not exactly one sentence") };
    assert!(sentence.contains("pixels differ from the host's: grey levels differ by"), "{sentence}");
    decodes(&rig, &nvjpeg, &decoder, (0, ROWS));
    end(rig, &nvjpeg, decoder);
}

#[test]
fn engines_that_decode_one_kind_of_pictures_wrongly_are_not_used() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    nvjpeg.set_wrong(ENGINES | ODD);
    let decoder = open(&rig, &nvjpeg);
    assert_eq!(decoder.describe(), "nvJPEG 12.4 without engines");
    let [sentence] = &decoder.take_fallbacks()[..] else { panic!("not exactly one sentence") };
    assert!(sentence.contains("157x117"), "{sentence}");
    decodes(&rig, &nvjpeg, &decoder, (0, ROWS));
    end(rig, &nvjpeg, decoder);
}

#[test]
fn cores_with_wrong_pixels_are_not_used() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    nvjpeg.set_wrong(CORES);
    let decoder = open(&rig, &nvjpeg);
    assert_eq!(decoder.describe(), "nvJPEG 12.4 with 2 engines alone");
    let [sentence] = &decoder.take_fallbacks()[..] else { panic!("not exactly one sentence") };
    assert!(sentence.contains("pixels differ from the host's"), "{sentence}");
    decodes(&rig, &nvjpeg, &decoder, (ROWS, 0));
    end(rig, &nvjpeg, decoder);
}

#[test]
fn without_engines_and_cores_the_host_decodes() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    nvjpeg.set_wrong(CORES);
    nvjpeg.set_engines(0);
    let error = rig.delivery.picture_decoder().expect_err("wrong pixels");
    assert!(error.to_string().contains("ARCH_MISMATCH"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("pixels differ from the host's"), "{error}");
    check_leaks(rig, &nvjpeg);
}

#[test]
fn engines_without_regions_or_interpolated_chroma_use_other_modes_and_it_is_reported() {
    let (whole, stored) = ("whole rather than in regions", "without blending chroma");
    for (modes, present, absent) in [
        (WHOLE | REGIONS_REPLICATED, vec![whole], vec![stored]),
        (REGIONS_REPLICATED | WHOLE_REPLICATED, vec![stored], vec![whole]),
        (WHOLE_REPLICATED, vec![whole, stored], vec![]),
    ] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.wait_mode().advance(true);
        nvjpeg.set_modes(modes);
        let decoder = open(&rig, &nvjpeg);
        assert_eq!(decoder.describe(), "nvJPEG 12.4 with 2 engines");
        let [sentence] = &decoder.take_fallbacks()[..] else { panic!("not exactly one sentence") };
        assert!(sentence.starts_with("the engines") && sentence.contains("JPEG_NOT_SUPPORTED"), "{sentence}");
        assert!(present.iter().all(|part| sentence.contains(part)), "{sentence}");
        assert!(!absent.iter().any(|part| sentence.contains(part)), "{sentence}");
        decodes(&rig, &nvjpeg, &decoder, (ROWS, 0));
        end(rig, &nvjpeg, decoder);
    }
}

#[test]
fn engines_without_cores_decode_whole_pictures_if_they_do_not_decode_regions() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    nvjpeg.set_modes(WHOLE);
    nvjpeg.set_wrong(CORES);
    let decoder = open(&rig, &nvjpeg);
    assert_eq!(decoder.describe(), "nvJPEG 12.4 with 2 engines alone");
    decodes(&rig, &nvjpeg, &decoder, (ROWS, 0));
    end(rig, &nvjpeg, decoder);
}

#[test]
fn a_version_without_interpolated_chroma_is_used_without_it() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    nvjpeg.fail("nvjpegCreateEx", 1, 2);
    let decoder = open(&rig, &nvjpeg);
    let [sentence] = &decoder.take_fallbacks()[..] else { panic!("not exactly one sentence") };
    assert!(sentence.contains("INVALID_PARAMETER"), "{sentence}");
    end(rig, &nvjpeg, decoder);
}

#[test]
fn a_failed_self_test_is_an_error_and_nothing_leaks() {
    for (of_driver, function, code) in [
        (true, "cuMemAlloc_v2", 2),
        (true, "cuMemcpyDtoHAsync_v2", 700),
        (false, "nvjpegDecodeBatchedInitialize", 8),
        (false, "nvjpegDecodeParamsCreate", 5),
    ] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.wait_mode().advance(true);
        if of_driver {
            // Both times that it is tried.
            rig.fail_nth(function, EVERY, code)
        } else {
            nvjpeg.fail(function, EVERY, code)
        }
        assert!(rig.delivery.picture_decoder().is_err(), "{function}");
        nvjpeg.fail("", 0, 0);
        rig.fail("", 0);
        check_leaks(rig, &nvjpeg);
    }
}

#[test]
fn without_cores_the_host_decodes_what_the_engines_reject() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    nvjpeg.fail("cores", EVERY, 9);
    let decoder = open(&rig, &nvjpeg);
    assert_eq!(decoder.describe(), "nvJPEG 12.4 with 2 engines alone");
    let [sentence] = &decoder.take_fallbacks()[..] else { panic!("not exactly one sentence") };
    assert!(sentence.contains("IMPLEMENTATION_NOT_SUPPORTED"), "{sentence}");
    let form = BatchForm::with_rows(130, DType::UInt8, PixelLayout::Nhwc);
    let rows: Vec<usize> = (0..130).collect();
    let batch = form.rejected(&rig, &decoder, 60, &[1, 4, 77], &rows);
    assert_eq!((nvjpeg.counts(), batch.on_engines.len()), ((127, 0), 127));
    let memory = form.deliver(batch, &rows).expect("delivered");
    form.check(&rig, &*memory, 60, &rows);
    drop(memory);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn without_cores_the_host_decodes_everything_after_the_engines_reject_everything() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    nvjpeg.fail("cores", EVERY, 9);
    let decoder = open(&rig, &nvjpeg);
    decoder.take_fallbacks();
    nvjpeg.fail("engines", EVERY, 6);
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
    let undecoded = form.submit(&decoder, form.fill(&rig, 60, &[], &[]), &all()).expect("finished").undecoded;
    assert_eq!(undecoded, all());
    assert!(!decoder.is_open());
    let [sentence] = &decoder.take_fallbacks()[..] else { panic!("not exactly one sentence") };
    assert!(sentence.contains("decoded on the host from now on"), "{sentence}");
    end(rig, &nvjpeg, decoder);
}
