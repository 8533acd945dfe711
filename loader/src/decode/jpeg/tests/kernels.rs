//! The kernels against each other, with values that no file is likely to have.

use super::super::Declined;
use super::super::entropy::BLOCK;
use super::super::kernel::{GROUP, Kernels, MARGIN};
use super::*;

/// A value at the limits alone: blocks with nothing else take ways of their own.
#[test]
fn every_kernel_transforms_flat_blocks_at_the_limits_to_the_same_samples() {
    const STRIDE: usize = 8 * GROUP + MARGIN;
    let steps = [1; BLOCK];
    for place in 0..BLOCK {
        for value in [8190, 8191, 8192, 8193, -8191, -8192, -8193, 16383, 16384, 32767, -32768] {
            let mut backwards = [[0; BLOCK]; GROUP];
            backwards[1][place] = value;
            let samples = |kernels: Kernels| {
                let mut ordered = [[0; BLOCK]; GROUP];
                kernels.order(&backwards, &mut ordered);
                let offsets = std::array::from_fn::<u32, GROUP, _>(|i| (i * BLOCK) as u32);
                let mut out = [0; 8 * STRIDE];
                kernels.idct(8, ordered.as_flattened(), &offsets, &steps, &mut out, STRIDE).map(|()| out)
            };
            let kernels = Kernels::available();
            let expected = samples(kernels[0])
                .map(|out| out.chunks(STRIDE).map(|row| row[..8 * GROUP].to_vec()).collect::<Vec<_>>());
            for kernels in &kernels[1..] {
                let found = samples(*kernels)
                    .map(|out| out.chunks(STRIDE).map(|row| row[..8 * GROUP].to_vec()).collect::<Vec<_>>());
                assert_eq!(found, expected, "{value} at {place}, {kernels:?}");
            }
        }
    }
}

/// Near the limits of 16 bits, of what the vectors' way takes in rows 0 and 4, and zero.
fn value(random: &mut Lcg) -> i16 {
    let limit = [0, 0, 0, 60, 4096, 8191, 8192, 16384, 32767][random.below(9) as usize];
    let near = limit - 3 + random.below(6) as i32;
    (if random.below(2) == 0 { near } else { -near }) as i16
}

#[test]
fn every_kernel_transforms_any_coefficients_to_the_same_samples() {
    let mut random = Lcg(21);
    const BLOCKS: usize = 2 * GROUP;
    const STRIDE: usize = 8 * BLOCKS + MARGIN;
    for round in 0..3000 {
        let sparse = 1 + random.below(64);
        let mut one = |_| if random.below(64) < sparse { value(&mut random) } else { 0 };
        // From the last coefficient to the first, as progressive pictures keep them.
        let backwards: [[i16; BLOCK]; BLOCKS] = std::array::from_fn(|_| std::array::from_fn(&mut one));
        let quantisation = std::array::from_fn(|_| [1, 1, 1, 3, 255][random.below(5) as usize]);
        let offsets: [u32; BLOCKS] = std::array::from_fn(|i| ((i * 5 % BLOCKS) * BLOCK) as u32);
        let samples = |kernels: Kernels| {
            let mut ordered = [[0; BLOCK]; BLOCKS];
            kernels.order(&backwards, &mut ordered);
            [8, 4, 2, 1].map(|side| {
                let mut out = [0; 8 * STRIDE];
                kernels.idct(side, ordered.as_flattened(), &offsets, &quantisation, &mut out, STRIDE)?;
                let rows = out.chunks(STRIDE).take(side as usize);
                Ok::<Vec<u8>, Declined>(rows.flat_map(|row| row[..side as usize * BLOCKS].to_vec()).collect())
            })
        };
        let [portable, others @ ..] = &Kernels::available()[..] else {
            unreachable!("the portable ones are always there")
        };
        let expected = samples(*portable);
        for kernels in others {
            assert_eq!(samples(*kernels), expected, "round {round}, {kernels:?}");
        }
    }
}
