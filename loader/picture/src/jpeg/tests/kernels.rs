//! The kernels compared among themselves, with values that are unlikely in files.

use super::super::fallback::Fallback;
use super::super::kernel::{BlockRow, GROUP, MARGIN};
use super::super::order::BLOCK;
use super::*;
use std::fmt::Display;

/// Compares the samples of all kernels for each of `sides`, or their errors. The blocks are stored from the last
/// coefficient to the first, as for progressive pictures, and decoded in the order of `offsets`.
fn assert_same_samples<const BLOCKS: usize>(
    backwards: &[[i16; BLOCK]; BLOCKS],
    offsets: [u32; BLOCKS],
    quantisation: &[i16; BLOCK],
    sides: &[u32],
    about: impl Display,
) {
    let stride = 8 * BLOCKS + MARGIN;
    let samples = |kernels: Kernels| {
        let mut ordered = [[0; BLOCK]; BLOCKS];
        kernels.order(backwards, &mut ordered);
        let to_side = |side: &u32| {
            let (side, mut out) = (*side, vec![0; 8 * stride]);
            let row = BlockRow { coefficients: ordered.as_flattened(), offsets: &offsets, quantisation };
            kernels.idct(side, row, &mut out, stride)?;
            let rows = out.chunks(stride).take(side as usize);
            Ok(rows.flat_map(|row| &row[..side as usize * BLOCKS]).copied().collect())
        };
        sides.iter().map(to_side).collect::<Vec<Result<Vec<u8>, Fallback>>>()
    };
    let [portable, others @ ..] = &all_kernels()[..] else { unreachable!("every machine has the portable kernels") };
    let expected = samples(*portable);
    for kernels in others {
        assert_eq!(samples(*kernels), expected, "{about}, {kernels:?}");
    }
}

/// Single values at the limits: such blocks are transformed by special code.
#[test]
fn every_kernel_transforms_flat_blocks_at_the_limits_to_the_same_samples() {
    let offsets = std::array::from_fn(|i| (i * BLOCK) as u32);
    for position in 0..BLOCK {
        for value in [8190, 8191, 8192, 8193, -8191, -8192, -8193, 16383, 16384, 32767, -32768] {
            let mut backwards = [[0; BLOCK]; GROUP];
            backwards[1][position] = value;
            assert_same_samples(&backwards, offsets, &[1; BLOCK], &[8], format_args!("{value} at {position}"));
        }
    }
}

/// Returns a value near zero, near the limits of 16 bits, or near the limit of the vector code for rows 0 and 4.
fn value(random: &mut Lcg) -> i16 {
    let limit = [0, 0, 0, 60, 4096, 8191, 8192, 16384, 32767][random.below(9) as usize];
    let near = limit - 3 + random.below(6) as i32;
    (if random.below(2) == 0 { near } else { -near }) as i16
}

#[test]
fn every_kernel_transforms_any_coefficients_to_the_same_samples() {
    let mut random = Lcg(21);
    const BLOCKS: usize = 2 * GROUP;
    for round in 0..3000 {
        let sparse = 1 + random.below(64);
        let mut one = |_| if random.below(64) < sparse { value(&mut random) } else { 0 };
        let backwards: [[i16; BLOCK]; BLOCKS] = std::array::from_fn(|_| std::array::from_fn(&mut one));
        let quantisation = std::array::from_fn(|_| [1, 1, 1, 3, 255][random.below(5) as usize]);
        let offsets = std::array::from_fn(|i| ((i * 5 % BLOCKS) * BLOCK) as u32);
        assert_same_samples(&backwards, offsets, &quantisation, &[8, 4, 2, 1], format_args!("round {round}"));
    }
}

