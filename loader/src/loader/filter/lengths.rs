//! Tokens of the samples that are kept: given, known by the sizes of stored ids, or counted once and kept.
//!
//! ```text
//!   `lengths`: a column or an array ----------------------------+
//!   sizes: Megatron's index, offset tables of shards of ids ----+--> a number for each kept sample --> packing
//!   a pass: texts that are encoded, lists of ids in tables -----+
//! ```
//!
//! A pass keeps the numbers as the answers to any other question, under a digest of the field with the content of its
//! tokenizer, the version of the encoder and the data. A column such as `token_count` is read only if it is given: it
//! has the counts of one tokenizer, which its name does not show.

use super::Filters;
use super::numbers::{absent, kept_of, read};
use crate::catalog::{Catalog, Stream};
use crate::config::StreamConfig;
use crate::decode::{FieldSpec, TokenCounter};
use crate::error::{Context, Error, Result};
use crate::order::TokenLengths;
use crate::subsets::question::{Ask, NO_COUNT, Question};
use crate::subsets::values::{self, ValueSource, source_of};
use crate::sync::Arc;

/// Source of numbers of tokens.
#[derive(Clone, Copy, Debug)]
pub(in crate::loader) struct TokenSource<'a> {
    /// Field that makes the tokens, a Tokenize or Tokens. The length of its rows does not count.
    pub(in crate::loader) field: &'a FieldSpec,
    /// Column with the numbers, or their array, as in `weights`. `None`: they are counted.
    pub(in crate::loader) lengths: Option<&'a str>,
}

impl Filters<'_> {
    /// Returns the tokens of the kept samples of each stream of `catalog`, to which the filters have been applied.
    ///
    /// # Errors
    ///
    /// `Config` for a field or a column without tokens, and for a sample without a number; the error of a sample of
    /// which no tokens can be made, unless such samples are skipped, with 0 tokens then; errors of files, shards and
    /// stores.
    pub(in crate::loader) fn token_lengths(
        &self,
        catalog: &Catalog,
        of: &TokenSource<'_>,
    ) -> Result<Vec<Arc<TokenLengths>>> {
        let counter = TokenCounter::of(of.field)?;
        let lengths = catalog.streams().iter().zip(&self.config.streams).map(|(stream, config)| {
            let counts = match of.lengths {
                Some(given) => self.given_counts(stream, config, given).map_err(|e| e.with("argument", "lengths")),
                None => self.counted(stream, config, &counter),
            };
            Ok(Arc::new(TokenLengths::new(counts.context("stream", || &stream.name)?)))
        });
        lengths.collect()
    }

    /// Returns the numbers from the column or the array that `given` names.
    fn given_counts(&self, stream: &Stream, config: &StreamConfig, given: &str) -> Result<Vec<u32>> {
        match source_of(given) {
            ValueSource::Inline(text) => kept_of(stream, values::of_inline(text, values::count)?),
            ValueSource::File(path) => {
                let all = read(path).and_then(|bytes| values::of_file(&bytes, values::count));
                all.and_then(|all| kept_of(stream, all)).context("file", || path)
            }
            ValueSource::Column(name) => {
                let (column, ask) = (name.to_owned(), Ask::Count);
                let question = Question::Value { column, argument: "lengths", ask };
                self.counts_of(stream, config, &question, None, &|place| {
                    absent(stream, place, name, "no whole number of tokens")
                })
            }
        }
    }

    fn counted(&self, stream: &Stream, config: &StreamConfig, counter: &TokenCounter) -> Result<Vec<u32>> {
        let column = counter.column();
        let question = Question::Tokens { column: column.to_owned(), identity: counter.identity() };
        self.counts_of(stream, config, &question, Some(counter), &|place| {
            absent(stream, place, column, "nothing that tokens can be made of")
        })
    }

    /// Returns the answers of 32 bits for all kept samples. `missing` is the error of a kept sample without one.
    fn counts_of(
        &self,
        stream: &Stream,
        config: &StreamConfig,
        question: &Question,
        counter: Option<&TokenCounter>,
        missing: &dyn Fn(usize) -> Error,
    ) -> Result<Vec<u32>> {
        let answers = self.answers_of(stream, config, question, counter)?;
        // One word for each sample, so that the kept ones stay in the same memory.
        let mut counts = kept_of(stream, answers.into_counts())?;
        counts.shrink_to_fit();
        for (place, count) in counts.iter_mut().enumerate().filter(|(_, count)| **count == NO_COUNT) {
            if !self.config.skip.has_errors() {
                return Err(missing(place));
            }
            *count = 0;
        }
        Ok(counts)
    }
}
