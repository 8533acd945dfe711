//! Conversations: messages in the form of OpenAI (`role`, `content`) or of ShareGPT (`from`, `value`), and their tools.

use forebay_core::error::{Error, Result};
use minijinja::value::Value;
use serde_json::{Map, Value as Json};

/// Names under which a message has its reasoning, as `transformers` knows them.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// Names of a message's own flag.
const FLAGS: [&str; 3] = ["train", "weight", "loss_mask"];

/// Roles of ShareGPT by the names of templates.
const ROLES: [(&str, &str); 6] = [
    ("human", "user"),
    ("gpt", "assistant"),
    ("chatgpt", "assistant"),
    ("model", "assistant"),
    ("observation", "tool"),
    ("function_response", "tool"),
];

/// Messages and tools, as templates get them.
#[derive(Clone, Debug)]
pub struct Conversation {
    messages: Vec<Message>,
    /// Variables of the template, without the messages.
    variables: Vec<(String, Value)>,
    /// Bytes of the messages and the tools as JSON.
    bytes: usize,
    has_marks: bool,
}

#[derive(Clone, Debug)]
struct Message {
    value: Value,
    is_assistant: bool,
    flag: Option<bool>,
}

impl Conversation {
    /// Makes a conversation of a list of messages, a list of tools and further variables of the template.
    ///
    /// # Errors
    /// [`ErrorKind::Decode`](forebay_core::ErrorKind::Decode): a value that is no list of messages; a message without a
    /// role, or with a flag that is neither a boolean nor 0 or 1.
    pub fn of(messages: &Json, tools: Option<&Json>, variables: &Map<String, Json>) -> Result<Self> {
        let list = messages.as_array().ok_or_else(|| not_messages("it is not a list"))?;
        if list.is_empty() {
            return Err(not_messages("the list is empty"));
        }
        let (mut bytes, mut has_marks) = (0, false);
        let mut weigh = |value: &Json| weigh(value, &mut bytes, &mut has_marks);
        list.iter().for_each(&mut weigh);
        tools.into_iter().for_each(&mut weigh);
        let messages = list
            .iter()
            .enumerate()
            .map(|(number, message)| Message::of(message).map_err(|e| e.with("message", number)));
        let messages = messages.collect::<Result<Vec<_>>>()?;
        let tools = tools.filter(|tools| !tools.is_null());
        if tools.is_some_and(|tools| !tools.is_array()) {
            return Err(Error::decode("the tools of a conversation are a list of JSON schemas"));
        }
        let mut all: Vec<(String, Value)> = vec![
            ("tools".to_owned(), tools.map_or_else(|| Value::from(()), value_of)),
            ("documents".to_owned(), Value::from(())),
        ];
        all.extend(variables.iter().map(|(name, value)| (name.clone(), value_of(value))));
        Ok(Self { messages, variables: all, bytes, has_marks })
    }

    /// Number of the messages.
    pub fn count(&self) -> usize {
        self.messages.len()
    }

    /// True if the message is the model's.
    pub(super) fn is_assistant(&self, message: usize) -> bool {
        self.messages.get(message).is_some_and(|message| message.is_assistant)
    }

