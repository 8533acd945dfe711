//! Colour conversion on vectors of any width. As with [`islow`](super::islow), the module that uses this macro names
//! its instructions, and has `widen` and `narrow` for bytes.

/// Defines `ycbcr` for vectors of `$values` 16-bit values, over the module's `write_pixels`.
macro_rules! ycbcr {
    ($features:literal, $values:literal) => {
        #[target_feature(enable = $features)]
        pub(super) fn ycbcr([y, cb, cr]: [&[u8]; 3], out: &mut [u8]) {
            let word = |v: i32| set_16(v as i16);
            // value * factor / 2^16, rounded.
            let scale = |value: Vector, factor: i32| {
                let twice = multiply_high_16(add_16(value, value), word(factor));
                shift_right_16::<1>(add_16(twice, word(1)))
            };
            write_pixels(out, |i| {
                let y = widen(y, $values * i);
                let [cb, cr] = [cb, cr].map(|row| subtract_16(widen(row, $values * i), word(128)));
                // 1.402 is 65536 + 26345, 1.772 is 131072 - 14942, -0.71414 is -65536 + 18734.
                let r = add_16(add_16(y, cr), scale(cr, 26_345));
                let b = add_16(add_16(y, add_16(cb, cb)), scale(cb, -14_942));
                let weights = set_32(18_734 << 16 | -22_554 & 0xffff);
                let half = set_32(1 << 15);
                let [low, high] = [unpack_low_16(cb, cr), unpack_high_16(cb, cr)]
                    .map(|pairs| shift_right_32::<16>(add_32(multiply_pairs(pairs, weights), half)));
                let g = add_16(subtract_16(y, cr), pack_32(low, high));
                [r, g, b].map(|v| narrow(v))
            });
        }
    };
}

pub(super) use ycbcr;
