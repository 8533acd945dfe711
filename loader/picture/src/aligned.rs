//! Memory aligned to cache lines. Data that is read line by line takes one access per line this way, not two.

use std::ops::{Deref, DerefMut};

use super::kept::fit;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Vector that starts at a cache line, and keeps its memory from one picture to the next.
#[derive(Default)]
pub(super) struct AlignedVec<T> {
    memory: Vec<T>,
    /// Index of the first number at the start of a line.
    start: usize,
}

impl<T> AlignedVec<T> {
    /// Upper bound of the numbers before the first line.
    const BEFORE: usize = LINE / size_of::<T>() - 1;
}

impl<T: Copy + Default> AlignedVec<T> {
    /// Makes room for at least `len` numbers, contents unspecified.
    pub(super) fn fit(&mut self, len: usize) {
        fit(&mut self.memory, len + Self::BEFORE, T::default());
        // If the offset cannot be computed, the vector is unaligned but correct.
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
    fn numbers_stay_aligned_when_the_vector_grows_and_shrinks() {
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
        assert!(bytes.len() == 100 && words.len() == 100, "the memory of the large one is released");
    }
}
