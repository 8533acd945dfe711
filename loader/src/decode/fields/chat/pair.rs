//! Preference pairs: the ids of a prompt and of both answers, with the ids of TRL's `DPOTrainer`.
//!
//! The prompt is encoded alone, and with each answer. An answer begins with the first token that differs from the
//! prompt's, which is not always the end of the prompt: a token may have its last and the answer's first characters.
//! The row of the field is the prompt; the rows of the answers are further outputs.

use serde_json::Value;

use crate::decode::fields::kind::Compiled;
use crate::decode::fields::token_row::{SampleIds, TokenRow};
use crate::decode::row::Row;
use crate::decode::step::{Decode, Memory, Stored};
use crate::error::{Error, Result};

/// Names of the outputs with the answers, in the order of `Memory::answers`.
const NAMES: [&str; 2] = ["chosen_ids", "rejected_ids"];

/// Prompt, and both conversations with it.
pub(super) struct Pair(pub(super) [Value; 3]);

/// Compiles the outputs of the answers of a field with these rows and this column.
pub(super) fn answers_of(column: usize, row: TokenRow) -> Vec<(&'static str, Compiled)> {
    let compiled = |place| Compiled::new(column, AnswerDecoder { place, row }, row.dtype, row.shape());
    NAMES.into_iter().enumerate().map(|(place, name)| (name, compiled(place))).collect()
}

/// Decoder of an answer, from the memory that the step of the prompt leaves.
#[derive(Debug)]
struct AnswerDecoder {
    place: usize,
    row: TokenRow,
}

impl Decode for AnswerDecoder {
    fn decode(&self, _stored: &Stored<'_, '_>, row: &mut Row<'_>, memory: &mut Memory) -> Result<()> {
        self.row.write(SampleIds::Encoded(&memory.answers[self.place]), row, "Chat")
    }
}

/// Cuts the prompt of a pair where an answer begins, and removes it from the whole `answers`. Returns its tokens, and
/// the number of the first answer without a token.
pub(super) fn cut(prompt: &mut Vec<u32>, answers: &mut [Vec<u32>; 2]) -> (usize, Option<usize>) {
    let common = |ids: &Vec<u32>| prompt.iter().zip(ids).take_while(|(one, other)| one == other).count();
    let length = answers.iter().map(common).min().unwrap_or(0);
    prompt.truncate(length);
    answers.iter_mut().for_each(|ids| drop(ids.drain(..length)));
    (length, answers.iter().position(Vec::is_empty))
}

impl Pair {
    /// Returns the pair of a prompt and two answers, or of two whole conversations or texts. `end` ends texts.
    pub(super) fn of(prompt: Option<Value>, answers: [Value; 2], end: Option<&str>) -> Result<Self> {
        match (prompt, answers) {
            (Some(Value::Array(prompt)), [Value::Array(chosen), Value::Array(rejected)])
                if !chosen.is_empty() && !rejected.is_empty() =>
            {
                let with = |answer: Vec<Value>| Value::Array(prompt.iter().cloned().chain(answer).collect());
                Ok(Self([Value::Array(prompt.clone()), with(chosen), with(rejected)]))
            }
            (None, [chosen @ Value::Array(_), rejected @ Value::Array(_)]) => {
                let first = common_messages(&chosen, &rejected)?;
                let prompt = chosen.as_array().into_iter().flatten().take(first).cloned().collect();
                Ok(Self([Value::Array(prompt), chosen, rejected]))
            }
            (Some(Value::String(prompt)), [Value::String(chosen), Value::String(rejected)]) => {
                let with = |answer: String| Value::String(format!("{prompt}{}", ended(answer, end)));
                let [chosen, rejected] = [chosen, rejected].map(with);
                Ok(Self([Value::String(prompt), chosen, rejected]))
            }
            (None, [Value::String(chosen), Value::String(rejected)]) => {
                let common = common_text(&chosen, &rejected);
                let prompt = Value::String(chosen[..common].to_owned());
                Self::of(Some(prompt), [chosen, rejected].map(|text| Value::from(&text[common..])), end)
            }
            _ => Err(Error::decode(
                "the columns of a preference pair are all texts, or all lists of messages that are not empty",
            )),
        }
    }
}

fn ended(mut text: String, end: Option<&str>) -> String {
    if let Some(end) = end
        && !text.ends_with(end)
    {
        text.push_str(end);
    }
    text
}

/// Returns the bytes of the prompt that two texts begin with, as TRL finds it: without a space at its end, and without
/// the last character of the shorter text.
fn common_text(chosen: &str, rejected: &str) -> usize {
    let equal = chosen.chars().zip(rejected.chars()).take_while(|(one, other)| one == other).count();
    let shorter = chosen.chars().count().min(rejected.chars().count());
    let at = |count: usize| chosen.char_indices().nth(count).map_or(chosen.len(), |(at, _)| at);
    if equal == shorter {
        return at(shorter.saturating_sub(1));
    }
    let end = at(equal);
    if chosen[..end].ends_with(' ') { end - 1 } else { end }
}

/// Returns the number of messages that both conversations of a pair begin with.
pub(super) fn common_messages(own: &Value, other: &Value) -> Result<usize> {
    let (Some(own), Some(other)) = (own.as_array(), other.as_array()) else {
        return Err(Error::decode("`against` of Chat is for pairs of lists of messages: pass a `prompt` for texts"));
    };
    let equal = own.iter().zip(other).take_while(|(a, b)| a == b).count();
    match equal.min(own.len().min(other.len()).saturating_sub(1)) {
        0 => Err(Error::decode("the conversations of the pair begin with different messages, so they have no prompt")),
        first => Ok(first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_of_texts_ends_before_a_space_and_before_the_last_character() {
        for (chosen, rejected, prompt) in [
            ("The sky is blue.", "The sky is green.", "The sky is"),
            ("é: a", "é: b", "é:"),
            ("abc", "abd", "ab"),
            ("abc", "abcd", "ab"),
            ("x", "y", ""),
            ("", "y", ""),
        ] {
            assert_eq!(&chosen[..common_text(chosen, rejected)], prompt);
        }
    }
}
