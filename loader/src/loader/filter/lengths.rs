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
    /// Field that makes the tokens, a Tokenize, Tokens or Chat. The length of its rows does not count.
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
        let columns = counter.columns();
        let owned = columns.iter().map(|&column| column.to_owned()).collect();
        let question = Question::Tokens { columns: owned, identity: counter.identity() };
        self.counts_of(stream, config, &question, Some(counter), &|place| {
            absent(stream, place, columns[0], "nothing that tokens can be made of")
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
        // Every rank skips as many samples in an epoch, and each sample is one rank's.
        let most = self.config.skip.errors.saturating_mul(self.config.world.world_size.into());
        let mut bad = 0;
        for (place, count) in counts.iter_mut().enumerate().filter(|(_, count)| **count == NO_COUNT) {
            bad += 1;
            if !self.config.skip.has_errors() {
                return Err(missing(place));
            }
            if bad > most {
                let hint = format!("more samples of the stream are bad than skip.errors of all ranks, {most}");
                return Err(missing(place).hinting(hint));
            }
            *count = 0;
        }
        if bad > 0 {
            log::warn!("{bad} samples of {} have no number of tokens, and are left out of packs", stream.name);
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{LoaderConfig, SelectConfig, SkipConfig};
    use crate::error::ErrorKind;
    use crate::format::writer::{LocalDir, Options, Writer};
    use crate::format::{Encoding, Layout, Value};
    use crate::stats::Stats;
    use crate::store::Simulation;
    use crate::topology::Topology;
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use std::path::Path;

    /// Bytes of the ids of each sample, of two bytes each.
    const BYTES: [usize; 5] = [4, 0, 6, 2, 8];

    /// Writes samples with `ids` of these numbers of bytes, a number, and a text.
    fn write(folder: &Path, bytes: &[usize]) -> LoaderConfig {
        let columns = [("count", Encoding::Int), ("ids", Encoding::Bytes), ("name", Encoding::Str)];
        let layout = Layout::mds(columns.map(|(name, encoding)| (name.to_owned(), encoding))).expect("a layout");
        let (set, local) = (folder.join("set"), folder.join("local"));
        let target = LocalDir::create(&set, false).expect("a folder");
        let mut writer = Writer::new(layout, Box::new(target), Options::default()).expect("a writer");
        for bytes in bytes {
            let sample = [Value::Int(*bytes as i64 - 1), Value::Bytes(vec![7; *bytes].into()), Value::Str("x".into())];
            writer.write(&sample).expect("written");
        }
        writer.finish().expect("a data set");
        // The numbers are kept in `local`, and not in the user's folder.
        let remote = Some(set.display().to_string());
        let stream = StreamConfig { remote, local: Some(local), ..StreamConfig::default() };
        LoaderConfig { streams: vec![stream], ..LoaderConfig::default() }
    }

    /// The lengths of a stream, and its shards that were read.
    fn lengths(config: &LoaderConfig, given: Option<&str>) -> Result<(Vec<u32>, u64)> {
        let field = serde_json::from_str(r#"{"kind": "tokens", "column": "ids", "stored": "uint16", "length": 3}"#);
        let source = TokenSource { field: &field.expect("a field"), lengths: given };
        let (stats, topology, network) = (Arc::new(Stats::new(false)), Topology::detect()?, &Simulation::default());
        let mut catalog = Catalog::open(config, &stats, &topology, network, None)?;
        let filters = Filters { config, stats: &stats, topology: &topology, network, library: None };
        filters.apply(&mut catalog)?;
        let found = filters.token_lengths(&catalog, &source)?;
        assert_eq!(found[0].values().len() as u64, catalog.shape().num_samples());
        Ok((found[0].values().to_vec(), stats.counter("filter_shards_read").get()))
    }

    #[test]
    fn lengths_are_counted_or_those_of_a_column_or_an_array() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = write(folder.path(), &[4, 2, 6, 1 << 10]);
        assert_eq!(lengths(&config, None).expect("counted").0, [2, 1, 3, 512]);
        assert_eq!(lengths(&config, Some("count")).expect("a column").0, [3, 1, 5, 1023]);
        let text =
            |numbers: [f64; 4]| format!("float64:{}", BASE64_STANDARD.encode(numbers.map(f64::to_le_bytes).concat()));
        // Weights are kept with fewer digits.
        assert_eq!(
            lengths(&config, Some(&text([0.0, 1.0, 16_777_217.0, 5.0]))).expect("an array").0,
            [0, 1, 16_777_217, 5]
        );
        for (given, problem) in
            [("name", "text"), ("none", "there is no column `none`"), (&text([0.5; 4]), "whole number")]
        {
            let e = lengths(&config, Some(given)).expect_err(problem);
            assert!(e.kind() == ErrorKind::Config && e.to_string().contains(problem), "{e}");
            assert!(e.to_string().contains("lengths"), "{e}");
        }
    }

    #[test]
    fn a_number_below_zero_names_its_sample() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = write(folder.path(), &BYTES);
        let e = lengths(&config, Some("count")).expect_err("-1");
        assert!(e.to_string().contains("no whole number of tokens") && e.to_string().contains("sample 1"), "{e}");
    }

    #[test]
    fn lengths_are_those_of_the_kept_samples() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = write(folder.path(), &BYTES);
        config.streams[0].select = SelectConfig { filter: Some("count != 5".to_owned()), ..SelectConfig::default() };
        assert_eq!(lengths(&config, None).expect("counted").0, [2, 0, 1, 4]);
    }

    #[test]
    fn a_sample_without_whole_tokens_is_an_error_or_has_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = write(folder.path(), &[4, 2, 5, 2]);
        let e = lengths(&config, None).expect_err("5 bytes");
        assert!(e.kind() == ErrorKind::Decode && e.to_string().contains("sample 2"), "{e}");
        config.skip = SkipConfig { errors: 1, ..SkipConfig::default() };
        assert_eq!(lengths(&config, None).expect("skipped").0, [2, 1, 0, 1]);
        // As many bad samples as an epoch of all ranks may have, and no more.
        let two = write(&folder.path().join("two"), &[4, 5, 5, 2]);
        let mut two = LoaderConfig { skip: config.skip, ..two };
        let e = lengths(&two, None).expect_err("two bad samples").to_string();
        assert!(e.contains("sample 2") && e.contains("skip.errors of all ranks, 1"), "{e}");
        two.world.world_size = 2;
        assert_eq!(lengths(&two, None).expect("skipped").0, [2, 0, 0, 1]);
        // The kept answer of the lenient loader is none for a strict one.
        config.skip = SkipConfig::default();
        let e = lengths(&config, None).expect_err("5 bytes");
        assert!(e.to_string().contains("sample 2"), "{e}");
    }
}
