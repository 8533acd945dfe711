//! Progressive pictures with scans that usual encoders do not write.

use super::super::native::NativeDecoder;
use super::super::order::BLOCK;
use super::equal::{assert_equal, assert_equal_or_fallback, noise};
use super::progressive_writer::ProgressivePicture;
use super::*;

type Scan = (&'static [usize], [u8; 4]);

type Scans = &'static [Scan];

const ALL: &[usize] = &[0, 1, 2];

/// Whole bands without refinements; single bits; bands that are refined in pieces that differ from their first scans.
const SCANS: [Scans; 4] = [
    &[(ALL, [0, 0, 0, 0]), (&[0], [1, 63, 0, 0]), (&[1], [1, 63, 0, 0]), (&[2], [1, 63, 0, 0])],
    &[
        (&[1], [0, 0, 0, 3]),
        (&[0, 2], [0, 0, 0, 2]),
        (&[2], [1, 1, 0, 0]),
        (&[2], [2, 63, 0, 4]),
        (&[1], [0, 0, 3, 2]),
        (ALL, [0, 0, 2, 1]),
        (&[2], [2, 63, 4, 3]),
        (&[2], [2, 63, 3, 2]),
        (&[0], [1, 63, 0, 1]),
        (ALL, [0, 0, 1, 0]),
        (&[2], [2, 63, 2, 1]),
        (&[0], [1, 63, 1, 0]),
        (&[1], [1, 62, 0, 0]),
        (&[1], [63, 63, 0, 0]),
        (&[2], [2, 63, 1, 0]),
    ],
    &[
        (ALL, [0, 0, 0, 1]),
        (&[0], [1, 5, 0, 2]),
        (&[0], [6, 63, 0, 2]),
        (&[0], [1, 63, 2, 1]),
        (&[0], [1, 20, 1, 0]),
        (&[0], [21, 63, 1, 0]),
        (&[2], [1, 63, 0, 13]),
        (&[1], [1, 63, 0, 1]),
        (&[1], [1, 63, 1, 0]),
        (ALL, [0, 0, 1, 0]),
        (&[2], [1, 63, 13, 12]),
        (&[2], [1, 63, 12, 11]),
        (&[2], [1, 63, 11, 10]),
        (&[2], [1, 63, 10, 9]),
        (&[2], [1, 63, 9, 8]),
        (&[2], [1, 63, 8, 7]),
        (&[2], [1, 63, 7, 6]),
        (&[2], [1, 63, 6, 5]),
        (&[2], [1, 63, 5, 4]),
        (&[2], [1, 63, 4, 3]),
        (&[2], [1, 63, 3, 2]),
        (&[2], [1, 63, 2, 1]),
        (&[2], [1, 63, 1, 0]),
    ],
    &[
        (&[0], [0, 0, 0, 1]),
        (&[1, 2], [0, 0, 0, 0]),
        (&[0], [0, 0, 1, 0]),
        (&[0], [1, 63, 0, 2]),
        (&[0], [1, 63, 2, 1]),
        (&[0], [1, 63, 1, 0]),
        (&[1], [1, 63, 0, 1]),
        (&[1], [1, 63, 1, 0]),
        (&[2], [1, 63, 0, 1]),
        (&[2], [1, 63, 1, 0]),
    ],
];

const FACTORS: [[u8; 3]; 7] = [
    [0x11, 0x11, 0x11],
    [0x21, 0x11, 0x11],
    [0x12, 0x11, 0x11],
    [0x22, 0x11, 0x11],
    [0x41, 0x11, 0x11],
    [0x22, 0x12, 0x12],
    [0x21, 0x21, 0x21],
];

#[test]
fn every_order_of_progressive_scans_gives_the_pixels_of_libjpeg_turbo() {
    let mut random = Lcg(21);
    for (i, scans) in SCANS.into_iter().enumerate() {
        for factors in FACTORS {
            for restart_interval in [0, 0, 1, 3, 7] {
                let (w, h) = (1 + random.below(90) as u16, 1 + random.below(90) as u16);
                let picture = ProgressivePicture { w, h, factors: &factors, scans, restart_interval, quantisation: 2 };
                let bytes = picture.write(&mut noise(&mut random));
                assert_equal(&bytes, 8, &mut random, &format!("{i} {factors:x?} {restart_interval} {w}x{h}"));
            }
        }
    }
}

#[test]
fn sparse_and_dense_progressive_pictures_give_the_pixels_of_libjpeg_turbo() {
    let mut random = Lcg(22);
    for round in 0..48 {
        // Few values, so that runs of empty blocks cross rows; and all values, so that none is zero.
        let (of, large) = ([1, 2, 40, 4000][round % 4], 1 + random.below(10));
        let mut block = |_| {
            let mut block: [i16; BLOCK] = std::array::from_fn(|_| {
                let value = random.below(2 << large) as i16 - (1 << large);
                if random.below(of) == 0 { value } else { 0 }
            });
            block[0] = block[0].clamp(-1023, 1023);
            block
        };
        let (scans, factors) = (SCANS[round % 3], FACTORS[round % FACTORS.len()]);
        let picture =
            ProgressivePicture { w: 150, h: 131, factors: &factors, scans, restart_interval: 0, quantisation: 1 };
        let bytes = picture.write(&mut block);
        assert_equal_or_fallback(&bytes, 6, &mut Lcg(round as u64), &format!("round {round}"));
    }
}

#[test]
fn scans_that_are_missing_repeated_or_out_of_order_are_left_to_libjpeg_turbo() {
    let mut random = Lcg(23);
    let good = SCANS[0].to_vec();
    let with = |change: &dyn Fn(&mut Vec<Scan>)| {
        let mut scans = good.clone();
        change(&mut scans);
        scans
    };
    let odd = [
        with(&|scans| scans.truncate(3)),
        with(&|scans| drop(scans.drain(..1))),
        with(&|scans| scans.swap(0, 1)),
        with(&|scans| scans.push(scans[0])),
        with(&|scans| scans.push(scans[2])),
        with(&|scans| scans[3].1 = [1, 63, 0, 1]),
        with(&|scans| scans[3].1 = [1, 9, 0, 0]),
        with(&|scans| scans[0].1 = [0, 0, 0, 1]),
        with(&|scans| scans.push((&[1], [1, 63, 1, 0]))),
    ];
    for (i, scans) in odd.iter().enumerate() {
        let picture = ProgressivePicture {
            w: 40,
            h: 40,
            factors: &[0x22, 0x11, 0x11],
            scans,
            restart_interval: 0,
            quantisation: 2,
        };
        let bytes = picture.write(&mut noise(&mut random));
        let size = Size { w: 40, h: 40 };
        let (mut want, mut got) = (Pixels::default(), Pixels::default());
        for kernels in all_kernels() {
            assert!(
                NativeDecoder::new(kernels)
                    .decode_scaled(&bytes, None, Scale::Full, Region::all(size), &mut got)
                    .is_err(),
                "{i}"
            );
        }
        let expected = Turbo::new().unwrap().decode(&bytes, Region::all(size), &mut want);
        let outcome = Decoder::default().decode(&bytes, Region::all(size), &mut got);
        assert_eq!(expected.is_ok(), outcome.is_ok(), "{i}: {expected:?} and {outcome:?}");
        if expected.is_ok() {
            assert_eq!(want.rgb(), got.rgb(), "{i}");
        }
    }
}

#[test]
fn a_region_of_an_incomplete_picture_has_the_pixels_of_the_whole_one() {
    let mut random = Lcg(25);
    let lacking: [Scans; 3] = [
        &[(ALL, [0, 0, 0, 0])],
        &[(ALL, [0, 0, 0, 1]), (&[0], [1, 5, 0, 2]), (&[2], [1, 63, 0, 1]), (&[1], [1, 63, 0, 1])],
        &[(ALL, [0, 0, 0, 0]), (&[0], [1, 63, 0, 0]), (&[1], [1, 63, 0, 0]), (&[2], [1, 63, 0, 2])],
    ];
    // Few steps between the blocks, as photographs have: libjpeg-turbo smooths only such blocks.
    let mut level = 0_i16;
    for (scans, factors) in lacking.into_iter().flat_map(|scans| FACTORS.map(|factors| (scans, factors))) {
        let picture =
            ProgressivePicture { w: 150, h: 131, factors: &factors, scans, restart_interval: 0, quantisation: 4 };
        let bytes = picture.write(&mut |_| {
            level = (level + random.below(41) as i16 - 20).clamp(-200, 200);
            let mut block = [0; BLOCK];
            (block[0], block[1], block[2], block[3]) = (level, level / 16, -level / 24, level / 50);
            block
        });
        for scale in [Scale::Full, Scale::Half, Scale::Quarter, Scale::Eighth] {
            let size = scale.size(Size { w: 150, h: 131 });
            let (mut whole, mut part) = (Pixels::default(), Pixels::default());
            Turbo::new().unwrap().decode_scaled(&bytes, scale, Region::all(size), &mut whole).unwrap();
            for _ in 0..8 {
                let region = random.region(size);
                Decoder::default().decode_scaled(&bytes, &[], scale, region, &mut part).unwrap();
                assert_part_of(&whole, &part, region, &format!("{factors:x?} {scale:?} {region:?}"));
            }
        }
    }
}

#[test]
fn more_scans_than_the_limit_are_rejected() {
    let mut random = Lcg(24);
    // Every coefficient in scans of its native, bit by bit.
    let bits: Vec<(&[usize], [u8; 4])> = std::iter::once((&[0_usize][..], [0, 0, 0, 0]))
        .chain((1..=63).flat_map(|k| {
            (0..=9).rev().map(move |low| (&[0_usize][..], [k, k, if low == 9 { 0 } else { low + 1 }, low]))
        }))
        .collect();
    let picture =
        ProgressivePicture { w: 16, h: 16, factors: &[0x11], scans: &bits, restart_interval: 0, quantisation: 1 };
    let bytes = picture.write(&mut noise(&mut random));
    let mut pixels = Pixels::default();
    for mut decoder in decoders() {
        assert!(decoder.decode(&bytes, Region::all(Size { w: 16, h: 16 }), &mut pixels).is_err());
    }
}
