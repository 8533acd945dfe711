//! Fields of token ids of conversations. Their labels, the trained ids, are the output `labels`. `pair` has both
//! conversations of a preference pair.

mod pair;

use std::sync::{Arc, OnceLock};

use forebay_text::chat::{ChatTemplate, Conversation, TrainOn};
use forebay_text::{End, Ids, Settings, Special, Tokenizer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::column::{Columns, is_text, unsuitable};
use super::kind::{Compiled, FieldKind, int64};
use super::masked_tokens::{NO_LABEL, labels_of};
use super::token_row::{SampleIds, TokenRow};
use crate::decode::draw::FieldDraws;
use crate::decode::numeric;
use crate::decode::row::Row;
use crate::decode::step::{Decode, Memory, Stored, StoredColumn};
use crate::error::{Context, Error, Result};
use crate::format::encoding::{DType, Encoding};
use pair::{Pair, common_messages};

/// The token ids of a conversation per sample, with the output `labels`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chat {
    /// The column: messages as JSON; with `prompt`, the completion.
    pub column: String,
    /// The text of a `tokenizer.json` of Hugging Face.
    pub tokenizer: String,
    /// Chat template in Jinja. Without it a prompt and its completion are texts.
    #[serde(default)]
    pub template: Option<String>,
    /// Name of the template in errors.
    #[serde(default = "unnamed")]
    pub template_name: String,
    /// Variables of the template, such as `bos_token`.
    #[serde(default)]
    pub variables: Map<String, Value>,
    /// Day that the template sees as the current one, such as `"2026-11-29"`.
    #[serde(default)]
    pub date: Option<String>,
    /// Column of the tools, as JSON. A sample may lack it.
    #[serde(default)]
    pub tools: Option<String>,
    /// Column of the prompt: messages, or text. The column itself is the completion: only it is trained.
    #[serde(default)]
    pub prompt: Option<String>,
    /// Column of the second conversation of a pair. The messages that both begin with are the prompt.
    #[serde(default)]
    pub against: Option<String>,
    /// Most tokens of the prompt of a pair. A longer one is an error.
    #[serde(default)]
    pub prompt_max: Option<usize>,
    /// Messages that are trained.
    #[serde(default)]
    pub train_on: ChatTurns,
    /// Part of the tokens that is the row.
    #[serde(default)]
    pub part: ChatPart,
    /// Tokens per row. Without it every row is an array of its own length.
    #[serde(default)]
    pub length: Option<usize>,
    /// Type of the output.
    #[serde(default = "int64")]
    pub dtype: DType,
    /// Padding at the end of shorter samples; without it a shorter sample is an error.
    #[serde(default)]
    pub pad: Option<i64>,
    /// If true, only the first tokens of a longer sample are kept. Otherwise it is an error.
    #[serde(default)]
    pub truncate: bool,
}

/// Messages that are trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatTurns {
    /// All messages of the model.
    #[default]
    Assistant,
    /// The last message of the model.
    Last,
    /// Messages by their own flag `train`, `weight` or `loss_mask`. Without a flag the messages of the model.
    Flag,
}

/// Part of the tokens of a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatPart {
    /// All ids, with their labels: the trained ids, and -100 for the rest.
    #[default]
    Ids,
    /// The ids of the prompt.
    Prompt,
    /// The ids after the prompt.
    Completion,
    /// The ids of the prompt of a pair, with the outputs `chosen_ids` and `rejected_ids`.
    Pair,
}

fn unnamed() -> String {
    "chat template".to_owned()
}

impl FieldKind for Chat {
    fn column(&self) -> &str {
        &self.column
    }

    fn compile(&self, columns: Columns<'_>, _draws: FieldDraws) -> Result<Compiled> {
        let decoder = ChatDecoder::new(self, columns)?;
        let (index, shape) = (decoder.column.index, decoder.row.shape());
        Ok(Compiled::new(index, decoder, self.dtype, shape))
    }

    fn compile_further(&self, columns: Columns<'_>) -> Result<Vec<(&'static str, Compiled)>> {
        let column = columns.find(&self.column)?.0;
        Ok(match self.part {
            ChatPart::Ids => labels_of(column, self.row()),
            ChatPart::Pair => pair::answers_of(column, self.row()),
            ChatPart::Prompt | ChatPart::Completion => Vec::new(),
        })
    }
}

impl Chat {
    /// All columns; true for a column that a sample may lack.
    pub(super) fn columns(&self) -> Vec<(&str, bool)> {
        let further = [(&self.prompt, false), (&self.against, false), (&self.tools, true)];
        let further = further.into_iter().filter_map(|(name, is_optional)| Some((name.as_deref()?, is_optional)));
        std::iter::once((&*self.column, false)).chain(further).collect()
    }

