//! Programs of C and C++, and the data that they read.

use forebay_loader::config::{EngineConfig, LoaderConfig, StreamConfig};
use forebay_loader::format::HashAlgo;
use forebay_loader::format::writer::Options;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) const SAMPLES: u64 = 50;
const LENGTH: usize = 8;
const SEED: u64 = 7;

/// Returns the folder of the C interface.
pub(crate) fn ffi() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ffi")
}

/// Returns cargo's folder of libforebay.so: the folder of this test, which depends on it.
pub(crate) fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    test.parent().expect("a folder").to_owned()
}

/// A sanitizer that a program is compiled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sanitizer {
    None,
    /// Addresses and leaks, of the library's allocations too, and undefined behaviour.
    Address,
    /// Data races of the program's own accesses. Those within the library are hidden: its atomics are not instrumented,
    /// so that every lock of it would look like a race.
    Thread,
}

impl Sanitizer {
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Address => &["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1"],
            Self::Thread => &["-fsanitize=thread", "-O1"],
        }
    }
}

/// Data set of 50 samples with 8 uint16 tokens, a configuration for it, and programs.
pub(crate) struct Rig {
    pub(crate) folder: tempfile::TempDir,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with_samples(SAMPLES)
    }

    /// Returns a rig with `samples` samples.
    pub(crate) fn with_samples(samples: u64) -> Self {
        let rig = Self { folder: tempfile::tempdir().expect("a folder") };
        let data = rig.path("data");
        let options = Options { size_limit: Some(256), hashes: vec![HashAlgo::Xxh64], ..Options::default() };
        forebay_tests::data::tokens(&data, samples, LENGTH, SEED, options).expect("a data set");
        let config = LoaderConfig {
            streams: vec![StreamConfig { local: Some(data), ..StreamConfig::default() }],
            batch_size: 16,
            shuffle: true,
            threads: Some(2),
            engine: EngineConfig { trace: true, ..EngineConfig::default() },
            ..LoaderConfig::default()
        };
        std::fs::write(rig.config(), serde_json::to_string(&config).expect("JSON")).expect("written");
        rig
    }

    /// Path in the rig's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.path("config.json")
    }

    /// Compiles `source`, a path in `ffi`, and links it with libforebay. Warnings are errors.
    pub(crate) fn compile(&self, source: &str, sanitizer: Sanitizer) -> PathBuf {
        let program = self.path("program");
        let libraries = libraries();
        let (compiler, standard) = if source.ends_with(".cpp") { ("c++", "-std=c++17") } else { ("cc", "-std=c11") };
        let mut command = Command::new(compiler);
        command.args([standard, "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread", "-D_DEFAULT_SOURCE"]);
        command.args(sanitizer.flags()).arg("-o").arg(&program);
        command.arg("-I").arg(ffi().join("include")).arg(ffi().join(source)).arg("-L").arg(&libraries);
        // A program that opens the library itself is not linked with it.
        command.args(["-Wl,--as-needed", "-lforebay"]).arg(format!("-Wl,-rpath,{}", libraries.display()));
        succeeded(&mut command);
        program
    }

    /// Returns the command that runs `source` with the configuration and the path of a new folder.
    pub(crate) fn prepared(&self, source: &str, sanitizer: Sanitizer) -> Command {
        let program = self.compile(source, sanitizer);
        let hidden = format!("suppressions={} exitcode=66", ffi().join("tests/thread-sanitizer.txt").display());
        let mut command = command(program);
        command.env("TSAN_OPTIONS", hidden).env("ASAN_OPTIONS", "detect_leaks=1");
        command.arg(self.config()).arg(self.path("out"));
        command
    }

    /// Runs `source` as [`prepared`](Self::prepared). Returns its output.
    pub(crate) fn run(&self, source: &str, sanitizer: Sanitizer) -> String {
        succeeded(&mut self.prepared(source, sanitizer))
    }
}

/// Returns `program` without cargo's search path: its first folder may contain an older libforebay.so.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_remove("LD_LIBRARY_PATH");
    command
}

/// Runs a command to its end and returns its output. The command must succeed.
pub(crate) fn succeeded(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

/// Returns true if `program` can be started; otherwise prints that the test is skipped.
pub(crate) fn has(program: &str) -> bool {
    let has = Command::new(program).arg("--version").output().is_ok();
    if !has {
        println!("skipped: {program} is not installed");
    }
    has
}

/// The line that programs print after an epoch.
pub(crate) fn sum_of_all_tokens() -> String {
    let tokens = (0..SAMPLES).flat_map(|i| forebay_tests::data::token_sample(LENGTH, SEED, i));
    format!("{}\n", tokens.map(u64::from).sum::<u64>())
}
