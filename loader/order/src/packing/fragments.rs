//! Fragments: the parts of documents that packs consist of. A document that fits into a pack is one fragment.

use super::config::{Overflow, PackConfig};

/// Part of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fragment {
    /// Index of the document in its window.
    pub(super) document: u32,
    /// First token in the document.
    pub(super) first: u32,
    /// Tokens, at least 1 and at most a pack's length.
    pub(super) tokens: u32,
}

/// Replaces the content of `fragments` with the fragments of documents with these `lengths`. Documents without tokens
/// have none.
pub(super) fn fragments_of(config: &PackConfig, lengths: &[u32], fragments: &mut Vec<Fragment>) {
    fragments.clear();
    for (document, &length) in lengths.iter().enumerate() {
        let document = document as u32;
        if length <= config.length {
            if length > 0 {
                fragments.push(Fragment { document, first: 0, tokens: length });
            }
            continue;
        }
        match config.overflow {
            Overflow::Drop => {}
            Overflow::Truncate => fragments.push(Fragment { document, first: 0, tokens: config.length }),
            Overflow::Split => {
                let starts = (0..length).step_by(config.length as usize);
                let fragment = |first| Fragment { document, first, tokens: config.length.min(length - first) };
                fragments.extend(starts.map(fragment));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_documents_longer_than_a_pack_are_cut_truncated_or_dropped() {
        let fragments = |overflow| {
            let mut fragments = Vec::new();
            fragments_of(&PackConfig { overflow, ..PackConfig::new(4) }, &[3, 0, 9, 4], &mut fragments);
            fragments.iter().map(|f| (f.document, f.first, f.tokens)).collect::<Vec<_>>()
        };
        assert_eq!(fragments(Overflow::Split), [(0, 0, 3), (2, 0, 4), (2, 4, 4), (2, 8, 1), (3, 0, 4)]);
        assert_eq!(fragments(Overflow::Truncate), [(0, 0, 3), (2, 0, 4), (3, 0, 4)]);
        assert_eq!(fragments(Overflow::Drop), [(0, 0, 3), (3, 0, 4)]);
    }
}
