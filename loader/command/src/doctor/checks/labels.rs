//! Labels, and numbers that are the same everywhere.

use super::check::{Check, CheckRun, PerColumn};
use crate::doctor::finding::{Examples, Findings, Problem, Severity, Subject};
use crate::doctor::values::{ColumnId, Number, Sample, Value};
use forebay_loader::order::SampleId;
use std::collections::BTreeMap;
use std::fmt;

const NAME: &str = "labels";

/// Classes of a column that are counted. A column with more has no classes.
const CLASSES_MAX: usize = 1 << 16;

/// Values from which a constant column is remarkable.
const CONSTANT_MIN: u64 = 8;

/// A class: its number or its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Number(i64),
    Name(String),
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => write!(f, "`{}`", name.escape_debug()),
        }
    }
}

impl Class {
    /// Class that a value is; `None` for values that are no classes.
    pub(super) fn of(value: &Value) -> Option<Self> {
        let whole = |number: &Number| number.is_whole.then_some(Self::Number(number.value as i64));
        match value {
            Value::Number(number) => whole(number),
            Value::Text(text) => match &text.number {
                Some(number) => whole(number),
                None => text.short.clone().filter(|_| !text.is_blank).map(Self::Name),
            },
            _ => None,
        }
    }
}

/// Returns true for names of columns with labels.
pub(super) fn is_label(column: &str) -> bool {
    let name = column.to_ascii_lowercase();
    let last = name.rsplit(['.', '/']).next().unwrap_or_default();
    let has = |word: &&str| last.split(['_', '-', ' ']).any(|part| part == *word);
    ["label", "labels", "class", "cls", "category", "target", "y"].iter().any(has) && !last.contains("name")
}

/// Classes of a column.
#[derive(Default)]
pub(super) struct Classes {
    /// Occurrences of each class, and its first sample.
    pub(super) found: BTreeMap<Class, (u64, SampleId)>,
    /// All values.
    pub(super) values: u64,
    /// There are too many classes.
    is_over: bool,
    negative: Examples,
    fractions: Examples,
    /// The only number so far, and false once there are two.
    only: Option<(f64, bool)>,
}

impl Classes {
    pub(super) fn see(&mut self, sample: SampleId, value: &Value) {
        let number = match value {
            Value::Absent | Value::Damaged(_) => return,
            Value::Number(number) => Some(*number),
            Value::Text(text) => text.number,
            _ => None,
        };
        self.values += 1;
        if let Some(Number { value, is_whole }) = number {
            if !is_whole && value.is_finite() {
                self.fractions.add(sample, || value.to_string());
            } else if value < 0.0 {
                self.negative.add(sample, || value.to_string());
            }
            let only = self.only.get_or_insert((value, true));
            only.1 &= only.0.total_cmp(&value).is_eq();
        }
        let Some(class) = Class::of(value) else { return };
        if self.found.len() >= CLASSES_MAX && !self.found.contains_key(&class) {
            self.is_over = true;
            return;
        }
        self.found.entry(class).or_insert((0, sample)).0 += 1;
    }

    /// True if the values are classes: few different ones.
    pub(super) fn are_classes(&self) -> bool {
        let different = self.found.len() as u64;
        !self.is_over && different >= 2 && self.values >= 3 * different && self.fractions.count * 4 <= self.values
    }

    /// Middle of the occurrences of the classes.
    fn median(&self) -> u64 {
        let mut counts: Vec<u64> = self.found.values().map(|(count, _)| *count).collect();
        counts.sort_unstable();
        counts.get(counts.len() / 2).copied().unwrap_or(0)
    }
}

/// The check.
#[derive(Default)]
pub(super) struct Labels(PerColumn<Classes>);

impl Check for Labels {
    fn sample(&mut self, sample: &Sample, _: &CheckRun<'_>, _: &mut Findings) {
        self.0.each(sample, Classes::see);
    }

    fn end(&mut self, run: &CheckRun<'_>, findings: &mut Findings) {
        for (id, classes) in self.0.iter() {
            let (column, is_label) = (run.column(id), is_label(run.source.columns.name(id)));
            // A folder of files without classes has one class.
            let is_plain = !is_label || run.is_of_files(id.stream as usize);
            constant(classes, &column, (is_label, is_plain), findings);
            if let Some(classes_max) = run.classes.filter(|_| is_label) {
                above(classes, classes_max, &column, findings);
            }
            if is_label && classes.are_classes() {
                let named = |found: &Examples, words: &str, advice: &str, findings: &mut Findings| {
                    if found.count > 0 && found.count * 5 <= classes.values {
                        let message = format!("labels in {column} are {words}");
                        findings.add_all(Problem::new(Severity::Warning, NAME, message, advice), found);
                    }
                };
                let advice = "a loss indexes its classes from 0: repair the label, or name it as `ignore_index`";
                named(&classes.negative, "negative", advice, findings);
                named(&classes.fractions, "no whole numbers", "repair the label", findings);
                rare(classes, &column, findings);
                variants(classes, &column, findings);
                gaps(classes, &column, id, run, findings);
            }
        }
    }
}

