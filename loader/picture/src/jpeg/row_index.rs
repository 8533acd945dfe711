//! Row index of a picture: for each row of MCUs its start in the file and its DC predictors, so that decoding can start
//! at any row. It is stored next to the picture, which is unchanged.
//!
//! ```text
//! u32 LE   check: the low half of XXH3-64 of the bytes after it; the low half of its seed is the CRC-32 of the whole
//!          file, the high half the file's length modulo 2^32
//! for each row of MCUs but the first, relative to the row before (the first starts at 0 with predictors 0):
//!   varint   bits of the file to the row's first one; of a byte and the stuffing after it only the byte is named
//!   varint   for each component of the scan: its DC predictor, zigzag
//! ```
//!
//! A varint holds seven bits a byte, the lowest first, and 80 in all bytes but its last; zigzag stores 0, -1, 1, -2 as
//! 0, 1, 2, 3. If a row starts with a restart interval, its first bit is the one after the marker, and its predictors
//! are 0. The number of MCUs that remain in the interval follows from the row's number.
//!
//! Only flawless pictures with all components in one sequential scan have an index. The check detects a damaged index,
//! and the index of a different file. This is necessary because decoding with an index reads no row to its end and
//! could not notice. The seed is a CRC because that is fast on every machine: [`crc32fast`] detects the machine's
//! instructions at run time. The check does not detect an index that was forged on purpose; its author could have
//! changed the picture as well. But no value of an index is assumed to be in bounds, and no row is read beyond the
//! start of the next.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::fallback::Fallback;
use super::markers::Scan;
use super::unstuff::BitPosition;

/// Start of a row of MCUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RowStart {
    pub position: BitPosition,
    /// By the scan's components; 0 for components that it lacks.
    pub predictors: [i16; 3],
}

/// Writer of an index, row by row.
pub(super) struct RowIndexWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Offset of the check.
    start: usize,
    seed: u64,
    cursor: Cursor,
}

impl<'a> RowIndexWriter<'a> {
    /// Returns a writer that appends the index of the picture `file`, with the only scan `scan`, to `out`.
    pub(super) fn new(file: &[u8], scan: &Scan, out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend([0; 4]);
        Self { out, start, seed: seed(file), cursor: Cursor::new(scan) }
    }

    pub(super) fn push(&mut self, row: RowStart) -> Result<(), Fallback> {
        let Cursor { data, components, bits, row: last } = &mut self.cursor;
        let at = (row.position.byte - *data) as u64 * 8 + u64::from(row.position.bit);
        let step = at.checked_sub(*bits).ok_or(Fallback("rows out of order"))?;
        write_varint(step, self.out);
        for (predictor, last) in row.predictors.iter().zip(&last.predictors).take(*components) {
            let step = predictor.wrapping_sub(*last);
            write_varint(((step << 1) ^ (step >> 15)) as u16 as u64, self.out);
        }
        *bits = at;
        *last = row;
        Ok(())
    }

    /// Writes the check, after all rows.
    pub(super) fn finish(self) {
        let rows = &mut self.out[self.start..];
        let check = check(&rows[4..], self.seed);
        rows[..4].copy_from_slice(&check.to_le_bytes());
    }
}

/// Reader of a stored index.
pub(super) struct RowIndexReader<'a> {
    rest: &'a [u8],
    cursor: Cursor,
}

impl<'a> RowIndexReader<'a> {
    /// Returns a reader of the index `stored` of the picture `file`.
    pub(super) fn new(stored: &'a [u8], file: &[u8], scan: &Scan) -> Result<Self, Fallback> {
        match stored.split_first_chunk() {
            Some((stored, rest)) if u32::from_le_bytes(*stored) == check(rest, seed(file)) => {
                Ok(Self { rest, cursor: Cursor::new(scan) })
            }
            _ => Err(Fallback("a row index that is damaged or of a different picture")),
        }
    }

    /// Skips `rows` rows, from the first row on, and returns the start of the next.
    pub(super) fn skip(&mut self, rows: u32) -> Result<RowStart, Fallback> {
        let Cursor { data, components, bits, row } = &mut self.cursor;
        for _ in 0..rows {
            *bits = bits.checked_add(read_varint(&mut self.rest)?).ok_or(Fallback("a row beyond any file"))?;
            for predictor in row.predictors.iter_mut().take(*components) {
                let step = read_varint(&mut self.rest)? as u16;
                *predictor = predictor.wrapping_add((step >> 1) as i16 ^ -((step & 1) as i16));
            }
        }
        let byte = usize::try_from(*bits / 8).ok().and_then(|byte| byte.checked_add(*data));
        row.position = BitPosition { byte: byte.ok_or(Fallback("a row beyond any file"))?, bit: (*bits % 8) as u32 };
        Ok(*row)
    }
}

/// Position of writing or reading: a row, and its stored position.
struct Cursor {
    /// Offset of the entropy-coded data in the file.
    data: usize,
    components: usize,
    bits: u64,
    row: RowStart,
}

impl Cursor {
    fn new(scan: &Scan) -> Self {
        let row = RowStart { position: BitPosition { byte: scan.data, bit: 0 }, predictors: [0; 3] };
        Self { data: scan.data, components: scan.components().len(), bits: 0, row }
    }
}

/// Returns the seed of an index's check, which depends on the whole file.
fn seed(file: &[u8]) -> u64 {
    (file.len() as u64) << 32 | u64::from(crc32fast::hash(file))
}

fn check(rows: &[u8], seed: u64) -> u32 {
    xxh3_64_with_seed(rows, seed) as u32
}

fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
fn read_varint(from: &mut &[u8]) -> Result<u64, Fallback> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first().ok_or(Fallback("a row index that is cut off"))?;
        *from = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Fallback("a number without an end in a row index"))
}
