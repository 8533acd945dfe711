//! Orders of a block's 64 coefficients and their quantisation steps.
//!
//! Files have them in zigzag order. The inverse transform takes them by pairs of rows: one step adds the 0th and
//! 4th of eight inputs, the 2nd and 6th, the 7th and 1st, the 3rd and 5th, each times some weight, and
//! there is a vector instruction for that if both are side by side. The columns of a pair of rows have the same order,
//! because they are added next:
//!
//! ```text
//! row, column   00 40 04 44 02 42 06 46   07 47 01 41 03 43 05 45
//!               20 60 24 64 22 62 26 66   27 67 21 61 23 63 25 65
//!               70 10 74 14 72 12 76 16   77 17 71 11 73 13 75 15
//!               30 50 34 54 32 52 36 56   37 57 31 51 33 53 35 55
//! ```

use crate::kernel::table;

/// Coefficients of a block.
pub(super) const BLOCK: usize = 64;

/// Position of each row, or column, among the pairs that are added first.
const NUMBERS: [u8; 8] = [0, 5, 2, 6, 1, 7, 3, 4];

/// Index in pair order of each coefficient in zigzag order. Entries from 64 on map to themselves.
pub(super) const POSITIONS: [u8; 2 * BLOCK] = table!(2 * BLOCK, |i| {
    if i < BLOCK {
        let (row, column) = (NUMBERS[ROWS[i] as usize / 8], NUMBERS[ROWS[i] as usize % 8]);
        row / 2 * 16 + column * 2 + row % 2
    } else {
        i as u8
    }
});

/// Row-major index of each coefficient in zigzag order.
pub(super) const ROWS: [u8; BLOCK] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21,
    28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,
    47, 55, 62, 63,
];
