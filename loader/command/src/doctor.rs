//! `forebay doctor`: defects of a data set, and facts and troubles of this machine.
//!
//! ```text
//! URL... --source--> Source --walk, in threads--> values::Sample --checks, in the order of the samples--> Findings
//!                                                     environment: the machine, its disk, the store --> Findings
//! Findings --report--> one page, or JSON
//! ```
//!
//! * `source`: the data sets, and the names of their samples, shards and columns;
//! * `values`: the values of a sample, decoded; `walk`: the threads that read all samples;
//! * `checks`: a file for each family of checks, and their table;
//! * `environment`: the machine, without data;
//! * `finding`, `report`: what was found.
//!
//! Memory is bounded: some hundred samples of each thread at a time, statistics of each column, and in the checks of
//! duplicates 16 bytes for each sample and 24 for each picture, up to 2^27 of them.

mod checks;
mod environment;
mod finding;
mod report;
mod source;
mod values;
mod walk;

use crate::data::DataArgs;
use crate::{Command, Exit, Session};
use checks::{CHECKS, Check, CheckEntry, CheckRun};
use clap::Args;
use finding::{ENVIRONMENT, Findings, Problem, Severity, Subject};
use forebay_loader::config::LoaderConfig;
use forebay_loader::order::SampleId;
use forebay_loader::{Error, Result, config, topology};
use source::{Source, unknown_check};

/// Check data sets and this machine: damage, duplicates, labels, files, and what a loader needs
///
/// Reads all samples. The exit code is 1 if there are errors or warnings, and 2 if the data cannot be read. Several
/// addresses are compared with each other, as the splits of a data set.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  forebay doctor
  forebay doctor s3://bucket/train --classes 1000
  forebay doctor data/train data/val --skip near-duplicates
  forebay doctor 'train-{000..146}.tar' --samples 20000")]
pub(crate) struct DoctorArgs {
    /// Folders, URLs or lists of files, as the `remote` of a Loader; none: check only the machine
    #[arg(value_name = "URL")]
    addresses: Vec<String>,
    #[command(flatten)]
    data: DataArgs,
    /// Bytes on disk of the shards of URLs, such as 100gb [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    cache_limit: Option<u64>,
    /// Read this many samples, evenly chosen
    #[arg(long, value_name = "N", conflicts_with = "fraction", value_parser = clap::value_parser!(u64).range(1..))]
    samples: Option<u64>,
    /// Read this part of the samples, such as 0.1
    #[arg(long, value_name = "PART", value_parser = fraction)]
    fraction: Option<f64>,
    /// Run only these checks, such as labels,duplicates; `environment` is the machine
    #[arg(long, value_delimiter = ',', value_name = "NAMES", help = names())]
    checks: Vec<String>,
    /// Leave these checks out
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    skip: Vec<String>,
    /// Ranks that will train on the data
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// Classes of the model: labels are 0 to N - 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    classes: Option<u64>,
    /// Ids of the tokenizer: columns with `token` or `ids` in their names have 0 to N - 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    vocab: Option<u64>,
    /// Threads [default: the CPUs of this process]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
}

/// Numbers of samples that are listed at once.
const LISTED_MAX: u64 = 1 << 20;

fn names() -> String {
    let checks = CHECKS.iter().map(|check| format!("{} ({})", check.name, check.about));
    let names: Vec<String> = checks.chain([format!("{ENVIRONMENT} (this machine)")]).collect();
    format!("Run only these checks: {}", names.join("; "))
}

fn size(text: &str) -> Result<u64, String> {
    config::parse_bytes(text).map_err(|error| error.to_string())
}

fn fraction(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok().filter(|number| (0.0..=1.0).contains(number) && *number > 0.0);
    number.ok_or_else(|| "a fraction is a number above 0, and at most 1".to_owned())
}

impl Command for DoctorArgs {
    fn addresses(&self) -> Vec<String> {
        self.addresses.clone()
    }

    fn shows_facts(&self) -> bool {
        self.is_chosen(ENVIRONMENT)
    }

