//! Words of a text to ids, with the words that a thread has encoded.

use tokenizers::Result;
use tokenizers::pipeline::{PipelineToken, Span};

use crate::common_words::CommonWords;
use crate::word_table::{IDS_MAX, KeptIds, Key, WordTable};

/// Ids that are collected before they are added to the ids of the text.
const COLLECTED: usize = 256;

/// Ids of a word, whatever is around it.
pub(crate) trait WordModel {
    /// Memory of a thread that encodes.
    type Memory: Default;

    /// Returns the ids of a word.
    ///
    /// # Errors
    /// A word that the model has no ids for.
    fn encode_word<'a>(&self, word: &str, memory: &'a mut Self::Memory) -> Result<&'a [u32]>;
}

/// Words that a thread has encoded, and the memory of their model.
pub(crate) struct Words<M: WordModel> {
    table: WordTable,
    memory: M::Memory,
    /// Ids of a word that a different thread has encoded.
    common_ids: Vec<u32>,
}

impl<M: WordModel> Default for Words<M> {
    fn default() -> Self {
        Self { table: WordTable::default(), memory: M::Memory::default(), common_ids: Vec::new() }
    }
}

impl<M: WordModel> Words<M> {
    /// Adds the ids of the `words` of a text to `ids`.
    ///
    /// # Errors
    /// The errors of the model.
    pub(crate) fn encode(
        &mut self,
        model: &M,
        common: &CommonWords,
        text: &str,
        words: &[Span],
        ids: &mut Vec<PipelineToken>,
    ) -> Result<()> {
        let Self { table, memory, common_ids } = self;
        let bytes = text.as_bytes();
        let mut collected = [PipelineToken::from(0); COLLECTED];
        let mut count = 0;
        for word in words {
            let word = word.start as usize..word.end as usize;
            let key = Key::of(bytes, word.clone());
            let kept = key.and_then(|key| table.get(key, &bytes[word.clone()]));
            if let Some(KeptIds::Few(kept, kept_count)) = kept {
                // All of them are copied, which needs no branch for their number.
                collected[count..count + IDS_MAX].copy_from_slice(&kept.map(PipelineToken::from));
                count += kept_count;
                if count <= COLLECTED - IDS_MAX {
                    continue;
                }
            }
            ids.extend_from_slice(&collected[..count]);
            count = 0;
            match kept {
                Some(KeptIds::Few(..)) => (),
                Some(KeptIds::Many(kept)) => {
                    ids.extend(kept.iter().map(|id| PipelineToken::from(u32::from_le_bytes(*id))))
                }
                None => {
                    let word_bytes = &bytes[word.clone()];
                    let is_common = key.is_some_and(|key| common.get(key, word_bytes, common_ids));
                    let found =
                        if is_common { common_ids.as_slice() } else { model.encode_word(&text[word], memory)? };
                    ids.extend(found.iter().map(|&id| PipelineToken::from(id)));
                    if let Some(key) = key {
                        table.keep(key, word_bytes, found);
                        if !is_common {
                            common.keep(key, word_bytes, found);
                        }
                    }
                }
            }
        }
        ids.extend_from_slice(&collected[..count]);
        Ok(())
    }
}
