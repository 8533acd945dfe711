//! The native decoder against libjpeg-turbo's full decode: the same pixels for every file that it decodes.

use super::super::kernel::OUT_OF_RANGE;
use super::super::native::NativeDecoder;
use super::super::order::BLOCK;
use super::writer::Picture;
use super::*;
use crate::pixels::{PLANE_PAD, RowSink};

/// Pixels of a region that came row by row.
struct Rows {
    planes: [Vec<u8>; 3],
    width: usize,
    rgb: Vec<u8>,
}

impl Rows {
    fn new(region: Region) -> Self {
        let width = region.w as usize;
        Self { planes: [(); 3].map(|()| vec![7; width + PLANE_PAD]), width, rgb: Vec::new() }
    }
}

impl RowSink for Rows {
    fn planes(&mut self) -> [&mut [u8]; 3] {
        self.planes.each_mut().map(|plane| &mut plane[..])
    }

    fn take(&mut self) {
        self.rgb.extend((0..self.width).flat_map(|x| self.planes.each_ref().map(|plane| plane[x])));
    }
}

/// Decodes the whole of `bytes` and random regions, `count` in all, with the kernels of every level. None falls back,
/// and all give the pixels of libjpeg-turbo's whole picture.
pub(super) fn assert_equal(bytes: &[u8], count: u32, random: &mut Lcg, about: &str) {
    assert_equal_from(bytes, None, count, random, about);
}

/// Compares as [`assert_equal`] does, with a row index if there is one.
pub(super) fn assert_equal_from(bytes: &[u8], index: Option<&[u8]>, count: u32, random: &mut Lcg, about: &str) {
    compare(bytes, index, false, count, random, about);
}

/// Compares as [`assert_equal`] does, for a picture that no encoder writes. The native decoder may fall back on
/// machines on which libjpeg-turbo's vector code gives different results.
pub(super) fn assert_equal_or_fallback(bytes: &[u8], count: u32, random: &mut Lcg, about: &str) {
    compare(bytes, None, cfg!(target_arch = "aarch64"), count, random, about);
}

fn compare(bytes: &[u8], index: Option<&[u8]>, may_fall_back: bool, count: u32, random: &mut Lcg, about: &str) {
    let mut turbo = Turbo::new().unwrap();
    let (mut whole, mut part) = (Pixels::default(), Pixels::default());
    let size = turbo.size(bytes).unwrap();
    turbo.decode(bytes, Region::all(size), &mut whole).unwrap();
    for kernels in all_kernels() {
        let mut native = NativeDecoder::new(kernels);
        assert_eq!(NativeDecoder::size(bytes), Ok(size), "{about}");
        for i in 0..count {
            let region = if i == 0 { Region::all(size) } else { random.region(size) };
            let about = format!("{about} {kernels:?} {region:?}");
            match native.decode_scaled(bytes, index, Scale::Full, region, &mut part) {
                Err(OUT_OF_RANGE) if may_fall_back => continue,
                outcome => outcome.unwrap_or_else(|e| panic!("{about}: {e}")),
            }
            assert_eq!(part.region(), region, "{about}");
            assert_part_of(&whole, &part, region, &about);
            let mut rows = Rows::new(region);
            native.decode_rows(bytes, index, Scale::Full, region, &mut rows).unwrap_or_else(|e| panic!("{about}: {e}"));
            assert!(rows.rgb == part.rgb(), "{about}, by rows");
        }
    }
}

/// Divisor of noise, large enough that no machine falls back.
const NOISE_DIVISOR: i16 = if cfg!(target_arch = "aarch64") { 16 } else { 1 };

/// Returns blocks with few or many coefficients of any size that is decoded.
pub(super) fn noise(random: &mut Lcg) -> impl FnMut(usize) -> [i16; BLOCK] + '_ {
    |_| {
        let mut block = [0; BLOCK];
        block[0] = random.below(2047) as i16 - 1023;
        let (dense, size) = (1 + random.below(64), random.below(11));
        for value in &mut block[1..] {
            if random.below(64) < dense {
                *value = random.below(1 << size) as i16 - (1 << size >> 1);
            }
        }
        block.map(|value| value / NOISE_DIVISOR)
    }
}

