//! Columns that some shards lack, or have in a different encoding.

use super::check::{Check, CheckRun};
use crate::doctor::finding::{Findings, Problem, Severity, Subject};
use std::collections::BTreeMap;

const NAME: &str = "columns";

/// The check.
#[derive(Default)]
pub(super) struct Columns;

impl Check for Columns {
    fn end(&mut self, run: &CheckRun<'_>, findings: &mut Findings) {
        for stream in 0..run.source.streams.len() {
            of_stream(stream, run, findings);
        }
    }
}

fn of_stream(stream: usize, run: &CheckRun<'_>, findings: &mut Findings) {
    let shards = run.source.shards(stream);
    if shards.iter().any(|shard| shard.layout.is_sampled()) {
        return;
    }
    let mut columns: BTreeMap<&str, BTreeMap<String, Vec<usize>>> = BTreeMap::new();
    for (number, shard) in shards.iter().enumerate() {
        for column in &shard.layout.columns {
            columns.entry(&column.name).or_default().entry(column.encoding.to_string()).or_default().push(number);
        }
    }
    for (column, encodings) in columns {
        let having: usize = encodings.values().map(Vec::len).sum();
        let is_absent = |number: &usize| !encodings.values().any(|shards| shards.binary_search(number).is_ok());
        // Which of the two is the mistake is seen by the smaller number.
        let lacking: Vec<usize> =
            if having < shards.len() { (0..shards.len()).filter(is_absent).collect() } else { Vec::new() };
        if lacking.len() <= having {
            for shard in lacking {
                let message = format!("shards lack column `{column}`");
                let problem =
                    Problem::new(Severity::Warning, NAME, message, "write the shards again, with all columns");
                findings.add(problem, Subject::Named(run.source.name_of_shard(stream, shard)), "");
            }
        } else {
            for shard in encodings.values().flatten() {
                let message = format!("shards have column `{column}`, and the rest do not");
                let problem =
                    Problem::new(Severity::Warning, NAME, message, "write the shards again, with equal columns");
                findings.add(problem, Subject::Named(run.source.name_of_shard(stream, *shard)), "");
            }
        }
        let usual = encodings.iter().max_by_key(|(_, shards)| shards.len()).map(|(encoding, _)| encoding.clone());
        for (encoding, shards) in encodings.iter().filter(|(encoding, _)| Some(*encoding) != usual.as_ref()) {
            for shard in shards {
                let message = format!("shards have column `{column}` in an encoding besides the usual one");
                let problem = Problem::new(Severity::Warning, NAME, message, "write the shards again, in one encoding");
                findings.add(problem, Subject::Named(run.source.name_of_shard(stream, *shard)), encoding.as_str());
            }
        }
    }
}
