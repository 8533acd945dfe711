//! `best_fit`: the longest fragment first, each into the fullest pack that has room for it.
//!
//! Packs are kept by their free tokens: a list for each number of them, and four levels of bits, set where a list has a
//! pack. So the search for the fullest pack with room takes constant time, whatever the length of a pack.

use super::config::PackConfig;
use super::fragments::Fragment;
use super::longest_first::LongestFirst;

/// End of a list of packs.
const NONE: u32 = u32::MAX;

/// Best fit, with memory that its uses share.
#[derive(Debug, Default)]
pub(super) struct BestFit {
    open: OpenPacks,
    order: LongestFirst,
    /// Fragments in each pack.
    sequences: Vec<u32>,
}

impl BestFit {
    /// Replaces the content of `packs` with the pack of each item of `fragments`. Returns the number of packs.
    pub(super) fn fit(&mut self, config: &PackConfig, fragments: &[Fragment], packs: &mut Vec<u32>) -> u32 {
        self.open.clear(config.length);
        self.sequences.clear();
        packs.clear();
        packs.resize(fragments.len(), 0);
        for &at in self.order.sort(config, fragments) {
            let tokens = config.occupied(fragments[at as usize].tokens);
            let (pack, free) = self.open.take(tokens).unwrap_or_else(|| {
                self.sequences.push(0);
                (self.open.add(), config.length)
            });
            packs[at as usize] = pack;
            let sequences = &mut self.sequences[pack as usize];
            *sequences += 1;
            // A pack without room for one token is useless for every fragment.
            if free > tokens && *sequences < config.sequences_max() {
                self.open.put(pack, free - tokens);
            }
        }
        self.sequences.len() as u32
    }
}

/// Packs with free tokens.
#[derive(Debug, Default)]
struct OpenPacks {
    /// By free tokens: the last pack that got that number.
    heads: Vec<u32>,
    /// By pack: the pack before it in its list.
    next: Vec<u32>,
    /// Bit `i` of level 0: list `i` is not empty; of a higher level: word `i` of the level below is not 0.
    levels: [Vec<u64>; 4],
}

impl OpenPacks {
    /// Removes all packs, for packs of `length` tokens.
    fn clear(&mut self, length: u32) {
        self.next.clear();
        self.heads.clear();
        self.heads.resize(length as usize + 1, NONE);
        let mut items = self.heads.len();
        for level in &mut self.levels {
            items = items.div_ceil(64);
            level.clear();
            level.resize(items, 0);
        }
    }

    /// Adds a pack, which is in no list.
    fn add(&mut self) -> u32 {
        self.next.push(NONE);
        self.next.len() as u32 - 1
    }

    /// Puts `pack` into the list of packs with `free` free tokens.
    fn put(&mut self, pack: u32, free: u32) {
        let head = &mut self.heads[free as usize];
        self.next[pack as usize] = std::mem::replace(head, pack);
        let mut item = free as usize;
        for level in &mut self.levels {
            level[item / 64] |= 1 << (item % 64);
            item /= 64;
        }
    }

    /// Takes a pack with the fewest free tokens out of its list, but at least `tokens`, and returns it with that
    /// number.
    fn take(&mut self, tokens: u32) -> Option<(u32, u32)> {
        let free = self.first_from(0, tokens as usize)?;
        let head = &mut self.heads[free];
        let pack = std::mem::replace(head, self.next[*head as usize]);
        if *head == NONE {
            let mut item = free;
            for level in &mut self.levels {
                level[item / 64] &= !(1 << (item % 64));
                if level[item / 64] != 0 {
                    break;
                }
                item /= 64;
            }
        }
        Some((pack, free as u32))
    }

    /// The first set bit of a level from `item` on.
    fn first_from(&self, level: usize, item: usize) -> Option<usize> {
        let bits = self.levels.get(level)?;
        let word = bits.get(item / 64)? >> (item % 64);
        if word != 0 {
            return Some(item + word.trailing_zeros() as usize);
        }
        let next = self.first_from(level + 1, item / 64 + 1)?;
        Some(next * 64 + bits[next].trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Generator;

    fn fragments(lengths: &[u32]) -> Vec<Fragment> {
        let fragment = |(document, &tokens)| Fragment { document: document as u32, first: 0, tokens };
        lengths.iter().enumerate().map(fragment).collect()
    }

    /// Best fit by a search through all packs, as tokens and fragments. Of equal packs the last that changed is taken.
    fn by_search(config: &PackConfig, lengths: &[u32]) -> Vec<(u32, u32)> {
        let mut order: Vec<usize> = (0..lengths.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(config.occupied(lengths[at])));
        let mut packs: Vec<(u32, u32, usize)> = Vec::new();
        for (time, at) in order.into_iter().enumerate() {
            let tokens = config.occupied(lengths[at]);
            let has_room = |(used, sequences, _): &(u32, u32, usize)| {
                used + tokens <= config.length && *sequences < config.sequences_max()
            };
            match packs.iter_mut().filter(|pack| has_room(pack)).max_by_key(|pack| (pack.0, pack.2)) {
                Some(pack) => *pack = (pack.0 + tokens, pack.1 + 1, time),
                None => packs.push((tokens, 1, time)),
            }
        }
        let mut packs: Vec<(u32, u32)> = packs.into_iter().map(|(tokens, sequences, _)| (tokens, sequences)).collect();
        packs.sort_unstable();
        packs
    }

    #[test]
    fn packs_are_as_full_as_by_a_search_through_all_of_them() {
        let mut generator = Generator::new(5);
        for length in [1_u32, 7, 64, 300, 4097] {
            for (multiple, max_sequences) in [(1, None), (1, Some(3)), (length, None)] {
                let config = PackConfig { pad_sequences_to: multiple, max_sequences, ..PackConfig::new(length) };
                let mut tokens = || generator.integer(1, u64::from(length) + 1).expect("a range") as u32;
                let lengths: Vec<u32> = (0..500).map(|_| tokens().min(tokens())).collect();
                let mut packs = Vec::new();
                let count = BestFit::default().fit(&config, &fragments(&lengths), &mut packs);
                let mut contents = vec![(0, 0); count as usize];
                for (&pack, &tokens) in packs.iter().zip(&lengths) {
                    let (used, sequences) = &mut contents[pack as usize];
                    (*used, *sequences) = (*used + config.occupied(tokens), *sequences + 1);
                }
                contents.sort_unstable();
                assert_eq!(contents, by_search(&config, &lengths), "{config:?}");
            }
        }
    }

    #[test]
    fn memory_of_an_earlier_use_does_not_matter() {
        let (config, shorter) = (PackConfig::new(4096), PackConfig::new(8));
        let lengths: Vec<u32> = (1..=4096).collect();
        let (mut used, mut packs, mut again) = (BestFit::default(), Vec::new(), Vec::new());
        used.fit(&shorter, &fragments(&[3, 4, 1]), &mut packs);
        let count = used.fit(&config, &fragments(&lengths), &mut packs);
        assert_eq!(BestFit::default().fit(&config, &fragments(&lengths), &mut again), count);
        assert_eq!(packs, again);
    }
}
