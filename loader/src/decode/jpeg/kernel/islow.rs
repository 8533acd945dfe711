//! The inverse transform on vectors, several blocks side by side: libjpeg's accurate integer one ("islow").
//!
//! Inputs lie in pairs, see [`order`](super::super::order): values that are added up, each times a weight. Where vectors have
//! an instruction for that, the first of two is in the lower half of 32 bits, and `Pairs` is a `Vector`. All pairs are treated
//! alike; of which block, row and column one is, is up to the module that takes this text in and names its instructions. It
//! also has `weights`, a weight for the first and one for the second of all pairs, and `plus_minus`, a sum plus, and minus,
//! both of a pair times a weight.

/// Where values are not all between this and its negative less 1, sums of two no longer fit: on x86 dequantised ones of a block's
/// rows 0 and 4, which then takes the way that says what happens to them; on ARM any of either pass, see [`fits`]. A power of two
/// less 1.
pub(super) const FITTING_MAX: i16 = 8191;

/// Whether libjpeg-turbo makes something of coefficients that no encoder writes which we do not: its vectors for ARM drop bits
/// where those for x86 saturate, as all kernels do here.
const IS_LIMITED: bool = cfg!(target_arch = "aarch64");

/// Whether libjpeg-turbo makes the same of these values, dequantised coefficients or what is between the passes. Of a picture
/// they are below 4,096 and what quantisation added.
pub(super) fn fits(value: i32) -> bool {
    let max = i32::from(FITTING_MAX);
    !IS_LIMITED || (-max - 1..=max).contains(&value)
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
/// Defines `columns` and `rows`, the two passes.
macro_rules! passes {
    ($features:literal) => {
        /// Down the columns: pairs of rows to the eight rows, 32 bits that mostly fit into 16. Values of rows 0 and 4 are
        /// not beyond [`FITTING_MAX`](super::islow::FITTING_MAX), or the caller declines what comes of them.
        #[inline]
        #[target_feature(enable = $features)]
        fn columns(pairs: [Pairs; 4]) -> [Vector; 8] {
            let round = set_32(1 << 10);
            let sum = add_product(round, pairs[0], weights(1 << 13, 1 << 13));
            let difference = add_product(round, pairs[0], weights(1 << 13, -1 << 13));
            rest_of_pass::<11>(sum, difference, pairs)
        }

        /// Along the rows: pairs of columns to the eight columns, 32 bits that mostly fit into 8.
        #[inline]
        #[target_feature(enable = $features)]
        fn rows(pairs: [Pairs; 4]) -> [Vector; 8] {
            let round = set_32(1 << 17);
            // Modulo 2^16, as in libjpeg-turbo, in the upper halves; the lower halves are not looked at.
            let first = shift_left_32::<16>(pairs[0]);
            let upper = weights(0, 1 << 13);
            let sum = add_product(round, add_16(first, pairs[0]), upper);
            let difference = add_product(round, subtract_16(first, pairs[0]), upper);
            rest_of_pass::<18>(sum, difference, pairs)
        }

        /// The rest of a pass: `sum` and `difference` are those of the 0th and 4th with 13 bits of fraction, and half of
        /// what the last shift drops.
        #[inline]
        #[target_feature(enable = $features)]
        fn rest_of_pass<const SHIFT: u32>(sum: Vector, difference: Vector, pairs: [Pairs; 4]) -> [Vector; 8] {
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
            super::layout::each(sums, |sum| shift_right_32::<SHIFT>(sum))
        }
    };
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use passes;
