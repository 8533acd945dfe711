//! numpy's `default_rng(seed)` stream, draw for draw: SeedSequence, PCG64 (XSL-RR), and the methods the order uses.
//!
//! numpy bounds integers in two ways, and the order depends on both: `shuffle` and `permutation` mask and retry,
//! `integers` and everything inside `choice` multiply (Lemire).
//!
//! Lazy plans are cheap because draws can be skipped: [`Generator::skip_shuffle`] follows the retries of a shuffle
//! without an array, [`Generator::skip_doubles`] jumps in logarithmic time.

const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;
const DOUBLE_UNIT: f64 = 1.0 / (1_u64 << 53) as f64;

/// PCG64 generator with numpy's half-word buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Generator {
    state: u128,
    increment: u128,
    /// The high half of the last word that was split for a 32-bit draw; it outlives 64-bit draws.
    half: Option<u32>,
}

/// A point in a generator's stream, 32 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snapshot {
    state: u128,
    half: Option<u32>,
}

impl Generator {
    /// `default_rng(seed)`.
    pub(super) fn new(seed: u128) -> Self {
        let [v0, v1, v2, v3] = seed_words(seed);
        let increment = ((u128::from(v2) << 64 | u128::from(v3)) << 1) | 1;
        let mut generator = Self { state: 0, increment, half: None };
        generator.step();
        generator.state = generator.state.wrapping_add(u128::from(v0) << 64 | u128::from(v1));
        generator.step();
        generator
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot { state: self.state, half: self.half }
    }

    pub(super) fn at(&self, snapshot: Snapshot) -> Self {
        Self { state: snapshot.state, increment: self.increment, half: snapshot.half }
    }

    #[inline]
    fn step(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    #[inline]
    fn next_u64(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    #[inline]
    fn next_u32(&mut self) -> u32 {
        match self.half.take() {
            Some(high) => high,
            None => {
                let word = self.next_u64();
                self.half = Some((word >> 32) as u32);
                word as u32
            }
        }
    }

    /// A double in [0, 1).
    #[inline]
    fn double(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * DOUBLE_UNIT
    }

    /// One element of `uniform(low, high, n)`.
    #[inline]
    pub(super) fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.double()
    }

    pub(super) fn skip_doubles(&mut self, mut count: u64) {
        let (mut multiplier, mut increment) = (MULTIPLIER, self.increment);
        let (mut all_multiplier, mut all_increment) = (1_u128, 0_u128);
        while count > 0 {
            if count & 1 == 1 {
                all_multiplier = all_multiplier.wrapping_mul(multiplier);
                all_increment = all_increment.wrapping_mul(multiplier).wrapping_add(increment);
            }
            increment = multiplier.wrapping_add(1).wrapping_mul(increment);
            multiplier = multiplier.wrapping_mul(multiplier);
            count >>= 1;
        }
        self.state = all_multiplier.wrapping_mul(self.state).wrapping_add(all_increment);
    }

    /// An integer in 0..=max by masking and retrying.
    fn masked(&mut self, max: u64) -> u64 {
        if max == 0 {
            return 0;
        }
        let mask = u64::MAX >> max.leading_zeros();
        loop {
            let value =
                if max <= u64::from(u32::MAX) { u64::from(self.next_u32()) & mask } else { self.next_u64() & mask };
            if value <= max {
                return value;
            }
        }
    }

    /// An integer in 0..=max by multiplication.
    fn lemire(&mut self, max: u64) -> u64 {
        /// The high half of a draw times the range, drawn again where that would favour some integers.
        macro_rules! bounded {
            ($next:ident, $word:ty, $product:ty) => {{
                let max = max as $word;
                let range = max + 1;
                let mut product = <$product>::from(self.$next()) * <$product>::from(range);
                if (product as $word) < range {
                    let threshold = (<$word>::MAX - max) % range;
                    while (product as $word) < threshold {
                        product = <$product>::from(self.$next()) * <$product>::from(range);
                    }
                }
                (product >> <$word>::BITS) as u64
            }};
        }
        const NARROW: u64 = u32::MAX as u64;
        match max {
            NARROW => u64::from(self.next_u32()),
            u64::MAX => self.next_u64(),
            0 => 0,
            1..NARROW => bounded!(next_u32, u32, u64),
            _ => bounded!(next_u64, u64, u128),
        }
    }

    /// `integers(low, high)`; `None` if numpy rejects the range as empty.
    pub(super) fn integer(&mut self, low: u64, high: u64) -> Option<u64> {
        (high > low).then(|| low + self.lemire(high - 1 - low))
    }

    /// `shuffle(items)`.
    ///
    /// Retries have no branch: a rejected draw swaps an item with itself. Their outcome is random, so a branch would be
    /// mispredicted every third time; and the next draw does not wait for the memory of the swap.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        let mut last = items.len().saturating_sub(1);
        while last > u32::MAX as usize {
            let other = self.masked(last as u64) as usize;
            items.swap(last, other);
            last -= 1;
        }
        let mut last = last as u32;
        while last > 0 {
            let mask = u32::MAX >> last.leading_zeros();
            while last > mask >> 1 {
                let value = self.next_u32() & mask;
                let taken = value <= last;
                items.swap(last as usize, if taken { value } else { last } as usize);
                last -= u32::from(taken);
            }
        }
    }

