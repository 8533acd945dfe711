//! Preference pairs: the ids of a prompt and of both answers, with the ids of TRL's `DPOTrainer`.
//!
//! The prompt is encoded alone, and with each answer. An answer begins with the first token that differs from the
//! prompt's, which is not always the end of the prompt: a token may have its last and the answer's first characters.
//! The row of the field is the prompt; the rows of the answers are further outputs.

use forebay_text::chat::Conversation;
use serde_json::Value;

use super::{ChatColumn, ChatDecoder, common_messages};
use crate::decode::fields::kind::Compiled;
use crate::decode::fields::token_row::{SampleIds, TokenRow};
use crate::decode::row::Row;
use crate::decode::step::{Decode, Memory, Stored};
use crate::error::{Error, Result};

/// Names of the outputs with the answers, in the order of [`Answers`].
const NAMES: [&str; 2] = ["chosen_ids", "rejected_ids"];

/// Token ids of the two answers of a pair, in memory that is kept.
#[derive(Default)]
pub(in crate::decode) struct Answers([Vec<u32>; 2]);

/// Prompt, and both conversations with it.
struct Pair([Value; 3]);

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
        self.row.write(SampleIds::Encoded(&memory.answers.0[self.place]), row, "Chat")
    }
}

impl ChatDecoder {
    /// Writes the ids of the prompt of a pair, and leaves the ids of its answers in `memory`.
    pub(super) fn write_pair(&self, stored: &Stored<'_, '_>, row: &mut Row<'_>, memory: &mut Memory) -> Result<()> {
        let column = stored.column;
        let read = |of: &ChatColumn| of.read_from(column);
        let against = self.against.as_ref().ok_or_else(|| Error::internal("a pair without a second column"))?;
        let pair = Pair::of(
            self.prompt.as_ref().map(read).transpose()?,
            [self.column.read(stored.bytes)?, read(against)?],
            self.end_of_text(),
        )?;
        let tools = self.tools_of(column)?;
        let Memory { ids, changed: prompt, answers: Answers(answers), .. } = memory;
        for (place, value) in pair.0.iter().enumerate() {
            match value {
                Value::String(text) => self.tokenizer_of_texts()?.encode(text, ids)?,
                messages => {
                    let conversation = Conversation::of(messages, tools.as_ref(), &self.chat.variables)?;
                    let is_prompt = place == 0;
                    let text = self.template()?.render(&conversation, conversation.count(), is_prompt)?.text;
                    self.tokenizer.encode(&text, ids)?;
                }
            }
            let kept = if place == 0 { &mut *prompt } else { &mut answers[place - 1] };
            kept.clear();
            kept.extend_from_slice(ids.as_slice());
        }
        ids.shrink();
        let common = |ids: &Vec<u32>| prompt.iter().zip(ids).take_while(|(one, other)| one == other).count();
        let length = answers.iter().map(common).min().unwrap_or(0);
        if let Some(most) = self.chat.prompt_max.filter(|most| length > *most) {
            let message = "the prompt of the pair has more tokens than max_length leaves for it, so no answer would be \
                           trained: raise max_length of Chat, or leave such samples out with skip.errors";
            return Err(Error::decode(message).with("tokens", length).with("most", most));
        }
        if let Some(place) = answers.iter().position(|ids| ids.len() == length) {
            let name = if place == 0 { &self.column.name } else { &against.name };
            return Err(Error::decode("an answer of the pair has no token after the prompt").with("column", name));
        }
        prompt.truncate(length);
        answers.iter_mut().for_each(|ids| drop(ids.drain(..length)));
        self.row.write(SampleIds::Encoded(prompt), row, "Chat")
    }
}

impl Pair {
    /// Returns the pair of a prompt and two answers, or of two whole conversations or texts. `end` ends texts.
    fn of(prompt: Option<Value>, answers: [Value; 2], end: Option<&str>) -> Result<Self> {
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
