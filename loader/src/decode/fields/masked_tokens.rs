//! Masked language modelling: tokens are drawn, and the model predicts them from the rest.
//!
//! Most of the drawn tokens become the mask, some a random token, and the rest stays, so that the input does not show
//! which tokens are asked for: 80, 10 and 10 % in BERT. The labels are the drawn tokens, and the label that no loss
//! counts for the rest. They are the output `labels`, with a step right after the step of the ids.
//!
//! With whole words the first token of a word is drawn for all of its tokens, and each of these tokens becomes the mask
//! or a random token, or stays, by a separate draw. A token has one draw in any case.

use serde::{Deserialize, Serialize};

use super::kind::Compiled;
use super::token_row::{SampleIds, TokenRow};
use crate::decode::draw::{DrawKey, FieldDraws, RandomOp};
use crate::decode::numeric;
use crate::decode::row::Row;
use crate::decode::step::{Decode, Memory, Stored};
use crate::error::{Error, Result};
use crate::format::encoding::DType;

/// Name of the output with the labels of a field.
pub(crate) const LABELS: &str = "labels";

/// Label of a token that no loss counts, as in torch.
pub(crate) const NO_LABEL: i64 = -100;

/// Arguments of masked language modelling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaskedTokens {
    /// Id of the mask.
    pub mask: u32,
    /// Random tokens have smaller ids.
    pub vocab_size: u32,
    /// Probability that a token is drawn.
    #[serde(default = "fifteen_percent")]
    pub probability: f64,
    /// Part of the drawn tokens that become the mask.
    #[serde(default = "most")]
    pub mask_replace: f64,
    /// Part of the drawn tokens that become a random token.
    #[serde(default = "few")]
    pub random_replace: f64,
    /// Ids that are never drawn. A word ends before them.
    #[serde(default)]
    pub special: Vec<u32>,
    /// Ids of tokens that continue the word of the token before them, such as "##ing". Words are drawn as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub continues: Vec<u32>,
}

fn fifteen_percent() -> f64 {
    0.15
}

fn most() -> f64 {
    0.8
}

fn few() -> f64 {
    0.1
}

impl MaskedTokens {
    /// Returns the masks with the draws of a field of ids of this type.
    ///
    /// # Errors
    /// A probability out of range, or a type that lacks an id or the label that no loss counts.
    pub(super) fn compile(&self, dtype: DType, draws: FieldDraws) -> Result<TokenMasks> {
        let parts = self.mask_replace + self.random_replace;
        for (name, value) in [
            ("probability", self.probability),
            ("mask_replace", self.mask_replace),
            ("random_replace", self.random_replace),
            ("mask_replace + random_replace", parts),
        ] {
            // The sum of 0.9 and 0.1 may be a little more.
            if !(0.0..=1.0 + 1e-9).contains(&value) {
                return Err(Error::config(format!("{name} of mask is from 0 to 1")).with("value", value));
            }
        }
        let fits = |value: i64| numeric::fill(value, &mut [0; 8][..dtype.size()], dtype);
        let largest = i64::from(self.mask.max(self.vocab_size.saturating_sub(1)));
        fits(largest)
            .map_err(|_| Error::config("an id of mask does not fit the dtype of the ids").with("id", largest))?;
        fits(NO_LABEL).map_err(|_| {
            let message = "labels that no loss counts are -100: pass a signed `dtype` to the field of the ids";
            Error::config(message).with("dtype", dtype)
        })?;
        if self.vocab_size == 0 {
            return Err(Error::config("vocab_size of mask must be at least 1"));
        }
        let mut arguments = self.clone();
        arguments.special.sort_unstable();
        arguments.continues.sort_unstable();
        Ok(TokenMasks { arguments, draws })
    }
}

/// Masked language modelling with the draws of a field.
#[derive(Clone, Debug)]
pub(super) struct TokenMasks {
    arguments: MaskedTokens,
    draws: FieldDraws,
}

