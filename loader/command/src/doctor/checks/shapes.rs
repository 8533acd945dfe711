//! Arrays, lists and bytes that differ from the rest of their column.

use super::check::{Check, CheckRun, PerColumn};
use crate::doctor::finding::{Examples, Findings, Problem, Severity};
use crate::doctor::values::{Sample, Value};
use forebay_loader::order::SampleId;
use std::collections::BTreeMap;
use std::fmt::Debug;

const NAME: &str = "shapes";

/// Different forms of a column that are counted.
const FORMS_MAX: usize = 1024;

/// Values of a column by their form.
struct Forms<T> {
    found: BTreeMap<T, Examples>,
    values: u64,
}

impl<T> Default for Forms<T> {
    fn default() -> Self {
        Self { found: BTreeMap::new(), values: 0 }
    }
}

impl<T: Ord + Clone + Debug> Forms<T> {
    fn add(&mut self, form: &T, sample: SampleId) {
        self.values += 1;
        if self.found.len() < FORMS_MAX || self.found.contains_key(form) {
            self.found.entry(form.clone()).or_default().add(sample, || format!("{form:?}").replace('"', ""));
        }
    }

    /// Returns the usual form, and the remaining ones; `None` if no form is usual, or there is only one.
    fn unusual(&self) -> Option<(&T, Vec<(&T, &Examples)>)> {
        let (usual, most) = self.found.iter().max_by_key(|(_, examples)| examples.count)?;
        let is_usual = most.count * 4 >= self.values * 3 && most.count < self.values;
        is_usual.then(|| (usual, self.found.iter().filter(|(form, _)| *form != usual).collect()))
    }
}

/// Forms of a column.
#[derive(Default)]
struct ColumnForms {
    shapes: Forms<Vec<usize>>,
    dtypes: Forms<&'static str>,
    items: Forms<usize>,
    bytes: Forms<usize>,
    is_float: bool,
}

/// The check.
#[derive(Default)]
pub(super) struct Shapes(PerColumn<ColumnForms>);

impl Check for Shapes {
    fn sample(&mut self, sample: &Sample, _: &CheckRun<'_>, _: &mut Findings) {
        self.0.each(sample, |found, id, value| match value {
            Value::Array(array) => {
                found.shapes.add(&array.shape, id);
                found.dtypes.add(&array.dtype, id);
                found.is_float |= array.elements.has_fractions || array.dtype.starts_with("float");
            }
            Value::Pictures { items, .. } => found.items.add(items, id),
            Value::Bytes { bytes, .. } if *bytes > 0 => found.bytes.add(bytes, id),
            _ => {}
        });
    }

    fn end(&mut self, run: &CheckRun<'_>, findings: &mut Findings) {
        let advice = "a batch needs equal shapes: repair the samples, or give the field a `length` and a `pad`";
        for (id, found) in self.0.iter() {
            let column = run.column(id);
            let mut report = |severity, words: String, examples: &Examples| {
                let message = format!("{words} in {column}");
                findings.add_all(Problem::new(severity, NAME, message, advice), examples);
            };
            if let Some((usual, rest)) = found.shapes.unusual() {
                for (shape, examples) in rest {
                    if let Some(severity) = severity_of(usual, shape, found, examples.count) {
                        report(severity, format!("arrays have a shape besides the usual {usual:?}"), examples);
                    }
                }
            }
            if let Some((usual, rest)) = found.dtypes.unusual() {
                let words = || format!("arrays have a type besides the usual {usual}");
                rest.into_iter().for_each(|(_, examples)| report(Severity::Warning, words(), examples));
            }
            if let Some((usual, rest)) = found.items.unusual().filter(|(usual, _)| **usual > 1) {
                let words = || format!("lists have a length besides the usual {usual}");
                rest.into_iter().for_each(|(_, examples)| report(Severity::Warning, words(), examples));
            }
            if let Some((usual, rest)) = found.bytes.unusual() {
                for (bytes, examples) in rest {
                    // A number has 2, 4 or 8 bytes.
                    let is_cut =
                        [8, 4, 2].into_iter().find(|unit| usual % unit == 0).is_some_and(|unit| bytes % unit > 0);
                    let severity = if is_cut { Severity::Warning } else { Severity::Note };
                    report(severity, format!("values have a length besides the usual {usual} bytes"), examples);
                }
            }
        }
    }
}

/// Severity of arrays with `shape` in a column where `usual` is usual; `None` for lists, which have any length.
fn severity_of(usual: &[usize], shape: &[usize], found: &ColumnForms, count: u64) -> Option<Severity> {
    let is_list = usual.len() == shape.len() && usual.get(1..) == shape.get(1..);
    match (is_list, usual.len()) {
        (false, _) => Some(Severity::Warning),
        (true, 1) if count * 10 <= found.shapes.values => {
            // The last piece of a text is shorter, a vector of features is not.
            Some(if found.is_float { Severity::Warning } else { Severity::Note })
        }
        (true, _) => None,
    }
}