    fn row(&self) -> TokenRow {
        let &Self { length, dtype, pad, truncate, .. } = self;
        TokenRow { length, dtype, pad, truncate }
    }

    /// Returns the field with lists of any length as its rows.
    ///
    /// # Errors
    /// A part of a conversation, or a conversation of a pair: packs are made of whole documents that are trained alone.
    pub(super) fn lists(&self) -> Result<Self> {
        if self.against.is_some() {
            return Err(Error::config(
                "packs and lengths in tokens have no preference pairs, because a loss compares both conversations of a \
                 pair, and packs separate them: leave `window` out, or leave `against` out of Chat to train the \
                 conversations of one column",
            ));
        }
        if self.part != ChatPart::Ids {
            return Err(Error::config(
                "packs and lengths in tokens are made of whole conversations, with their labels: leave `part` out of \
                 Chat",
            ));
        }
        Ok(Self { length: None, pad: None, truncate: false, ..self.clone() })
    }

    fn check(&self) -> Result<()> {
        let is_pair = self.part == ChatPart::Pair;
        if self.prompt.is_some() && self.against.is_some() && !is_pair {
            return Err(Error::config(
                "`prompt` and `against` of Chat both name a prompt: pass one of them, or part=\"pair\"",
            ));
        }
        if is_pair && self.against.is_none() {
            return Err(Error::config(
                "part=\"pair\" of Chat has two conversations: pass the column of the rejected one as `against`",
            ));
        }
        if self.prompt_max.is_some() && !is_pair {
            return Err(Error::config("`prompt_max` of Chat is for part=\"pair\": leave it out"));
        }
        let has_prompt = self.prompt.is_some() || self.against.is_some();
        if !has_prompt && matches!(self.part, ChatPart::Prompt | ChatPart::Completion) {
            return Err(Error::config("`part` of Chat needs a prompt: pass its column as `prompt`, or `against`"));
        }
        if has_prompt && self.train_on != ChatTurns::Assistant {
            return Err(Error::config(
                "`train_on` of Chat is for whole conversations: a completion is trained as a whole",
            ));
        }
        if self.template.is_none() && self.prompt.is_none() && !is_pair {
            return Err(Error::config(
                "Chat needs a chat template: pass `template`, a path or its text, or a tokenizer with a \
                 chat_template.jinja or a tokenizer_config.json next to it",
            ));
        }
        let signed = numeric::fill(NO_LABEL, &mut [0; 8][..self.dtype.size()], self.dtype);
        if self.part == ChatPart::Ids && signed.is_err() {
            let message = "labels that no loss counts are -100: pass a signed `dtype` to Chat";
            return Err(Error::config(message).with("dtype", self.dtype));
        }
        Ok(())
    }
}

/// Column of a conversation.
#[derive(Clone, Debug)]
struct ChatColumn {
    index: usize,
    name: String,
    is_json: bool,
    /// True if a sample may have a text instead of messages.
    may_be_text: bool,
}

impl ChatColumn {
    fn find(columns: Columns<'_>, name: &str, may_be_text: bool) -> Result<Self> {
        let (index, column) = columns.find(name)?;
        if !is_text(column) && column.encoding != Encoding::Bytes {
            return Err(unsuitable(column, "a Chat field needs columns of JSON documents, text or bytes"));
        }
        Ok(Self { index, name: name.to_owned(), is_json: column.encoding == Encoding::Json, may_be_text })
    }

    /// Reads the value of a sample. `column` returns its stored bytes.
    fn read_from(&self, column: StoredColumn<'_, '_>) -> Result<Value> {
        let absent = || Error::decode("the sample lacks a column of its conversation").with("column", &self.name);
        self.read(column(self.index).ok_or_else(absent)?)
    }

    /// Reads a stored value: a list of messages, or text.
    fn read(&self, bytes: &[u8]) -> Result<Value> {
        let parsed = serde_json::from_slice::<Value>(bytes);
        match parsed {
            Ok(value) if self.is_json || value.is_array() && (!self.may_be_text || is_messages(&value)) => Ok(value),
            Err(e) if self.is_json => Err(Error::decode(format!("the column is not JSON: {e}"))),
            _ => {
                let text = std::str::from_utf8(bytes).map_err(|_| Error::decode("the text is not UTF-8"))?;
                Ok(Value::from(text))
            }
        }
        .context("column", || &self.name)
    }
}

