//! The loader's options, which are declared in `loader/src/config.rs` and the files of `loader/src/config`, against the
//! texts that repeat them.
//!
//! ```text
//! OPTIONS of a group, such as OrderConfig --> annotations, defaults and lines of Args of its class in Python
//!                                        \--> its list in the C header's documentation (ffi/src/loader.rs)
//! WriterConfig::OPTIONS -------------------> the list of a writer's options (ffi/src/writer.rs)
//! ```
//!
//! Each check renders the text that it expects and looks for it in the part of the file that describes the group.

use forebay_loader::config::{
    EngineConfig, FetchConfig, LoaderConfig, OptionInfo, OrderConfig, PackConfig, SelectConfig, SkipConfig,
    StreamConfig, TokenBatch, TokenWindow, WorldConfig, WriterConfig,
};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

const C: &str = "ffi/src/loader.rs";
const C_WRITER: &str = "ffi/src/writer.rs";
const GROUPS: &str = "python/py_src/forebay/_groups.py";
const LOADER: &str = "python/py_src/forebay/_loader.py";
const STREAM: &str = "python/py_src/forebay/_streams.py";

/// Largest number of arguments of Python's `Loader`. A further option belongs in a group.
const ARGUMENTS_MAX: usize = 24;

/// Options that Python describes in its own words.
const COMPOSITE: &[&str] = &["streams", "fields", "remote"];