impl TokenMasks {
    /// Returns the ids of a document after its draws, and fills `labels`, of 64 bits each.
    pub(super) fn apply<'m>(
        &self,
        ids: SampleIds<'m>,
        key: DrawKey,
        (stored, changed): (&'m mut Vec<u32>, &'m mut Vec<u32>),
        labels: &mut Vec<u8>,
    ) -> Result<SampleIds<'m>> {
        let MaskedTokens { mask, vocab_size, probability, mask_replace, random_replace, .. } = &self.arguments;
        let MaskedTokens { special, continues, .. } = &self.arguments;
        let contains = |sorted: &[u32], id: u32| sorted.binary_search(&id).is_ok();
        let mut draws = self.draws.of(key, RandomOp::MaskedTokens, 0);
        changed.clear();
        changed.extend_from_slice(ids.numbers(stored)?);
        labels.clear();
        // True in a word that is drawn; `None` before the first token and after a special one.
        let mut word: Option<bool> = None;
        for id in changed.iter_mut() {
            let draw = draws.unit();
            let (is_drawn, part) = match word {
                _ if contains(special, *id) => (false, draw),
                Some(is_drawn) if contains(continues, *id) => (is_drawn, draw),
                // Uniform in [0, 1) as well.
                _ => (draw < *probability, draw / probability),
            };
            word = (!contains(special, *id)).then_some(is_drawn);
            labels.extend(if is_drawn { i64::from(*id) } else { NO_LABEL }.to_ne_bytes());
            if is_drawn && part < *mask_replace {
                *id = *mask;
            } else if is_drawn && part < mask_replace + random_replace {
                *id = draws.below(*vocab_size);
            }
        }
        Ok(SampleIds::Encoded(changed))
    }
}

/// Compiles the output with the labels of a field with these rows and this column.
pub(super) fn labels_of(column: usize, ids: TokenRow) -> Vec<(&'static str, Compiled)> {
    let rows = TokenRow { pad: ids.pad.or(ids.length.map(|_| 0)).map(|_| NO_LABEL), ..ids };
    vec![(LABELS, Compiled::new(column, LabelsDecoder { rows }, ids.dtype, ids.shape()))]
}

/// Decoder of the labels of the step before.
#[derive(Debug)]
struct LabelsDecoder {
    rows: TokenRow,
}

