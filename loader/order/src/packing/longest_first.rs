//! Fragments from the longest to the shortest.

use super::config::PackConfig;
use super::fragments::Fragment;

/// Sort by counting, with memory that its uses share.
#[derive(Debug, Default)]
pub(super) struct LongestFirst {
    /// Number of fragments of each occupied length, then the start of these fragments in `sorted`.
    starts: Vec<u32>,
    sorted: Vec<u32>,
}

impl LongestFirst {
    /// The indexes of `fragments` from the longest to the shortest, by the tokens that they occupy; equal ones keep
    /// their order.
    pub(super) fn sort(&mut self, config: &PackConfig, fragments: &[Fragment]) -> &[u32] {
        let Self { starts, sorted } = self;
        // Key 0 is the longest.
        let key = |fragment: &Fragment| (config.length - config.occupied(fragment.tokens)) as usize;
        starts.clear();
        starts.resize(config.length as usize + 1, 0);
        fragments.iter().for_each(|fragment| starts[key(fragment) + 1] += 1);
        let mut sum = 0;
        for start in starts.iter_mut() {
            sum += *start;
            *start = sum;
        }
        sorted.clear();
        sorted.resize(fragments.len(), 0);
        for (at, fragment) in fragments.iter().enumerate() {
            let start = &mut starts[key(fragment)];
            sorted[*start as usize] = at as u32;
            *start += 1;
        }
        sorted
    }
}
