//! `cargo gate`: format, lints, docs, layering, machine paths, header and stub drift.
//!
//! Without arguments everything; with names only those checks. Ends with 1 when something is wrong.

use forebay_tests::gate::generated::Verdict;
use forebay_tests::gate::{Complaint, generated, layering, paths, sources, stubs, tools};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    match run(&sources::root(), &wanted) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(wrong) => {
            eprintln!("gate: {wrong} to mend");
            ExitCode::FAILURE
        }
        Err(e) => {
            eprintln!("gate: could not run: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the checks in `wanted` (all if empty) and gives the number of complaints.
fn run(root: &Path, wanted: &[String]) -> std::io::Result<usize> {
    let texts = sources::read(root)?;
    let mut report = Report { wrong: 0, ran: Vec::new(), since: Instant::now() };
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    // The textual checks take no time, so they come first.
    if wants("layering") {
        let mut complaints = layering::check(&texts);
        complaints.extend(layering::check_crates(&tools::metadata(root)?));
        report.add("layering", complaints);
    }
    if wants("paths") {
        report.add("paths", paths::check(&texts));
    }
    if wants("stubs") {
        report.add("stubs", stubs::check(&texts));
    }
    for tool in tools::TOOLS.iter().filter(|t| wants(t.name)) {
        report.add(tool.name, tool.run(root)?);
    }
    if wants("generated") {
        for file in generated::GENERATED {
            match file.check(root)? {
                Verdict::Checked(complaints) => report.add("generated", complaints),
                Verdict::Skipped(reason) => println!("gate: generated: {} is not compared: {reason}", file.path),
            }
        }
    }
    if let Some(unknown) = wanted.iter().find(|w| !report.ran.contains(&w.as_str())) {
        return Err(std::io::Error::other(format!("there is no check called {unknown}")));
    }
    Ok(report.wrong)
}

/// What was found so far.
struct Report {
    wrong: usize,
    ran: Vec<&'static str>,
    since: Instant,
}

impl Report {
    fn add(&mut self, name: &'static str, complaints: Vec<Complaint>) {
        let verdict = if complaints.is_empty() { "ok".to_owned() } else { format!("{} wrong", complaints.len()) };
        println!("gate: {name}: {verdict} ({:.1} s)", self.since.elapsed().as_secs_f64());
        for complaint in &complaints {
            println!("  {complaint}");
        }
        self.wrong += complaints.len();
        self.ran.push(name);
        self.since = Instant::now();
    }
}