/// A file that repeats options, and its text.
type Text = (&'static str, String);

/// Part of a file that describes a group: the file, and a class in Python or the subject of a heading in C.
type TextPart = (&'static str, &'static str);

/// A group of options, and the parts that repeat it.
struct Group {
    options: &'static [OptionInfo],
    /// Values of a document that sets nothing.
    defaults: Value,
    c: TextPart,
    /// Without one, Python's values differ from the document's.
    python: Option<TextPart>,
}

fn groups() -> Vec<Group> {
    fn group<T: Default + Serialize>(options: &'static [OptionInfo], c: TextPart, python: Option<TextPart>) -> Group {
        Group { options, defaults: json!(T::default()), c, python }
    }
    vec![
        group::<LoaderConfig>(LoaderConfig::OPTIONS, (C, "the document"), Some((LOADER, "Loader"))),
        group::<StreamConfig>(StreamConfig::OPTIONS, (C, "a stream"), Some((STREAM, "Stream"))),
        group::<SelectConfig>(SelectConfig::OPTIONS, (C, "`select`"), Some((GROUPS, "Select"))),
        group::<TokenWindow>(TokenWindow::OPTIONS, (C, "`window`"), Some((GROUPS, "TokenWindow"))),
        group::<PackConfig>(PackConfig::OPTIONS, (C, "packs"), Some((GROUPS, "Pack"))),
        group::<TokenBatch>(TokenBatch::OPTIONS, (C, "batches by tokens"), Some((GROUPS, "TokenBatch"))),
        group::<OrderConfig>(OrderConfig::OPTIONS, (C, "`order`"), Some((GROUPS, "Order"))),
        group::<FetchConfig>(FetchConfig::OPTIONS, (C, "`fetch`"), Some((GROUPS, "Fetch"))),
        group::<EngineConfig>(EngineConfig::OPTIONS, (C, "`engine`"), Some((GROUPS, "Engine"))),
        group::<SkipConfig>(SkipConfig::OPTIONS, (C, "`skip`"), Some((GROUPS, "Skip"))),
        // Python finds the numbers that are not given.
        group::<WorldConfig>(WorldConfig::OPTIONS, (C, "`world`"), None),
        group::<WriterConfig>(WriterConfig::OPTIONS, (C_WRITER, "a writer"), None),
    ]
}

#[test]
fn the_repository_repeats_every_option_as_declared() {
    let missing = missing(&repository());
    assert_eq!(
        missing,
        Vec::<(TextPart, String)>::new(),
        "texts that differ from the declarations in loader/src/config"
    );
}

#[test]
fn the_loader_has_few_arguments() {
    let texts = repository();
    let loader = part_of(&texts, (LOADER, "Loader"));
    let (_, rest) = loader.split_once("def __init__(").expect("a constructor");
    let (signature, _) = rest.split_once(") -> None:").expect("the end of its signature");
    let arguments = signature.lines().filter(|line| line.contains(": ")).count();
    assert!(arguments >= LoaderConfig::OPTIONS.len(), "arguments are counted by their lines: {arguments}");
    assert!(arguments <= ARGUMENTS_MAX, "{arguments} arguments of Loader");
}

#[test]
fn a_changed_default_sentence_or_annotation_is_found_in_every_group() {
    let mut seen = BTreeSet::new();
    for (part, from, to) in [
        ((LOADER, "Loader"), "seed: int = 9176", "seed: int = 9177"),
        ((LOADER, "Loader"), "drop_last: Leave", "drop_last: Also leave"),
        ((LOADER, "Loader"), "order: Order | None", "order: Order"),
        ((STREAM, "Stream"), "choose: int", "choose: Count"),
        ((STREAM, "Stream"), "split: Sub-folder", "split: Folder"),
        ((GROUPS, "Select"), "fraction_seed: int", "fraction_seed: Count"),
        ((GROUPS, "Select"), "balance: Column", "balance: Name"),
        ((GROUPS, "TokenWindow"), "stride: Tokens", "stride: Ids"),
        ((GROUPS, "Pack"), "max_sequences: Most", "max_sequences: Many"),
        ((GROUPS, "TokenBatch"), "max_length: Most", "max_length: Many"),
        ((GROUPS, "Order"), "bucket_batches: Count = 64", "bucket_batches: Count = 65"),
        ((GROUPS, "Order"), "epoch_size: Samples of", "epoch_size: Length of"),
        ((GROUPS, "Fetch"), "retry: Count = 2", "retry: Count = 3"),
        ((GROUPS, "Fetch"), "keep_zip: Keep", "keep_zip: Also keep"),
        ((GROUPS, "Engine"), "mmap: bool = False", "mmap: bool = True"),
        ((GROUPS, "Engine"), "pin_threads: Bind", "pin_threads: Tie"),
        ((GROUPS, "Skip"), "missing: bool = False", "missing: bool = True"),
        ((C, "the document"), "* `drop_last` (false)", "* `drop_last` (true)"),
        ((C, "a stream"), "* `window` (null)", "* `window` (1)"),
        ((C, "`select`"), "* `balance` (null): Column", "* `balance` (null): Name"),
        ((C, "`window`"), "* `tokens` (required)", "* `tokens` (0)"),
        ((C, "packs"), "* `pad` (0)", "* `pad` (1)"),
        ((C, "batches by tokens"), "* `max_length` (null)", "* `max_length` (1)"),
        ((C, "`order`"), "* `bucket_batches` (64)", "* `bucket_batches` (65)"),
        ((C, "`fetch`"), "* `timeout` (60.0)", "* `timeout` (null)"),
        ((C, "`engine`"), "* `mmap` (false): Copy", "* `mmap` (false): Move"),
        ((C, "`skip`"), "* `errors` (0)", "* `errors` (1)"),
        ((C, "`world`"), "* `world_size` (1)", "* `world_size` (0)"),
        ((C_WRITER, "a writer"), "* `exist_ok` (false)", "* `exist_ok` (true)"),
    ] {
        let mut texts = repository();
        let (_, text) = texts.iter_mut().find(|(path, _)| *path == part.0).expect(part.0);
        let start = text.find(&heading(part)).unwrap_or_else(|| panic!("no {part:?}"));
        let at = start + text[start..].find(from).unwrap_or_else(|| panic!("{part:?} has no {from}"));
        text.replace_range(at..at + from.len(), to);
        let found = missing(&texts);
        assert_eq!(found.iter().map(|(part, _)| *part).collect::<Vec<_>>(), [part], "{from}: {found:?}");
        seen.insert(part);
    }
    let parts = groups().into_iter().flat_map(|group| [Some(group.c), group.python]).flatten().collect();
    assert_eq!(seen, parts, "parts with a changed text above, and parts of all groups");
}

fn repository() -> Vec<Text> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is a folder of the workspace");
    let read = |path| (path, std::fs::read_to_string(root.join(path)).expect(path));
    [C, C_WRITER, GROUPS, LOADER, STREAM].map(read).to_vec()
}

/// Returns the texts that must be written, each with its part.
fn missing(texts: &[Text]) -> Vec<(TextPart, String)> {
    let expected = groups().into_iter().flat_map(|group| expected_of(&group));
    expected.filter(|(part, wanted)| !part_of(texts, *part).contains(wanted)).collect()
}

