//! Fill-in-the-middle: the middle of a document is moved to its end, so that a model learns to fill gaps.
//!
//! ```text
//!  bos  prefix  middle  suffix  eod
//!  PSM: bos <prefix> prefix <suffix> suffix <middle> middle eod
//!  SPM: bos <prefix> <suffix> suffix <middle> prefix middle eod
//! ```
//!
//! The parts are cut between tokens, so a document has exactly three tokens more, and the plan of packs knows how long
//! it is without its text: see [`Rearrangement::added`]. Megatron cuts between characters and encodes the parts again,
//! after which the number of tokens is not known before the text is read.

use serde::{Deserialize, Serialize};

use super::token_row::SampleIds;
use crate::decode::draw::{DrawKey, Draws, FieldDraws, RandomOp};
use crate::decode::numeric;
use crate::error::{Error, Result};
use crate::format::encoding::DType;

/// Least tokens of a document that is rearranged: one, and the tokens at its ends.
const TOKENS_MIN: u64 = 3;

/// Tokens that mark the parts of a rearranged document.
const MARKS: u32 = 3;

/// Arguments of fill-in-the-middle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FillInMiddle {
    /// Probability that a document is rearranged.
    pub rate: f64,
    /// Probability that a rearranged document has its suffix first.
    #[serde(default = "half")]
    pub spm_rate: f64,
    /// Id before the prefix.
    pub prefix: u32,
    /// Id before the middle.
    pub middle: u32,
    /// Id before the suffix.
    pub suffix: u32,
    /// Id that stays the first one, where a document begins with it.
    #[serde(default)]
    pub bos: Option<u32>,
    /// Id that stays the last one, where a document ends with it.
    #[serde(default)]
    pub eod: Option<u32>,
}

fn half() -> f64 {
    0.5
}

impl FillInMiddle {
    /// Returns the rearrangement with the draws of a field of ids of this type.
    ///
    /// # Errors
    /// A probability outside of 0 to 1, an id that the type does not have, or equal ids of two marks.
    pub(super) fn compile(&self, dtype: DType, draws: FieldDraws) -> Result<Rearrangement> {
        for (name, value) in [("rate", self.rate), ("spm_rate", self.spm_rate)] {
            if !(0.0..=1.0).contains(&value) {
                return Err(Error::config(format!("{name} of fim is a probability, from 0 to 1")).with(name, value));
            }
        }
        for (name, id) in [("prefix", self.prefix), ("middle", self.middle), ("suffix", self.suffix)] {
            let large = |_| Error::config(format!("{name} of fim does not fit the dtype of the ids")).with(name, id);
            numeric::fill(id.into(), &mut [0; 8][..dtype.size()], dtype).map_err(large)?;
        }
        if self.prefix == self.middle || self.middle == self.suffix || self.suffix == self.prefix {
            let message = "prefix, middle and suffix of fim are three different ids: two are equal";
            return Err(Error::config(message).with("prefix", self.prefix).with("middle", self.middle));
        }
        Ok(Rearrangement { arguments: *self, draws })
    }
}

/// Fill-in-the-middle with the draws of a field.
#[derive(Clone, Copy, Debug)]
pub struct Rearrangement {
    arguments: FillInMiddle,
    draws: FieldDraws,
}

impl Rearrangement {
    /// Tokens that are added to a document of `tokens` tokens.
    pub fn added(&self, key: DrawKey, tokens: u64) -> u32 {
        if self.drawn(key, tokens).is_some() { MARKS } else { 0 }
    }

    /// Arguments on which the numbers of added tokens depend.
    pub fn argument(&self) -> String {
        format!("fim rate {}", self.arguments.rate)
    }

    /// Returns the further draws of a document that is rearranged.
    fn drawn(&self, key: DrawKey, tokens: u64) -> Option<Draws> {
        let mut draws = self.draws.of(key, RandomOp::FillInMiddle, 0);
        (tokens >= TOKENS_MIN && draws.unit() < self.arguments.rate).then_some(draws)
    }

