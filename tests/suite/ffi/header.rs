//! The C interface from C: the test and the example, compiled by the system's compiler and linked with libforebay.

use forebay_loader::config::{LoaderConfig, StreamConfig};
use forebay_loader::decode::field::FieldSpec;
use forebay_loader::format::writer::Options;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SAMPLES: u64 = 50;
const LENGTH: usize = 8;
const SEED: u64 = 7;

/// Returns the folder of the C interface.
fn ffi() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ffi")
}

/// Returns cargo's folder of libforebay.so: the folder of this test, which depends on it.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    test.parent().expect("a folder").to_owned()
}

/// Program of one C file, and a data set with a configuration for it to read.
struct Rig {
    folder: tempfile::TempDir,
}

impl Rig {
    fn new(source: &str) -> Self {
        let rig = Self { folder: tempfile::tempdir().expect("a folder") };
        let data = rig.folder.path().join("data");
        let options = Options { size_limit: Some(256), ..Options::default() };
        forebay_tests::data::tokens(&data, SAMPLES, LENGTH, SEED, options).expect("a data set");
        let stream = StreamConfig { local: Some(data), ..StreamConfig::default() };
        let config = LoaderConfig {
            streams: vec![stream],
            batch_size: 16,
            shuffle: true,
            threads: Some(2),
            ..LoaderConfig::default()
        };
        std::fs::write(rig.config(), serde_json::to_string(&config).expect("JSON")).expect("written");
        let libraries = libraries();
        let made = Command::new("cc")
            .args(["-std=c11", "-g", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(rig.program())
            .arg("-I")
            .arg(ffi().join("include"))
            .arg(ffi().join(source))
            .arg("-L")
            .arg(&libraries)
            .arg("-lforebay")
            .arg(format!("-Wl,-rpath,{}", libraries.display()))
            .output()
            .expect("a C compiler");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        rig
    }

    /// Returns `program` without cargo's search path, whose first folder may contain an older libforebay.so.
    fn run(program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_remove("LD_LIBRARY_PATH");
        command
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("config.json")
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("program")
    }
}

/// Returns the output of a program that succeeded.
fn printed(output: Output) -> String {
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn sum_of_all_tokens() -> String {
    let tokens = (0..SAMPLES).flat_map(|i| forebay_tests::data::token_sample(LENGTH, SEED, i));
    format!("{}\n", tokens.map(u64::from).sum::<u64>())
}

#[test]
fn a_c_program_reads_all_tokens_and_gets_an_error_for_each_wrong_call() {
    let rig = Rig::new("tests/interface.c");
    let run = Rig::run(rig.program()).arg(rig.config()).output().expect("it runs");
    assert_eq!(printed(run), sum_of_all_tokens());
}

#[test]
fn the_example_counts_the_rows() {
    let rig = Rig::new("examples/tokens.c");
    let run = Rig::run(rig.program()).arg(rig.config()).output().expect("it runs");
    assert_eq!(printed(run), format!("{SAMPLES} rows\n"));
}

fn header() -> String {
    std::fs::read_to_string(ffi().join("include/forebay.h")).expect("the header").replace("\n// ", "\n")
}

#[test]
fn the_json_example_in_the_header_opens_a_loader() {
    let header = header();
    let (_, example) = header.split_once("```json\n").expect("an example");
    let (example, _) = example.split_once("```").expect("its end");
    let rig = Rig::new("examples/tokens.c");
    let data = rig.folder.path().join("set");
    std::fs::create_dir(&data).expect("a folder");
    std::fs::rename(rig.folder.path().join("data"), data.join("train")).expect("the split");
    let path = data.to_str().expect("UTF-8");
    assert!(example.contains("/data/set"));
    std::fs::write(rig.config(), example.replace("/data/set", path)).expect("written");
    let run = Rig::run(rig.program()).arg(rig.config()).output().expect("it runs");
    assert_eq!(printed(run), format!("{SAMPLES} rows\n"));
}

#[test]
fn the_header_lists_every_option_with_its_default() {
    let header = header();
    let listed = |name: &str, default: &Value| {
        // Some defaults are explained after a colon.
        let entry = format!("`{name}` ({default}");
        let after = header.split(&entry).nth(1).unwrap_or_else(|| panic!("the header lacks {entry}"));
        assert!(after.starts_with(')') || after.starts_with(':'), "{entry} continues with {after:.9}");
    };
    let Value::Object(mut names) = json!(LoaderConfig::default()) else { panic!("an object") };
    for required in ["streams", "batch_size"] {
        names.remove(required).expect("an argument");
        assert!(header.contains(&format!("`{required}` (required)")), "{required}");
    }
    let parts = [names.remove("world").expect("an argument"), json!(StreamConfig::default())];
    let parts = parts.iter().flat_map(|part| part.as_object().expect("an object"));
    names.iter().chain(parts).for_each(|(name, default)| listed(name, default));

    let ops = r#"[{"op": "random_resized_crop", "size": [1, 1]}, {"op": "resize", "size": 1}, {"op": "random_horizontal_flip"},
        {"op": "center_crop", "size": [1, 1]}, {"op": "normalize", "mean": [0, 0, 0], "std": [1, 1, 1]}]"#;
    let kinds = ["image", "mask", "scalar", "tokens", "array", "text", "json", "bytes"].map(|kind| {
        format!(r#"{{"kind": "{kind}", "column": "a" {}}}"#, if kind == "tokens" { r#", "length": 1"# } else { "" })
    });
    let joint = format!(r#"{{"kind": "joint", "fields": [["x", {{"kind": "image", "column": "a", "ops": {ops}}}]]}}"#);
    for text in kinds.iter().chain([&joint]) {
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

/// Runs only calls that start no epoch: rustix reads the vDSO's address from the kernel, and valgrind unmaps the vDSO.
#[test]
fn valgrind_reports_no_error_for_wrong_calls() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: valgrind is not installed");
        return;
    }
    let rig = Rig::new("tests/interface.c");
    let run = Rig::run("valgrind")
        .args(["--quiet", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite"])
        .arg(rig.program())
        .arg(rig.config())
        .arg("mistakes")
        .output()
        .expect("it runs");
    assert_eq!(printed(run), "");
}
