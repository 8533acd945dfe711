//! Instructions of the hot paths under valgrind's callgrind, compared with committed numbers: `make bench-check`.
//!
//! A change that makes a path a few percent slower does not show in times on a machine with further work, but it shows
//! in the number of instructions, which is nearly the same in every run. All paths run in one child of this binary
//! (`counts-child`) under valgrind, on one thread, with inputs that are made there from fixed seeds:
//!
//! * `paths` has the paths: inputs, a first pass that fills tables and memory, and the pass that is counted;
//! * `callgrind` runs the child and reads the counts;
//! * `comparison` has the file of the committed numbers, and the verdict on each path.
//!
//! The counts depend on the compiler, on the release profile and on the version of libc, but hardly on the machine:
//! valgrind shows the same processor on each machine with AVX2, without AVX-512 and with fixed sizes of caches, by
//! which our kernels, libraries and the `memcpy` of libc choose their code. Between runs differ: tables with
//! random seeds, which libraries of tokenizers have, change two paths by up to 0.04 %. The rest have been equal.
//!
//! Not counted are waits for memory, system calls and mispredicted branches. A path may become slower or
//! faster with the same count, so times are still measured by the remaining scenarios.

mod callgrind;
mod comparison;
mod paths;

use crate::report::{Better, Column, Report, Row};
use callgrind::VECTORS;
use clap::Args;
use comparison::{Counts, PathCount, TOLERANCE_PERCENT, Verdict};
use forebay_loader::decode::vectors;
use forebay_loader::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::PathBuf;
use std::process::Command;

/// Arguments of `counts`.
#[derive(Debug, Args)]
pub(crate) struct CountsArgs {
    /// Committed counts
    #[arg(long, value_name = "FILE", default_value = "bench/counts.json")]
    file: PathBuf,
    /// Write the counts to the file instead of comparing them
    #[arg(long)]
    write: bool,
    /// Keep the profile of each path in this folder, for callgrind_annotate
    #[arg(long, value_name = "DIR")]
    profiles: Option<PathBuf>,
}

/// Counts the instructions of all paths, and compares them with the file or writes it.
///
/// # Errors
///
/// If a path differs by more than the tolerance, or valgrind cannot run.
pub(crate) fn run(args: &CountsArgs) -> Result<()> {
    if cfg!(debug_assertions) {
        return Err(Error::config("the committed counts are of the release profile: use `make bench-check`"));
    }
    // Before the counts, which take half a minute.
    let committed = if args.write { None } else { Some(Counts::read(&args.file)?) };
    let counted = Counts { compiler: compiler(), instructions: callgrind::count(args.profiles.as_deref())? };
    let Some(committed) = committed else {
        counted.write(&args.file)?;
        println!("wrote {} counts to {}", counted.instructions.len(), args.file.display());
        return Ok(());
    };
    let compared = counted.compare(&committed);
    print!("{}", report(&compared).table());
    match comparison::failure(&compared, &counted.compiler, &committed.compiler) {
        None => Ok(()),
        Some(message) => Err(Error::new(ErrorKind::State, message)),
    }
}

/// Runs every path once, and again in [`profiled_by_callgrind`]; prints its name after that.
///
/// # Errors
///
/// On a machine without AVX2, and errors of a path.
pub(crate) fn run_child() -> Result<()> {
    if vectors::name_in_use() != VECTORS {
        let message = "the committed counts are of x86-64 with AVX2, which this machine or its valgrind does not have";
        return Err(Error::new(ErrorKind::Unsupported, message).with("vectors", vectors::name_in_use()));
    }
    for (name, prepare) in paths::ALL {
        let of_path = |e: Error| e.with("path", name);
        let mut work = prepare().map_err(of_path)?;
        work(0).map_err(of_path)?;
        profiled_by_callgrind(&mut *work).map_err(of_path)?;
        println!("{name}");
    }
    Ok(())
}

/// Pass with a separate profile, which callgrind writes at the end of this function, by its name.
#[inline(never)]
fn profiled_by_callgrind(work: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
    // Not the last call: a jump would be the end of this function for callgrind. So it is below.
    black_box(counted_by_callgrind(work))
}

/// Pass that is counted: callgrind counts in this function alone, by its name. It is a second function, because of
/// several options with a pattern for one function callgrind obeys one.
#[inline(never)]
fn counted_by_callgrind(work: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
    black_box(work(1))
}

/// Returns the compiler's version, on which the counts depend.
fn compiler() -> String {
    let version = Command::new("rustc").arg("--version").output();
    version.map_or_else(|_| "unknown".to_owned(), |out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

fn report(compared: &[PathCount]) -> Report {
    let columns = vec![
        Column::new("instructions", "instructions", 0, Better::Lower),
        Column::new("committed", "committed", 0, Better::Neither),
        Column::new("ratio", "ratio", 4, Better::Lower),
    ];
    let title = format!("instructions of the hot paths, which may differ by {TOLERANCE_PERCENT} %");
    let mut report = Report::new("counts", title, columns);
    report.is_listed = true;
    report.rows = compared.iter().map(row).collect();
    report
}

fn row(path: &PathCount) -> Row {
    let mut values = BTreeMap::new();
    values.extend(path.counted.map(|counted| ("instructions", counted as f64)));
    values.extend(path.committed.map(|committed| ("committed", committed as f64)));
    values.extend(path.ratio().map(|ratio| ("ratio", ratio)));
    let remark = match path.verdict() {
        Verdict::Equal => "",
        Verdict::More => "MORE",
        Verdict::Fewer => "FEWER",
        Verdict::Added => "not in the file",
        Verdict::Missing => "only in the file",
    };
    Row { name: path.name.clone(), values, remark: remark.to_owned(), ..Row::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_runs_and_has_a_separate_name() {
        let mut names: Vec<_> = paths::ALL.iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), paths::ALL.len());
        for (name, prepare) in paths::ALL {
            let mut work = prepare().unwrap_or_else(|e| panic!("{name}: {e}"));
            for pass in 0..2 {
                work(pass).unwrap_or_else(|e| panic!("{name}: {e}"));
            }
        }
    }

    #[test]
    fn the_committed_counts_are_of_the_paths_that_there_are() {
        let counts: Counts = serde_json::from_str(include_str!("../../../counts.json")).expect("counts");
        let mut names: Vec<_> = paths::ALL.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        assert_eq!(counts.instructions.keys().collect::<Vec<_>>(), names);
    }

    #[test]
    fn the_table_has_a_line_and_a_verdict_for_each_path() {
        let path = |name: &str, counted, committed| PathCount { name: name.to_owned(), counted, committed };
        let text = report(&[path("a", Some(110), Some(100)), path("b", None, Some(7)), path("c", Some(7), Some(7))]);
        let lines: Vec<String> =
            text.table().lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for expected in ["a 110 100 1.1000 MORE", "b - 7 - only in the file", "c 7 7 1.0000"] {
            assert!(lines.iter().any(|line| line == expected), "{expected}: {lines:?}");
        }
    }
}