    /// Returns the ids of a document after its draws.
    pub(super) fn apply<'m>(
        &self,
        ids: SampleIds<'m>,
        key: DrawKey,
        (stored, rearranged): (&'m mut Vec<u32>, &'m mut Vec<u32>),
    ) -> Result<SampleIds<'m>> {
        let Some(mut draws) = self.drawn(key, ids.len() as u64) else { return Ok(ids) };
        let mut body = ids.numbers(stored)?;
        let FillInMiddle { spm_rate, prefix, middle, suffix, bos, eod, .. } = self.arguments;
        rearranged.clear();
        if let Some((first, rest)) = body.split_first().filter(|(first, _)| Some(**first) == bos) {
            rearranged.push(*first);
            body = rest;
        }
        let end = body.split_last().filter(|(last, _)| Some(**last) == eod).map(|(last, rest)| {
            body = rest;
            *last
        });
        // Each part may be empty.
        let places = u32::try_from(body.len()).unwrap_or(u32::MAX - 1) + 1;
        let (one, two) = (draws.below(places) as usize, draws.below(places) as usize);
        let (before, rest) = body.split_at(one.min(two));
        let (inside, after) = rest.split_at(one.abs_diff(two));
        if draws.unit() < spm_rate {
            rearranged.extend([prefix, suffix]);
            rearranged.extend_from_slice(after);
            rearranged.push(middle);
            rearranged.extend_from_slice(before);
        } else {
            rearranged.push(prefix);
            rearranged.extend_from_slice(before);
            rearranged.push(suffix);
            rearranged.extend_from_slice(after);
            rearranged.push(middle);
        }
        rearranged.extend_from_slice(inside);
        rearranged.extend(end);
        Ok(SampleIds::Encoded(rearranged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIDDLE: FillInMiddle =
        FillInMiddle { rate: 1.0, spm_rate: 0.0, prefix: 91, middle: 92, suffix: 93, bos: Some(1), eod: Some(2) };

    fn key(draw: u64) -> DrawKey {
        DrawKey { epoch: 1, stream: 0, draw }
    }

    fn rearranged(arguments: FillInMiddle, ids: &[u32], draw: u64) -> Vec<u32> {
        let rearrangement = arguments.compile(DType::Int64, FieldDraws::new(5, "ids")).expect("good arguments");
        let (mut stored, mut room) = (Vec::new(), Vec::new());
        let found = rearrangement.apply(SampleIds::Encoded(ids), key(draw), (&mut stored, &mut room)).expect("ids");
        let SampleIds::Encoded(found) = found else { panic!("ids of a text stay ids of a text") };
        assert_eq!(found.len() as u32, ids.len() as u32 + rearrangement.added(key(draw), ids.len() as u64));
        found.to_vec()
    }

    /// The document before a rearrangement, from its parts in the order of PSM or SPM.
    fn restored(found: &[u32], is_spm: bool) -> Vec<u32> {
        let at = |id| found.iter().position(|found| *found == id).expect("a mark");
        let (prefix, suffix, middle) = (at(91), at(93), at(92));
        let (last, end) = (found.len() - 1, *found.last().expect("tokens"));
        assert_eq!((found[0], end), (1, 2), "the ends stay");
        let tail = &found[middle + 1..last];
        if is_spm {
            assert_eq!(suffix, prefix + 1);
            return [&[1], tail, &found[suffix + 1..middle], &[2]].concat();
        }
        [&[1], &found[prefix + 1..suffix], tail, &found[suffix + 1..middle], &[2]].concat()
    }

    #[test]
    fn the_parts_of_a_rearranged_document_are_the_document() {
        let ids: Vec<u32> = [1].into_iter().chain(10..30).chain([2]).collect();
        let mut cuts = std::collections::HashSet::new();
        for draw in 0..200 {
            let found = rearranged(MIDDLE, &ids, draw);
            assert_eq!(restored(&found, false), ids);
            let spm = rearranged(FillInMiddle { spm_rate: 1.0, ..MIDDLE }, &ids, draw);
            assert_eq!(restored(&spm, true), ids);
            cuts.insert(found);
        }
        assert!(cuts.len() > 100, "{}", cuts.len());
    }

    #[test]
    fn documents_are_rearranged_at_the_rate_and_short_ones_never() {
        let ids: Vec<u32> = (10..20).collect();
        let arguments = FillInMiddle { rate: 0.3, ..MIDDLE };
        let changed = (0..10_000).filter(|draw| rearranged(arguments, &ids, *draw) != ids).count();
        assert!((2_800..3_200).contains(&changed), "{changed}");
        let is_spm = |draw: &u64| rearranged(FillInMiddle { spm_rate: 0.5, ..MIDDLE }, &ids, *draw)[..2] == [91, 93];
        // Some of PSM have no prefix.
        assert!((4_800..6_000).contains(&(0..10_000).filter(is_spm).count()));
        assert_eq!(rearranged(MIDDLE, &[1, 2], 0), [1, 2]);
        assert_eq!(rearranged(FillInMiddle { rate: 0.0, ..MIDDLE }, &ids, 0), ids);
    }

    #[test]
    fn stored_ids_of_any_type_are_rearranged() {
        let rearrangement = MIDDLE.compile(DType::Int32, FieldDraws::new(5, "ids")).expect("good arguments");
        let bytes: Vec<u8> = (10..20_u16).flat_map(u16::to_ne_bytes).collect();
        let (mut stored, mut room) = (Vec::new(), Vec::new());
        let ids = SampleIds::Stored(&bytes, DType::UInt16);
        let found = rearrangement.apply(ids, key(3), (&mut stored, &mut room)).expect("ids");
        let SampleIds::Encoded(found) = found else { panic!("rearranged") };
        assert_eq!(found, rearranged(MIDDLE, &(10..20).collect::<Vec<_>>(), 3));
    }

    #[test]
    fn arguments_out_of_range_are_rejected_by_name() {
        let error = |arguments: FillInMiddle, dtype| {
            arguments.compile(dtype, FieldDraws::new(5, "ids")).expect_err("rejected").to_string()
        };
        assert!(error(FillInMiddle { rate: 1.5, ..MIDDLE }, DType::Int64).contains("rate of fim"));
        assert!(error(FillInMiddle { spm_rate: f64::NAN, ..MIDDLE }, DType::Int64).contains("spm_rate of fim"));
        assert!(error(FillInMiddle { suffix: 70_000, ..MIDDLE }, DType::UInt16).contains("suffix of fim"));
        for equal in [
            FillInMiddle { prefix: 92, ..MIDDLE },
            FillInMiddle { middle: 93, ..MIDDLE },
            FillInMiddle { suffix: 91, ..MIDDLE },
        ] {
            assert!(error(equal, DType::Int64).contains("three different ids"));
        }
    }
}
