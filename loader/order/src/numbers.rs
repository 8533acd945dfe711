//! Lists of numbers that take 4 bytes each if that suffices, else 8.

use std::ops::Range;

use super::error::OrderError;
use super::rng::Generator;

/// Numbers up to this (exclusive) take 4 bytes.
const NARROW_END: u64 = 1 << 32;

/// List of numbers.
#[derive(Debug)]
pub(super) enum Numbers {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl Default for Numbers {
    fn default() -> Self {
        Self::Narrow(Vec::new())
    }
}

/// Evaluates an expression with the list of either width.
macro_rules! with_list {
    ($numbers:expr, $list:ident => $result:expr) => {
        match $numbers {
            Numbers::Narrow($list) => $result,
            Numbers::Wide($list) => $result,
        }
    };
}

impl Numbers {
    /// `permutation(len)`.
    pub(super) fn permutation(seed: u128, len: u64) -> Result<Self, OrderError> {
        let mut numbers = if len <= NARROW_END { Self::Narrow(reserve(len)?) } else { Self::Wide(reserve(len)?) };
        numbers.extend(0..len);
        numbers.shuffle(&mut Generator::new(seed), 0..len as usize);
        Ok(numbers)
    }

    #[inline]
    pub(super) fn get(&self, at: u64) -> Option<u64> {
        let at = usize::try_from(at).ok()?;
        match self {
            Self::Narrow(list) => list.get(at).map(|&number| u64::from(number)),
            Self::Wide(list) => list.get(at).copied(),
        }
    }

    /// Empties the list for numbers below `end`.
    pub(super) fn reset(&mut self, end: u64) {
        match (&mut *self, end <= NARROW_END) {
            (Self::Narrow(list), true) => list.clear(),
            (Self::Wide(list), false) => list.clear(),
            (Self::Narrow(_), false) => *self = Self::Wide(Vec::new()),
            (Self::Wide(_), true) => *self = Self::default(),
        }
    }

    pub(super) fn extend(&mut self, numbers: Range<u64>) {
        match self {
            Self::Narrow(list) => list.extend(numbers.map(|number| number as u32)),
            Self::Wide(list) => list.extend(numbers),
        }
    }

    pub(super) fn push(&mut self, number: u64) {
        with_list!(self, list => list.push(number as _));
    }

    pub(super) fn shuffle(&mut self, generator: &mut Generator, range: Range<usize>) {
        with_list!(self, list => generator.shuffle(&mut list[range]));
    }

    /// Keeps only the numbers in `range`.
    pub(super) fn cut(&mut self, range: Range<usize>) {
        with_list!(self, list => {
            list.truncate(range.end);
            list.drain(..range.start);
        });
    }
}

/// An empty list with room for `len` items.
pub(super) fn reserve<T>(len: u64) -> Result<Vec<T>, OrderError> {
    let out_of_memory = || OrderError::OutOfMemory { bytes: len.saturating_mul(size_of::<T>() as u64) };
    let mut items = Vec::new();
    let len = usize::try_from(len).map_err(|_| out_of_memory())?;
    items.try_reserve_exact(len).map_err(|_| out_of_memory())?;
    Ok(items)
}
