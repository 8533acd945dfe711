//! Documents: JSON that is no number, text or array of numbers.

use super::array;
use super::{Number, Text, Value};
use forebay_loader::decode::geometry::Size;
use serde_json::Value as Json;

/// Bytes of the texts that may be names of classes.
const SHORT_BYTES: usize = 64;

/// Roles of the messages of a conversation, in the names of usual formats.
const ROLES: &[&str] = &[
    "system",
    "developer",
    "user",
    "human",
    "assistant",
    "gpt",
    "model",
    "bot",
    "chatgpt",
    "bard",
    "bing",
    "tool",
    "function",
    "function_call",
    "tool_call",
    "tool_response",
    "observation",
    "ipython",
    "critic",
];

/// A document.
#[derive(Debug, Default, PartialEq)]
pub(in crate::doctor) struct Document {
    pub(in crate::doctor) is_empty: bool,
    /// Boxes of its objects: at most 1024.
    pub(in crate::doctor) boxes: Vec<[f64; 4]>,
    /// Size that it has of its picture.
    pub(in crate::doctor) size: Option<Size>,
    /// It is a conversation.
    pub(in crate::doctor) chat: Option<Chat>,
}

/// Faults of a conversation.
#[derive(Debug, Default, PartialEq)]
pub(in crate::doctor) struct Chat {
    /// The first role that is not a usual one.
    pub(in crate::doctor) unknown_role: Option<String>,
    /// Number of the first message without text.
    pub(in crate::doctor) blank: Option<usize>,
}

/// Describes a JSON document, which is well-formed.
pub(super) fn of_json(text: &str, may_be_boxes: bool) -> Value {
    match serde_json::from_str(text) {
        Ok(Json::Null) => Value::Absent,
        Ok(Json::Number(number)) => {
            let is_whole = number.is_i64() || number.is_u64();
            number.as_f64().map_or(Value::Absent, |value| Value::Number(Number { is_whole, value }))
        }
        Ok(Json::String(text)) => Value::Text(text_of(&text)),
        Ok(Json::Bool(is_true)) => Value::Number(Number::of(f64::from(u8::from(is_true)))),
        Ok(json) => {
            let array = json.as_array().and_then(|items| array::of_json(items, may_be_boxes));
            match array {
                Some(array) => Value::Array(Box::new(array)),
                None => Value::Document(Box::new(of_object(&json))),
            }
        }
        // Numbers that only Python's parser takes, such as NaN.
        Err(_) => Value::Document(Box::default()),
    }
}

/// Describes an object or a list.
pub(super) fn of_object(json: &Json) -> Document {
    let items: &[Json] = json.as_array().map_or(&[], Vec::as_slice);
    let messages = ["messages", "conversations"].iter().find_map(|name| json.get(*name)?.as_array());
    let objects = if items.is_empty() { std::slice::from_ref(json) } else { items };
    Document {
        is_empty: items.is_empty() && json.as_object().is_none_or(serde_json::Map::is_empty),
        boxes: objects.iter().flat_map(boxes_of).take(array::BOXES_MAX).collect(),
        size: size_of(json),
        chat: chat(messages.map_or(items, Vec::as_slice)),
    }
}

/// Returns the boxes of an object: in entries with `box` in their names, one or a list.
fn boxes_of(object: &Json) -> Vec<[f64; 4]> {
    let entries = object.as_object().into_iter().flatten();
    let lists = entries
        .filter(|(name, _)| name.to_ascii_lowercase().contains("box"))
        .filter_map(|(_, boxes)| array::of_json(boxes.as_array()?, true).map(|array| array.boxes));
    lists.flatten().take(array::BOXES_MAX).collect()
}

/// Returns the size that annotations of COCO have of their picture: height and width.
fn size_of(object: &Json) -> Option<Size> {
    let [h, w] = object.get("size")?.as_array()?.as_slice() else { return None };
    object.get("segmentations")?;
    Some(Size { w: u32::try_from(w.as_u64()?).ok()?, h: u32::try_from(h.as_u64()?).ok()? })
}

