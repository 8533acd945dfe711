//! Files without their end marker: decoded if all data of the picture is there.

use super::progressive_writer::ProgressivePicture;
use super::*;

const SIZE: Size = Size { w: 75, h: 61 };

const ALL: &[usize] = &[0, 1, 2];

/// Bytes instead of an end marker that do no harm: nothing, its first half, zeros of a file that was filled up, random
/// bytes, a comment.
const TAILS: [&[u8]; 7] = [&[], &[0xff], &[0], &[0; 9], &[0; 5000], &[0x5a; 30], &[0xff, 0xfe, 0, 4, 1, 2]];

/// Returns sequential and progressive files without their end markers, with restart intervals and without, in one scan
/// and in several.
fn files() -> Vec<(String, Vec<u8>)> {
    let (mut random, mut files) = (Lcg(41), Vec::new());
    for kind in [Subsampling::S444, Subsampling::S420, Subsampling::Grey] {
        for progressive in [false, true] {
            let file =
                without_zero_at_end(|| encode(&picture(SIZE, &mut random), SIZE, 88, kind, progressive).unwrap());
            files.push((format!("{kind:?}, progressive {progressive}"), file));
        }
    }
    let (w, h, quantisation) = (SIZE.w as u16, SIZE.h as u16, 3);
    for restart_interval in [0, 3, 10] {
        for scans in [&[ALL][..], &[&[1], &[0, 2]]] {
            let components = &[(1, 0x22), (2, 0x11), (3, 0x11)];
            let written = writer::Picture { w, h, components, scans, restart_interval, extra: &[], quantisation };
            let about = format!("{} scans, restart interval {restart_interval}", scans.len());
            let file = without_zero_at_end(|| written.write(&mut equal::noise(&mut random)));
            files.push((about, file));
        }
        let factors = &[0x22, 0x11, 0x11];
        let scans: &[(&[usize], _)] = &[
            (ALL, [0, 0, 0, 1]),
            (&[0], [1, 63, 0, 1]),
            (&[1], [1, 63, 0, 0]),
            (&[2], [1, 63, 0, 0]),
            (&[0], [1, 63, 1, 0]),
            (ALL, [0, 0, 1, 0]),
        ];
        let written = ProgressivePicture { w, h, factors, scans, restart_interval, quantisation };
        let about = format!("progressive, restart interval {restart_interval}");
        let file = without_zero_at_end(|| written.write(&mut equal::noise(&mut random)));
        files.push((about, file));
    }
    for (about, file) in &mut files {
        assert!(file.ends_with(&[0xff, 0xd9]), "{about}");
        file.truncate(file.len() - 2);
    }
    files
}

/// Returns the first of several files with data that does not end with a zero, since it would look like zeros that fill
/// up a file.
fn without_zero_at_end(file: impl FnMut() -> Vec<u8>) -> Vec<u8> {
    let mut files = std::iter::repeat_with(file);
    files.find(|file| !file.ends_with(&[0, 0xff, 0xd9]) || file.ends_with(&[0xff, 0, 0xff, 0xd9])).expect("endless")
}

#[test]
fn a_file_that_lacks_only_its_end_marker_has_the_pixels_of_the_whole_file() {
    let mut random = Lcg(42);
    let (mut whole, mut pixels) = (Pixels::default(), Pixels::default());
    for (about, file) in files() {
        Turbo::new().unwrap().decode(&[&file, &[0xff, 0xd9][..]].concat(), Region::all(SIZE), &mut whole).unwrap();
        for tail in TAILS {
            let bytes = [&file[..], tail].concat();
            for mut decoder in decoders() {
                for region in [Region::all(SIZE), random.region(SIZE), random.region(SIZE), random.region(SIZE)] {
                    let outcome = decoder.decode(&bytes, region, &mut pixels);
                    outcome.unwrap_or_else(|e| panic!("{about}, {} bytes after it, {region:?}: {e}", tail.len()));
                    assert_part_of(&whole, &pixels, region, &about);
                }
            }
            let mut decoder = Decoder::default();
            assert!(!decoder.decode_tolerant(&bytes, &[], Scale::Full, Region::all(SIZE), &mut pixels).unwrap());
            let mut index = Vec::new();
            if RowIndexer::default().append(&bytes, &mut index) {
                for region in [Region::all(SIZE), random.region(SIZE), random.region(SIZE)] {
                    decoder.decode_scaled(&bytes, &index, Scale::Full, region, &mut pixels).unwrap();
                    assert_part_of(&whole, &pixels, region, &about);
                }
                let counts = decoder.take_row_index_counts();
                assert!(!Kernels::default().use_vectors() || (counts.used, counts.rejected) == (3, 0), "{counts:?}");
            } else {
                assert!(about.contains("rogressive true") || about.contains("progressive,") || about.starts_with('2'));
            }
        }
    }
}

#[test]
fn a_file_that_is_cut_within_its_data_is_an_error_also_if_it_is_filled_up_with_zeros() {
    let mut pixels = Pixels::default();
    for (about, file) in files() {
        let header = file.windows(2).position(|two| two == [0xff, 0xda]).unwrap();
        // Zeros replace the one after FF.
        let first = if file.ends_with(&[0xff, 0]) { 2 } else { 1 };
        let cuts = (first..12).chain((12..file.len() - header - 20).step_by(97));
        for cut in cuts {
            for tail in [&[][..], &[0xff], &[0; 2000]] {
                let bytes = [&file[..file.len() - cut], tail].concat();
                for mut decoder in decoders() {
                    let outcome = decoder.decode(&bytes, Region::all(SIZE), &mut pixels);
                    assert!(outcome.is_err(), "{about}, cut by {cut}, {} bytes after it", tail.len());
                }
                assert!(!RowIndexer::default().append(&bytes, &mut Vec::new()), "{about}, cut by {cut}");
            }
        }
    }
}

#[test]
fn a_second_picture_instead_of_the_end_marker_is_an_error() {
    let mut pixels = Pixels::default();
    for (about, file) in files() {
        for mut decoder in decoders() {
            let outcome = decoder.decode(&[&file[..], &file].concat(), Region::all(SIZE), &mut pixels);
            assert!(outcome.is_err(), "{about}");
        }
    }
}

#[test]
fn a_scan_that_ends_at_a_restart_marker_is_an_error_whatever_follows() {
    let mut pixels = Pixels::default();
    let mut cuts = 0;
    for (about, file) in files() {
        let markers = (0..file.len() - 1).filter(|at| file[*at] == 0xff && (0xd0..0xd8).contains(&file[at + 1]));
        for marker in markers.collect::<Vec<_>>().into_iter().rev().take(2) {
            for tail in [&[][..], &[0xff, 0xd9], &[5, 6, 7, 0xff, 0xd9], &[0xff, 0, 0, 0xff, 0xd9], &[5, 6, 7]] {
                let bytes = [&file[..marker], tail].concat();
                for mut decoder in decoders() {
                    let outcome = decoder.decode(&bytes, Region::all(SIZE), &mut pixels);
                    assert!(outcome.is_err(), "{about}, cut at {marker}, {tail:?} after it");
                }
                cuts += 1;
            }
        }
    }
    assert!(cuts > 20, "{cuts}");
}
