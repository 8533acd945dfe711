//! Comparison with texts that transformers made of conversations with published templates, see
//! `tests/oracle/chats_golden.py`.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{ChatTemplate, Conversation, TrainOn};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/chats").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(data(name)).unwrap()
}

fn ranges(value: &Value) -> Vec<Range<usize>> {
    let pairs: Vec<[usize; 2]> = serde_json::from_value(value.clone()).unwrap();
    pairs.into_iter().map(|[start, end]| start..end).collect()
}

#[test]
fn texts_and_turns_of_published_templates_are_these_of_transformers() {
    let cases: Vec<Value> = serde_json::from_str(&read("conversations.json")).unwrap();
    let conversations: Vec<Conversation> = cases
        .iter()
        .map(|case| {
            let mut variables: Map<String, Value> = case["variables"].as_object().unwrap().clone();
            variables.extend(json!({"bos_token": "<s>", "eos_token": "</s>"}).as_object().unwrap().clone());
            Conversation::of(&case["messages"], Some(&case["tools"]), &variables).unwrap()
        })
        .collect();
    let mut templates: HashMap<String, ChatTemplate> = HashMap::new();
    let (mut texts, mut problems, mut trained) = (0, Vec::new(), HashSet::new());
    for line in read("golden.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let (name, number) = (line["template"].as_str().unwrap(), line["conversation"].as_u64().unwrap() as usize);
        let template = templates.entry(name.to_owned()).or_insert_with(|| {
            ChatTemplate::new(name, &read(&format!("templates/{name}")), Some("2026-11-29")).unwrap()
        });
        let conversation = &conversations[number];
        let found = template.render(conversation, conversation.count(), false);
        let Some(text) = line["text"].as_str() else {
            if let Ok(found) = found {
                problems.push(format!("{name} {number}: {:?} and not an error, {}", found.text, line["error"]));
            }
            continue;
        };
        texts += 1;
        match found {
            Err(e) => problems.push(format!("{name} {number}: {e}")),
            Ok(found) if found.text != text => {
                problems.push(format!("{name} {number}: {:?} and not {text:?}", found.text))
            }
            Ok(found) if found.blocks != ranges(&line["blocks"]) => {
                problems.push(format!("{name} {number}: {:?} and not {}", found.blocks, line["blocks"]));
            }
            Ok(_) => {}
        }
        let parts = template.train(conversation, TrainOn::Assistant);
        let expected = if template.has_blocks() { &line["blocks"] } else { &line["turns"] };
        let expected = Some(expected).filter(|ranges| !ranges.is_null()).map(ranges);
        let expected = expected.filter(|parts| parts.iter().any(|part| !part.is_empty()));
        if parts.as_ref().ok().map(|trained| &trained.parts) != expected.as_ref() {
            problems.push(format!("{name} {number}: {parts:?} and not {expected:?}"));
        } else if expected.is_some() {
            trained.insert(name.to_owned());
        }
    }
    assert!(problems.is_empty(), "{} of {texts} texts:\n{}", problems.len(), problems.join("\n"));
    assert!(texts > 400 && templates.len() >= 15 && trained.len() >= 15, "{texts} texts, {trained:?}");
}