fn expected_of(group: &Group) -> Vec<(TextPart, String)> {
    let mut expected = Vec::new();
    for option in group.options {
        let (name, doc, default) = (option.name, sentence(option), default_of(option, &group.defaults));
        expected.push((group.c, format!("* `{name}` ({default}): {} ", doc.replace("None:", "null:"))));
        let Some(python) = group.python.filter(|_| !COMPOSITE.contains(&name)) else { continue };
        expected.push((python, format!("\n        {name}: {doc}")));
        let parameter = format!("{name}: {}{}", annotation(option), python_default(&default));
        // The classes of the groups are data classes.
        let line = if python.0 == LOADER { format!("        {parameter},") } else { format!("    {parameter}") };
        expected.push((python, format!("\n{line}\n")));
    }
    expected
}

/// Start of a part's text.
fn heading((path, name): TextPart) -> String {
    match path {
        C | C_WRITER => format!("/// Options of {name}"),
        _ => format!("\nclass {name}"),
    }
}

/// Text of a part; lines of one sentence are joined.
fn part_of(texts: &[Text], part: TextPart) -> String {
    let (_, text) = texts.iter().find(|(path, _)| *path == part.0).expect(part.0);
    let start = text.find(&heading(part)).unwrap_or_else(|| panic!("no {part:?}"));
    let rest = &text[start + 1..];
    let ends: &[&str] = match part.0 {
        C | C_WRITER => &["/// Options of ", "/// A field is an object", "pub unsafe extern"],
        _ => &["\nclass "],
    };
    let end = ends.iter().filter_map(|end| rest.find(end)).min().unwrap_or(rest.len());
    match part.0 {
        C | C_WRITER => unwrapped(&rest[..end]),
        // Lines of an argument, which are indented by 12 columns after the first one.
        _ => rest[..end].replace("\n            ", " "),
    }
}

/// Sentence of an option, on one line.
fn sentence(option: &OptionInfo) -> String {
    option.doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// Default of an option as JSON, `{}` for a group; `required` for options without one.
fn default_of(option: &OptionInfo, defaults: &Value) -> String {
    match (option.name, &defaults[option.name]) {
        ("streams" | "batch_size" | "tokens" | "length" | "max_tokens" | "columns" | "out", _) => "required".to_owned(),
        (_, Value::Object(_)) => "{}".to_owned(),
        (_, default) => default.to_string(),
    }
}

/// Annotation in Python, which selects the check of the value, see `arguments.py`.
fn annotation(option: &OptionInfo) -> String {
    let kind: String = option.kind.split_whitespace().collect();
    let (kind, none) = match kind.strip_prefix("Option<").and_then(|inner| inner.strip_suffix('>')) {
        Some(inner) => (inner, " | None"),
        // Without a group all its options have their defaults.
        None if kind.ends_with("Config") => (kind.as_str(), " | None"),
        None => (kind.as_str(), ""),
    };
    let annotation = match (option.name, kind) {
        ("remote" | "local" | "ca_file" | "manifest", _) => "str | os.PathLike[str]",
        // Blocks of no samples have no order.
        ("shuffle_block_size", _) => "Samples",
        // Only some texts are options: `choices.py` lists them.
        ("batching_method", _) => "BatchingMethod",
        ("extra", _) => "Sequence[Extra]",
        ("files", _) => "Grouping | Mapping[str, str]",
        ("method", _) => "PackMethod",
        ("metrics", _) => "str | MetricsFunction",
        ("overflow", _) => "PackOverflow",
        ("partition_algo", _) => "PartitionAlgo",
        ("proportion_unit", _) => "ProportionUnit",
        ("sampling_method", _) => "SamplingMethod",
        ("shuffle_algo", _) => "ShuffleAlgo",
        ("validate_hash", _) => "Hash",
        // A number is a window, too.
        (_, "TokenWindow") => "Count | TokenWindow",
        (_, "LoaderWindow") => "Count | TokenWindow | Pack | TokenBatch",
        (_, "String") => "str",
        (_, "f64") => "float",
        (_, "u32") => "Count",
        (_, "u64" | "i64") => "int",
        (_, same) => same.strip_suffix("Config").unwrap_or(same),
    };
    format!("{annotation}{none}")
}

/// ` = default` in Python.
fn python_default(default: &str) -> String {
    match default {
        "required" => String::new(),
        "null" | "{}" => " = None".to_owned(),
        "[]" => " = ()".to_owned(),
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
