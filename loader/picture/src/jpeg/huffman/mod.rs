//! Huffman tables, in the form that the entropy decoder uses.
//!
//! A lookup takes the next [`WINDOW`] bits. It decodes a symbol if code and sign bit are inside the window: the
//! remaining bits of the value are added to it unchanged, so an entry holds an *addend* with
//!
//! ```text
//! value = (the bits of code and value, as a number) + addend        modulo 2^16
//! ```
//!
//! that removes the code and extends the sign at once. If a second symbol fits into the window, the entry decodes both.
//! Longer codes and invalid bits are decoded one symbol at a time by [`Code`].
//!
//! Building a table takes some microseconds, and most files have the standard tables: [`TableCache`] keeps them by
//! content.
//!
//! [`AcTable`] is for sequential scans. [`BandTable`] is for AC scans of progressive pictures, which bring their own
//! tables: like [`DcTable`], it decodes one symbol per lookup, so that it is quick to build.

mod ac;
mod symbol;

use std::ops::Range;

use super::fallback::Fallback;
use super::markers::HuffmanSegment;

pub(super) use ac::{AcTable, PairEntry};
pub(super) use symbol::{BandTable, DcTable};

/// Bits of a lookup. One more would hardly decode more symbols, and the tables would no longer fit into the first-level
/// cache.
pub(super) const WINDOW: u32 = 11;

/// Advance of an entry that ends a block: larger than every sum of position and advances. In an AC scan of a
/// progressive picture, the symbol's upper bits are added to it, which give a number of blocks.
pub(super) const END: u32 = 128;

/// Advance of an entry with a lookup that decodes nothing.
pub(super) const UNDECIDED: u32 = 192;

const ENTRIES: usize = 1 << WINDOW;

/// Tables of a class that are kept. A scan uses at most three, so no table that it found is replaced while it looks for
/// the next.
const TABLES_MAX: usize = 8;

/// Canonical code, decoded one symbol at a time.
#[derive(Debug)]
pub(super) struct Code {
    /// One more than the largest code of each length, as the upper bits of 16; 0 if there is none.
    ends: [u32; 17],
    /// For each length, the difference between a symbol's position and its code.
    positions: [i32; 17],
    symbols: [u8; 256],
}

impl Default for Code {
    fn default() -> Self {
        Self { ends: [0; 17], positions: [0; 17], symbols: [0; 256] }
    }
}

impl Code {
    fn build(segment: HuffmanSegment<'_>) -> Result<Self, Fallback> {
        let mut this = Self::default();
        this.symbols[..segment.values.len()].copy_from_slice(segment.values);
        let (mut code, mut position) = (0_u32, 0_i32);
        for (length, count) in (1..).zip(segment.counts) {
            this.positions[length] = position - code as i32;
            code += u32::from(*count);
            position += i32::from(*count);
            // No code is all ones, so the one after the last must still fit.
            if *count > 0 && code >= 1 << length {
                return Err(Fallback("a Huffman table with more codes than fit"));
            }
            this.ends[length] = if *count > 0 { code << (16 - length) } else { 0 };
            code <<= 1;
        }
        Ok(this)
    }

    /// Returns the symbol at the start of the 16 bits `next`, and the length of its code.
    pub(super) fn symbol(&self, next: u32) -> Option<(u8, u32)> {
        let length = (1..=16).find(|length| next < self.ends[*length])?;
        let position = (next >> (16 - length)) as i32 + self.positions[length];
        // There are as many symbols as codes.
        Some((self.symbols[position as usize & 255], length as u32))
    }
}

/// Calls `fill` with each symbol with a code that fits into lookups of `window` bits: the lookups that start with the
/// code, the symbol, and the code's length. Codes count up, so their lookups are adjacent. Returns the end of the
/// last.
fn each_code(segment: HuffmanSegment<'_>, window: u32, mut fill: impl FnMut(Range<usize>, u8, u32)) -> usize {
    let mut symbols = segment.values.iter();
    let mut start = 0;
    for (length, count) in (1..=window).zip(segment.counts) {
        for symbol in symbols.by_ref().take(usize::from(*count)) {
            let end = start + (1 << (window - length));
            fill(start..end, *symbol, length);
            start = end;
        }
    }
    start
}