    /// True if the message is trained by its own flag. Without one a message of the model is.
    pub(super) fn is_flagged(&self, message: usize) -> bool {
        self.messages.get(message).is_some_and(|message| message.flag.unwrap_or(message.is_assistant))
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if a text has one of the marks of blocks.
    pub(super) fn has_marks(&self) -> bool {
        self.has_marks
    }

    /// Variables of the template for the first `count` messages.
    pub(super) fn context(&self, count: usize, has_prompt: bool) -> Value {
        let messages: Value = self.messages[..count].iter().map(|message| message.value.clone()).collect();
        let own = [("messages".to_owned(), messages), ("add_generation_prompt".to_owned(), Value::from(has_prompt))];
        Value::from_pairs(self.variables.iter().cloned().chain(own))
    }
}

impl Message {
    fn of(message: &Json) -> Result<Self> {
        let fields = message.as_object().ok_or_else(|| not_messages("a message is not an object"))?;
        // Templates expect that a key is absent, and not null.
        let mut fields: Map<String, Json> = fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if !fields.contains_key("role") && fields.contains_key("from") {
            fields = of_share_gpt(fields);
        }
        let role = fields.get("role").and_then(Json::as_str);
        let role = role.ok_or_else(|| not_messages("a message has neither `role` nor `from`"))?;
        let is_assistant = role == "assistant";
        let mut flag = None;
        for name in FLAGS {
            if let Some(value) = fields.shift_remove(name) {
                let value = value
                    .as_bool()
                    .or_else(|| value.as_f64().filter(|value| [0.0, 1.0].contains(value)).map(|v| v > 0.0));
                let wrong = || Error::decode(format!("the flag `{name}` of a message is a boolean, 0 or 1"));
                flag = flag.or(Some(value.ok_or_else(wrong)?));
            }
        }
        if let Some(reasoning) = REASONING.iter().find_map(|name| fields.get(*name)).cloned() {
            let thinking = fields.get("thinking").cloned().unwrap_or_else(|| reasoning.clone());
            let mut all = Map::new();
            all.insert("thinking".to_owned(), thinking);
            all.extend(fields);
            all.insert("reasoning_content".to_owned(), reasoning);
            fields = all;
        }
        Ok(Self { value: object_of(&fields), is_assistant, flag })
    }
}

/// Returns the value that a template gets for a JSON value.
pub(super) fn value_of(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(value) => Value::from(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) => Value::from(whole),
            (None, Some(whole)) => Value::from(whole),
            _ => Value::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => items.iter().map(value_of).collect(),
        Json::Object(fields) => object_of(fields),
    }
}

fn object_of(fields: &Map<String, Json>) -> Value {
    Value::from_pairs(fields.iter().map(|(key, value)| (key.clone(), value_of(value))))
}

fn of_share_gpt(fields: Map<String, Json>) -> Map<String, Json> {
    let renamed = fields.into_iter().map(|(key, value)| match &*key {
        "from" => {
            let known = value.as_str().and_then(|role| ROLES.iter().find(|(name, _)| *name == role));
            ("role".to_owned(), known.map_or(value.clone(), |(_, role)| Json::from(*role)))
        }
        "value" => ("content".to_owned(), value),
        _ => (key, value),
    });
    renamed.collect()
}

fn not_messages(reason: &str) -> Error {
    Error::decode(format!(
        "the value is no conversation, which is a list of objects with `role` and `content`, or with `from` and \
         `value`: {reason}"
    ))
}

/// Adds the bytes of a value, and finds marks of blocks in its texts.
fn weigh(value: &Json, bytes: &mut usize, has_marks: &mut bool) {
    match value {
        Json::String(text) => {
            *bytes += text.len() + 2;
            *has_marks |= text.contains(super::blocks::MARKS);
        }
        Json::Array(items) => items.iter().for_each(|item| weigh(item, bytes, has_marks)),
        Json::Object(fields) => fields.iter().for_each(|(key, item)| {
            *bytes += key.len() + 4;
            weigh(item, bytes, has_marks);
        }),
        _ => *bytes += 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(messages: Json) -> Result<Conversation> {
        Conversation::of(&messages, None, &Map::new())
    }

    #[test]
    fn both_forms_of_messages_are_read() {
        let chat = of(json!([{"from": "human", "value": "a"}, {"from": "gpt", "value": "b", "weight": 0},
            {"from": "tool", "value": "c", "train": true}, {"role": "assistant", "content": "d"}]))
        .unwrap();
        let printed = super::super::python::text_of(&chat.context(4, true)).unwrap();
        let messages = "[{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': 'b'}, \
                        {'role': 'tool', 'content': 'c'}, {'role': 'assistant', 'content': 'd'}]";
        assert!(printed.contains(messages), "{printed}");
        assert_eq!([0, 1, 2, 3].map(|message| chat.is_assistant(message)), [false, true, false, true]);
        assert_eq!([0, 1, 2, 3].map(|message| chat.is_flagged(message)), [false, false, true, true]);
    }

    #[test]
    fn a_value_that_is_no_conversation_is_refused() {
        for (messages, reason) in [
            (json!({}), "not a list"),
            (json!([]), "empty"),
            (json!(["a"]), "not an object"),
            (json!([{"content": "a"}]), "neither `role` nor `from`"),
            (json!([{"role": null}]), "neither `role` nor `from`"),
            (json!([{"role": "user", "weight": 0.5}]), "`weight`"),
        ] {
            let e = of(messages).unwrap_err();
            assert!(e.to_string().contains(reason), "{e}");
        }
    }
}
