//! Pictures at smaller scales: the native decoder against libjpeg-turbo, and both against the mean of the full
//! picture's pixels.

use super::super::native::NativeDecoder;
use super::equal::noise;
use super::writer::Picture;
use super::*;

const SCALES: [Scale; 3] = [Scale::Half, Scale::Quarter, Scale::Eighth];

/// Decodes `count` random regions of `bytes` at every scale with the kernels of every level.
fn assert_equal(bytes: &[u8], count: u32, random: &mut Lcg, about: &str) {
    let mut turbo = Turbo::new().unwrap();
    let (mut whole, mut part) = (Pixels::default(), Pixels::default());
    let stored = turbo.size(bytes).unwrap();
    for scale in SCALES {
        let size = scale.size(stored);
        turbo.decode_scaled(bytes, scale, Region::all(size), &mut whole).unwrap();
        assert_eq!(whole.region(), Region::all(size), "{about}");
        for _ in 0..count {
            let region = random.region(size);
            turbo.decode_scaled(bytes, scale, region, &mut part).unwrap();
            assert_part_of(&whole, &part, region, &format!("{about} libjpeg-turbo {scale:?} {region:?}"));
        }
        for kernels in all_kernels() {
            let mut native = NativeDecoder::new(kernels);
            for i in 0..count {
                let region = if i == 0 { Region::all(size) } else { random.region(size) };
                let about = format!("{about} {kernels:?} {scale:?} {region:?}");
                native.decode_scaled(bytes, None, scale, region, &mut part).unwrap_or_else(|e| panic!("{about}: {e}"));
                assert_eq!(part.region(), region, "{about}");
                assert_part_of(&whole, &part, region, &about);
            }
            let beyond = Region { x: 0, y: 0, w: size.w + 1, h: size.h };
            assert!(native.decode_scaled(bytes, None, scale, beyond, &mut part).is_err(), "{about}");
        }
    }
}

#[test]
fn every_subsampling_gives_the_smaller_pictures_of_libjpeg_turbo() {
    let mut random = Lcg(31);
    for kind in KINDS {
        for (w, h) in [(1, 1), (2, 3), (5, 4), (9, 3), (16, 16), (17, 33), (31, 64), (33, 15), (97, 75), (150, 131)] {
            for (quality, progressive) in [(3, false), (90, false), (90, true), (100, true)] {
                let size = Size { w, h };
                let bytes = encode(&picture(size, &mut random), size, quality, kind, progressive).unwrap();
                let about = format!("{kind:?} {w}x{h} quality {quality} progressive {progressive}");
                assert_equal(&bytes, 6, &mut random, &about);
            }
        }
    }
}

#[test]
fn every_layout_of_scans_and_factors_gives_the_smaller_pictures_of_libjpeg_turbo() {
    let mut random = Lcg(32);
    let scans: [&[&[usize]]; 3] = [&[&[0, 1, 2]], &[&[0], &[1], &[2]], &[&[0], &[1, 2]]];
    let factors: [[u8; 3]; 10] = [
        [0x11, 0x11, 0x11],
        [0x21, 0x11, 0x11],
        [0x12, 0x11, 0x11],
        [0x22, 0x11, 0x11],
        [0x41, 0x11, 0x11],
        [0x14, 0x11, 0x11],
        [0x42, 0x11, 0x11],
        [0x22, 0x12, 0x12],
        [0x22, 0x21, 0x21],
        [0x21, 0x21, 0x21],
    ];
    for scans in scans {
        for factors in factors {
            for restart_interval in [0, 3] {
                let (w, h) = (1 + random.below(90) as u16, 1 + random.below(90) as u16);
                let components = [(1, factors[0]), (2, factors[1]), (3, factors[2])];
                let picture =
                    Picture { w, h, components: &components, scans, restart_interval, extra: &[], quantisation: 2 };
                let bytes = picture.write(&mut noise(&mut random));
                assert_equal(&bytes, 6, &mut random, &format!("{scans:?} {factors:x?} {restart_interval} {w}x{h}"));
            }
        }
    }
}

#[test]
fn a_pixel_of_a_smaller_picture_is_the_mean_of_the_pixels_that_it_covers() {
    // Without subsampling, because with it the colours of the full picture are smoothed.
    let size = Size { w: 64, h: 48 };
    let bytes = encode(&picture(size, &mut Lcg(33)), size, 95, Subsampling::Grey, false).unwrap();
    let (mut full, mut small) = (Pixels::default(), Pixels::default());
    Turbo::new().unwrap().decode(&bytes, Region::all(size), &mut full).unwrap();
    for (scale, by) in SCALES.into_iter().zip([2, 4, 8]) {
        let all = Region::all(scale.size(size));
        Decoder::default().decode_scaled(&bytes, &[], scale, all, &mut small).unwrap();
        for (i, pixel) in small.rgb().as_chunks::<3>().0.iter().enumerate() {
            let (x, y) = (i % all.w as usize * by, i / all.w as usize * by);
            let grey = |k: usize| u32::from(full.rgb()[((y + k / by) * size.w as usize + x + k % by) * 3]);
            let mean = f64::from((0..by * by).map(grey).sum::<u32>()) / (by * by) as f64;
            // Values beyond black and white are clipped before the mean is computed, or after.
            assert!((f64::from(pixel[0]) - mean).abs() < 3.0, "{scale:?} {x} {y}: {} for {mean}", pixel[0]);
        }
    }
}

#[test]
fn a_damaged_picture_is_rejected_at_every_scale_unless_damage_is_tolerated() {
    let size = Size { w: 160, h: 160 };
    let bytes = encode(&picture(size, &mut Lcg(34)), size, 90, Subsampling::S420, false).unwrap();
    let cut = &bytes[..bytes.len() / 2];
    for scale in SCALES {
        let all = Region::all(scale.size(size));
        let (mut pixels, mut expected) = (Pixels::default(), Pixels::default());
        let mut decoder = Decoder::default();
        assert_eq!(decoder.decode_scaled(cut, &[], scale, all, &mut pixels).unwrap_err().kind(), ErrorKind::Decode);
        assert!(decoder.decode_tolerant(cut, &[], scale, all, &mut pixels).unwrap(), "it counts");
        Turbo::new().unwrap().decode_damaged(cut, scale, &mut expected).unwrap();
        assert_eq!((pixels.region(), pixels.rgb()), (all, expected.rgb()));
        // Neither decoder reads data below a region.
        let upper = Region { h: all.h / 4, ..all };
        decoder.decode_scaled(cut, &[], scale, upper, &mut pixels).unwrap();
        assert_part_of(&expected, &pixels, upper, &format!("{scale:?}"));
        Turbo::new().unwrap().decode_scaled(cut, scale, upper, &mut pixels).unwrap();
        assert_part_of(&expected, &pixels, upper, &format!("{scale:?}"));
    }
}
