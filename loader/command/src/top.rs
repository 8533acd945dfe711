//! `forebay top`: figures of running jobs.
//!
//! * `record`: the figures of a loader; `ranks`: the comparison of a job's ranks; `processes`: the processes of a run.

mod processes;
mod ranks;
mod record;

use crate::output::Output;
use crate::run_file::RunFile;
use crate::text::{one_line, seconds, wrapped};
use crate::{Command, Exit, STOPPED_EVERY, Session};
use clap::Args;
use forebay_loader::monitor::{Job, Target, running};
use forebay_loader::{Error, ErrorKind, Result};
use ranks::slow_rank;
use record::{details, loaders, record, row};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// See the rates, waits and bottleneck of running jobs
///
/// Without arguments it shows all processes of this user on this machine that have a loader in an epoch. A process that
/// was started with Engine(metrics="prometheus://:9400") is shown by its HOST:PORT, from any machine, and the processes
/// of a run by the file of Loader.save_run. Rates, waits and the bottleneck are of the last interval, totals since the
/// start of the loader. With --once all figures are since the start.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  forebay top
  forebay top run.json
  forebay top node1:9400 node2:9400 --once --json")]
pub(crate) struct TopArgs {
    /// Processes: numbers, HOST:PORT of their metrics, or files of runs [default: all of this user on this machine]
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Seconds between two looks
    #[arg(long, short = 'n', default_value_t = 2.0, value_name = "SECONDS")]
    #[arg(value_parser = |text: &str| seconds(text, 0.1..=3600.0))]
    interval: f64,
    /// Print the figures once, without rates
    #[arg(long)]
    once: bool,
}

impl Command for TopArgs {
    fn addresses(&self) -> Vec<String> {
        Vec::new()
    }

    fn run(&self, session: &Session) -> Result<Exit> {
        let output = &session.output;
        let targets = self.targets.iter().map(|text| Watched::parse(text)).collect::<Result<Vec<_>>>()?;
        let mut before = Look::take(&targets)?;
        let is_live = !self.once && output.is_terminal() && !output.is_json();
        if self.once || before.has_ended || !before.has_loaders() {
            before.print(output, None);
            return Ok(if before.has_loaders() { Exit::Success } else { Exit::Found });
        }
        loop {
            let next = Instant::now() + Duration::from_secs_f64(self.interval);
            while let Some(rest) = next.checked_duration_since(Instant::now()).filter(|_| !output.is_stopped()) {
                std::thread::sleep(rest.min(STOPPED_EVERY));
            }
            let now = Look::take(&targets)?;
            if is_live {
                // Home, and nothing behind the new text.
                output.bytes(b"\x1b[H\x1b[2J");
            }
            now.print(output, Some(&before));
            if output.is_closed() || !now.has_loaders() {
                return Ok(Exit::Success);
            }
            before = now;
        }
    }
}

/// Argument of the command.
enum Watched {
    Process(Target),
    Run(RunFile),
}

impl Watched {
    fn parse(text: &str) -> Result<Self> {
        if Path::new(text).is_file() {
            let run = RunFile::read(Path::new(text), &[])?;
            // Each look asks for its process again.
            run.process()?;
            return Ok(Self::Run(run));
        }
        Target::parse(text).map(Self::Process)
    }
}

/// A loader: its process, and its number there.
type Key = (String, usize);

/// All jobs at one moment.
struct Look {
    jobs: Vec<Job>,
    /// Processes that do not answer.
    failed: Vec<(Target, Error)>,
    /// The figures are those of a run that has ended, and do not change.
    has_ended: bool,
}

impl Look {
    /// Asks the `targets`, or all processes of this user.
    ///
    /// # Errors
    ///
    /// The error of the only target.
    fn take(targets: &[Watched]) -> Result<Self> {
        let mut found: Vec<Target> = Vec::new();
        let (mut jobs, mut failed, mut ended) = (Vec::new(), Vec::new(), 0);
        for target in targets {
            match target {
                Watched::Process(target) => found.push(target.clone()),
                Watched::Run(run) => {
                    let of_run = processes::jobs(run)?;
                    ended += usize::from(of_run.is_empty());
                    jobs.extend(if of_run.is_empty() { processes::last(run)? } else { of_run });
                }
            }
        }
        if targets.is_empty() {
            found.extend(running().into_iter().map(Target::Process));
        }
        for target in found {
            match target.job() {
                Ok(job) => jobs.push(job),
                // The process has ended since it was listed.
                Err(e) if targets.is_empty() && e.kind() == ErrorKind::NotFound => {}
                Err(e) if targets.len() == 1 => return Err(e),
                Err(e) => failed.push((target, e)),
            }
        }
        Ok(Self { jobs, failed, has_ended: ended > 0 && ended == targets.len() })
    }

    fn has_loaders(&self) -> bool {
        self.jobs.iter().any(|job| !loaders(job).is_empty())
    }

    fn print(&self, output: &Output, before: Option<&Self>) {
        let earlier: HashMap<_, _> = before.map(Self::by_key).into_iter().flatten().collect();
        let record = |(key, (job, figures))| record(job, figures, earlier.get(&key).map(|(_, figures)| *figures));
        let records: Vec<Value> = self.by_key().into_iter().map(record).collect();
        for (target, error) in &self.failed {
            output.line(&json!({"target": target.to_string(), "error": error.to_string()}), || {
                one_line(&format!("{target}: {error}"))
            });
        }
        let slow = slow_rank(&records);
        if output.is_json() {
            records.iter().chain(&slow).for_each(|record| output.line(record, String::new));
            return;
        }
        if records.is_empty() {
            return output.print("no process of this user has a loader in an epoch");
        }
        let header = ["process", "rank", "batches", "samples/s", "waiting", "p50", "p95", "p99", "store"];
        output.table(&header, records.iter().map(row));
        details(&records, output.size().0).iter().for_each(|lines| output.print(lines));
        if self.has_ended {
            output.print("\nthe run has ended on this machine: figures of its file");
        }
        if let Some(slow) = &slow {
            output.print(&format!("\n{}", wrapped(slow["message"].as_str().unwrap_or_default(), output.size().0)));
        }
    }

    /// Figures of each loader, in the order of ranks.
    fn by_key(&self) -> Vec<(Key, (&Job, &Value))> {
        let mut all: Vec<_> = self
            .jobs
            .iter()
            .flat_map(|job| {
                let key = |number| (job.target.to_string(), number);
                loaders(job).iter().enumerate().map(move |(number, figures)| (key(number), (job, figures)))
            })
            .collect();
        all.sort_by_key(|(key, (_, figures))| (figures["rank"].as_u64(), key.clone()));
        all
    }
}
