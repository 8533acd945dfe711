//! `forebay top`: figures of running jobs.

use crate::output::Output;
use crate::{Command, Exit, Session};
use clap::Args;
use forebay_loader::monitor::{Job, Target, running};
use forebay_loader::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// See the rates, waits and bottleneck of running jobs
///
/// Without arguments it shows all processes of this user on this machine that have a loader in an epoch. A process that
/// was started with Engine(metrics="prometheus://:9400") is shown by its HOST:PORT, from any machine. Rates and the
/// share of waiting are of the last interval; percentiles of the wait for a batch, totals and the bottleneck are since
/// the start of the loader.
#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// Processes: numbers, or HOST:PORT of their metrics [default: all of this user on this machine]
    targets: Vec<String>,
    /// Seconds between two looks
    #[arg(long, short = 'n', default_value_t = 2.0, value_name = "SECONDS", value_parser = seconds)]
    interval: f64,
    /// Print the figures once, without rates
    #[arg(long)]
    once: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is no number of seconds".to_owned())?;
    if (0.1..=3600.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("it must be between 0.1 and 3600 seconds".to_owned())
    }
}

impl Command for TopArgs {
    fn addresses(&self) -> Vec<String> {
        Vec::new()
    }

    fn run(&self, session: &Session) -> Result<Exit> {
        let output = &session.output;
        let targets = self.targets.iter().map(|text| Target::parse(text)).collect::<Result<Vec<_>>>()?;
        let mut before = Look::take(&targets)?;
        let is_live = !self.once && output.is_terminal() && !output.is_json();
        if self.once || !before.has_loaders() {
            before.print(output, None);
            return Ok(if before.has_loaders() { Exit::Success } else { Exit::Found });
        }
        loop {
            std::thread::sleep(Duration::from_secs_f64(self.interval));
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

/// A loader: its process, and its number there.
type Key = (String, usize);

/// All jobs at one moment.
struct Look {
    at: Instant,
    jobs: Vec<Job>,
    /// Processes that do not answer.
    failed: Vec<(Target, Error)>,
}

impl Look {
    /// Asks the `targets`, or all processes of this user.
    ///
    /// # Errors
    ///
    /// The error of the only target.
    fn take(targets: &[Target]) -> Result<Self> {
        let found: Vec<Target> = match targets {
            [] => running().into_iter().map(Target::Process).collect(),
            given => given.to_vec(),
        };
        let (mut jobs, mut failed) = (Vec::new(), Vec::new());
        for target in found {
            match target.job() {
                Ok(job) => jobs.push(job),
                // The process has ended since it was listed.
                Err(e) if targets.is_empty() && e.kind() == ErrorKind::NotFound => {}
                Err(e) if targets.len() == 1 => return Err(e),
                Err(e) => failed.push((target, e)),
            }
        }
        Ok(Self { at: Instant::now(), jobs, failed })
    }

    fn has_loaders(&self) -> bool {
        self.jobs.iter().any(|job| !loaders(job).is_empty())
    }

    fn print(&self, output: &Output, before: Option<&Self>) {
        let earlier: HashMap<_, _> = before.map(Self::by_key).into_iter().flatten().collect();
        let seconds = before.map(|before| (self.at - before.at).as_secs_f64());
        let records: Vec<Value> = self
            .by_key()
            .into_iter()
            .map(|(key, (job, figures))| {
                record(job, figures, earlier.get(&key).map(|(_, figures)| *figures).zip(seconds))
            })
            .collect();
        for (target, error) in &self.failed {
            output.line(&json!({"target": target.to_string(), "error": error.to_string()}), || {
                format!("{target}: {error}")
            });
        }
        if output.is_json() {
            records.iter().for_each(|record| output.line(record, String::new));
            return;
        }
        if records.is_empty() {
            output.line(&Value::Null, || "no process of this user has a loader in an epoch".to_owned());
            return;
        }
        let header = ["process", "rank", "batches", "samples/s", "waiting", "p50", "p95", "p99", "store"];
        output.table(&header, records.iter().map(row));
        for record in &records {
            output.line(&Value::Null, || details(record));
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

fn loaders(job: &Job) -> &[Value] {
    job.figures["loaders"].as_array().map_or(&[], Vec::as_slice)
}

/// Figures of a loader, with rates since an earlier moment.
fn record(job: &Job, now: &Value, earlier: Option<(&Value, f64)>) -> Value {
    let batches = |figures: &Value| figures["waits"]["count"].as_f64().unwrap_or(0.0);
    let rate = |value: &dyn Fn(&Value) -> f64| earlier.map(|(before, seconds)| (value(now) - value(before)) / seconds);
    let per_second = rate(&batches);
    let counter = |name: &str| now["counters"][name].as_u64().unwrap_or(0);
    let waiting = rate(&|figures| figures["waits"]["sum_s"].as_f64().unwrap_or(0.0));
    let store = rate(&|figures| figures["counters"]["store_bytes"].as_f64().unwrap_or(0.0));
    json!({
        "pid": job.figures["pid"],
        "target": job.target.to_string(),
        "rank": now["rank"],
        "world_size": now["world_size"],
        "source": now["source"],
        "batches": batches(now),
        "batches_per_s": per_second,
        "samples_per_s": per_second.map(|rate| rate * now["batch_size"].as_f64().unwrap_or(0.0)),
        "waiting_share": waiting.map(|share| share.clamp(0.0, 1.0)),
        "wait_p50_s": now["waits"]["p50_s"],
        "wait_p95_s": now["waits"]["p95_s"],
        "wait_p99_s": now["waits"]["p99_s"],
        "store_bytes": counter("store_bytes"),
        "store_bytes_per_s": store,
        "store_retries": counter("store_retries"),
        "cache_evicted": counter("cache_evicted"),
        "samples_skipped": counter("samples_skipped"),
        "elapsed_s": now["elapsed_s"],
        "bottleneck": now["bottleneck"],
    })
}

/// Lines about a loader below the table.
fn details(record: &Value) -> String {
    let text = |name: &str| record[name].as_str().unwrap_or_default();
    let losses =
        [("store_retries", "retries"), ("samples_skipped", "skipped samples"), ("cache_evicted", "evicted shards")];
    let losses = losses.iter().filter_map(|(name, words)| {
        record[*name].as_u64().filter(|count| *count > 0).map(|count| format!(", {count} {words}"))
    });
    let (rank, losses) = (&record["rank"], losses.collect::<String>());
    format!("\nrank {rank}, {}{losses}\n  limited by {}", text("source"), text("bottleneck"))
}

fn row(record: &Value) -> Vec<String> {
    let number = |name: &str, form: &dyn Fn(f64) -> String| record[name].as_f64().map_or_else(|| "-".to_owned(), form);
    let process = match record["pid"].as_u64() {
        Some(pid) => pid.to_string(),
        None => record["target"].as_str().unwrap_or_default().to_owned(),
    };
    vec![
        process,
        format!("{}/{}", record["rank"], record["world_size"]),
        number("batches", &|count| format!("{count:.0}")),
        number("samples_per_s", &|rate| format!("{rate:.0}")),
        number("waiting_share", &|share| format!("{:.0}%", 100.0 * share)),
        number("wait_p50_s", &time),
        number("wait_p95_s", &time),
        number("wait_p99_s", &time),
        number("store_bytes_per_s", &|rate| format!("{:.0}MB/s", rate / 1e6)),
    ]
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.0}us", s * 1e6),
        s if s < 1.0 => format!("{:.0}ms", s * 1e3),
        s => format!("{s:.1}s"),
    }
}
