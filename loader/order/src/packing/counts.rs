//! Number of packs of each window.

use std::sync::Arc;

use super::layout::{WindowLayout, WindowReader};
use super::window::WindowCount;
use crate::error::OrderError;
use crate::shape::Hasher;

/// Form of the bytes of [`PackCounts`]: a checksum of [`CHECKSUM_BYTES`] ends them.
const VERSION: u8 = 2;

/// Form of older checkpoints, without a checksum.
const VERSION_WITHOUT_CHECKSUM: u8 = 1;

/// Bytes of the checksum. Damage is not noticed in one of 4 billion cases.
const CHECKSUM_BYTES: usize = 4;

/// Most windows of a checkpoint, so that damaged bytes ask for no more memory than a plan may have.
const WINDOWS_MAX: u64 = 1 << 24;

/// Number of packs of each window of an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackCounts {
    packs: Vec<u32>,
    /// Tokens of all packs, without padding.
    tokens: u64,
}

impl PackCounts {
    /// Packs all windows, each of `threads` threads a part of them.
    ///
    /// # Errors
    /// A window with more fragments than it may have.
    pub(super) fn of(layout: &Arc<WindowLayout>, threads: usize) -> Result<Self, OrderError> {
        let windows = layout.windows();
        let threads = (threads.max(1) as u64).min(windows.max(1));
        let count = |part: u64| {
            let mut reader = WindowReader::new(layout.clone());
            let windows = windows * part / threads..windows * (part + 1) / threads;
            windows.map(|window| reader.count(window)).collect::<Result<Vec<WindowCount>, OrderError>>()
        };
        let count = &count;
        let counts = if threads == 1 {
            count(0)?
        } else {
            std::thread::scope(|scope| {
                let parts: Vec<_> = (1..threads).map(|part| scope.spawn(move || count(part))).collect();
                let mut counts = count(0);
                for part in parts {
                    let part = part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                    counts = counts.and_then(|mut counts| part.map(|part| counts.extend(part)).map(|()| counts));
                }
                counts
            })?
        };
        Ok(Self {
            packs: counts.iter().map(|count| count.packs).collect(),
            tokens: counts.iter().map(|count| count.tokens).sum(),
        })
    }

    /// By window.
    pub(super) fn packs(&self) -> &[u32] {
        &self.packs
    }

    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// False for numbers that contradict the windows of `layout`: of a different number of windows, or of packs
    /// without room for the tokens.
    pub(super) fn may_be_of(&self, layout: &WindowLayout) -> bool {
        let packs: u64 = self.packs.iter().map(|&packs| u64::from(packs)).sum();
        self.packs.len() as u64 == layout.windows()
            && packs <= self.tokens
            && self.tokens <= packs.saturating_mul(layout.config.capacity().into())
    }