/// True for a list of messages. An answer that is text may be a list in JSON, too.
fn is_messages(value: &Value) -> bool {
    let is_message = |item: &Value| item.get("role").or_else(|| item.get("from")).is_some();
    value.as_array().is_some_and(|items| !items.is_empty() && items.iter().all(is_message))
}

/// Decoder of the tokens of a conversation.
#[derive(Debug)]
struct ChatDecoder {
    column: ChatColumn,
    prompt: Option<ChatColumn>,
    against: Option<ChatColumn>,
    tools: Option<ChatColumn>,
    tokenizer: Arc<Tokenizer>,
    /// Tokenizer of prompts that are texts, with the tokens that it adds before a text.
    of_texts: OnceLock<Result<Arc<Tokenizer>>>,
    template: Option<ChatTemplate>,
    chat: Arc<Chat>,
    row: TokenRow,
}

impl ChatDecoder {
    fn new(chat: &Chat, columns: Columns<'_>) -> Result<Self> {
        chat.check()?;
        let row = chat.row();
        row.check("Chat")?;
        let may_be_text = chat.prompt.is_some() || chat.part == ChatPart::Pair;
        let find = |name: &str| ChatColumn::find(columns, name, may_be_text);
        let further = |name: &Option<String>| name.as_deref().map(find).transpose();
        let template = chat.template.as_deref();
        let template =
            template.map(|source| ChatTemplate::new(&chat.template_name, source, chat.date.as_deref())).transpose()?;
        let settings = Settings { bos: End::Nothing, eos: End::Nothing, allowed: Special::All, encoding: None };
        let tokenizer = Tokenizer::load(&chat.tokenizer, &settings)?;
        row.check_ids(tokenizer.id_max(), "Chat")?;
        Ok(Self {
            column: find(&chat.column)?,
            prompt: further(&chat.prompt)?,
            against: further(&chat.against)?,
            tools: chat.tools.as_deref().map(|name| ChatColumn::find(columns, name, false)).transpose()?,
            tokenizer,
            of_texts: OnceLock::new(),
            template,
            chat: Arc::new(chat.clone()),
            row,
        })
    }

    /// Makes the tokens of a conversation.
    fn make(&self, bytes: &[u8], column: StoredColumn<'_, '_>, tokens: (&mut Ids, &mut Vec<bool>)) -> Result<()> {
        let read = |of: &ChatColumn| of.read_from(column);
        let own = self.column.read(bytes)?;
        let (messages, on) = match (&self.prompt, &self.against) {
            (Some(prompt), _) => match (read(prompt)?, own) {
                (Value::String(prompt), Value::String(completion)) => {
                    return self.encode_texts(prompt, &completion, tokens);
                }
                (Value::Array(mut messages), Value::Array(completion)) if !completion.is_empty() => {
                    let first = messages.len();
                    messages.extend(completion);
                    (Value::Array(messages), TrainOn::From(first))
                }
                _ => {
                    let message =
                        "a prompt and its completion are two texts, or two lists of messages that are not empty";
                    return Err(Error::decode(message)
                        .with("prompt", &prompt.name)
                        .with("completion", &self.column.name));
                }
            },
            (None, Some(against)) => {
                let first = common_messages(&own, &read(against)?)?;
                (own, TrainOn::From(first))
            }
            (None, None) => {
                let on = match self.chat.train_on {
                    ChatTurns::Assistant => TrainOn::Assistant,
                    ChatTurns::Last => TrainOn::Last,
                    ChatTurns::Flag => TrainOn::Flag,
                };
                (own, on)
            }
        };
        let tools = self.tools_of(column)?;
        let conversation = Conversation::of(&messages, tools.as_ref(), &self.chat.variables)?;
        let trained = self.template()?.train(&conversation, on)?;
        self.tokenizer.encode_parts(&trained.text, &trained.parts, tokens.0, tokens.1)
    }

    /// Returns the tools of a sample, if it has some.
    fn tools_of(&self, column: StoredColumn<'_, '_>) -> Result<Option<Value>> {
        match self.tools.as_ref().and_then(|tools| Some((tools, column(tools.index)?))) {
            Some((_, [])) | None => Ok(None),
            Some((tools, bytes)) => tools.read(bytes).map(Some),
        }
    }

    fn template(&self) -> Result<&ChatTemplate> {
        let needed = || Error::decode("the prompt has messages, which need a chat template: pass `template` to Chat");
        self.template.as_ref().ok_or_else(needed)
    }

