//! Check for empty and missing values.

use super::check::{Check, CheckRun, PerColumn, is_usual};
use crate::doctor::finding::{Examples, Findings, Problem, Severity};
use crate::doctor::values::{Sample, Value};
use std::collections::BTreeMap;

const NAME: &str = "empty";

/// Values of a column.
#[derive(Default)]
struct ColumnValues {
    values: u64,
    empty: Examples,
    blank: Examples,
    /// Conversations with a message without text.
    messages: Examples,
    pictures: u64,
    /// Samples without the column, by the columns that they have.
    absent: BTreeMap<usize, Examples>,
}

/// The check.
#[derive(Default)]
pub(super) struct Empty {
    columns: PerColumn<ColumnValues>,
    /// Samples by the columns that they have.
    samples: BTreeMap<usize, u64>,
}

impl Check for Empty {
    fn sample(&mut self, sample: &Sample, _: &CheckRun<'_>, _: &mut Findings) {
        let Ok(values) = &sample.values else { return };
        let present = values.columns.iter().filter(|(_, value)| !matches!(value, Value::Absent)).count();
        *self.samples.entry(present).or_default() += 1;
        self.columns.each(sample, |found, id, value| {
            let is_empty = match value {
                Value::Absent => {
                    found.absent.entry(present).or_default().add(id, String::new);
                    return;
                }
                Value::Text(text) if text.bytes > 0 && text.is_blank => {
                    found.blank.add(id, || format!("{} characters", text.bytes));
                    false
                }
                Value::Text(text) => text.bytes == 0,
                Value::Bytes { bytes, .. } => *bytes == 0,
                Value::Array(array) => array.elements.count == 0,
                Value::Pictures { items, .. } => *items == 0,
                Value::Document(document) => document.is_empty,
                Value::Picture(_) => {
                    found.pictures += 1;
                    false
                }
                Value::Damaged(_) | Value::Number(_) => false,
            };
            found.values += 1;
            let chat = value.document().and_then(|document| document.chat.as_ref());
            if let Some(number) = chat.and_then(|chat| chat.blank) {
                found.messages.add(id, || format!("message {number}"));
            }
            if is_empty {
                found.empty.add(id, String::new);
            }
        });
    }

    fn end(&mut self, run: &CheckRun<'_>, findings: &mut Findings) {
        let usual = self.samples.iter().max_by_key(|(_, count)| **count).map_or(0, |(present, _)| *present);
        for (id, found) in self.columns.iter() {
            let column = run.column(id);
            let rows = [
                (&found.empty, "are empty"),
                (&found.blank, "have only white space"),
                (&found.messages, "have messages without text"),
            ];
            for (examples, words) in rows {
                // Some of the values may be empty on purpose, all of them may not.
                let is_usual = is_usual(examples.count, found.values) && examples.count < found.values;
                let severity = if is_usual {
                    Severity::Note
                } else if found.pictures > 0 {
                    // An empty file is no picture that can be decoded.
                    Severity::Error
                } else {
                    Severity::Warning
                };
                if examples.count > 0 {
                    let message = format!("values of {column} {words}");
                    let advice = "fill them, or leave the samples out with `select=fb.Select(filter=...)`";
                    findings.add_all(Problem::new(severity, NAME, message, advice), examples);
                }
            }
            let absent: u64 = found.absent.values().map(|examples| examples.count).sum();
            for (present, examples) in found.absent.iter().filter(|_| found.values > 0) {
                // A sample with a different column lacks nothing, unless a name in one of hundreds is a mistake.
                let is_rare = absent * 100 <= found.values;
                let is_usual = is_usual(absent, found.values) || *present >= usual && !is_rare;
                let severity = if is_usual { Severity::Note } else { Severity::Warning };
                let message = format!("samples lack {column}");
                let advice = "add the values, or give the field a `default`";
                findings.add_all(Problem::new(severity, NAME, message, advice), examples);
            }
        }
    }
}
