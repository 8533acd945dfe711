//! The inverse transform on vectors, several blocks side by side: libjpeg's accurate integer one ("islow").
//!
//! A vector holds one row of eight 16-bit values per 128-bit lane, and a block per lane. All steps stay within lanes, so
//! one text serves vectors of any width; the module that takes it in names its instructions.

/// Constants of the transform, 13 bits of fraction.
pub(super) mod fix {
    pub(in super::super) const F_0_298: i32 = 2446;
    pub(in super::super) const F_0_390: i32 = 3196;
    pub(in super::super) const F_0_541: i32 = 4433;
    pub(in super::super) const F_0_765: i32 = 6270;
    pub(in super::super) const F_0_899: i32 = 7373;
    pub(in super::super) const F_1_175: i32 = 9633;
    pub(in super::super) const F_1_501: i32 = 12299;
    pub(in super::super) const F_1_847: i32 = 15137;
    pub(in super::super) const F_1_961: i32 = 16069;
    pub(in super::super) const F_2_053: i32 = 16819;
    pub(in super::super) const F_2_562: i32 = 20995;
    pub(in super::super) const F_3_072: i32 = 25172;
}

#[cfg(target_arch = "x86_64")]
/// Larger values in a block's first row, dequantised, take the way that says what happens to values that do not fit.
pub(super) const FIRST_ROW_MAX: i16 = 8191;

#[cfg(target_arch = "x86_64")]
/// Defines `inverse`: eight rows of dequantised coefficients to eight rows of samples less 128.
macro_rules! inverse {
    ($features:literal) => {
        /// One pass: each lane's values are transformed down the eight vectors.
        #[inline]
        #[target_feature(enable = $features)]
        fn pass<const SHIFT: u32>(rows: [Vector; 8]) -> [Vector; 8] {
            use super::islow::fix::*;
            let [in0, in1, in2, in3, in4, in5, in6, in7] = rows;
            // a * x + b * y for the lower and the upper halves of the lanes.
            let blend = |x: Vector, y: Vector, a: i32, b: i32| {
                let weights = set_32(b << 16 | a & 0xffff);
                [multiply_pairs(unpack_low_16(x, y), weights), multiply_pairs(unpack_high_16(x, y), weights)]
            };
            let add = |a: [Vector; 2], b: [Vector; 2]| [add_32(a[0], b[0]), add_32(a[1], b[1])];
            let subtract = |a: [Vector; 2], b: [Vector; 2]| [subtract_32(a[0], b[0]), subtract_32(a[1], b[1])];
            // Shifted up by 13 bits.
            let widen = |x: Vector| {
                let zero = set_32(0);
                [shift_right_32::<3>(unpack_low_16(zero, x)), shift_right_32::<3>(unpack_high_16(zero, x))]
            };
            let even_0 = widen(add_16(in0, in4));
            let even_1 = widen(subtract_16(in0, in4));
            let even_2 = blend(in2, in6, F_0_541, F_0_541 - F_1_847);
            let even_3 = blend(in2, in6, F_0_541 + F_0_765, F_0_541);
            let (z3, z4) = (add_16(in7, in3), add_16(in5, in1));
            let z3_turned = blend(z3, z4, F_1_175 - F_1_961, F_1_175);
            let z4_turned = blend(z3, z4, F_1_175, F_1_175 - F_0_390);
            let odd_0 = add(blend(in7, in1, -F_0_899, F_1_501 - F_0_899), z4_turned);
            let odd_1 = add(blend(in5, in3, -F_2_562, F_3_072 - F_2_562), z3_turned);
            let odd_2 = add(blend(in5, in3, F_2_053 - F_2_562, -F_2_562), z4_turned);
            let odd_3 = add(blend(in7, in1, F_0_298 - F_0_899, -F_0_899), z3_turned);
            let round = set_32(1 << (SHIFT - 1));
            let descale = |x: [Vector; 2]| {
                let [low, high] = x.map(|x| shift_right_32::<SHIFT>(add_32(x, round)));
                pack_32(low, high)
            };
            let sums = [add(even_0, even_3), add(even_1, even_2), subtract(even_1, even_2), subtract(even_0, even_3)];
            [
                descale(add(sums[0], odd_0)),
                descale(add(sums[1], odd_1)),
                descale(add(sums[2], odd_2)),
                descale(add(sums[3], odd_3)),
                descale(subtract(sums[3], odd_3)),
                descale(subtract(sums[2], odd_2)),
                descale(subtract(sums[1], odd_1)),
                descale(subtract(sums[0], odd_0)),
            ]
        }

        /// Rows to columns within each lane.
        #[inline]
        #[target_feature(enable = $features)]
        fn transpose(rows: [Vector; 8]) -> [Vector; 8] {
            let [a, b, c, d, e, f, g, h] = rows;
            let (ab, cd) = ([unpack_low_16(a, b), unpack_high_16(a, b)], [unpack_low_16(c, d), unpack_high_16(c, d)]);
            let (ef, gh) = ([unpack_low_16(e, f), unpack_high_16(e, f)], [unpack_low_16(g, h), unpack_high_16(g, h)]);
            // Columns 0 1, 2 3, 4 5, 6 7 of the upper and the lower four rows.
            let upper = [
                unpack_low_32(ab[0], cd[0]),
                unpack_high_32(ab[0], cd[0]),
                unpack_low_32(ab[1], cd[1]),
                unpack_high_32(ab[1], cd[1]),
            ];
            let lower = [
                unpack_low_32(ef[0], gh[0]),
                unpack_high_32(ef[0], gh[0]),
                unpack_low_32(ef[1], gh[1]),
                unpack_high_32(ef[1], gh[1]),
            ];
            [
                unpack_low_64(upper[0], lower[0]),
                unpack_high_64(upper[0], lower[0]),
                unpack_low_64(upper[1], lower[1]),
                unpack_high_64(upper[1], lower[1]),
                unpack_low_64(upper[2], lower[2]),
                unpack_high_64(upper[2], lower[2]),
                unpack_low_64(upper[3], lower[3]),
                unpack_high_64(upper[3], lower[3]),
            ]
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn inverse(rows: [Vector; 8]) -> [Vector; 8] {
            transpose(pass::<18>(transpose(pass::<11>(rows))))
        }
    };
}

#[cfg(target_arch = "x86_64")]
pub(super) use inverse;