    /// Tokenizer of conversations that are texts. The end of a text is `end_of_text`; the tokens after each text of a
    /// pair are TRL's.
    fn tokenizer_of_texts(&self) -> Result<&Tokenizer> {
        let tokenizer = self.of_texts.get_or_init(|| {
            let eos = if self.chat.part == ChatPart::Pair { End::Own } else { End::Nothing };
            let settings = Settings { bos: End::Own, eos, allowed: Special::All, encoding: None };
            Tokenizer::load(&self.chat.tokenizer, &settings)
        });
        tokenizer.as_deref().map_err(Error::duplicate)
    }

    /// Text of the token that ends a text, if the tokenizer has one.
    fn end_of_text(&self) -> Option<&str> {
        self.chat.variables.get("eos_token").and_then(Value::as_str)
    }

    /// Writes the ids of the prompt of a pair, and leaves the ids of its answers in `memory`.
    fn write_pair(&self, stored: &Stored<'_, '_>, row: &mut Row<'_>, memory: &mut Memory) -> Result<()> {
        let column = stored.column;
        let read = |of: &ChatColumn| of.read_from(column);
        let against = self.against.as_ref().ok_or_else(|| Error::internal("a pair without a second column"))?;
        let whole = Pair::of(
            self.prompt.as_ref().map(read).transpose()?,
            [self.column.read(stored.bytes)?, read(against)?],
            self.end_of_text(),
        )?;
        let tools = self.tools_of(column)?;
        let Memory { ids, changed: prompt, answers, .. } = memory;
        for (place, value) in whole.0.iter().enumerate() {
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
        let (length, empty) = pair::cut(prompt, answers);
        if let Some(most) = self.chat.prompt_max.filter(|most| length > *most) {
            let message = "the prompt of the pair has more tokens than max_length leaves for it, so no answer would be \
                           trained: raise max_length of Chat, or leave such samples out with skip.errors";
            return Err(Error::decode(message).with("tokens", length).with("most", most));
        }
        if let Some(place) = empty {
            let name = if place == 0 { &self.column.name } else { &against.name };
            return Err(Error::decode("an answer of the pair has no token after the prompt").with("column", name));
        }
        self.row.write(SampleIds::Encoded(prompt), row, "Chat")
    }

    /// Makes the tokens of a prompt and of its completion, with the token at the end of texts.
    fn encode_texts(&self, mut text: String, completion: &str, tokens: (&mut Ids, &mut Vec<bool>)) -> Result<()> {
        let tokenizer = self.tokenizer_of_texts()?;
        let start = text.len();
        text.push_str(completion);
        if let Some(end) = self.end_of_text()
            && !text.ends_with(end)
        {
            text.push_str(end);
        }
        if text.len() == start {
            return Err(Error::decode("the completion is empty").with("column", &self.column.name));
        }
        let part = start..text.len();
        tokenizer.encode_parts(&text, std::slice::from_ref(&part), tokens.0, tokens.1)
    }
}

impl Decode for ChatDecoder {
    fn decode(&self, stored: &Stored<'_, '_>, row: &mut Row<'_>, memory: &mut Memory) -> Result<()> {
        if self.chat.part == ChatPart::Pair {
            return self.write_pair(stored, row, memory);
        }
        let Memory { ids, trained, labels, .. } = memory;
        self.make(stored.bytes, stored.column, (&mut *ids, &mut *trained))?;
        let all = ids.as_slice();
        let start = trained.iter().position(|is_trained| *is_trained).unwrap_or(all.len());
        let part = match self.chat.part {
            ChatPart::Ids | ChatPart::Pair => all,
            ChatPart::Prompt => &all[..start],
            ChatPart::Completion => &all[start..],
        };
        let written = self.row.write(SampleIds::Encoded(part), row, "Chat");
        if self.chat.part == ChatPart::Ids {
            label(all, trained, labels);
        }
        ids.shrink();
        written
    }

    fn tokens(&self, stored: &[u8], column: StoredColumn<'_, '_>, memory: &mut Memory) -> Result<u64> {
        self.make(stored, column, (&mut memory.ids, &mut memory.trained))?;
        let tokens = memory.ids.as_slice().len() as u64;
        memory.ids.shrink();
        Ok(tokens)
    }
}

/// Replaces `values` by the labels of ids, of 64 bits each.
fn label(ids: &[u32], mask: &[bool], values: &mut Vec<u8>) {
    values.clear();
    let labels = ids.iter().zip(mask).map(|(id, is_trained)| if *is_trained { i64::from(*id) } else { NO_LABEL });
    values.extend(labels.flat_map(i64::to_ne_bytes));
}