    /// Some 9 bits for each window, for a checkpoint.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (least, most) = (self.packs.iter().min().copied(), self.packs.iter().max().copied());
        let (least, most) = (least.unwrap_or(0), most.unwrap_or(0));
        // Windows have about equal numbers.
        let bits = u32::BITS - (most - least).leading_zeros();
        let mut bytes = vec![VERSION];
        for number in [self.tokens, self.packs.len() as u64, least.into(), bits.into()] {
            push_number(&mut bytes, number);
        }
        let (mut waiting, mut count) = (0_u64, 0);
        for &packs in &self.packs {
            waiting |= u64::from(packs - least) << count;
            count += bits;
            while count >= 8 {
                bytes.push(waiting as u8);
                (waiting, count) = (waiting >> 8, count - 8);
            }
        }
        if count > 0 {
            bytes.push(waiting as u8);
        }
        let sum = checksum(&bytes);
        bytes.extend(sum);
        bytes
    }

    /// Reads [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// The bytes are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, OrderError> {
        Self::parse(bytes).ok_or(OrderError::PackCounts)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut rest = match bytes.split_last_chunk() {
            Some((counts, sum)) if counts.first() == Some(&VERSION) && checksum(counts) == *sum => &counts[1..],
            _ => bytes.strip_prefix(&[VERSION_WITHOUT_CHECKSUM])?,
        };
        let tokens = take_number(&mut rest)?;
        let windows = take_number(&mut rest).filter(|windows| *windows <= WINDOWS_MAX)?;
        let least = u32::try_from(take_number(&mut rest)?).ok()?;
        let bits = take_number(&mut rest).filter(|bits| *bits <= u32::BITS.into())?;
        if (windows * bits).div_ceil(8) != rest.len() as u64 {
            return None;
        }
        let (mut waiting, mut count) = (0_u64, 0);
        let mut packs = Vec::new();
        for _ in 0..windows {
            while count < bits {
                let (&byte, others) = rest.split_first()?;
                rest = others;
                waiting |= u64::from(byte) << count;
                count += 8;
            }
            let more = (waiting & ((1 << bits) - 1)) as u32;
            packs.push(least.checked_add(more)?);
            (waiting, count) = (waiting >> bits, count - bits);
        }
        Some(Self { packs, tokens })
    }
}

/// Returns the checksum of bytes: the lower half of a hash.
fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hash = Hasher::default();
    hash.bytes(bytes);
    (hash.finish() as u32).to_le_bytes()
}

/// Appends 7 bits a byte, the lowest first.
fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_survive_their_bytes() {
        for packs in
            [vec![], vec![0], vec![9; 3], vec![5, 0, u32::MAX, 7], (0..1000).map(|at| 4000 + at % 17).collect()]
        {
            let counts = PackCounts { packs, tokens: u64::MAX };
            assert_eq!(PackCounts::from_bytes(&counts.to_bytes()), Ok(counts));
        }
    }

    /// The bytes of older checkpoints.
    fn without_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.truncate(bytes.len() - CHECKSUM_BYTES);
        bytes[0] = VERSION_WITHOUT_CHECKSUM;
        bytes
    }

    #[test]
    fn counts_of_older_checkpoints_are_read() {
        let counts = PackCounts { packs: vec![3, 900, 2], tokens: 12_345 };
        let bytes = without_checksum(counts.to_bytes());
        assert_eq!(PackCounts::from_bytes(&bytes), Ok(counts));
        let older = [1, 185, 96, 3, 2, 10, 1, 8, 14, 0];
        assert_eq!(bytes, older);
    }

    #[test]
    fn each_changed_bit_is_noticed() {
        let good = PackCounts { packs: (0..300).map(|at| 4000 + at % 17).collect(), tokens: 12_345_678 }.to_bytes();
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(PackCounts::from_bytes(&bytes), Err(OrderError::PackCounts), "bit {bit}");
        }
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        let good = without_checksum(PackCounts { packs: vec![3, 900, 2], tokens: 12_345 }.to_bytes());
        for len in 0..good.len() {
            assert_eq!(PackCounts::from_bytes(&good[..len]), Err(OrderError::PackCounts), "{len}");
        }
        let mut long = good.clone();
        long.push(0);
        let version = [&[9], &good[1..]].concat();
        const VERSION: u8 = VERSION_WITHOUT_CHECKSUM;
        let endless = [&[VERSION][..], &[0xff; 12]].concat();
        let huge = [&[VERSION, 0][..], &[0xff; 9], &[1]].concat();
        let wide = vec![VERSION, 0, 1, 0, 33, 0, 0, 0, 0, 0];
        let beyond = vec![VERSION, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 1];
        // As many windows as one likes take no bytes if all have the same number of packs.
        let many = vec![VERSION, 0, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0];
        for bytes in [long, version, endless, huge, wide, beyond, many] {
            assert_eq!(PackCounts::from_bytes(&bytes), Err(OrderError::PackCounts));
        }
    }
}
