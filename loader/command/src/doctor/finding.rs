//! Findings of the checks.

use forebay_loader::order::SampleId;
use serde::Serialize;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Examples of a finding that are kept.
const EXAMPLES_MAX: usize = 100;

/// Different findings that are kept, so that damage in many forms is still one page.
const FINDINGS_MAX: usize = 2000;

/// Name of the checks of the machine.
pub(super) const ENVIRONMENT: &str = "environment";

/// Severity of a finding, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// Training fails, or learns from data that is wrong.
    Error,
    /// Probably a mistake.
    Warning,
    /// Good to know.
    Note,
}

/// Description of a finding. Equal ones are one finding with several examples.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Problem {
    pub(super) severity: Severity,
    /// Name of the check.
    pub(super) check: &'static str,
    /// Sentence without a full stop, and without anything of one sample.
    pub(super) message: String,
    /// Advice.
    pub(super) advice: String,
}

impl Problem {
    pub(super) fn new(
        severity: Severity,
        check: &'static str,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { severity, check, message: message.into(), advice: advice.into() }
    }
}

/// Subject of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Sample(SampleId),
    /// A sample, and the earlier one that it is compared with.
    Pair(SampleId, SampleId),
    /// File, column, option or part of the machine, by its name.
    Named(String),
}

/// Example of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Example {
    pub(super) subject: Subject,
    /// Details, such as the value; may be empty.
    pub(super) detail: String,
}

/// Problem with its examples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) problem: Problem,
    /// Number of subjects.
    pub(super) count: u64,
    /// The first of them.
    pub(super) examples: Vec<Example>,
}

/// Fact that is no finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Fact {
    pub(super) fact: String,
    pub(super) value: String,
}

/// Findings and facts so far.
#[derive(Debug, Default)]
pub(super) struct Findings {
    found: BTreeMap<Problem, Finding>,
    facts: Vec<Fact>,
}

impl Findings {
    /// Adds a subject of a problem.
    pub(super) fn add(&mut self, problem: Problem, subject: Subject, detail: impl Into<String>) {
        let is_full = self.found.len() >= FINDINGS_MAX;
        let finding = match self.found.entry(problem) {
            Entry::Vacant(_) if is_full => return,
            Entry::Vacant(vacant) => {
                let problem = vacant.key().clone();
                vacant.insert(Finding { problem, count: 0, examples: Vec::new() })
            }
            Entry::Occupied(found) => found.into_mut(),
        };
        finding.count += 1;
        if finding.examples.len() < EXAMPLES_MAX {
            finding.examples.push(Example { subject, detail: detail.into() });
        }
    }

    /// Adds a problem with subjects that a check has collected: their number, and the first of them.
    pub(super) fn add_all(&mut self, problem: Problem, examples: &Examples) {
        for (sample, detail) in &examples.first {
            self.add(problem.clone(), Subject::Sample(*sample), detail);
        }
        if let Some(finding) = self.found.get_mut(&problem) {
            finding.count += examples.count - examples.first.len() as u64;
        }
    }

    /// Adds a fact.
    pub(super) fn fact(&mut self, fact: impl Into<String>, value: impl Into<String>) {
        self.facts.push(Fact { fact: fact.into(), value: value.into() });
    }

    /// The facts.
    pub(super) fn facts(&self) -> &[Fact] {
        &self.facts
    }

    /// The findings, worst first.
    pub(super) fn found(&self) -> impl Iterator<Item = &Finding> {
        self.found.values()
    }
}

/// Samples that a check may report at the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Examples {
    pub(super) count: u64,
    first: Vec<(SampleId, String)>,
}

impl Examples {
    /// Adds a sample.
    pub(super) fn add(&mut self, sample: SampleId, detail: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < EXAMPLES_MAX {
            self.first.push((sample, detail()));
        }
    }
}