/// Describes messages; `None` for lists of anything else.
fn chat(items: &[Json]) -> Option<Chat> {
    let message = |item: &Json| {
        let role = item.get("role").or_else(|| item.get("from"))?.as_str()?.to_owned();
        Some((role, item.get("content").or_else(|| item.get("value")).cloned()))
    };
    let messages: Vec<_> = items.iter().map(message).collect::<Option<_>>()?;
    let is_known = |role: &str| ROLES.contains(&role.to_ascii_lowercase().as_str());
    let unknown_role = messages.iter().map(|(role, _)| role).find(|role| !is_known(role)).cloned();
    // A message without text may call a tool.
    let is_blank = |content: &Option<Json>| match content {
        Some(Json::String(text)) => text.trim().is_empty(),
        _ => false,
    };
    let calls = |item: &Json| item.as_object().is_some_and(|item| item.keys().any(|name| name.contains("call")));
    let blank = messages.iter().zip(items).position(|((_, content), item)| is_blank(content) && !calls(item));
    (!messages.is_empty()).then_some(Chat { unknown_role, blank })
}

/// Describes a text, and the number or the document that it is.
pub(super) fn text_of(text: &str) -> Text {
    let trimmed = text.trim();
    let is_document =
        trimmed.starts_with('{') && trimmed.ends_with('}') || trimmed.starts_with('[') && trimmed.ends_with(']');
    let parsed = is_document.then(|| serde_json::from_str(trimmed).ok());
    let json = parsed.as_ref().map(Option::is_some);
    let document = parsed.flatten().map(|json| Box::new(of_object(&json)));
    let number = if trimmed.len() <= SHORT_BYTES { trimmed.parse().ok() } else { None };
    let is_point = trimmed.contains(['.', 'e', 'E']);
    let number = number.map(|value| Number { is_whole: !is_point && Number::of(value).is_whole, value });
    let short = (text.len() <= SHORT_BYTES).then(|| text.to_owned());
    let is_replaced = text.contains('\u{fffd}');
    Text { bytes: text.len(), is_blank: trimmed.is_empty(), is_replaced, json, document, number, short }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Document {
        let Value::Document(document) = of_json(text, false) else { panic!("{text}") };
        *document
    }

    #[test]
    fn boxes_and_sizes_are_read_in_the_forms_of_usual_sets() {
        for text in [
            r#"{"boxes": [[1, 2, 3, 4]], "size": [60, 80], "segmentations": []}"#,
            r#"{"bbox": [[1, 2, 3, 4]], "category": [7]}"#,
            r#"[{"bbox": [1, 2, 3, 4], "area": 2}]"#,
        ] {
            let document = document(text);
            assert_eq!(document.boxes, [[1.0, 2.0, 3.0, 4.0]], "{text}");
            let size = text.contains("size").then_some(Size { w: 80, h: 60 });
            assert_eq!(document.size, size, "{text}");
        }
    }

    #[test]
    fn a_conversation_has_known_roles_and_texts_or_calls() {
        for (text, unknown_role, blank) in [
            (r#"[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]"#, None, None),
            (r#"[{"from": "human", "value": "a"}, {"from": "gtp", "value": "b"}]"#, Some("gtp"), None),
            (r#"{"messages": [{"role": "user", "content": " "}]}"#, None, Some(0)),
            (r#"[{"role": "assistant", "content": "", "tool_calls": []}]"#, None, None),
            (r#"[{"role": "user", "content": null}, {"role": "User", "content": [1]}]"#, None, None),
        ] {
            let chat = document(text).chat;
            assert_eq!(chat, Some(Chat { unknown_role: unknown_role.map(str::to_owned), blank }), "{text}");
        }
        assert_eq!(document(r#"[{"name": "user"}]"#).chat, None);
    }
}