    /// Skips the draws of `shuffle` for `len` items; returns the point before them.
    pub(super) fn skip_shuffle(&mut self, len: u64) -> Snapshot {
        let before = self.snapshot();
        let mut last = len.saturating_sub(1);
        while last > u64::from(u32::MAX) {
            self.masked(last);
            last -= 1;
        }
        let mut last = last as u32;
        while last > 0 {
            // All draws down to `floor` share a mask.
            let mask = u32::MAX >> last.leading_zeros();
            let floor = mask >> 1;
            if let Some(high) = self.half.take() {
                last -= u32::from(high & mask <= last);
            }
            while last > floor {
                let word = self.next_u64();
                last -= u32::from(word as u32 & mask <= last);
                if last == floor {
                    self.half = Some((word >> 32) as u32);
                    break;
                }
                last -= u32::from((word >> 32) as u32 & mask <= last);
            }
        }
        before
    }

    /// `sort(choice(population, count, replace=False))`, ascending; `scratch` is memory that calls reuse. Requires
    /// `count <= population`.
    pub(super) fn choose_sorted<'a>(
        &mut self,
        population: u32,
        count: u32,
        scratch: &'a mut ChooseScratch,
    ) -> &'a [u32] {
        let ChooseScratch { numbers, taken } = scratch;
        numbers.clear();
        if count == 0 {
            return numbers;
        }
        if population > 10_000 && count > population / 50 {
            // numpy shuffles the tail of the whole range.
            numbers.extend(0..population);
            let first = (population - count).max(1);
            for i in (first..population).rev() {
                let j = self.lemire(u64::from(i)) as usize;
                numbers.swap(i as usize, j);
            }
            let chosen = &mut numbers[(population - count) as usize..];
            chosen.sort_unstable();
            return chosen;
        }
        // numpy picks by Floyd's method and then shuffles the picks. Sorting makes that shuffle irrelevant except for
        // its draws.
        taken.clear();
        taken.resize((population as usize).div_ceil(64), 0);
        for j in population - count..population {
            let value = self.lemire(u64::from(j)) as u32;
            let seen = taken[value as usize / 64] >> (value % 64) & 1 == 1;
            let pick = if seen { j } else { value };
            taken[pick as usize / 64] |= 1 << (pick % 64);
        }
        for i in (1..count).rev() {
            self.lemire(u64::from(i));
        }
        for (at, &word) in taken.iter().enumerate() {
            let mut word = word;
            while word != 0 {
                numbers.push(at as u32 * 64 + word.trailing_zeros());
                word &= word - 1;
            }
        }
        numbers
    }
}

/// Memory that calls of [`Generator::choose_sorted`] reuse.
#[derive(Default)]
pub(super) struct ChooseScratch {
    numbers: Vec<u32>,
    taken: Vec<u64>,
}

