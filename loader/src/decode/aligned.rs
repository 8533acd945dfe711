//! Memory that starts where a cache line does: what lies in it line by line takes one access, not two.

use std::ops::{Deref, DerefMut};

use super::pixels::fit;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Numbers in memory that is kept from one picture to the next.
#[derive(Default)]
pub(super) struct AlignedVec<T> {
    memory: Vec<T>,
    /// The first number at the start of a line.
    start: usize,
}

impl<T> AlignedVec<T> {
    /// Numbers that may lie before the first line.
    const BEFORE: usize = LINE / size_of::<T>() - 1;
}

impl<T: Copy + Default> AlignedVec<T> {
    /// Makes room for at least `len` numbers, contents unspecified.
    pub(super) fn fit(&mut self, len: usize) {
        fit(&mut self.memory, len + Self::BEFORE, T::default());
        // Where the offset cannot be told, any start will do.
        self.start = self.memory.as_ptr().align_offset(LINE).min(Self::BEFORE);
    }
}

impl<T> Deref for AlignedVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let len = self.memory.len().saturating_sub(Self::BEFORE);
        &self.memory[self.start..self.start + len]
    }
}

impl<T> DerefMut for AlignedVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let len = self.memory.len().saturating_sub(Self::BEFORE);
        &mut self.memory[self.start..self.start + len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_start_at_a_line_however_their_room_grows_and_shrinks() {
        let (mut bytes, mut words) = (AlignedVec::<u8>::default(), AlignedVec::<i16>::default());
        assert!(bytes.is_empty() && words.is_empty());
        for len in [1, 63, 64, 1000, 3, 70 << 20, 100] {
            bytes.fit(len);
            words.fit(len);
            assert!(bytes.len() >= len && words.len() >= len, "{len}");
            bytes[len - 1] = 1;
            words[len - 1] = 1;
            assert_eq!((bytes.as_ptr() as usize % LINE, words.as_ptr() as usize % LINE), (0, 0), "{len}");
        }
        assert!(bytes.len() == 100 && words.len() == 100, "what the large one left is given back");
    }
}
