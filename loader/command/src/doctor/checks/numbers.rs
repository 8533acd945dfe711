//! Numbers that are not finite, far from the rest, or all equal in an array.

use super::check::{Check, CheckRun, PerColumn, is_usual};
use crate::doctor::finding::{Examples, Findings, Problem, Severity};
use crate::doctor::values::{Number, Sample, Value};
use std::collections::BTreeMap;

const NAME: &str = "numbers";

/// Factor, as a power of two, from the middle of the numbers to one that is far from the rest.
const FAR: i32 = 20;

/// The same between two neighbours, from which the larger ones are apart from the rest, and the least numbers that show
/// it.
const APART: i32 = 6;
const APART_MIN: u64 = 50;

/// Numbers of a column.
#[derive(Default)]
struct ColumnNumbers {
    values: u64,
    /// Texts among the values that are no numbers.
    texts: u64,
    not_finite: Examples,
    arrays: u64,
    constant: Examples,
    /// Arrays of ids with one that the vocabulary lacks.
    unknown: Examples,
    /// Numbers by their exponents, and true if all are whole.
    exponents: BTreeMap<i32, Examples>,
    has_fractions: bool,
}

/// The check.
#[derive(Default)]
pub(super) struct Numbers(PerColumn<ColumnNumbers>);

impl ColumnNumbers {
    fn number(&mut self, sample: forebay_loader::order::SampleId, number: Number) {
        self.values += 1;
        self.has_fractions |= !number.is_whole;
        if !number.value.is_finite() {
            self.not_finite.add(sample, || number.value.to_string());
            return;
        }
        let exponent = if number.value == 0.0 { i32::MIN } else { number.value.abs().log2().floor() as i32 };
        self.exponents.entry(exponent).or_default().add(sample, || number.value.to_string());
    }
}

impl Check for Numbers {
    fn sample(&mut self, sample: &Sample, run: &CheckRun<'_>, _: &mut Findings) {
        if let Some(vocab) = run.vocab {
            self.ids(sample, run, vocab);
        }
        self.0.each(sample, |found, id, value| match value {
            Value::Number(number) => found.number(id, *number),
            Value::Text(text) if !text.is_blank => match text.number {
                Some(number) => found.number(id, number),
                None => {
                    found.values += 1;
                    found.texts += 1;
                }
            },
            Value::Array(array) => {
                found.values += 1;
                found.arrays += 1;
                let elements = array.elements;
                if elements.nans + elements.infinities > 0 {
                    found.not_finite.add(id, || {
                        format!("{} NaN and {} infinite of {}", elements.nans, elements.infinities, elements.count)
                    });
                }
                if elements.is_constant() && elements.count >= 4 {
                    found.constant.add(id, || format!("all {} elements are {}", elements.count, elements.min));
                }
            }
            _ => {}
        });
    }

    fn end(&mut self, run: &CheckRun<'_>, findings: &mut Findings) {
        for (id, found) in self.0.iter() {
            let column = run.column(id);
            // Words such as "inf" are numbers only among numbers.
            if found.not_finite.count > 0 && found.texts * 4 <= found.values {
                let message = format!("numbers in {column} are not finite");
                let advice = "one of them makes the loss NaN: repair or remove the sample";
                findings.add_all(Problem::new(Severity::Error, NAME, message, advice), &found.not_finite);
            }
            if found.unknown.count > 0 {
                let message = format!("ids in {column} are not in the vocabulary");
                let advice = "an embedding fails for them: tokenize the text again, or check the type of the ids";
                findings.add_all(Problem::new(Severity::Error, NAME, message, advice), &found.unknown);
            }
            if found.constant.count > 0 {
                let is_usual = is_usual(found.constant.count, found.arrays);
                let severity = if is_usual { Severity::Note } else { Severity::Warning };
                let message = format!("arrays in {column} have one value in all elements");
                findings.add_all(Problem::new(severity, NAME, message, "check how they were made"), &found.constant);
            }
            if found.texts == 0 {
                far(found, &column, findings);
            }
        }
    }
}

impl Numbers {
    /// Finds ids outside of the vocabulary.
    fn ids(&mut self, sample: &Sample, run: &CheckRun<'_>, vocab: u64) {
        for (column, value) in sample.values.iter().flat_map(|values| &values.columns) {
            let Value::Array(array) = value else { continue };
            let name = run.source.columns.name(*column).to_ascii_lowercase();
            let (min, max) = (array.elements.min, array.elements.max);
            if (name.contains("token") || name.contains("ids")) && (min < 0.0 || max >= vocab as f64) {
                let id = if min < 0.0 { min } else { max };
                self.0.0.entry(*column).or_default().unknown.add(sample.id, || format!("id {id}"));
            }
        }
    }
}

fn far(found: &ColumnNumbers, column: &str, findings: &mut Findings) {
    let numbers: u64 = found.exponents.values().map(|examples| examples.count).sum();
    let mut before = 0;
    let mut exponents = found.exponents.iter();
    let middle = exponents.find(|(_, examples)| {
        before += examples.count;
        before * 2 >= numbers
    });
    let Some((middle, _)) = middle else { return };
    let far = middle.max(&-FAR).saturating_add(FAR);
    let mut last = *middle;
    let mut is_apart = false;
    for (exponent, examples) in found.exponents.range(*middle..) {
        is_apart |= last > i32::MIN && exponent - last >= APART && numbers >= APART_MIN;
        last = *exponent;
        let above: u64 = found.exponents.range(*exponent..).map(|(_, examples)| examples.count).sum();
        let words = if *exponent >= far && examples.count * 20 <= numbers {
            "are a million times the usual ones"
        } else if is_apart && above * 100 <= numbers {
            "are far from the rest"
        } else {
            continue;
        };
        // Counts, such as the views of a page, have a long tail.
        let severity = if found.has_fractions { Severity::Warning } else { Severity::Note };
        let message = format!("numbers in {column} {words}");
        findings
            .add_all(Problem::new(severity, NAME, message, "check their unit, and marks of missing values"), examples);
    }
}
