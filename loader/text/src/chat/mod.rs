//! Chats: messages to the text of a template, and the parts of it that a loss counts.
//!
//! ```text
//! messages --conversation--> Conversation --template--> text --turns--> text with Range<usize> of each trained turn
//!                                                                          `--tokenizer--> ids, and a mask of them
//! ```
//!
//! * [`template`]: a [`ChatTemplate`], with the meaning that templates have in `transformers`;
//! * `blocks`: `{% generation %}` blocks, which mark the answers of the model;
//! * `nesting`: a bound on the depth of values;
//! * `python`: values as Python prints them, and as its `json` writes them; `methods`: methods of its strings;
//! * `date`: `strftime` of a given date;
//! * [`conversation`]: messages in the form of OpenAI, and the form of ShareGPT;
//! * [`turns`]: the parts of a text that are trained.
//!
//! # Equality with transformers
//!
//! Templates are Jinja of Python: `minijinja` prints `none` and `true`, its `trim` keeps the separators U+001C to
//! U+001F, and a text is no sequence. The module replaces these parts. The tests compare published templates with
//! `transformers` 5.24. One difference is left: the operator `~` prints a value that is not a text as Rust does.
//!
//! # Limits
//!
//! A template comes with a model and is not trusted. An instruction and 64 bytes that it makes cost one unit of fuel,
//! so that its time and its memory are bounded by the size of the conversation. Its values have at most 100 levels.
//!
//! # Masks
//!
//! With `{% generation %}` blocks the trained parts are inside of them. Without blocks they come from prefixes: a turn
//! is the difference between the text of the messages before it, with the prompt of the model's answer, and the text
//! with the turn. That is exact only if both are prefixes of the whole text, which is checked; a template that strips
//! the thinking of earlier turns is an error there.

mod blocks;
pub mod conversation;
mod date;
mod methods;
mod nesting;
mod python;
pub mod template;
#[cfg(test)]
mod tests;
pub mod turns;

pub use conversation::Conversation;
pub use template::ChatTemplate;
pub use turns::{TrainOn, Trained};
