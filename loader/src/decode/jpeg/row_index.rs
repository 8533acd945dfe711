//! The row index of a picture: where each row of MCUs starts in the file, and with which DC predictors, so that decoding
//! can start at any of them. It lies beside the picture, which stays as it is.
//!
//! ```text
//! u32 LE   check: the low half of XXH3-64 of what follows here; the low half of its seed is the CRC-32 of the whole
//!          file, the high half the file's length modulo 2^32
//! for each row of MCUs but the first, relative to the row before (the first starts at 0 with predictors 0):
//!   varint   bits of the file to the row's first one; of a byte and the stuffing behind it only the byte is named
//!   varint   for each component of the scan: its DC predictor, zigzag
//! ```
//!
//! A varint holds seven bits a byte, the lowest first, and 80 in all bytes but its last; zigzag stores 0, -1, 1, -2 as 0,
//! 1, 2, 3. Where a row starts with a restart interval, its first bit is the one behind the marker, its predictors are 0;
//! how many MCUs the interval has left follows from the row's number.
//!
//! There is an index for flawless pictures with all components in one sequential scan. The check tells a damaged index,
//! and one of any other file: whoever decodes by an index reads no row to its end, and could not tell otherwise. It is a
//! CRC because that is quick on every machine: [`crc32fast`] finds out what the machine can do when it runs. What the check
//! cannot tell is an index made to deceive: that one could have brought another picture as well. But nothing in an index
//! is trusted to be in bounds, and no row is read beyond the start of the next.

#![forbid(unsafe_code)]

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::fallback::Fallback;
use super::markers::Scan;
use super::unstuff::BitPlace;

/// Where a row of MCUs starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RowStart {
    pub place: BitPlace,
    /// By the scan's components; 0 for those that it has not.
    pub predictors: [i16; 3],
}

/// Writes an index, row by row.
pub(super) struct RowIndexWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Where the check goes.
    start: usize,
    seed: u64,
    cursor: Cursor,
}

impl<'a> RowIndexWriter<'a> {
    /// Appends to `out` the index of the picture `file`, whose only scan is `scan`.
    pub(super) fn new(file: &[u8], scan: &Scan, out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend([0; 4]);
        Self { out, start, seed: seed(file), cursor: Cursor::new(scan) }
    }

    /// Adds the next row.
    pub(super) fn push(&mut self, row: RowStart) -> Result<(), Fallback> {
        let Cursor { data, components, bits, row: last } = &mut self.cursor;
        let at = (row.place.byte - *data) as u64 * 8 + u64::from(row.place.bit);
        let step = at.checked_sub(*bits).ok_or(Fallback("rows out of order"))?;
        put(step, self.out);
        for (predictor, last) in row.predictors.iter().zip(&last.predictors).take(*components) {
            let step = predictor.wrapping_sub(*last);
            put(((step << 1) ^ (step >> 15)) as u16 as u64, self.out);
        }
        *bits = at;
        *last = row;
        Ok(())
    }

    /// All rows were added.
    pub(super) fn finish(self) {
        let rows = &mut self.out[self.start..];
        let check = check(&rows[4..], self.seed);
        rows[..4].copy_from_slice(&check.to_le_bytes());
    }
}

/// An index as it is stored.
pub(super) struct RowIndexReader<'a> {
    rest: &'a [u8],
    cursor: Cursor,
}

impl<'a> RowIndexReader<'a> {
    /// The index `stored` of the picture `file`.
    pub(super) fn new(stored: &'a [u8], file: &[u8], scan: &Scan) -> Result<Self, Fallback> {
        match stored.split_first_chunk() {
            Some((stored, rest)) if u32::from_le_bytes(*stored) == check(rest, seed(file)) => {
                Ok(Self { rest, cursor: Cursor::new(scan) })
            }
            _ => Err(Fallback("a row index that is damaged or another picture's")),
        }
    }

    /// The start of the row `rows` further on; at first that is from the first row.
    pub(super) fn skip(&mut self, rows: u32) -> Result<RowStart, Fallback> {
        let Cursor { data, components, bits, row } = &mut self.cursor;
        for _ in 0..rows {
            *bits = bits.checked_add(take(&mut self.rest)?).ok_or(Fallback("a row beyond any file"))?;
            for predictor in row.predictors.iter_mut().take(*components) {
                let step = take(&mut self.rest)? as u16;
                *predictor = predictor.wrapping_add((step >> 1) as i16 ^ -((step & 1) as i16));
            }
        }
        let byte = usize::try_from(*bits / 8).ok().and_then(|byte| byte.checked_add(*data));
        row.place = BitPlace { byte: byte.ok_or(Fallback("a row beyond any file"))?, bit: (*bits % 8) as u32 };
        Ok(*row)
    }
}

/// Where writing or reading stands: the row, and its place as it is stored.
struct Cursor {
    /// Where the entropy-coded data starts in the file.
    data: usize,
    components: usize,
    bits: u64,
    row: RowStart,
}

impl Cursor {
    /// At the first row.
    fn new(scan: &Scan) -> Self {
        let row = RowStart { place: BitPlace { byte: scan.data, bit: 0 }, predictors: [0; 3] };
        Self { data: scan.data, components: scan.components().len(), bits: 0, row }
    }
}

/// What an index's check knows of the file.
fn seed(file: &[u8]) -> u64 {
    (file.len() as u64) << 32 | u64::from(crc32fast::hash(file))
}

fn check(rows: &[u8], seed: u64) -> u32 {
    xxh3_64_with_seed(rows, seed) as u32
}

fn put(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
fn take(from: &mut &[u8]) -> Result<u64, Fallback> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first().ok_or(Fallback("a row index that is cut off"))?;
        *from = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Fallback("a number in a row index without an end"))
}
