//! Colour conversion on vectors of any width. As with [`islow`](super::islow), the module that uses this macro names
//! its instructions, and has `widen`, `narrow` and `write_pixels` for pixels of three bytes.
//!
//! `multiply_round_16` computes value * factor / 2^15, rounded. From doubled colour differences, of which there are
//! 256, it gives exactly libjpeg's rounded products with 1.402 and 1.772, also with these factors of 15 bits.

/// Defines `ycbcr` for vectors of `$values` 16-bit values, and `ycbcr_planes`.
macro_rules! ycbcr {
    ($features:literal, $values:literal) => {
        /// Returns red, green and blue from luma and from doubled colour differences.
        #[inline]
        #[target_feature(enable = $features)]
        fn rgb(y: Vector, cb: Vector, cr: Vector) -> [Vector; 3] {
            let product = |value, factor: i16| multiply_round_16(value, set_16(factor));
            // Half of -0.34414 and of -0.71414, in 2^-16.
            let (weights, half) = (set_32(-23_401 << 16 | -11_277 & 0xffff), set_32(1 << 15));
            let [low, high] = [unpack_low_16(cb, cr), unpack_high_16(cb, cr)]
                .map(|pairs| shift_right_32::<16>(add_product(half, pairs, weights)));
            [add_16(y, product(cr, 22_971)), add_16(y, pack_32(low, high)), add_16(y, product(cb, 29_033))]
        }

        /// Returns doubled differences from bytes as 16-bit values.
        #[inline]
        #[target_feature(enable = $features)]
        fn doubled(bytes: Vector) -> Vector {
            subtract_16(add_16(bytes, bytes), set_16(256))
        }

        #[target_feature(enable = $features)]
        pub(super) fn ycbcr([y, cb, cr]: [&[u8]; 3], out: &mut [u8]) {
            write_pixels(out, |i| {
                let [y, cb, cr] = [y, cb, cr].map(|row| widen(row, $values * i));
                rgb(y, doubled(cb), doubled(cr)).map(|v| narrow(v))
            });
        }

        #[target_feature(enable = $features)]
        pub(super) fn ycbcr_planes(rows: [&[u8]; 3], [r, g, b]: [&mut [u8]; 3]) {
            const BYTES: usize = 2 * $values;
            let [y, cb, cr] = rows.map(|row| row.as_chunks::<BYTES>().0);
            let rows = y.iter().zip(cb).zip(cr);
            let [r, g, b] = [r, g, b].map(|plane| plane.as_chunks_mut::<BYTES>().0);
            for (((y, cb), cr), ((r, g), b)) in rows.zip(r.iter_mut().zip(g).zip(b)) {
                let [y, cb, cr] = [y, cb, cr].map(|bytes| load_8(bytes));
                let zero = set_16(0);
                // In each 128 bits, the lower and the upper bytes, which are packed again in the same way.
                let low = [unpack_low_8(y, zero), unpack_low_8(cb, zero), unpack_low_8(cr, zero)];
                let high = [unpack_high_8(y, zero), unpack_high_8(cb, zero), unpack_high_8(cr, zero)];
                let [low, high] = [low, high].map(|[y, cb, cr]| rgb(y, doubled(cb), doubled(cr)));
                for ((out, low), high) in [r, g, b].into_iter().zip(low).zip(high) {
                    store_8(out, pack_16(low, high));
                }
            }
        }
    };
}

pub(super) use ycbcr;
