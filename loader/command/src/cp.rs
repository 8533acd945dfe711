//! `forebay cp`: copies of objects between stores.
//!
//! * `jobs`: the objects of the sources and their targets, page by page;
//! * `copy`: the copy of one object; `buffers`: its memory.
//!
//! A few threads take jobs and copy them: the bytes of an object are fetched ahead, and sent on as they come. An object
//! appears at its target when it is whole, also in a local folder.

mod buffers;
mod copy;
mod jobs;

use crate::addresses::Address;
use crate::tally::Tally;
use crate::text;
use crate::{Command, Exit, Session};
use buffers::Buffers;
use clap::Args;
use copy::{Copier, Outcome};
use forebay_loader::store::redact;
use forebay_loader::sync::{Mutex, in_threads};
use forebay_loader::{Error, Result};
use jobs::{Job, Jobs, Target};

/// Objects in flight. With the bytes ahead of each and the parts of uploads, they are within 0.5 GiB.
const COPIES: usize = 8;

/// Parts of uploads that wait for the store's confirmation: of all objects, and of one that is copied alone, within 100
/// MiB.
const PARTS: usize = 16;
const PARTS_OF_ONE: usize = 3;

/// Failures that are printed at the end.
const FAILURES_MAX: usize = 100;

/// Copy objects between stores and this machine
///
/// A source is an object, a folder (with -r), or a pattern as of ls. The target is a folder if its address ends with a
/// slash or it is one on this machine, if there are several sources, or with a pattern; else it is the name of the
/// copy. Objects below a folder keep their paths, below the target.
///
/// A copy appears when it is whole. An object that exists is an error without --overwrite or --skip-existing. After a
/// failure the rest is copied; the failures are listed at the end, and the exit code is 1.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  forebay cp s3://bucket/train/index.json .
  forebay cp -r data/train gs://bucket/train
  forebay cp --skip-existing 's3://bucket/train-{000..146}.tar' azure://account/container/train/")]
pub(crate) struct CpArgs {
    /// Objects, folders or patterns
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<String>,
    /// Folder, or name of the copy
    #[arg(required = true)]
    target: String,
    /// Copy all that is below folders
    #[arg(short, long)]
    recursive: bool,
    /// Replace objects that exist
    #[arg(long)]
    overwrite: bool,
    /// Leave out objects that exist with the same size, and are not older or have the same entity tag
    #[arg(long)]
    skip_existing: bool,
}

impl Command for CpArgs {
    fn addresses(&self) -> Vec<String> {
        self.sources.iter().chain([&self.target]).cloned().collect()
    }

    fn run(&self, session: &Session) -> Result<Exit> {
        let mut sources = Vec::new();
        for source in &self.sources {
            sources.extend(Address::all(source)?);
        }
        let are_several = sources.len() > 1 || sources.iter().any(Address::is_pattern);
        let target = Target::of(&self.target, are_several)?;
        // Oracle takes no smaller parts than 10 MiB, and S3 none below 5.
        let part_bytes = if self.target.starts_with("oci:") { 10 << 20 } else { 5 << 20 };
        let objects = session.objects_with(|config| {
            config.upload_part_bytes = part_bytes;
            config.upload_bytes = part_bytes * if are_several || self.recursive { PARTS } else { PARTS_OF_ONE };
        })?;
        let jobs = Mutex::new(Jobs::new(objects.clone(), sources, target, self.recursive));
        let copier = Copier {
            objects: &objects,
            output: &session.output,
            bar: session.output.progress_bytes(),
            buffers: Buffers::default(),
            overwrites: self.overwrite,
            skips: self.skip_existing,
        };
        let results = Mutex::new(Results::default());
        let panics = in_threads(COPIES, || {
            while !session.output.is_stopped() {
                let Some(job) = jobs.lock().next() else { return };
                let outcome = job.and_then(|job| {
                    copier.bar.inc_length(job.entry.as_ref().map_or(0, |entry| entry.size));
                    let outcome = copier.copy(&job)?;
                    Ok((job, outcome))
                });
                results.lock().record(&copier, outcome);
            }
        });
        copier.bar.finish_and_clear();
        if panics.into_iter().any(|ended| ended.is_err()) {
            return Err(Error::internal("a thread of the copies has panicked"));
        }
        let mut results = results.lock();
        Ok(results.show(session, &self.target))
    }
}

/// Results of all copies so far.
#[derive(Default)]
struct Results {
    tally: Tally,
    skipped: u64,
    failures: Vec<Error>,
}

impl Results {
    fn record(&mut self, copier: &Copier<'_>, outcome: Result<(Job, Outcome)>) {
        let output = copier.output;
        let (job, outcome) = match outcome {
            Ok(ended) => ended,
            Err(error) => {
                self.tally.failed += 1;
                if output.is_json() {
                    copier.bar.suspend(|| output.fail(&error));
                } else if self.failures.len() < FAILURES_MAX {
                    self.failures.push(error);
                }
                return;
            }
        };
        let (result, bytes) = match outcome {
            Outcome::Copied(bytes) => {
                self.tally.count(bytes);
                ("copied", bytes)
            }
            Outcome::Skipped(bytes) => {
                self.tally.found();
                self.skipped += 1;
                ("skipped", bytes)
            }
        };
        if output.is_json() {
            let record = serde_json::json!({
                "source": redact(&job.source), "target": redact(&job.target), "bytes": bytes, "result": result,
            });
            output.line(&record, String::new);
        }
    }

    /// Prints the total and the failures.
    fn show(&mut self, session: &Session, target: &str) -> Exit {
        let output = &session.output;
        if !output.is_json() {
            let also = |number: u64, word: &str| {
                if number > 0 { format!(", {} {word}", text::count(number)) } else { String::new() }
            };
            let (skipped, failed) = (also(self.skipped, "skipped"), also(self.tally.failed, "failed"));
            let ((counted, size), target) = (self.tally.total(), text::one_line(&redact(target)));
            output.print(&format!("{counted} ({size}) copied to {target}{skipped}{failed}"));
        }
        for failure in &self.failures {
            output.fail(failure);
        }
        if self.failures.len() == FAILURES_MAX && self.tally.failed > FAILURES_MAX as u64 {
            output.note(&format!("the first {FAILURES_MAX} failures are listed"));
        }
        self.tally.exit()
    }
}
