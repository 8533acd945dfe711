//! Equal samples: in one data set, and in two of them.
//!
//! A table has 16 bytes for each sample: a hash of its contents, its number, and a short hash of its remaining values.
//! It is sorted at the end, so its memory is bounded by [`ENTRIES_MAX`].

use super::check::{Check, CheckRun, percent};
use crate::doctor::finding::{Findings, Problem, Severity, Subject};
use crate::doctor::values::{Sample, Values};
use forebay_loader::order::SampleId;

/// Samples that are compared: 2 GiB of the table.
const ENTRIES_MAX: usize = 1 << 27;

/// Bits of the number of a sample. The remaining ones have the short hash.
const NUMBER_BITS: u32 = 48;

/// Percentage of samples with equal contents up to which that is unusual.
const UNUSUAL_PERCENT: u64 = 20;

/// Contents of samples.
#[derive(Default)]
struct Contents {
    /// Hash, then the short hash and the number.
    table: Vec<(u64, u64)>,
    left_out: u64,
}

impl Contents {
    /// Adds the contents of a sample.
    fn add(&mut self, sample: &Sample) {
        let Ok(values) = &sample.values else { return };
        if let Some(contents) = values.contents {
            self.add_hashes(contents, values.rest, sample.id);
        }
    }

    fn add_hashes(&mut self, hash: u64, rest: u16, sample: SampleId) {
        if self.table.len() < ENTRIES_MAX {
            self.table.push((hash, u64::from(rest) << NUMBER_BITS | sample.0));
        } else {
            self.left_out += 1;
        }
    }

    /// Calls `seen` with each sample that has the contents of an earlier one, with that one, and with true if the
    /// remaining values are equal, too.
    fn repeats(&mut self, mut seen: impl FnMut(SampleId, SampleId, bool)) {
        let number = |entry: &(u64, u64)| entry.1 & ((1 << NUMBER_BITS) - 1);
        self.table.sort_unstable_by_key(|entry| (entry.0, number(entry)));
        let mut repeats = Vec::new();
        for group in self.table.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() > 1) {
            for (at, entry) in group.iter().enumerate().skip(1) {
                // The groups of frequent contents are short where the remaining values are compared.
                let earlier = &group[..at.min(64)];
                let same = earlier.iter().find(|other| other.1 >> NUMBER_BITS == entry.1 >> NUMBER_BITS);
                let other = same.unwrap_or(&group[0]);
                repeats.push((SampleId(number(entry)), SampleId(number(other)), same.is_some()));
            }
        }
        repeats.sort_unstable();
        repeats.into_iter().for_each(|(sample, other, is_same)| seen(sample, other, is_same));
    }
}

/// The check of one data set.
#[derive(Default)]
pub(super) struct Duplicates {
    contents: Contents,
    /// Keys, with short hashes of all that is not the key.
    keys: Contents,
}

impl Check for Duplicates {
    fn sample(&mut self, sample: &Sample, _: &CheckRun<'_>, _: &mut Findings) {
        self.contents.add(sample);
        if let Ok(Values { key: Some(key), contents, rest, .. }) = &sample.values {
            self.keys.add_hashes(*key, contents.unwrap_or_default() as u16 ^ rest, sample.id);
        }
    }

    fn end(&mut self, run: &CheckRun<'_>, findings: &mut Findings) {
        const NAME: &str = "duplicates";
        let mut different = Vec::new();
        self.contents.repeats(|sample, other, is_same| {
            if run.source.stream_of(sample) != run.source.stream_of(other) {
                return;
            }
            if is_same {
                let advice = "remove the copies, unless samples are repeated on purpose";
                let problem = Problem::new(Severity::Warning, NAME, "samples are equal to earlier ones", advice);
                findings.add(problem, Subject::Pair(sample, other), "");
            } else {
                different.push((sample, other));
            }
        });
        // Several captions of a picture are usual, two labels of a few pictures are not.
        let is_usual = percent(different.len() as u64, run.samples) > UNUSUAL_PERCENT;
        let severity = if is_usual { Severity::Note } else { Severity::Warning };
        for (sample, other) in different {
            let message = "samples have the contents of earlier ones, and different labels or values";
            let problem = Problem::new(severity, NAME, message, "decide which label is right");
            findings.add(problem, Subject::Pair(sample, other), "");
        }
        self.keys(run, findings);
        if self.contents.left_out > 0 {
            let message = format!("the last {} samples are not compared with each other", self.contents.left_out);
            let problem = Problem::new(Severity::Note, NAME, message, "check parts of the data set with --fraction");
            findings.add(problem, Subject::Named(run.source.streams.join(", ")), "");
        }
    }
}

impl Duplicates {
    /// Reports different samples with one key. Equal samples are duplicates.
    fn keys(&mut self, run: &CheckRun<'_>, findings: &mut Findings) {
        let mut pairs = Vec::new();
        self.keys.repeats(|sample, other, is_same| pairs.extend((!is_same).then_some((sample, other))));
        // Numbers that begin again in each shard, and names of groups, are usual.
        let is_usual = percent(pairs.len() as u64, run.samples) > UNUSUAL_PERCENT;
        let severity = if is_usual { Severity::Note } else { Severity::Warning };
        for (sample, other) in pairs {
            let message = "samples have the key of earlier ones, and different values";
            let problem = Problem::new(severity, "duplicates", message, "rename one of them, or remove the wrong one");
            findings.add(problem, Subject::Pair(sample, other), "");
        }
    }
}

/// The check of several data sets.
#[derive(Default)]
pub(super) struct Leaks(Contents);

impl Check for Leaks {
    fn sample(&mut self, sample: &Sample, run: &CheckRun<'_>, _: &mut Findings) {
        if run.source.streams.len() > 1 {
            self.0.add(sample);
        }
    }

    fn end(&mut self, run: &CheckRun<'_>, findings: &mut Findings) {
        let source = run.source;
        self.0.table.sort_unstable();
        let number = |entry: &(u64, u64)| SampleId(entry.1 & ((1 << NUMBER_BITS) - 1));
        let mut leaks = Vec::new();
        for group in self.0.table.chunk_by(|a, b| a.0 == b.0) {
            let mut first: Vec<Option<SampleId>> = vec![None; source.streams.len()];
            for sample in group.iter().map(number) {
                let first = &mut first[source.stream_of(sample)];
                *first = Some(first.map_or(sample, |first| first.min(sample)));
            }
            let mut of_streams = first.into_iter().flatten();
            let Some(earliest) = of_streams.next() else { continue };
            leaks.extend(of_streams.map(|sample| (sample, earliest)));
        }
        leaks.sort_unstable();
        for (sample, other) in leaks {
            let advice = "remove them from one of the two: a score on samples of the training set means little";
            let message = "samples are in two of the data sets";
            let problem = Problem::new(Severity::Warning, "leaks", message, advice);
            findings.add(problem, Subject::Pair(sample, other), "");
        }
    }
}
