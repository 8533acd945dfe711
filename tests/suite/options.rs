//! The loader's options, which are declared in `loader/src/config.rs`, against the texts that repeat them.
//!
//! ```text
//! LoaderConfig::OPTIONS, StreamConfig::OPTIONS --> annotation, default and line of Args in Python's Loader
//!                                             \--> the same in Python's Stream
//!                                              \-> list in the C header's documentation (ffi/src/loader.rs)
//! WriterConfig::OPTIONS -----------------------------> the same for writers (ffi/src/writer.rs)
//! ```
//!
//! Each check renders the text that it expects and looks for it.

use forebay_loader::config::{LoaderConfig, OptionInfo, StreamConfig, WriterConfig};
use serde_json::Value;
use std::path::Path;

const C: &str = "ffi/src/loader.rs";
const C_WRITER: &str = "ffi/src/writer.rs";
const LOADER: &str = "python/py_src/forebay/loader.py";
const STREAM: &str = "python/py_src/forebay/streams.py";

/// Options whose values Python and C describe in their own words.
const COMPOSITE: &[&str] = &["streams", "fields", "world"];

/// A file that repeats options, and its text.
type Text = (&'static str, String);

#[test]
fn the_repository_repeats_every_option_as_declared() {
    assert_eq!(missing(&repository()), Vec::<Text>::new(), "texts that differ from loader/src/config.rs");
}

#[test]
fn a_changed_default_sentence_or_annotation_is_found() {
    for (path, from, to) in [
        (LOADER, "download_retry: Count = 2", "download_retry: Count = 3"),
        (LOADER, "keep_zip: Keep", "keep_zip: Also keep"),
        (STREAM, "choose: int", "choose: Count"),
        (STREAM, "keep_zip: Keep", "keep_zip: Also keep"),
        (C, "* `drop_last` (false)", "* `drop_last` (true)"),
        (C_WRITER, "* `exist_ok` (false)", "* `exist_ok` (true)"),
    ] {
        let mut texts = repository();
        let (_, text) = texts.iter_mut().find(|(known, _)| *known == path).expect(path);
        assert!(text.contains(from), "{from}");
        *text = text.replacen(from, to, 1);
        let found = missing(&texts);
        assert_eq!(found.iter().map(|(path, _)| *path).collect::<Vec<_>>(), [path], "{found:?}");
    }
}

fn repository() -> Vec<Text> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is a folder of the workspace");
    let read = |path| (path, std::fs::read_to_string(root.join(path)).expect(path));
    [C, C_WRITER, LOADER, STREAM].map(read).to_vec()
}

/// Returns the texts that must be written, each with its file.
fn missing(texts: &[Text]) -> Vec<Text> {
    let defaults = serde_json::to_value(LoaderConfig::default()).expect("a config is JSON");
    let scalar = LoaderConfig::OPTIONS.iter().filter(|option| !COMPOSITE.contains(&option.name));
    let of_loader = scalar.map(|option| (option, default_of(option, &defaults)));
    let mut expected: Vec<Text> = Vec::new();
    for (option, default) in of_loader {
        let doc = sentence(option);
        expected.push((LOADER, format!("\n        {}: {doc}\n", option.name)));
        expected.push((LOADER, format!("\n        {}{},\n", parameter(option), python_default(&default))));
        expected.push((C, c_entry(option, &default)));
    }
    let defaults = serde_json::to_value(WriterConfig::default()).expect("a config is JSON");
    for option in WriterConfig::OPTIONS {
        expected.push((C_WRITER, c_entry(option, &default_of(option, &defaults))));
    }
    let defaults = serde_json::to_value(StreamConfig::default()).expect("a config is JSON");
    for option in StreamConfig::OPTIONS {
        let (doc, default) = (sentence(option), default_of(option, &defaults));
        expected.push((STREAM, format!("\n        {}: {doc}\n", option.name)));
        expected.push((STREAM, format!("\n    {}{}\n", parameter(option), python_default(&default))));
        expected.push((C, format!("`{}` ({default})", option.name)));
    }
    expected.retain(|(path, wanted)| {
        let (_, text) = texts.iter().find(|(known, _)| known == path).expect(path);
        match *path {
            C | C_WRITER => !unwrapped(text).contains(wanted),
            _ => !text.contains(wanted),
        }
    });
    expected
}

/// Sentence of an option, on one line.
fn sentence(option: &OptionInfo) -> String {
    option.doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// Entry of an option in a list of the C header.
fn c_entry(option: &OptionInfo, default: &str) -> String {
    format!("* `{}` ({default}): {} ", option.name, sentence(option).replace("None:", "null:"))
}

/// Default of an option as JSON; `required` for options without one.
fn default_of(option: &OptionInfo, defaults: &Value) -> String {
    match option.name {
        "batch_size" | "columns" | "out" => "required".to_owned(),
        name => defaults[name].to_string(),
    }
}

/// `name: annotation` in Python. The annotation selects the check of the value, see `arguments.py`.
fn parameter(option: &OptionInfo) -> String {
    let kind: String = option.kind.split_whitespace().collect();
    let (kind, none) = match kind.strip_prefix("Option<").and_then(|inner| inner.strip_suffix('>')) {
        Some(inner) => (inner, " | None"),
        None => (kind.as_str(), ""),
    };
    let annotation = match (option.name, kind) {
        ("remote" | "local" | "ca_file" | "manifest", _) => "str | os.PathLike[str]",
        // Blocks of no samples have no order.
        ("shuffle_block_size", _) => "Samples",
        // Texts of which only some are options: `choices.py` lists them.
        ("batching_method", _) => "BatchingMethod",
        ("files", _) => "Grouping",
        ("partition_algo", _) => "PartitionAlgo",
        ("sampling_method", _) => "SamplingMethod",
        ("shuffle_algo", _) => "ShuffleAlgo",
        ("validate_hash", _) => "Hash",
        (_, "String") => "str",
        (_, "f64") => "float",
        (_, "u32") => "Count",
        (_, "u64") => "int",
        (_, same) => same,
    };
    format!("{}: {annotation}{none}", option.name)
}

/// ` = default` in Python.
fn python_default(default: &str) -> String {
    match default {
        "required" => String::new(),
        "null" => " = None".to_owned(),
        "true" => " = True".to_owned(),
        "false" => " = False".to_owned(),
        "1073741824" => " = 1 << 30".to_owned(),
        other => format!(" = {other}"),
    }
}

/// A doc comment's text on one line.
fn unwrapped(text: &str) -> String {
    text.lines().map(|line| line.trim_start_matches("///").trim()).collect::<Vec<_>>().join(" ")
}
