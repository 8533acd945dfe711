//! Samples that cannot be read or decoded.

use super::check::{Check, CheckRun, PerColumn, is_usual};
use crate::doctor::finding::{Examples, Findings, Problem, Severity, Subject};
use crate::doctor::values::{Sample, Value};
use std::collections::BTreeMap;

const NAME: &str = "damage";

/// First bytes that are counted: files of one kind have few.
const STARTS_MAX: usize = 64;

/// Counts by the kind of contents of a column, where contents decide.
#[derive(Default)]
struct ColumnContents {
    values: u64,
    pictures: u64,
    no_pictures: Examples,
    documents: u64,
    broken_documents: Examples,
    numbers: u64,
    no_numbers: Examples,
    /// Files that are no pictures, by their first bytes, and how many there are.
    starts: BTreeMap<[u8; 4], Examples>,
    files: u64,
    replaced: Examples,
    /// Conversations with a role that is not a usual one.
    roles: Examples,
}

/// The check.
#[derive(Default)]
pub(super) struct Damage(PerColumn<ColumnContents>);

impl Check for Damage {
    fn sample(&mut self, sample: &Sample, run: &CheckRun<'_>, findings: &mut Findings) {
        let advice = "repair or remove the sample, or leave it out with `skip=fb.Skip(errors=...)`";
        let values = match &sample.values {
            Ok(values) => values,
            Err(reason) => {
                let problem = Problem::new(Severity::Error, NAME, "samples cannot be read", advice);
                findings.add(problem, Subject::Sample(sample.id), reason);
                return;
            }
        };
        for (column, value) in &values.columns {
            let reason = match value {
                Value::Damaged(reason) => reason,
                Value::Pictures { damage: Some(reason), .. } => reason,
                _ => continue,
            };
            let message = format!("values of {} cannot be decoded", run.column(*column));
            findings.add(Problem::new(Severity::Error, NAME, message, advice), Subject::Sample(sample.id), reason);
        }
        self.0.each(sample, |found, id, value| {
            let chat = value.document().and_then(|document| document.chat.as_ref());
            if let Some(role) = chat.and_then(|chat| chat.unknown_role.as_ref()) {
                found.roles.add(id, || format!("role `{}`", role.escape_debug()));
            }
        });
        self.0.each(sample, |found, id, value| match value {
            Value::Picture(_) => {
                found.values += 1;
                found.pictures += 1;
            }
            Value::Bytes { bytes, start } if *bytes > 0 => {
                found.values += 1;
                let detail = || format!("{bytes} bytes that begin with {}", start.escape_ascii());
                found.no_pictures.add(id, detail);
                found.files += 1;
                if found.starts.len() < STARTS_MAX || found.starts.contains_key(start) {
                    found.starts.entry(*start).or_default().add(id, detail);
                }
            }
            Value::Text(text) if !text.is_blank => {
                found.values += 1;
                if text.is_replaced {
                    found.replaced.add(id, || format!("{} bytes", text.bytes));
                }
                match text.json {
                    Some(true) => found.documents += 1,
                    Some(false) => found.broken_documents.add(id, || format!("{} bytes", text.bytes)),
                    None => found.broken_documents.add(id, || "no document".to_owned()),
                }
                match text.number {
                    Some(_) => found.numbers += 1,
                    None => found.no_numbers.add(id, || text.short.clone().unwrap_or_default()),
                }
            }
            Value::Document(_) | Value::Array(_) => {
                found.values += 1;
                found.documents += 1;
            }
            _ => {}
        });
    }

    fn end(&mut self, run: &CheckRun<'_>, findings: &mut Findings) {
        for (column, found) in self.0.iter() {
            let column = run.column(column);
            let rows = [
                (found.pictures, &found.no_pictures, "pictures", "no pictures"),
                (found.documents, &found.broken_documents, "JSON documents", "no JSON documents"),
                (found.numbers, &found.no_numbers, "numbers", "no numbers"),
            ];
            for (most, rest, words, no_words) in rows {
                // Most values show the kind of the column.
                if most > 0 && rest.count > 0 && rest.count * 4 <= found.values {
                    let message = format!("values of {column} are {no_words}, and the rest are {words}");
                    let advice = "repair or remove the sample";
                    findings.add_all(Problem::new(Severity::Error, NAME, message, advice), rest);
                }
            }
            let rows = [
                (
                    &found.replaced,
                    "texts",
                    "characters that replace damaged ones",
                    "decode the original again, with its own encoding",
                ),
                (&found.roles, "conversations", "unusual roles", "compare them with the roles of the chat template"),
            ];
            for (examples, values, words, advice) in rows.into_iter().filter(|(examples, ..)| examples.count > 0) {
                let message = format!("{values} of {column} have {words}");
                let severity = if is_usual(examples.count, found.values) { Severity::Note } else { Severity::Warning };
                findings.add_all(Problem::new(severity, NAME, message, advice), examples);
            }
            starts(found, &column, findings);
        }
    }
}

/// Finds files that begin in a different way than nearly all files of the column.
fn starts(found: &ColumnContents, column: &str, findings: &mut Findings) {
    let Some((usual, most)) = found.starts.iter().max_by_key(|(_, examples)| examples.count) else { return };
    // Numbers begin with any bytes, and often with zeros.
    if most.count * 10 < found.files * 9 || *usual == [0; 4] || found.pictures > 0 {
        return;
    }
    for (_, examples) in found.starts.iter().filter(|(start, _)| *start != usual) {
        let message = format!("files of {column} do not begin with the usual {}", usual.escape_ascii());
        let problem = Problem::new(Severity::Warning, NAME, message, "open one of them: it may be of a different kind");
        findings.add_all(problem, examples);
    }
}
