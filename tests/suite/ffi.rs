//! The C interface from C: the test and the example, compiled by the system's compiler and linked with libforebay.

use forebay_loader::config::{LoaderConfig, StreamConfig};
use forebay_loader::format::writer::Options;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SAMPLES: u64 = 50;
const LENGTH: usize = 8;
const SEED: u64 = 7;

/// The interface's folder in the repository.
fn ffi() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ffi")
}

/// Where cargo put libforebay.so: beside this test, as what it depends on.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    test.parent().expect("a folder").to_owned()
}

/// A program made of one C file, and a data set with its configuration for it to read.
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

    /// `program` without cargo's search path, whose first folder may hold an older libforebay.so.
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

/// What a program that ended well printed.
fn printed(output: Output) -> String {
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn sum_of_all_tokens() -> String {
    let tokens = (0..SAMPLES).flat_map(|i| forebay_tests::data::token_sample(LENGTH, SEED, i));
    format!("{}\n", tokens.map(u64::from).sum::<u64>())
}

#[test]
fn a_c_program_reads_every_token_and_is_told_its_mistakes() {
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

/// Only what starts no epoch: rustix asks the kernel for the vDSO's address, and valgrind unmaps the vDSO.
#[test]
fn valgrind_finds_no_fault_in_how_mistakes_are_answered() {
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
