//! Report of the findings: one page, or a JSON object for each finding.

use super::finding::{Example, Finding, Findings, Severity, Subject};
use super::source::Source;
use crate::Exit;
use crate::output::Output;
use crate::text::{counted, one_line};
use serde_json::json;
use std::fmt::Write as _;

/// Examples of a finding on the page.
const SHOWN: usize = 3;

/// Prints the findings. `source` has the names of the samples.
pub(super) fn print(output: &Output, source: Option<&Source>, findings: &Findings) -> Exit {
    let count = |severity| findings.found().filter(|finding| finding.problem.severity == severity).count();
    let [errors, warnings, notes] = [Severity::Error, Severity::Warning, Severity::Note].map(count);
    let mut page = paragraphs(output, source, findings);
    if !output.is_json() {
        let [wrong, odd, notes] = [(errors, "error"), (warnings, "warning"), (notes, "note")]
            .map(|(number, noun)| counted(number as u64, noun));
        page.push(match (errors, warnings) {
            (0, 0) => format!("no errors or warnings, {notes}"),
            _ => format!("{wrong}, {odd}, {notes}"),
        });
        output.bytes(format!("{}\n", page.join("\n")).as_bytes());
    }
    if errors + warnings > 0 { Exit::Found } else { Exit::Success }
}

/// Prints what was found before an error.
pub(super) fn print_unfinished(output: &Output, findings: &Findings) {
    let page = paragraphs(output, None, findings);
    if !page.is_empty() {
        output.bytes(format!("{}\n", page.join("\n")).as_bytes());
    }
}

/// Returns the parts of the page. In JSON they are printed.
fn paragraphs(output: &Output, source: Option<&Source>, findings: &Findings) -> Vec<String> {
    let mut page = Vec::new();
    for fact in findings.facts() {
        if output.is_json() {
            output.line(&json!(fact), String::new);
        } else {
            page.push(format!("{:<15} {}", fact.fact, one_line(&fact.value)));
        }
    }
    for finding in findings.found() {
        if output.is_json() {
            output.line(&record(finding, source), String::new);
        } else {
            page.push(paragraph(finding, source, output.has_colours()));
        }
    }
    page
}

fn record(finding: &Finding, source: Option<&Source>) -> serde_json::Value {
    let problem = &finding.problem;
    let examples: Vec<_> = finding
        .examples
        .iter()
        .map(|example| json!({"name": name(&example.subject, source), "detail": example.detail}))
        .collect();
    json!({
        "severity": problem.severity,
        "check": problem.check,
        "message": problem.message,
        "advice": problem.advice,
        "count": finding.count,
        "examples": examples,
    })
}

fn paragraph(finding: &Finding, source: Option<&Source>, has_colours: bool) -> String {
    let problem = &finding.problem;
    let (name_of_severity, colour) = match problem.severity {
        Severity::Error => ("error", "1;31"),
        Severity::Warning => ("warning", "1;33"),
        Severity::Note => ("note", "1"),
    };
    let label =
        if has_colours { format!("\x1b[{colour}m{name_of_severity}\x1b[0m") } else { name_of_severity.to_owned() };
    let mut text = format!("\n{label} {}: {}", problem.check, one_line(&problem.message));
    if finding.count > 1 {
        let _ = write!(text, " ({})", finding.count);
    }
    for Example { subject, detail } in finding.examples.iter().take(SHOWN) {
        let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        let _ = write!(text, "\n  {}", one_line(&(name(subject, source) + &detail)));
    }
    let more = finding.count.saturating_sub(SHOWN as u64);
    if more > 0 {
        let _ = write!(text, "\n  and {more} more");
    }
    let _ = write!(text, "\n  > {}", problem.advice);
    text
}

fn name(subject: &Subject, source: Option<&Source>) -> String {
    let sample = |id| source.map_or_else(String::new, |source| source.name_of_sample(id));
    match subject {
        Subject::Sample(id) => sample(*id),
        Subject::Pair(id, other) => format!("{} = {}", sample(*id), sample(*other)),
        Subject::Named(name) => name.clone(),
    }
}