/// Returns bytes of all kinds: any, the extremes, and those next to the middle.
fn samples(random: &mut Lcg, count: usize) -> Vec<u8> {
    let few: &[u8] = [&[0, 255][..], &[0, 1, 127, 128, 129, 254, 255], &[255]][random.below(3) as usize];
    let any = random.below(2) == 0;
    let mut one = || if any { random.below(256) as u8 } else { few[random.below(few.len() as u32) as usize] };
    (0..count).map(|_| one()).collect()
}

/// Converts rows to red, green and blue, one after the other.
fn by_planes(kernels: Kernels, rows: [&[u8]; 3], length: usize) -> Vec<u8> {
    let mut out = [(); 3].map(|()| vec![7; length + MARGIN]);
    kernels.ycbcr_planes(rows, length, out.each_mut().map(|plane| &mut plane[..]));
    out.iter().flat_map(|plane| &plane[..length]).copied().collect()
}

#[test]
fn every_pair_of_luma_and_colour_differences_is_converted_alike() {
    let [y, cb]: [Vec<u8>; 2] = std::array::from_fn(|which| {
        (0..1_usize << 16).map(|i| if which == 0 { i % 256 } else { i / 256 } as u8).chain([0; MARGIN]).collect()
    });
    for cr in (0..=255_u8).step_by(if cfg!(debug_assertions) { 5 } else { 1 }) {
        let cr = vec![cr; y.len()];
        let mut results = all_kernels().into_iter().map(|kernels| by_planes(kernels, [&y, &cb, &cr], 1 << 16));
        let want = results.next();
        assert!(results.all(|got| Some(&got) == want.as_ref()), "red difference {}", cr[0]);
    }
}

#[test]
fn every_kernel_upsamples_and_converts_rows_of_any_length_alike() {
    let mut random = Lcg(23);
    for round in 0..1500 {
        let length = if round < 200 { round + 1 } else { 1 + random.below(500) } as usize;
        let rows = [(); 3].map(|()| samples(&mut random, length + 2 + MARGIN));
        let [a, b, c] = rows.each_ref().map(|row| &row[..]);
        let colours = [a, b, c].map(|row| &row[..length + MARGIN]);
        let outputs = |kernels: Kernels| {
            let make = |each: usize, body: &dyn Fn(&mut [u8])| {
                let mut out = vec![7; each * length];
                body(&mut out);
                out
            };
            [
                make(2, &|out| kernels.smooth_across(a, out)),
                make(2, &|out| kernels.smooth_both(a, b, out)),
                make(1, &|out| kernels.smooth_down(a, b, 1 + (round % 2) as u16, out)),
                make(3, &|out| kernels.ycbcr(colours, out)),
                by_planes(kernels, colours, length),
                make(3, &|out| kernels.interleave(colours, out)),
            ]
        };
        let kernels = all_kernels();
        let expected = outputs(kernels[0]);
        for kernels in &kernels[1..] {
            assert!(outputs(*kernels) == expected, "{length} samples, round {round}, {kernels:?}");
        }
    }
}

#[test]
fn every_kernel_removes_stuffing_alike() {
    let mut random = Lcg(29);
    for _ in 0..5000 {
        let rare = 1 + random.below(40);
        let mut one = || match random.below(rare) {
            0 => [0xff, 0, 0xd0][random.below(3) as usize],
            _ => random.below(256) as u8,
        };
        let from: Vec<u8> = (0..200).map(|_| one()).collect();
        let from = &from[..random.below(200) as usize];
        let (mut read, mut expected) = (0, Vec::new());
        while let Some(byte) = from.get(read).filter(|byte| **byte != 0xff || from.get(read + 1) == Some(&0)) {
            expected.push(*byte);
            read += if *byte == 0xff { 2 } else { 1 };
        }
        for kernels in all_kernels() {
            let mut out = vec![7; from.len() + MARGIN];
            let (found, written) = kernels.unstuff(from, &mut out);
            assert_eq!((found, &out[..written]), (read, &expected[..]), "{kernels:?} of {from:?}");
        }
    }
}
