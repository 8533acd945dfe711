//! Parts of a conversation's text that a loss counts.

use std::ops::Range;

use forebay_core::error::Result;

use super::conversation::Conversation;
use super::template::ChatTemplate;

/// Messages that are trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrainOn {
    /// All messages of the model.
    Assistant,
    /// The last message of the model.
    Last,
    /// Messages by their own flag: `train`, `weight` or `loss_mask`. Without a flag the messages of the model.
    Flag,
    /// All messages from this number on.
    From(usize),
}

/// Text of a conversation with its trained parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trained {
    /// The text.
    pub text: String,
    /// Bytes of it that are trained, in order.
    pub parts: Vec<Range<usize>>,
}

impl ChatTemplate {
    /// Returns the text of a conversation and its trained parts.
    ///
    /// # Errors
    /// The errors of [`Self::render`]; a template without `{% generation %}` blocks that changes the text of earlier
    /// messages; a conversation in which nothing or everything is trained.
    pub fn train(&self, conversation: &Conversation, on: TrainOn) -> Result<Trained> {
        let whole = self.render(conversation, conversation.count(), false)?;
        let parts = if self.has_blocks() && on == TrainOn::Assistant {
            whole.blocks.clone()
        } else {
            let turns = self.turns(conversation, on, &whole.text)?;
            match on {
                TrainOn::Last | TrainOn::Flag if self.has_blocks() => common(&turns, &whole.blocks),
                _ => turns,
            }
        };
        let trained: usize = parts.iter().map(Range::len).sum();
        if trained == 0 {
            let message = "no token of the conversation would be trained: it has no message of the model, or the chat \
                           template leaves it out";
            return Err(self.error(message.to_owned()));
        }
        if trained == whole.text.len() {
            let message = "every token of the conversation would be trained: the chat template has no text that is not \
                           of the model";
            return Err(self.error(message.to_owned()));
        }
        Ok(Trained { text: whole.text, parts })
    }

    /// Returns the parts of trained messages, by the texts of the messages up to them.
    fn turns(&self, conversation: &Conversation, on: TrainOn, whole: &str) -> Result<Vec<Range<usize>>> {
        let count = conversation.count();
        let prefix = |messages: usize, has_prompt: bool| -> Result<usize> {
            let turn = if has_prompt { messages } else { messages.saturating_sub(1) };
            if messages == count && !has_prompt {
                return Ok(whole.len());
            }
            let text = self.render(conversation, messages, has_prompt).map_err(|e| e.with("turn", turn))?.text;
            if whole.starts_with(&text) {
                return Ok(text.len());
            }
            let message = "the chat template changes the text of earlier messages, such as their thinking, so that a \
                           turn has no exact position: pass train_on=\"last\" to Chat, or a template with \
                           {% generation %} blocks";
            Err(self.error(message.to_owned()).with("turn", turn))
        };
        if let TrainOn::From(first) = on {
            let start = prefix(first, conversation.is_assistant(first))?;
            return Ok(std::iter::once(start..whole.len()).collect());
        }
        let turns: Vec<usize> = match on {
            TrainOn::Assistant | TrainOn::From(_) => (0..count).filter(|at| conversation.is_assistant(*at)).collect(),
            TrainOn::Last => (0..count).rev().find(|at| conversation.is_assistant(*at)).into_iter().collect(),
            TrainOn::Flag => (0..count).filter(|at| conversation.is_flagged(*at)).collect(),
        };
        let mut parts: Vec<Range<usize>> = Vec::with_capacity(turns.len());
        for turn in turns {
            let is_assistant = conversation.is_assistant(turn);
            let start = if turn == 0 && !is_assistant { 0 } else { prefix(turn, is_assistant)? };
            let end = prefix(turn + 1, false)?;
            parts.push(start..end.max(start));
        }
        Ok(parts)
    }
}

/// Returns the parts that both lists have.
fn common(some: &[Range<usize>], others: &[Range<usize>]) -> Vec<Range<usize>> {
    let both = |a: &Range<usize>, b: &Range<usize>| a.start.max(b.start)..a.end.min(b.end);
    let all = some.iter().flat_map(|a| others.iter().map(move |b| both(a, b)));
    all.filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    const CHATML: &str = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>\n{% endfor %}\
                          {% if add_generation_prompt %}<assistant>{% endif %}";

    fn trained(source: &str, on: TrainOn) -> Result<Vec<String>> {
        let messages = json!([{"role": "system", "content": "s"}, {"role": "user", "content": "a", "train": true},
            {"role": "assistant", "content": "b", "train": false}, {"role": "user", "content": "c"},
            {"role": "assistant", "content": "d"}]);
        let conversation = Conversation::of(&messages, None, &Map::new())?;
        let trained = ChatTemplate::new("test.jinja", source, None)?.train(&conversation, on)?;
        Ok(trained.parts.iter().map(|part| trained.text[part.clone()].to_owned()).collect())
    }

    #[test]
    fn turns_are_the_differences_of_prefixes() {
        assert_eq!(trained(CHATML, TrainOn::Assistant).unwrap(), ["b<end>\n", "d<end>\n"]);
        assert_eq!(trained(CHATML, TrainOn::Last).unwrap(), ["d<end>\n"]);
        assert_eq!(trained(CHATML, TrainOn::Flag).unwrap(), ["<user>a<end>\n", "d<end>\n"]);
        assert_eq!(trained(CHATML, TrainOn::From(3)).unwrap(), ["<user>c<end>\n<assistant>d<end>\n"]);
    }

    #[test]
    fn blocks_mark_the_turns_of_a_template_that_has_them() {
        let source = "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}\n\
                      {{ m.content }}<end>{% endgeneration %}{% else %}{{ m.content }}<end>{% endif %}\n{% endfor %}";
        assert_eq!(trained(source, TrainOn::Assistant).unwrap(), ["b<end>", "d<end>"]);
        let with_prompt = format!("{source}{{% if add_generation_prompt %}}<assistant>{{% endif %}}");
        assert_eq!(trained(&with_prompt, TrainOn::Last).unwrap(), ["d<end>"]);
    }

    #[test]
    fn a_template_that_changes_earlier_turns_is_named_with_the_turn() {
        let source = CHATML.replace("{{ m.content }}", "{{ m.content }}{% if loop.last %}!{% endif %}");
        assert_eq!(trained(&source, TrainOn::Last).unwrap_err().to_string().matches("turn 4").count(), 1);
        let e = trained(&source.replace("<assistant>{% endif", "{% endif"), TrainOn::Assistant).unwrap_err();
        assert!(e.to_string().contains("test.jinja"), "{e}");
        let last = CHATML
            .replace("{{ m.content }}", "{{ m.content }}{% if loop.last and m.role == 'assistant' %}!{% endif %}");
        assert_eq!(trained(&last, TrainOn::Last).unwrap(), ["d!<end>\n"]);
        let e = trained(&last, TrainOn::Assistant).unwrap_err();
        assert!(e.to_string().contains("template test.jinja, turn 2"), "{e}");
    }

    #[test]
    fn a_mask_of_one_value_is_refused() {
        let e = trained("{{ messages[0].content }}", TrainOn::Assistant).unwrap_err();
        assert!(e.to_string().contains("no token"), "{e}");
        let e = trained("{% generation %}x{% endgeneration %}", TrainOn::Assistant).unwrap_err();
        assert!(e.to_string().contains("every token") && e.to_string().contains("test.jinja"), "{e}");
    }
}
