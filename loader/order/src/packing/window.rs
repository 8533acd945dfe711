//! Packs of one window of documents.

use super::config::{PackConfig, PackMethod};
use super::cut::cut;
use super::fit::BestFit;
use super::fragments::{Fragment, fragments_of};
use super::rows::RowBatches;
use crate::error::OrderError;
use crate::ids::SampleId;
use crate::rng::Generator;

/// Document of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Document {
    /// Its index in the epoch's resampled list.
    pub(super) draw: u64,
    pub(super) sample: SampleId,
}

/// Packs windows, with memory that they share.
#[derive(Debug, Default)]
pub(super) struct Packer {
    best_fit: BestFit,
    rows: RowBatches,
    fragments: Vec<Fragment>,
    /// Pack of each fragment.
    packs: Vec<u32>,
}

/// Packs of a window.
#[derive(Debug, Default)]
pub(super) struct PackWindow {
    documents: Vec<Document>,
    /// Fragments by pack, and within a pack in the order of the documents.
    fragments: Vec<Fragment>,
    /// First fragment of each pack, and their number at the end.
    starts: Vec<u32>,
}

/// Result of a count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WindowCount {
    pub(super) packs: u32,
    /// Tokens of the packs, without padding.
    pub(super) tokens: u64,
}

impl Packer {
    /// Packs of a window of documents with these `lengths`.
    ///
    /// # Errors
    /// More fragments than a window may have.
    pub(super) fn count(&mut self, config: &PackConfig, lengths: &[u32]) -> Result<WindowCount, OrderError> {
        let packs = self.assign(config, lengths)?;
        Ok(WindowCount { packs, tokens: self.fragments.iter().map(|fragment| u64::from(fragment.tokens)).sum() })
    }

    /// Packs `documents` with these `lengths`. Without a `seed` the packs are in the order of their first documents,
    /// with one in a random order.
    ///
    /// # Errors
    /// More fragments than a window may have.
    pub(super) fn pack(
        &mut self,
        config: &PackConfig,
        documents: Vec<Document>,
        lengths: &[u32],
        seed: Option<u128>,
    ) -> Result<PackWindow, OrderError> {
        let count = self.assign(config, lengths)? as usize;
        let mut numbers: Vec<u32> = (0..count as u32).collect();
        if let Some(seed) = seed {
            Generator::new(seed).shuffle(&mut numbers);
        }
        // The packs in the order of their first fragments get the numbers.
        let mut number_of = vec![u32::MAX; count];
        let mut numbers = numbers.into_iter();
        let mut starts = vec![0_u32; count + 1];
        for pack in &mut self.packs {
            let number = &mut number_of[*pack as usize];
            if *number == u32::MAX {
                *number = numbers.next().expect("there is a number for each pack");
            }
            *pack = *number;
            starts[*pack as usize + 1] += 1;
        }
        for at in 0..count {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut fragments = vec![Fragment { document: 0, first: 0, tokens: 0 }; self.fragments.len()];
        for (fragment, &pack) in self.fragments.iter().zip(&self.packs) {
            let at = &mut next[pack as usize];
            fragments[*at as usize] = *fragment;
            *at += 1;
        }
        Ok(PackWindow { documents, fragments, starts })
    }

    /// Fills `fragments` and `packs`, and returns the number of packs.
    fn assign(&mut self, config: &PackConfig, lengths: &[u32]) -> Result<u32, OrderError> {
        let Self { best_fit, rows, fragments, packs } = self;
        fragments_of(config, lengths, fragments)?;
        Ok(match (config.batch_tokens, config.method) {
            (Some(tokens), _) => rows.fill(config, tokens, fragments, packs),
            (None, PackMethod::BestFit) => best_fit.fit(config, fragments, packs),
            (None, PackMethod::Cut) => cut(config, fragments, packs),
        })
    }
}

impl PackWindow {
    /// Number of packs.
    pub(super) fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// The fragments of a pack, each with its document.
    pub(super) fn pack(&self, pack: usize) -> impl Iterator<Item = (Document, Fragment)> + '_ {
        let fragments = &self.fragments[self.starts[pack] as usize..self.starts[pack + 1] as usize];
        fragments.iter().map(|&fragment| (self.documents[fragment.document as usize], fragment))
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::Overflow;
    use super::*;