    fn run(&self, session: &Session) -> Result<Exit> {
        let chosen = self.chosen()?;
        let mut findings = Findings::default();
        if self.is_chosen(ENVIRONMENT) {
            let local = self.data.stream("").local;
            environment::check(session, &self.addresses, local.as_deref(), &mut findings)?;
            session.facts.iter().for_each(|(name, value)| findings.fact(name, value));
        }
        let mut source = None;
        if !self.addresses.is_empty() && !chosen.is_empty() {
            source = match self.open(session, &mut findings) {
                Ok(source) => source,
                Err(error) => {
                    // The machine and the store may have the reason.
                    report::print_unfinished(&session.output, &findings);
                    return Err(error);
                }
            };
            if let Some(source) = &source {
                self.check(source, &chosen, session, &mut findings)?;
            }
        }
        Ok(report::print(&session.output, source.as_ref(), &findings))
    }
}

impl DoctorArgs {
    /// Returns the checks of data sets to run.
    fn chosen(&self) -> Result<Vec<&'static CheckEntry>> {
        let known: Vec<&str> = CHECKS.iter().map(|check| check.name).chain([ENVIRONMENT]).collect();
        if let Some(name) = self.checks.iter().chain(&self.skip).find(|name| !known.contains(&name.as_str())) {
            return Err(unknown_check(name, &known));
        }
        Ok(CHECKS.iter().filter(|check| self.is_chosen(check.name)).collect())
    }

    fn is_chosen(&self, name: &str) -> bool {
        let has = |names: &[String]| names.iter().any(|chosen| chosen == name);
        (self.checks.is_empty() || has(&self.checks)) && !has(&self.skip)
    }

    fn threads(&self) -> usize {
        self.threads.map_or_else(topology::cpu_count, |threads| threads as usize)
    }

    /// Opens the data sets; `None` if one of them is damaged, which is a finding.
    fn open(&self, session: &Session, findings: &mut Findings) -> Result<Option<Source>> {
        let streams = self.addresses.iter().map(|address| self.data.stream(address)).collect();
        let config = LoaderConfig { streams, batch_size: 1, cache_limit: self.cache_limit, ..LoaderConfig::default() };
        config.validate()?;
        if config.streams.len() > 1 && config.streams.iter().any(|stream| stream.local.is_some()) {
            return Err(Error::config("--local is the folder of one data set: check the data sets one by one"));
        }
        match Source::open(&config, session.library.clone()) {
            Ok(source) => Ok(Some(source)),
            Err(error) if walk::is_damage(&error) => {
                let advice = "repair or remove the file, and run the check again: the rest was not read";
                let problem = Problem::new(Severity::Error, "damage", "the data set cannot be opened", advice);
                findings.add(problem, Subject::Named(self.addresses.join(", ")), error.to_string());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn check(
        &self,
        source: &Source,
        chosen: &[&'static CheckEntry],
        session: &Session,
        findings: &mut Findings,
    ) -> Result<()> {
        let all = source.data.shape().num_samples();
        let wanted = self.fraction.map(|fraction| ((all as f64 * fraction).ceil() as u64).max(1));
        let wanted = self.samples.or(wanted).unwrap_or(all).min(all);
        let &Self { ranks, classes, vocab, .. } = self;
        let run = CheckRun { session, source, threads: self.threads(), ranks, classes, vocab, samples: wanted };
        let mut checks: Vec<Box<dyn Check>> = chosen.iter().map(|check| (check.make)()).collect();
        if chosen.iter().any(|check| check.reads_samples) {
            let progress = session.output.progress(wanted, "samples");
            let mut first = 0;
            while first < wanted && !session.output.is_closed() {
                let last = (first + LISTED_MAX).min(wanted);
                // Evenly chosen, in the order of storage.
                let id = |number: u64| SampleId((u128::from(number) * u128::from(all) / u128::from(wanted)) as u64);
                let ids: Vec<SampleId> = (first..last).map(id).collect();
                walk::walk(source, run.threads, &ids, |samples| {
                    progress.inc(samples.len() as u64);
                    for sample in &samples {
                        checks.iter_mut().for_each(|check| check.sample(sample, &run, findings));
                    }
                    !session.output.is_closed()
                })?;
                first = last;
            }
            progress.finish_and_clear();
        }
        checks.iter_mut().for_each(|check| check.end(&run, findings));
        for (stream, name) in source.streams.iter().enumerate() {
            let shards = source.shards(stream);
            let samples: u64 = shards.iter().map(|shard| shard.samples).sum();
            findings.fact("data", format!("{name}: {samples} samples in {} shards", shards.len()));
        }
        if wanted < all {
            findings.fact("checked", format!("{wanted} of {all} samples"));
        }
        Ok(())
    }
}