impl Decode for LabelsDecoder {
    fn decode(&self, _stored: &Stored<'_, '_>, row: &mut Row<'_>, memory: &mut Memory) -> Result<()> {
        self.rows.write(SampleIds::Stored(&memory.labels, DType::Int64), row, "the labels")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments() -> MaskedTokens {
        serde_json::from_str(r#"{"mask": 103, "vocab_size": 100, "special": [2, 1]}"#).expect("arguments")
    }

    fn masked(arguments: &MaskedTokens, ids: &[u32], draw: u64) -> (Vec<u32>, Vec<i64>) {
        let masks = arguments.compile(DType::Int64, FieldDraws::new(5, "ids")).expect("good arguments");
        let (mut stored, mut room, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        let key = DrawKey { epoch: 1, stream: 0, draw };
        let found = masks.apply(SampleIds::Encoded(ids), key, (&mut stored, &mut room), &mut labels).expect("ids");
        let SampleIds::Encoded(found) = found else { panic!("ids of a text stay ids of a text") };
        (found.to_vec(), labels.as_chunks().0.iter().map(|bytes| i64::from_ne_bytes(*bytes)).collect())
    }

    #[test]
    fn drawn_tokens_are_masked_random_or_kept_and_have_labels() {
        let ids: Vec<u32> = [1].into_iter().chain((0..100_000).map(|at| 10 + at % 80)).chain([2]).collect();
        let (found, labels) = masked(&arguments(), &ids, 0);
        assert_eq!((found.len(), labels.len()), (ids.len(), ids.len()));
        let mut counts = [0; 3];
        for ((before, after), label) in ids.iter().zip(&found).zip(&labels) {
            if *label == NO_LABEL {
                assert_eq!(before, after);
                continue;
            }
            assert_eq!(*label, i64::from(*before));
            counts[if *after == 103 { 0 } else { 1 + usize::from(after == before) }] += 1;
            assert!(*after == 103 || *after < 100);
        }
        let drawn = counts.iter().sum::<i32>();
        assert!((14_600..15_400).contains(&drawn), "{drawn}");
        let percent = counts.map(|count| (f64::from(count) * 100.0 / f64::from(drawn)).round() as i32);
        assert!((79..=81).contains(&percent[0]) && (9..=11).contains(&percent[1]), "{percent:?}");
    }

    #[test]
    fn special_tokens_are_never_drawn_and_documents_have_their_own_draws() {
        let all = MaskedTokens { probability: 1.0, mask_replace: 1.0, random_replace: 0.0, ..arguments() };
        assert_eq!(masked(&all, &[1, 7, 2, 8], 0), (vec![1, 103, 2, 103], vec![-100, 7, -100, 8]));
        let nothing = MaskedTokens { probability: 0.0, ..arguments() };
        assert_eq!(masked(&nothing, &[1, 7], 0), (vec![1, 7], vec![-100, -100]));
        let ids: Vec<u32> = (10..90).collect();
        assert_eq!(masked(&arguments(), &ids, 3), masked(&arguments(), &ids, 3));
        assert_ne!(masked(&arguments(), &ids, 3).1, masked(&arguments(), &ids, 4).1);
        // More tokens at the end change nothing before them.
        assert_eq!(masked(&arguments(), &ids[..40], 3).1, masked(&arguments(), &ids, 3).1[..40]);
    }

    #[test]
    fn whole_words_are_drawn_together_and_as_often_as_tokens() {
        // Ids from 50 on continue a word, 1 is special.
        let whole = MaskedTokens { continues: (50..100).rev().collect(), probability: 0.2, ..arguments() };
        let ids: Vec<u32> = (0..60_000_u32).map(|at| [10, 60, 70, 11, 1, 61, 12][at as usize % 7]).collect();
        let (after, labels) = masked(&whole, &ids, 0);
        let drawn = |at: usize| labels[at] != -100;
        let (mut words, mut counts) = ([0; 2], [0; 3]);
        for start in (0..ids.len() - 6).step_by(7) {
            assert!(drawn(start) == drawn(start + 1) && drawn(start) == drawn(start + 2));
            assert!(!drawn(start + 4), "a special token is never drawn");
            words[usize::from(drawn(start))] += 1;
            // The token after a special one begins a word, whatever its id.
            words[usize::from(drawn(start + 5))] += 1;
        }
        for (at, (before, after)) in ids.iter().zip(&after).enumerate().filter(|(at, _)| drawn(*at)) {
            assert_eq!(labels[at], i64::from(*before));
            counts[if *after == 103 { 0 } else { 1 + usize::from(after == before) }] += 1;
        }
        let percent = |part: i32, all: i32| (f64::from(part) * 100.0 / f64::from(all)).round() as i32;
        assert!((19..=21).contains(&percent(words[1], words[0] + words[1])), "{words:?}");
        let all = counts.iter().sum();
        assert!((79..=81).contains(&percent(counts[0], all)) && (9..=11).contains(&percent(counts[1], all)));
        assert_eq!(masked(&whole, &ids[..400], 0).1, labels[..400]);
        // Without words a token has the draws that it had before there were words.
        let tokens = MaskedTokens { continues: Vec::new(), ..whole };
        assert!((0..100).any(|at| masked(&tokens, &ids, 0).1[7 * at] != masked(&tokens, &ids, 0).1[7 * at + 1]));
    }

    #[test]
    fn arguments_out_of_range_are_rejected_by_name() {
        let error = |arguments: MaskedTokens, dtype| {
            arguments.compile(dtype, FieldDraws::new(5, "ids")).expect_err("rejected").to_string()
        };
        assert!(error(MaskedTokens { probability: 1.5, ..arguments() }, DType::Int64).contains("probability of mask"));
        let sum = MaskedTokens { random_replace: 0.5, ..arguments() };
        assert!(error(sum, DType::Int64).contains("mask_replace + random_replace"));
        assert!(error(arguments(), DType::UInt32).contains("signed `dtype`"));
        assert!(error(MaskedTokens { vocab_size: 70_000, ..arguments() }, DType::Int16).contains("does not fit"));
        assert!(error(MaskedTokens { vocab_size: 0, ..arguments() }, DType::Int64).contains("vocab_size"));
    }
}