#[test]
fn every_subsampling_and_quality_gives_the_pixels_of_libjpeg_turbo() {
    let mut random = Lcg(11);
    for kind in KINDS {
        for (w, h) in [(1, 1), (2, 3), (5, 4), (9, 3), (16, 16), (17, 33), (31, 64), (33, 15), (97, 75), (150, 131)] {
            for (quality, progressive) in [(3, false), (50, true), (90, false), (90, true), (100, true)] {
                let size = Size { w, h };
                let bytes = encode(&picture(size, &mut random), size, quality, kind, progressive).unwrap();
                let about = format!("{kind:?} {w}x{h} quality {quality} progressive {progressive}");
                assert_equal(&bytes, 12, &mut random, &about);
            }
        }
    }
}

#[test]
fn every_layout_of_scans_and_restarts_gives_the_pixels_of_libjpeg_turbo() {
    let mut random = Lcg(12);
    let scans: [&[&[usize]]; 4] = [&[&[0, 1, 2]], &[&[0], &[1], &[2]], &[&[0], &[1, 2]], &[&[2], &[0, 1]]];
    let factors: [[u8; 3]; 9] = [
        [0x11, 0x11, 0x11],
        [0x21, 0x11, 0x11],
        [0x12, 0x11, 0x11],
        [0x22, 0x11, 0x11],
        [0x41, 0x11, 0x11],
        [0x14, 0x11, 0x11],
        [0x22, 0x12, 0x12],
        [0x22, 0x21, 0x21],
        [0x21, 0x21, 0x21],
    ];
    for scans in scans {
        for factors in factors {
            for restart_interval in [0, 1, 3, 7] {
                let (w, h) = (1 + random.below(90) as u16, 1 + random.below(90) as u16);
                let components = [(1, factors[0]), (2, factors[1]), (3, factors[2])];
                let picture =
                    Picture { w, h, components: &components, scans, restart_interval, extra: &[], quantisation: 2 };
                let bytes = picture.write(&mut noise(&mut random));
                assert_equal(&bytes, 10, &mut random, &format!("{scans:?} {factors:x?} {restart_interval} {w}x{h}"));
            }
        }
    }
}

#[test]
fn coefficients_beyond_every_limit_give_the_pixels_of_libjpeg_turbo() {
    let mut random = Lcg(13);
    for round in 0..60 {
        let components = [(1, 0x22), (2, 0x11), (3, 0x11)];
        let picture = Picture {
            w: 50,
            h: 40,
            components: &components[..if round % 3 == 0 { 1 } else { 3 }],
            scans: if round % 3 == 0 { &[&[0]] } else { &[&[0, 1, 2]] },
            restart_interval: 0,
            extra: &[],
            quantisation: [1, 16, 255][round % 3],
        };
        let (large, flat) = (random.below(15), round % 2 == 0);
        let mut block = |_| {
            let mut block: [i16; BLOCK] = std::array::from_fn(|_| random.below(2 << large) as i16 - (1 << large));
            block[0] = block[0].clamp(-1023, 1023);
            // Blocks with values only in the first row are transformed by special code.
            if flat {
                block.iter_mut().enumerate().filter(|(i, _)| ![0, 1, 5, 6].contains(i)).for_each(|(_, v)| *v = 0);
            }
            block
        };
        let bytes = picture.write(&mut block);
        assert_equal_or_fallback(&bytes, 2, &mut Lcg(round as u64), &format!("round {round}"));
    }
}

#[test]
fn colours_follow_the_markers_and_component_names() {
    let mut random = Lcg(14);
    let adobe = |transform| [0xff, 0xee, 0, 14, b'A', b'd', b'o', b'b', b'e', 0, 100, 0, 0, 0, 0, transform];
    let jfif = [0xff, 0xe0, 0, 16, b'J', b'F', b'I', b'F', 0, 1, 1, 0, 0, 1, 0, 1, 0, 0];
    for names in [*b"RGB", [1, 2, 3], [0, 1, 2], *b"rgb", [1, 2, 9]] {
        for extra in [&[][..], &adobe(0), &adobe(1), &jfif, &[&jfif[..], &adobe(0)].concat()] {
            let components = [(names[0], 0x22), (names[1], 0x11), (names[2], 0x11)];
            let picture = Picture {
                w: 37,
                h: 29,
                components: &components,
                scans: &[&[0, 1, 2]],
                restart_interval: 0,
                extra,
                quantisation: 2,
            };
            let bytes = picture.write(&mut noise(&mut random));
            assert_equal(&bytes, 5, &mut random, &format!("{names:?} {extra:?}"));
        }
    }
}