fn constant(classes: &Classes, column: &str, (is_label, is_plain): (bool, bool), findings: &mut Findings) {
    let number = classes.only.filter(|(_, is_only)| *is_only).map(|(value, _)| value.to_string());
    let name = classes.found.keys().next().filter(|_| classes.found.len() == 1).map(Class::to_string);
    let Some(value) = (if classes.only.is_some() { number } else { name.filter(|_| is_label) }) else { return };
    if classes.values < CONSTANT_MIN {
        return;
    }
    let severity = if is_plain { Severity::Note } else { Severity::Warning };
    let message = format!("all {} values of {column} are {value}", classes.values);
    let problem = Problem::new(severity, NAME, message, "nothing can be learned from it");
    findings.add(problem, Subject::Named(column.to_owned()), "");
}

/// Finds labels beyond the classes of the model.
fn above(classes: &Classes, classes_max: u64, column: &str, findings: &mut Findings) {
    for (class, (count, sample)) in &classes.found {
        if matches!(class, Class::Number(number) if u64::try_from(*number).is_ok_and(|number| number >= classes_max)) {
            let message = format!("classes of {column} are not below {classes_max}");
            let advice = "a loss indexes its classes: repair the labels, or make the model larger";
            let problem = Problem::new(Severity::Error, NAME, message, advice);
            findings.add(problem, Subject::Sample(*sample), format!("class {class}, {count} samples"));
        }
    }
}

/// Finds names of classes that differ only in case or white space.
fn variants(classes: &Classes, column: &str, findings: &mut Findings) {
    let mut found: BTreeMap<String, Vec<(&Class, u64, SampleId)>> = BTreeMap::new();
    for (class, (count, sample)) in &classes.found {
        if let Class::Name(name) = class {
            let words: Vec<&str> = name.split_whitespace().collect();
            found.entry(words.join(" ").to_lowercase()).or_default().push((class, *count, *sample));
        }
    }
    for names in found.values_mut().filter(|names| names.len() > 1) {
        names.sort_by_key(|(_, count, _)| std::cmp::Reverse(*count));
        let usual = names[0].0;
        for (class, count, sample) in &names[1..] {
            let message = format!("classes of {column} differ only in case or white space");
            let problem = Problem::new(Severity::Warning, NAME, message, "write them in one way");
            let detail = format!("class {class} besides {usual}, {count} samples");
            findings.add(problem, Subject::Sample(*sample), detail);
        }
    }
}

fn rare(classes: &Classes, column: &str, findings: &mut Findings) {
    let single = || classes.found.iter().filter(|(_, (count, _))| *count == 1);
    // Where rare classes are usual, one more is no mistake.
    let is_usual = single().count() * 5 > classes.found.len().max(5);
    if classes.median() < 3 {
        return;
    }
    let severity = if is_usual { Severity::Note } else { Severity::Warning };
    for (class, (_, sample)) in single() {
        let message = format!("classes of {column} have a single sample");
        let problem = Problem::new(severity, NAME, message, "check the label: it may be a mistake");
        findings.add(problem, Subject::Sample(*sample), format!("class {class}"));
    }
}

fn gaps(classes: &Classes, column: &str, id: ColumnId, run: &CheckRun<'_>, findings: &mut Findings) {
    let numbers: Option<Vec<i64>> = classes
        .found
        .keys()
        .map(|class| match class {
            Class::Number(number) => Some(*number),
            Class::Name(_) => None,
        })
        .collect();
    let Some(numbers) = numbers else { return };
    let mut present = numbers.iter().copied().filter(|number| *number >= 0);
    let (Some(first), Some(last)) = (present.next(), numbers.last().copied()) else { return };
    let missing = (last - first + 1) as u64 - (present.count() as u64 + 1);
    if missing == 0 || !run.is_whole() {
        return;
    }
    // Numbers of a larger list of classes have many gaps.
    let is_list = first <= 1 && missing * 4 <= (last - first + 1) as u64;
    let severity = if is_list { Severity::Warning } else { Severity::Note };
    let gaps = (first..=last).filter(|number| !classes.found.contains_key(&Class::Number(*number)));
    let shown: Vec<String> = gaps.take(10).map(|number| number.to_string()).collect();
    let message = format!("no sample has {missing} of the classes {first} to {last} of {column}: {}", shown.join(", "));
    let advice = "check that no class was lost, and set the number of classes of the model by the largest label";
    let name = run.source.columns.name(id).to_owned();
    findings.add(Problem::new(severity, NAME, message, advice), Subject::Named(name), "");
}
