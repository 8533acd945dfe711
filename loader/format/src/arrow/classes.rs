//! Names of classes that the library `datasets` notes in the schema of a table.

use serde_json::Value as Json;
use std::collections::BTreeMap;

/// Key of the note in the metadata of a schema.
pub const CLASSES_NOTE: &str = "huggingface";

/// Lists of class names below each field of the root that has any, in the order of the note.
pub type ClassNames = BTreeMap<String, Vec<Vec<String>>>;

/// Returns the names in the note [`CLASSES_NOTE`]; none if it has a different form.
pub fn class_names(note: Option<&str>) -> ClassNames {
    let note = note.and_then(|note| serde_json::from_str::<Json>(note).ok()).unwrap_or_default();
    let Some(features) = note["info"]["features"].as_object() else { return ClassNames::new() };
    let lists = |feature: &Json| {
        let mut lists = Vec::new();
        collect(feature, &mut lists);
        lists
    };
    let named = features.iter().map(|(name, feature)| (name.clone(), lists(feature)));
    named.filter(|(_, lists)| !lists.is_empty()).collect()
}

/// Adds the lists of `feature` and of those in it. The parser bounds their depth.
fn collect(feature: &Json, lists: &mut Vec<Vec<String>>) {
    match feature {
        Json::Object(entries) if feature["_type"] == "ClassLabel" => {
            let names = entries.get("names").and_then(Json::as_array);
            let names: Option<Vec<String>> = names.and_then(|names| names.iter().map(text).collect());
            lists.extend(names.filter(|names| !names.is_empty()));
        }
        Json::Object(entries) => entries.values().for_each(|inner| collect(inner, lists)),
        Json::Array(entries) => entries.iter().for_each(|inner| collect(inner, lists)),
        _ => {}
    }
}

fn text(name: &Json) -> Option<String> {
    name.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_labels_are_found_wherever_they_are_in_a_column() {
        let found = class_names(Some(
            r#"{"info": {"features": {
                "image": {"_type": "Image"},
                "label": {"names": ["cat", "dog"], "_type": "ClassLabel"},
                "objects": {"feature": {"kind": {"names": ["a"], "_type": "ClassLabel"}}, "_type": "Sequence"},
                "tags": [{"names": ["x", "y"], "_type": "ClassLabel"}]
            }}}"#,
        ));
        let list = |names: &[&str]| vec![names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()];
        let expected = [("label", list(&["cat", "dog"])), ("objects", list(&["a"])), ("tags", list(&["x", "y"]))];
        assert_eq!(found, expected.map(|(name, lists)| (name.to_owned(), lists)).into());
    }

    #[test]
    fn a_note_of_a_different_form_has_no_names() {
        let deep = "[".repeat(10_000);
        for note in [
            "",
            "{}",
            "[1]",
            "null",
            &deep,
            r#"{"info": {"features": [1]}}"#,
            r#"{"info": {"features": {"label": {"names": [1], "_type": "ClassLabel"}}}}"#,
            r#"{"info": {"features": {"label": {"num_classes": 2, "_type": "ClassLabel"}}}}"#,
        ] {
            assert!(class_names(Some(note)).is_empty(), "{note:.20}");
        }
        assert!(class_names(None).is_empty());
    }
}
