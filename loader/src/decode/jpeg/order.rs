//! Orders of a block's 64 coefficients and their quantisation steps.
//!
//! Files have them in zigzag order. The inverse transform takes them by pairs of rows: one step adds the 0th and
//! 4th of eight inputs, the 2nd and 6th, the 7th and 1st, the 3rd and 5th ([`PAIRS`]), each times some weight, and
//! there is a vector instruction for that if both are side by side. The columns of a pair of rows have the same order,
//! because they are added next:
//!
//! ```text
//! row, column   00 40 04 44 02 42 06 46   07 47 01 41 03 43 05 45
//!               20 60 24 64 22 62 26 66   27 67 21 61 23 63 25 65
//!               70 10 74 14 72 12 76 16   77 17 71 11 73 13 75 15
//!               30 50 34 54 32 52 36 56   37 57 31 51 33 53 35 55
//! ```

#![forbid(unsafe_code)]

/// Coefficients of a block.
pub(super) const BLOCK: usize = 64;

/// Rows, or columns, whose values are added first.
const PAIRS: [[u8; 2]; 4] = [[0, 4], [2, 6], [7, 1], [3, 5]];

/// Index in pair order of each coefficient in zigzag order. Entries from 64 on map to themselves.
pub(super) const PLACES: [u8; 2 * BLOCK] = {
    let mut places = [0; 2 * BLOCK];
    let mut i = 0;
    while i < 2 * BLOCK {
        places[i] = if i < BLOCK {
            let (row, column) = (number(ROWS[i] / 8), number(ROWS[i] % 8));
            row / 2 * 16 + column * 2 + row % 2
        } else {
            i as u8
        };
        i += 1;
    }
    places
};

/// Returns the index of `row` in [`PAIRS`].
const fn number(row: u8) -> u8 {
    let mut i = 0;
    while PAIRS[i / 2][i % 2] != row {
        i += 1;
    }
    i as u8
}

/// Row-major index of each coefficient in zigzag order.
pub(super) const ROWS: [u8; BLOCK] = {
    let mut rows = [0; BLOCK];
    let (mut i, mut x, mut y) = (0, 0_u8, 0_u8);
    while i < BLOCK {
        rows[i] = y * 8 + x;
        // Diagonals, upwards where x + y is even.
        let up = (x + y) % 2 == 0;
        match (up, x, y) {
            (true, 7, _) => y += 1,
            (true, _, 0) => x += 1,
            (true, _, _) => (x, y) = (x + 1, y - 1),
            (false, _, 7) => x += 1,
            (false, 0, _) => y += 1,
            (false, _, _) => (x, y) = (x - 1, y + 1),
        }
        i += 1;
    }
    rows
};
