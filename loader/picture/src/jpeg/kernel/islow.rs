//! Inverse transform on vectors, several blocks side by side: libjpeg's accurate integer transform ("islow").
//!
//! The inputs are in pairs, see [`order`](super::super::order): values that are added, each times a weight. If there is
//! a vector instruction for that, `Pairs` is a `Vector` with the first of two values in the lower half of 32 bits. All
//! pairs are treated alike; their block, row and column depend on the module that uses these macros and names its
//! instructions. That module also defines `weights`, one weight for the first and one for the second values, and
//! `plus_minus`, which adds a weighted pair to a sum and subtracts it.

/// Largest value for which sums of two fit; the smallest is its negative less 1. It limits, on x86, the dequantised
/// values of a block's rows 0 and 4, and larger ones are transformed by portable code; on ARM, all values of both
/// passes, see [`fits`]. A power of two less 1.
pub(super) const FITTING_MAX: i16 = 8191;

/// True if libjpeg-turbo gives different results for coefficients that no encoder writes: its vector code for ARM drops
/// bits, that for x86 saturates, as all kernels do here.
const IS_LIMITED: bool = cfg!(target_arch = "aarch64");

/// Returns true if libjpeg-turbo computes the same from this value, a dequantised coefficient or one between the
/// passes. In real pictures they are below 4,096 plus the error of quantisation.
pub(super) fn fits(value: i32) -> bool {
    let max = i32::from(FITTING_MAX);
    !IS_LIMITED || (-max - 1..=max).contains(&value)
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
/// Defines `columns` and `rows`, the two passes.
macro_rules! passes {
    ($features:literal) => {
        /// Transforms columns: pairs of rows to the eight rows, 32 bits that mostly fit into 16. Values of rows 0 and 4
        /// are at most [`FITTING_MAX`](super::islow::FITTING_MAX), or the caller rejects the result.
        #[inline]
        #[target_feature(enable = $features)]
        fn columns(pairs: [Pairs; 4]) -> [Vector; 8] {
            let round = set_32(1 << 10);
            let sum = add_product(round, pairs[0], weights(1 << 13, 1 << 13));
            let difference = add_product(round, pairs[0], weights(1 << 13, -1 << 13));
            complete_pass::<11>(sum, difference, pairs)
        }

        /// Transforms rows: pairs of columns to the eight columns, 32 bits that mostly fit into 8.
        #[inline]
        #[target_feature(enable = $features)]
        fn rows(pairs: [Pairs; 4]) -> [Vector; 8] {
            let round = set_32(1 << 17);
            // Modulo 2^16, as in libjpeg-turbo, in the upper halves; the lower halves are not used.
            let first = shift_left_32::<16>(pairs[0]);
            let upper = weights(0, 1 << 13);
            let sum = add_product(round, add_16(first, pairs[0]), upper);
            let difference = add_product(round, subtract_16(first, pairs[0]), upper);
            complete_pass::<18>(sum, difference, pairs)
        }

        /// Completes a pass: `sum` and `difference` are the sum and difference of the 0th and 4th inputs with 13 bits
        /// of fraction, plus half of the bits that the last shift drops.
        #[inline]
        #[target_feature(enable = $features)]
        fn complete_pass<const SHIFT: u32>(sum: Vector, difference: Vector, pairs: [Pairs; 4]) -> [Vector; 8] {
            use super::constants::*;
            let [_, in_26, in_71, in_35] = pairs;
            let [even_0, even_3] = plus_minus(sum, in_26, F_0_541 + F_0_765, F_0_541);
            let [even_1, even_2] = plus_minus(difference, in_26, F_0_541, F_0_541 - F_1_847);
            let z = add_16(in_71, in_35);
            let z3 = multiply_pairs(z, weights(F_1_175 - F_1_961, F_1_175));
            let z4 = multiply_pairs(z, weights(F_1_175, F_1_175 - F_0_390));
            let odd_0 = add_product(z4, in_71, weights(-F_0_899, F_1_501 - F_0_899));
            let odd_1 = add_product(z3, in_35, weights(F_3_072 - F_2_562, -F_2_562));
            let odd_2 = add_product(z4, in_35, weights(-F_2_562, F_2_053 - F_2_562));
            let odd_3 = add_product(z3, in_71, weights(F_0_298 - F_0_899, -F_0_899));
            let sums = [
                add_32(even_0, odd_0),
                add_32(even_1, odd_1),
                add_32(even_2, odd_2),
                add_32(even_3, odd_3),
                subtract_32(even_3, odd_3),
                subtract_32(even_2, odd_2),
                subtract_32(even_1, odd_1),
                subtract_32(even_0, odd_0),
            ];
            super::layout::map_inline(sums, |sum| shift_right_32::<SHIFT>(sum))
        }
    };
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use passes;
