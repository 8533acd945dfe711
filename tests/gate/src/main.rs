//! `cargo gate`: format, lints, docs, layering, import cycles, long functions, wide lines, words, names of types,
//! machine paths, private names of Python, licences, header and stub drift.
//!
//! Runs all checks, or those that the arguments name. Exits with 1 if a check finds a violation.

use forebay_gate::generated::Verdict;
use forebay_gate::violation::Violation;
use forebay_gate::{
    cycles, functions, generated, layering, licences, paths, private, prose, rust_files, sources, stubs, tools,
    type_names, width, word_rates, words,
};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    match run(&sources::root(), &wanted) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(wrong) => {
            eprintln!("gate: {wrong} violations");
            ExitCode::FAILURE
        }
        Err(e) => {
            eprintln!("gate: could not run: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the checks in `wanted` (all if empty) and returns the number of violations.
fn run(root: &Path, wanted: &[String]) -> std::io::Result<usize> {
    let texts = sources::read(root)?;
    let mut report = Report { wrong: 0, ran: Vec::new(), since: Instant::now() };
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    // The checks of sources take no time, so they run first.
    let (files, unread) = rust_files::read(&texts);
    if wants("layering") {
        let mut violations = unread;
        violations.extend(layering::check(&files));
        violations.extend(layering::check_crates(&tools::metadata(root)?));
        report.add("layering", violations);
    }
    if wants("cycles") {
        report.add("cycles", cycles::check(&files));
    }
    if wants("functions") {
        report.add("functions", functions::check(&texts, &files));
    }
    if wants("width") {
        report.add("width", width::check(&texts));
    }
    if wants("words") {
        let files = prose::read(&texts);
        let counts = word_rates::counts(&files);
        let mut violations = words::check(&files);
        violations.extend(word_rates::check(&counts));
        report.add("words", violations);
        if wanted.len() == 1 {
            println!("{}", word_rates::table(&counts));
        }
    }
    if wants("type_names") {
        report.add("type_names", type_names::check(&texts));
    }
    if wants("paths") {
        report.add("paths", paths::check(&texts));
    }
    if wants("private") {
        report.add("private", private::check(&texts));
    }
    if wants("stubs") {
        report.add("stubs", stubs::check(&texts));
    }
    if wants("licences") {
        report.add("licences", licences::check(&tools::metadata_of_dependencies(root)?));
    }
    for tool in tools::TOOLS.iter().filter(|t| wants(t.name)) {
        report.add(tool.name, tool.run(root)?);
    }
    if wants("generated") {
        for file in generated::GENERATED {
            match file.check(root)? {
                Verdict::Checked(violations) => report.add("generated", violations),
                Verdict::Skipped(reason) => println!("gate: generated: {} is not compared: {reason}", file.path),
            }
        }
    }
    if let Some(unknown) = wanted.iter().find(|w| !report.ran.contains(&w.as_str())) {
        return Err(std::io::Error::other(format!("there is no check called {unknown}")));
    }
    Ok(report.wrong)
}

/// Findings so far.
struct Report {
    wrong: usize,
    ran: Vec<&'static str>,
    since: Instant,
}

impl Report {
    fn add(&mut self, name: &'static str, violations: Vec<Violation>) {
        let verdict = if violations.is_empty() { "ok".to_owned() } else { format!("{} violations", violations.len()) };
        println!("gate: {name}: {verdict} ({:.1} s)", self.since.elapsed().as_secs_f64());
        for violation in &violations {
            println!("  {violation}");
        }
        self.wrong += violations.len();
        self.ran.push(name);
        self.since = Instant::now();
    }
}
