//! Storage that makes an order worse: shards of different sizes, sorted labels, few shards.

use super::check::{Check, CheckRun, PerColumn};
use super::labels::{Class, is_label};
use crate::doctor::finding::{Findings, Problem, Severity, Subject};
use crate::doctor::values::Sample;
use std::collections::BTreeSet;

const NAME: &str = "order";

/// Factor between usual shards and a shard that is large or small.
const DIFFERENT: u64 = 4;

/// Classes of a column that are compared with its runs.
const CLASSES_MAX: usize = 1 << 14;

/// Runs of equal labels.
#[derive(Default)]
struct Runs {
    last: Option<Class>,
    runs: usize,
    values: u64,
    classes: BTreeSet<Class>,
}

/// The check.
#[derive(Default)]
pub(super) struct Storage(PerColumn<Runs>);

impl Check for Storage {
    fn sample(&mut self, sample: &Sample, run: &CheckRun<'_>, _: &mut Findings) {
        for (column, value) in sample.values.iter().flat_map(|values| &values.columns) {
            let Some(class) = Class::of(value).filter(|_| is_label(run.source.columns.name(*column))) else { continue };
            let runs = self.0.0.entry(*column).or_default();
            runs.values += 1;
            if runs.last.as_ref() != Some(&class) && runs.classes.len() < CLASSES_MAX {
                runs.runs += 1;
                runs.classes.insert(class.clone());
                runs.last = Some(class);
            }
        }
    }

    fn end(&mut self, run: &CheckRun<'_>, findings: &mut Findings) {
        for (id, runs) in self.0.iter() {
            let classes = runs.classes.len();
            if classes < 2 || runs.runs != classes || classes >= CLASSES_MAX || runs.values < 3 * classes as u64 {
                continue;
            }
            // A folder for each class is sorted by itself, and its samples are read one by one.
            let are_files = run.is_of_files(id.stream as usize);
            let severity = if are_files { Severity::Note } else { Severity::Warning };
            let message = format!("the samples are sorted by {}", run.column(id));
            let advice = format!(
                "train with `shuffle=True`, and blocks of several classes: \
                 `order=fb.Order(shuffle_block_size={})`, or write the samples in a random order",
                (runs.values / classes as u64).saturating_mul(8).max(1 << 18)
            );
            findings.add(Problem::new(severity, NAME, message, advice), Subject::Named(run.column(id)), "");
        }
        for stream in 0..run.source.streams.len() {
            sizes(stream, run, findings);
        }
    }
}

fn sizes(stream: usize, run: &CheckRun<'_>, findings: &mut Findings) {
    let shards = run.source.shards(stream);
    if let Some(ranks) = run.ranks.filter(|ranks| shards.len() < *ranks as usize) {
        let message = format!("{} shards for {ranks} ranks", shards.len());
        let advice = "several nodes fetch the same shards: write smaller ones";
        let problem = Problem::new(Severity::Warning, NAME, message, advice);
        findings.add(problem, Subject::Named(run.source.streams[stream].clone()), "");
    }
    // The sizes of ranges of larger files were not chosen by a writer.
    if shards.len() < 4 || shards.iter().any(|shard| shard.recipe.is_some() || shard.slice.is_some()) {
        return;
    }
    let mut bytes: Vec<u64> = shards.iter().map(|shard| shard.raw_bytes()).collect();
    bytes.sort_unstable();
    let median = bytes[bytes.len() / 2];
    for (number, shard) in shards.iter().enumerate() {
        let is_last = number + 1 == shards.len();
        let (severity, words) = match shard.raw_bytes() {
            bytes if bytes > median.saturating_mul(DIFFERENT) => (Severity::Warning, "larger"),
            bytes if bytes < median / DIFFERENT && !is_last => (Severity::Note, "smaller"),
            _ => continue,
        };
        let message = format!("shards are much {words} than the usual {median} bytes");
        let advice = "ranks wait for large shards: write the data set with one size limit";
        let detail = format!("{} bytes, {} samples", shard.raw_bytes(), shard.samples);
        let subject = Subject::Named(run.source.name_of_shard(stream, number));
        findings.add(Problem::new(severity, NAME, message, advice), subject, detail);
    }
}