    fn packs(config: &PackConfig, lengths: &[u32], seed: Option<u128>) -> Vec<Vec<(u64, u32, u32)>> {
        let document = |draw| Document { draw, sample: SampleId(draw) };
        let documents = (0..lengths.len() as u64).map(document).collect();
        let mut packer = Packer::default();
        let window = packer.pack(config, documents, lengths, seed).expect("few fragments");
        assert_eq!(packer.count(config, lengths).expect("few fragments").packs as usize, window.len());
        let fragment = |(document, fragment): (Document, Fragment)| (document.draw, fragment.first, fragment.tokens);
        (0..window.len()).map(|pack| window.pack(pack).map(fragment).collect()).collect()
    }

    #[test]
    fn best_fit_cuts_no_document_that_fits() {
        let found = packs(&PackConfig::new(8), &[5, 4, 3, 4, 17], None);
        let expected: [&[(u64, u32, u32)]; 5] =
            [&[(0, 0, 5), (2, 0, 3)], &[(1, 0, 4), (3, 0, 4)], &[(4, 0, 8)], &[(4, 8, 8)], &[(4, 16, 1)]];
        assert_eq!(found, expected);
    }

    #[test]
    fn cut_leaves_padding_at_the_end_alone() {
        let config = PackConfig { method: PackMethod::Cut, ..PackConfig::new(8) };
        let found = packs(&config, &[5, 4, 0, 3, 9], None);
        let expected: [&[(u64, u32, u32)]; 3] =
            [&[(0, 0, 5), (1, 0, 3)], &[(1, 3, 1), (3, 0, 3), (4, 0, 4)], &[(4, 4, 5)]];
        assert_eq!(found, expected);
    }

    #[test]
    fn cut_cuts_a_long_document_where_packs_end_alone() {
        let config = PackConfig { method: PackMethod::Cut, max_sequences: Some(2), ..PackConfig::new(8) };
        let expected: [&[(u64, u32, u32)]; 3] = [&[(0, 0, 5), (1, 0, 3)], &[(1, 3, 8)], &[(1, 11, 6), (2, 0, 2)]];
        assert_eq!(packs(&config, &[5, 17, 2], None), expected, "no cut after 8 tokens of the document of 17");
    }

    #[test]
    fn a_seed_changes_the_order_of_the_packs_and_nothing_else() {
        let lengths: Vec<u32> = (0..400).map(|at| at * 7 % 50).collect();
        for method in [PackMethod::BestFit, PackMethod::Cut] {
            let config = PackConfig { method, overflow: Overflow::Drop, ..PackConfig::new(48) };
            let (mut plain, mut shuffled) = (packs(&config, &lengths, None), packs(&config, &lengths, Some(7)));
            assert_ne!(plain, shuffled);
            plain.sort_unstable();
            shuffled.sort_unstable();
            assert_eq!(plain, shuffled);
        }
    }

    #[test]
    fn limits_of_a_pack_hold_in_both_methods() {
        let lengths: Vec<u32> = (0..300).map(|at| at * 13 % 40).collect();
        for method in [PackMethod::BestFit, PackMethod::Cut] {
            let config = PackConfig { method, pad_sequences_to: 4, max_sequences: Some(3), ..PackConfig::new(32) };
            let packs = packs(&config, &lengths, Some(1));
            let mut tokens = 0;
            for pack in &packs {
                assert!((1..=3).contains(&pack.len()), "{pack:?}");
                assert!(pack.iter().map(|(_, _, tokens)| config.occupied(*tokens)).sum::<u32>() <= 32, "{pack:?}");
                tokens += pack.iter().map(|(_, _, tokens)| tokens).sum::<u32>();
            }
            assert_eq!(tokens, lengths.iter().sum::<u32>());
        }
    }

    #[test]
    fn a_window_of_empty_documents_has_no_packs() {
        assert_eq!(packs(&PackConfig::new(4), &[0, 0], Some(1)), Vec::<Vec<_>>::new());
        assert_eq!(packs(&PackConfig { method: PackMethod::Cut, ..PackConfig::new(4) }, &[], None).len(), 0);
    }
}
