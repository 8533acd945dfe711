use std::collections::BTreeSet;

use tokenizers::pipeline::{Normalizer as _, PipelinePreTokenizer, PreTokenizer as _, PreTokenizerScratch};
use tokenizers::pre_tokenizers::{bert, digits, punctuation, sequence, split, whitespace};
use tokenizers::utils::DEEPSEEK_PATTERNS;
use tokenizers::{SplitDelimiterBehavior, normalizers};
use tokenizers_stable as stable;
use tokenizers_stable::{Normalizer as _, PreTokenizer as _, PreTokenizerWrapper};

use super::{PATTERNS, REST};

const GPT_2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA_3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const O200K: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

fn splits() -> Vec<(PipelinePreTokenizer, Vec<PreTokenizerWrapper>)> {
    let one = |pattern: &str| {
        let pattern = split::SplitPattern::Regex(pattern.to_owned());
        PipelinePreTokenizer::Split(split::Split::native(pattern, SplitDelimiterBehavior::Isolated, false).unwrap())
    };
    let old = |pattern: &str| {
        let pattern = stable::pre_tokenizers::split::SplitPattern::Regex(pattern.to_owned());
        let split = stable::pre_tokenizers::split::Split::new(pattern, stable::SplitDelimiterBehavior::Isolated, false);
        split.unwrap().into()
    };
    let mut pairs: Vec<_> = [GPT_2, LLAMA_3, O200K].iter().map(|p| (one(p), vec![old(p)])).collect();
    let parts = DEEPSEEK_PATTERNS.iter().map(|p| one(p)).collect();
    let deepseek = PipelinePreTokenizer::Sequence(sequence::PipelineSequence::new(parts));
    pairs.push((deepseek, DEEPSEEK_PATTERNS.iter().map(|p| old(p)).collect()));
    pairs
}

fn classes() -> Vec<(PipelinePreTokenizer, Vec<PreTokenizerWrapper>)> {
    use stable::pre_tokenizers::whitespace as old_whitespace;
    use stable::pre_tokenizers::{bert as old_bert, digits as old_digits, punctuation as old_punctuation};
    vec![
        (PipelinePreTokenizer::Whitespace(whitespace::Whitespace), vec![old_whitespace::Whitespace.into()]),
        (
            PipelinePreTokenizer::WhitespaceSplit(whitespace::WhitespaceSplit),
            vec![old_whitespace::WhitespaceSplit.into()],
        ),
        (PipelinePreTokenizer::Digits(digits::Digits::new(true)), vec![old_digits::Digits::new(true).into()]),
        (
            PipelinePreTokenizer::Punctuation(punctuation::Punctuation::new(SplitDelimiterBehavior::Isolated)),
            vec![old_punctuation::Punctuation::new(stable::SplitDelimiterBehavior::Isolated).into()],
        ),
        (PipelinePreTokenizer::Bert(bert::BertPreTokenizer), vec![old_bert::BertPreTokenizer.into()]),
    ]
}

fn differs(
    text: &str,
    pairs: &[(PipelinePreTokenizer, Vec<PreTokenizerWrapper>)],
    scratch: &mut PreTokenizerScratch,
) -> bool {
    pairs.iter().any(|(new, old)| {
        let mut spans = Vec::new();
        new.pre_tokenize(text, scratch, &mut spans).unwrap();
        let mut splits = stable::PreTokenizedString::from(text);
        old.iter().for_each(|one| one.pre_tokenize(&mut splits).unwrap());
        let splits = splits.get_splits(stable::OffsetReferential::Original, stable::OffsetType::Byte);
        let splits =
            splits.iter().map(|(_, (start, end), _)| (*start as u32, *end as u32)).filter(|(start, end)| start < end);
        !splits.eq(spans.iter().map(|span| (span.start, span.end)))
    })
}

fn normal_differs(text: &str) -> bool {
    let old = |normalizer: &dyn Fn(&mut stable::NormalizedString)| {
        let mut text = stable::NormalizedString::from(text);
        normalizer(&mut text);
        text.get().to_owned()
    };
    let bert = stable::normalizers::BertNormalizer::new(true, true, Some(true), true);
    normalizers::NFC.normalize(text, 0).unwrap()
        != old(&|t| {
            t.nfc();
        })
        || normalizers::NFD.normalize(text, 0).unwrap()
            != old(&|t| {
                t.nfd();
            })
        || normalizers::NFKC.normalize(text, 0).unwrap()
            != old(&|t| {
                t.nfkc();
            })
        || normalizers::NFKD.normalize(text, 0).unwrap()
            != old(&|t| {
                t.nfkd();
            })
        || normalizers::StripAccents::new().normalize(text, 0).unwrap()
            != old(&|t| stable::normalizers::StripAccents.normalize(t).unwrap())
        || normalizers::Lowercase.normalize(text, 0).unwrap()
            != old(&|t| {
                t.lowercase();
            })
        || normalizers::BertNormalizer::new(true, true, Some(true), true).normalize(text, 0).unwrap()
            != old(&|t| bert.normalize(t).unwrap())
}

/// Characters around the ends of the ranges of the tables, and each 13th one of the blocks with further scripts.
fn sampled() -> BTreeSet<char> {
    let ends = PATTERNS.iter().chain(REST).flat_map(|&(first, last)| (first - 2..=first).chain(last..=last + 2));
    let blocks = (0x80..0x4e00).chain(0x9fa6..0xac00).chain(0xd7a4..0xd800).chain(0xf900..0x2_0000);
    let blocks = blocks.chain(0x2_a6d7..0x3_3500).chain(0xe_0000..0xe_01f0).step_by(13);
    ends.chain(blocks).filter_map(char::from_u32).collect()
}

#[test]
fn characters_with_different_treatment_are_in_the_tables() {
    let (splits, classes) = (splits(), classes());
    let mut scratch = PreTokenizerScratch::default();
    let is_in = |table: &[(u32, u32)], c: char| table.iter().any(|&(first, last)| (first..=last).contains(&(c as u32)));
    let mut missing = Vec::new();
    for c in sampled().into_iter().filter(|&c| !is_in(PATTERNS, c)) {
        let text = format!(
            "a{c} {c}A{c}a1{c}1 {c}1.{c}. .{c}a  {c}\n{c}\u{e9}{c}'s\u{301}{c}\u{323}{c}\u{5b0}\u{334}{c}\u{4e2d}{c} \
             a'{c}b"
        );
        let is_missing = differs(&text, &splits, &mut scratch)
            || !is_in(REST, c) && (differs(&text, &classes, &mut scratch) || normal_differs(&text));
        missing.extend(is_missing.then_some(c as u32));
    }
    assert!(missing.is_empty(), "{missing:x?}");
}
