//! `batch_tokens`: batches of rows of similar length, without packing.

use super::config::PackConfig;
use super::fragments::Fragment;
use super::longest_first::LongestFirst;

/// Batches of rows, with memory that its uses share.
#[derive(Debug, Default)]
pub(super) struct RowBatches {
    order: LongestFirst,
}

impl RowBatches {
    /// Replaces the content of `packs` with the batch of each item of `fragments`: from the longest to the shortest, as
    /// many as `batch_tokens` hold in rows of the batch's longest one. Returns the number of batches.
    ///
    /// The batch of the shortest rows alone may have room for more.
    pub(super) fn fill(
        &mut self,
        config: &PackConfig,
        batch_tokens: u32,
        fragments: &[Fragment],
        packs: &mut Vec<u32>,
    ) -> u32 {
        packs.clear();
        packs.resize(fragments.len(), 0);
        let (mut batches, mut rows_left) = (0, 0);
        for &at in self.order.sort(config, fragments) {
            if rows_left == 0 {
                let longest = config.occupied(fragments[at as usize].tokens);
                (batches, rows_left) = (batches + 1, (batch_tokens / longest).min(config.sequences_max()));
            }
            packs[at as usize] = batches - 1;
            rows_left -= 1;
        }
        batches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(config: &PackConfig, lengths: &[u32]) -> Vec<Vec<u32>> {
        let fragment = |(document, &tokens)| Fragment { document: document as u32, first: 0, tokens };
        let fragments: Vec<_> = lengths.iter().enumerate().map(fragment).collect();
        let mut packs = Vec::new();
        let batch_tokens = config.batch_tokens.expect("a limit");
        let count = RowBatches::default().fill(config, batch_tokens, &fragments, &mut packs);
        let mut batches = vec![Vec::new(); count as usize];
        packs.iter().zip(lengths).for_each(|(pack, length)| batches[*pack as usize].push(*length));
        batches
    }

    #[test]
    fn a_batch_has_as_many_rows_of_its_longest_as_fit() {
        let config = PackConfig { batch_tokens: Some(12), ..PackConfig::new(12) };
        assert_eq!(batches(&config, &[1, 12, 4, 6, 3, 2, 5]), [vec![12], vec![6, 5], vec![4, 3, 2], vec![1]]);
        assert_eq!(batches(&config, &[]), Vec::<Vec<u32>>::new());
    }

    #[test]
    fn multiples_and_a_limit_of_rows_hold() {
        let config = PackConfig { pad_sequences_to: 4, batch_tokens: Some(16), ..PackConfig::new(8) };
        assert_eq!(batches(&config, &[1, 5, 2, 8, 3, 4, 4]), [vec![5, 8], vec![1, 2, 3, 4], vec![4]]);
        let config = PackConfig { max_sequences: Some(2), ..config };
        assert_eq!(batches(&config, &[1, 2, 3, 1, 2]), [vec![1, 2], vec![3, 1], vec![2]]);
    }
}