/// Returns the addend that removes the known bits `prefix` before the `size` bits of a value, and extends its sign.
fn addend(prefix: u32, size: u32, is_negative: bool) -> i16 {
    let stripped = 0_u32.wrapping_sub(prefix << size);
    (if is_negative { stripped.wrapping_sub((1 << size) - 1) } else { stripped }) as i16
}

/// Table that can be built from a segment.
pub(super) trait Table: Default {
    /// Rebuilds this as the table of `segment`. On an error it is unchanged.
    fn build(&mut self, segment: HuffmanSegment<'_>) -> Result<(), Fallback>;
}

/// Tables by their content; the one unused for longest is replaced.
#[derive(Debug, Default)]
pub(super) struct TableCache<T> {
    kept: Vec<CachedTable<T>>,
    /// Number of uses so far.
    clock: u64,
}

#[derive(Debug)]
struct CachedTable<T> {
    counts: [u8; 16],
    values: Vec<u8>,
    last_use: u64,
    table: T,
}

impl<T: Table> TableCache<T> {
    /// Returns the number of the table of `segment`, for [`get`](Self::get). It is valid until [`TABLES_MAX`] further
    /// tables were requested.
    pub(super) fn find(&mut self, segment: HuffmanSegment<'_>) -> Result<usize, Fallback> {
        self.clock += 1;
        let position = self.kept.iter().position(|k| k.counts == *segment.counts && k.values == segment.values);
        if let Some(position) = position {
            self.kept[position].last_use = self.clock;
            return Ok(position);
        }
        if self.kept.len() < TABLES_MAX {
            // A table that is replaced at once: no segment has such counts. There is room for the values of any.
            let (counts, values) = ([u8::MAX; 16], Vec::with_capacity(256));
            self.kept.push(CachedTable { counts, values, last_use: 0, table: T::default() });
        }
        // Within the table, so that the numbers of the rest stay valid.
        let oldest = (0..self.kept.len()).min_by_key(|i| self.kept[*i].last_use).unwrap_or(0);
        let CachedTable { counts, values, last_use, table } = &mut self.kept[oldest];
        table.build(segment)?;
        (*counts, *last_use) = (*segment.counts, self.clock);
        values.clear();
        values.extend_from_slice(segment.values);
        Ok(oldest)
    }

    pub(super) fn get(&self, number: usize) -> &T {
        &self.kept[number].table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts of a table with `count` codes of 8 bits.
    fn counts(count: u8) -> [u8; 16] {
        std::array::from_fn(|i| if i == 7 { count } else { 0 })
    }

    #[test]
    fn a_table_in_use_keeps_its_number_while_older_ones_are_replaced() {
        let mut tables = TableCache::<DcTable>::default();
        let values: Vec<u8> = (0..16).collect();
        for count in 1..16 {
            let (first, second) = (counts(count), counts(count + 1));
            let first = HuffmanSegment { counts: &first, values: &values[..usize::from(count)] };
            let second = HuffmanSegment { counts: &second, values: &values[..usize::from(count) + 1] };
            let number = tables.find(first).unwrap();
            tables.find(second).unwrap();
            let last = tables.get(number).code.symbol(u32::from(count - 1) << 8);
            assert_eq!(last, Some((count - 1, 8)));
            assert_eq!(tables.get(number).code.symbol(u32::from(count) << 8), None);
            assert_eq!(tables.find(first).unwrap(), number);
        }
        assert_eq!(tables.kept.len(), TABLES_MAX);
    }

    #[test]
    fn a_table_that_cannot_be_built_leaves_the_kept_ones_alone() {
        let mut tables = TableCache::<DcTable>::default();
        let values: Vec<u8> = (0..16).collect();
        let mut good = Vec::new();
        for count in 1..=TABLES_MAX as u8 {
            let counts = counts(count);
            good.push(tables.find(HuffmanSegment { counts: &counts, values: &values[..usize::from(count)] }).unwrap());
        }
        // Two codes of one bit: one of them would be all ones.
        let full = std::array::from_fn(|i| if i == 0 { 2 } else { 0 });
        assert!(tables.find(HuffmanSegment { counts: &full, values: &[0, 1] }).is_err());
        assert!(tables.find(HuffmanSegment { counts: &counts(1), values: &[16] }).is_err());
        for (count, number) in (1..).zip(good) {
            assert_eq!(tables.get(number).code.symbol(u32::from(count - 1_u8) << 8), Some((count - 1, 8)));
        }
    }
}
