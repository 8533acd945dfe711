//! Fragments: the parts of documents that packs consist of. A document that fits into a pack is one fragment.

use super::config::{Overflow, PackConfig, PackMethod};
use crate::error::OrderError;

/// Most fragments of a window, so that lengths which are not the documents' ask for no more than 0.5 GB.
const FRAGMENTS_MAX: u64 = 1 << 24;

/// Part of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fragment {
    /// Index of the document in its window.
    pub(super) document: u32,
    /// First token in the document.
    pub(super) first: u32,
    /// Tokens, at least 1 and at most a pack's length. The method `cut` gets longer ones, which it cuts itself.
    pub(super) tokens: u32,
}

/// Replaces the content of `fragments` with the fragments of documents with these `lengths`. Documents without tokens
/// have none.
///
/// # Errors
/// More fragments than a window may have.
pub(super) fn fragments_of(
    config: &PackConfig,
    lengths: &[u32],
    fragments: &mut Vec<Fragment>,
) -> Result<(), OrderError> {
    fragments.clear();
    let mut count = 0;
    for (document, &length) in lengths.iter().enumerate() {
        let document = document as u32;
        if length <= config.length {
            if length > 0 {
                fragments.push(Fragment { document, first: 0, tokens: length });
                count += 1;
            }
            continue;
        }
        count += u64::from(length.div_ceil(config.length));
        OrderError::unless(
            config.overflow != Overflow::Split || count <= FRAGMENTS_MAX,
            "the sequences of the documents that are packed together",
            "at most 16,777,216: check the lengths in tokens, or use longer packs or a different overflow",
        )?;
        match config.overflow {
            Overflow::Drop => {}
            Overflow::Truncate => fragments.push(Fragment { document, first: 0, tokens: config.length }),
            Overflow::Split if config.method == PackMethod::Cut && config.batch_tokens.is_none() => {
                fragments.push(Fragment { document, first: 0, tokens: length });
            }
            Overflow::Split => {
                let starts = (0..length).step_by(config.length as usize);
                let fragment = |first| Fragment { document, first, tokens: config.length.min(length - first) };
                fragments.extend(starts.map(fragment));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_documents_longer_than_a_pack_are_cut_truncated_or_dropped() {
        let fragments = |overflow| {
            let mut fragments = Vec::new();
            let config = PackConfig { overflow, ..PackConfig::new(4) };
            fragments_of(&config, &[3, 0, 9, 4], &mut fragments).expect("few fragments");
            fragments.iter().map(|f| (f.document, f.first, f.tokens)).collect::<Vec<_>>()
        };
        assert_eq!(fragments(Overflow::Split), [(0, 0, 3), (2, 0, 4), (2, 4, 4), (2, 8, 1), (3, 0, 4)]);
        assert_eq!(fragments(Overflow::Truncate), [(0, 0, 3), (2, 0, 4), (3, 0, 4)]);
        assert_eq!(fragments(Overflow::Drop), [(0, 0, 3), (3, 0, 4)]);
    }

    #[test]
    fn lengths_of_no_document_are_an_error_and_take_no_memory() {
        for method in [PackMethod::BestFit, PackMethod::Cut] {
            let mut fragments = Vec::new();
            let config = PackConfig { method, ..PackConfig::new(16) };
            let error = fragments_of(&config, &[3, u32::MAX, 4], &mut fragments).expect_err("2^28 fragments");
            assert!(error.to_string().contains("check the lengths in tokens"), "{error}");
            assert!(fragments.capacity() < 100);
            for overflow in [Overflow::Truncate, Overflow::Drop] {
                let config = PackConfig { overflow, ..config.clone() };
                fragments_of(&config, &[3, u32::MAX, 4], &mut fragments).expect("few fragments");
            }
        }
    }
}