/// `SeedSequence(seed).generate_state(4, uint64)`.
fn seed_words(seed: u128) -> [u64; 4] {
    const SHIFT: u32 = 16;
    let mut entropy: Vec<u32> = (0..4).map(|i| (seed >> (32 * i)) as u32).collect();
    while entropy.len() > 1 && entropy.last() == Some(&0) {
        entropy.pop();
    }

    let mut hash = 0x43b0_d7e5_u32;
    let mut hashmix = |value: u32| {
        let mixed = value ^ hash;
        hash = hash.wrapping_mul(0x931e_8875);
        let mixed = mixed.wrapping_mul(hash);
        mixed ^ mixed >> SHIFT
    };
    let mix = |x: u32, y: u32| {
        let mixed = x.wrapping_mul(0xca01_f9dd).wrapping_sub(y.wrapping_mul(0x4973_f715));
        mixed ^ mixed >> SHIFT
    };
    let mut pool = [0_u32; 4];
    for (i, slot) in pool.iter_mut().enumerate() {
        *slot = hashmix(entropy.get(i).copied().unwrap_or(0));
    }
    for source in 0..4 {
        for target in 0..4 {
            if source != target {
                pool[target] = mix(pool[target], hashmix(pool[source]));
            }
        }
    }

    let mut hash = 0x8b51_f9dd_u32;
    let mut words = [0_u32; 8];
    for (i, word) in words.iter_mut().enumerate() {
        let mixed = pool[i % 4] ^ hash;
        hash = hash.wrapping_mul(0x58f3_8ded);
        let mixed = mixed.wrapping_mul(hash);
        *word = mixed ^ mixed >> SHIFT;
    }
    std::array::from_fn(|i| u64::from(words[2 * i]) | u64::from(words[2 * i + 1]) << 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of numpy 2.1.3.
    #[test]
    fn permutations_are_numpys() {
        let permutation = |seed| {
            let mut items: Vec<u8> = (0..12).collect();
            Generator::new(seed).shuffle(&mut items);
            items
        };
        assert_eq!(permutation(0), [9, 2, 7, 4, 5, 11, 0, 3, 6, 10, 8, 1]);
        assert_eq!(permutation(1), [8, 11, 4, 7, 5, 0, 1, 9, 2, 10, 6, 3]);
        assert_eq!(permutation((1 << 40) + 5), [9, 5, 1, 2, 8, 3, 0, 10, 7, 4, 6, 11]);
    }

    #[test]
    fn choices_integers_and_doubles_share_one_stream_as_in_numpy() {
        let mut generator = Generator::new(9176);
        let mut scratch = ChooseScratch::default();
        let chosen = generator.choose_sorted(50, 9, &mut scratch);
        assert_eq!(chosen, [1, 6, 9, 34, 37, 40, 41, 43, 46]);
        assert_eq!(generator.integer(3, 1000), Some(913));
        assert_eq!(generator.uniform(-3.0, 4.0), 3.359_958_121_118_656);
        let chosen = generator.choose_sorted(20_000, 500, &mut scratch);
        assert_eq!(chosen[..5], [15, 48, 96, 108, 195]);
        assert_eq!(generator.integer(3, 1000), Some(719));
        assert_eq!(generator.integer(0, 1 << 32), Some(2_405_917_425));
        assert_eq!(generator.integer(0, 1 << 40), Some(797_019_669_404));
        assert_eq!(generator.integer(5, 5), None);
    }

    #[test]
    fn skipping_draws_leads_to_the_same_point_as_drawing() {
        let (mut drawn, mut skipped) = (Generator::new(7), Generator::new(7));
        for len in (0..300).chain([1000, 4095, 4096, 4097, 70_000]) {
            let mut items: Vec<u32> = (0..len).collect();
            drawn.shuffle(&mut items);
            skipped.skip_shuffle(u64::from(len));
            for _ in 0..len % 5 {
                drawn.uniform(0.0, 1.0);
            }
            skipped.skip_doubles(u64::from(len % 5));
            assert_eq!((drawn.state, drawn.half), (skipped.state, skipped.half), "after {len}");
        }
    }

    #[test]
    fn a_snapshot_restores_the_stream() {
        let mut generator = Generator::new(3);
        generator.integer(0, 10);
        let snapshot = generator.snapshot();
        let ahead: Vec<_> = (0..5).map(|_| generator.integer(0, 1000)).collect();
        let mut again = generator.at(snapshot);
        assert_eq!((0..5).map(|_| again.integer(0, 1000)).collect::<Vec<_>>(), ahead);
    }
}
