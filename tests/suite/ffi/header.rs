//! The header's documentation.

use crate::rig::{Rig, SAMPLES, Sanitizer, command, ffi, succeeded};
use forebay_loader::config::WriterConfig;
use forebay_loader::decode::FieldSpec;
use forebay_loader::indexing::JpegRows;
use forebay_loader::sync::Arc;
use serde_json::{Value, json};

fn header() -> String {
    std::fs::read_to_string(ffi().join("include/forebay.h")).expect("the header").replace("\n// ", "\n")
}

#[test]
fn the_json_example_in_the_header_opens_a_loader() {
    let header = header();
    let (_, example) = header.split_once("```json\n").expect("an example");
    let (example, _) = example.split_once("```").expect("its end");
    let rig = Rig::new();
    let data = rig.path("set");
    std::fs::create_dir(&data).expect("a folder");
    std::fs::rename(rig.path("data"), data.join("train")).expect("the split");
    let path = data.to_str().expect("UTF-8");
    assert!(example.contains("/data/set"));
    std::fs::write(rig.config(), example.replace("/data/set", path)).expect("written");
    let program = rig.compile("examples/tokens.c", Sanitizer::None);
    assert_eq!(succeeded(command(program).arg(rig.config())), format!("{SAMPLES} rows\n"));
}

#[test]
fn the_json_example_of_a_writer_opens_one() {
    let header = header();
    let example = header.split("```json\n").nth(2).and_then(|rest| rest.split("```").next()).expect("an example");
    let folder = tempfile::tempdir().expect("a folder");
    assert!(example.contains("/data/set"));
    let example = example.replace("/data/set", folder.path().join("set").to_str().expect("UTF-8"));
    let config = WriterConfig::from_json(&example).expect("a configuration");
    config.open(Arc::new(JpegRows), None).expect("a writer").finish().expect("an index");
}

#[test]
fn the_header_names_every_option_of_fields_and_operations() {
    let header = header();
    let ops = r#"[{"op": "random_resized_crop", "size": [1, 1]}, {"op": "resize", "size": 1}, {"op": "random_horizontal_flip"},
        {"op": "center_crop", "size": [1, 1]}, {"op": "five_crop", "size": [1, 1]}, {"op": "ten_crop", "size": [1, 1]}, {"op": "random_crop", "size": [1, 1]}, {"op": "pad", "padding": [1, 1, 1, 1]},
        {"op": "random_resize", "min_size": 1, "max_size": 2}, {"op": "grayscale"},
        {"op": "normalize", "mean": [0, 0, 0], "std": [1, 1, 1]}]"#;
    let kinds = [
        "image",
        "mask",
        "boxes",
        "box_labels",
        "key_points",
        "scalar",
        "tokens",
        "length",
        "array",
        "text",
        "json",
        "bytes",
    ];
    let kinds = kinds.map(|kind| format!(r#"{{"kind": "{kind}", "column": "a"}}"#));
    let drawn = ["object_masks", "class_map"].map(|kind| {
        let labels = if kind == "class_map" { r#", "labels": "labels""# } else { "" };
        format!(r#"{{"kind": "{kind}", "column": "a"{labels}}}"#)
    });
    let joint = format!(r#"{{"kind": "joint", "fields": [["x", {{"kind": "image", "column": "a", "ops": {ops}}}]]}}"#);
    for text in kinds.iter().chain(&drawn).chain([&joint]) {
        let field: FieldSpec = serde_json::from_str(text).expect("a field");
        let mut rest = vec![json!(field)];
        while let Some(value) = rest.pop() {
            match value {
                Value::Object(members) => rest.extend(members.into_iter().map(|(name, value)| {
                    assert!(header.contains(&format!("`{name}`")), "{name}");
                    if matches!(name.as_str(), "kind" | "op") {
                        let name = value.as_str().expect("a name");
                        assert!(header.contains(&format!("`{name}`")), "{name}");
                    }
                    value
                })),
                Value::Array(items) => rest.extend(items),
                _ => {}
            }
        }
    }
}

#[test]
fn no_type_of_the_header_has_a_size_that_languages_disagree_on() {
    let header = std::fs::read_to_string(ffi().join("include/forebay.h")).expect("the header");
    let code: Vec<&str> = header.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    for word in code.join("\n").split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
        assert!(!["bool", "_Bool", "int", "long", "short", "wchar_t"].contains(&word), "{word}");
    }
}

#[test]
fn every_function_states_which_threads_may_call_it() {
    let header = std::fs::read_to_string(ffi().join("include/forebay.h")).expect("the header");
    let declared = header.split("\n\n").filter(|part| part.contains(" forebay_") && part.ends_with(");")).count();
    let functions: Vec<&str> = header.split("\n\n").filter(|part| part.trim_end().ends_with(");")).collect();
    assert!(declared > 30 && functions.len() >= declared);
    for function in functions.iter().filter(|part| !part.contains("typedef")) {
        assert!(function.contains("\n// Threads: "), "{function}");
    }
}
