//! forebay.streaming compared with MosaicML streaming: the same program and shards, a different import.
//!
//! Both run in torch's DataLoader with the same number of worker processes, and without it: random access,
//! LocalDataset, the readers of single shards. A third program delivers samples from memory through the same
//! DataLoader: its rate is torch's own, and the limit of both. Each program is a separate process ([`child`])
//! that is restarted in every round. The first epoch measures the time to the first batch, later ones the rates and
//! the time from one epoch to the next. Memory is sampled in a further child without measured times.

mod data;

use super::child::{self, Epoch, First, Peer, Watch};
use crate::machine::{busy_seconds, cpus_allowed};
use crate::python::Scripts;
use crate::report::{Better, Column, Report, Row, Skipped, median};
use crate::synth::read_through;
use clap::Args;
use data::Content;
use forebay_loader::{Error, Result};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

const SCRIPTS: &[(&str, &str)] = &[
    child::SCRIPT,
    ("dropin.py", include_str!("../../../scripts/dropin/dropin.py")),
    ("peer_ours.py", include_str!("../../../scripts/dropin/peer_ours.py")),
    ("peer_reference.py", include_str!("../../../scripts/dropin/peer_reference.py")),
    ("peer_ready.py", include_str!("../../../scripts/dropin/peer_ready.py")),
];

const OURS: &str = "forebay.streaming";
const REFERENCE: &str = "MosaicML streaming";
/// Module and name of each program.
const SIDES: &[(&str, &str)] = &[("ours", OURS), ("reference", REFERENCE), ("ready", "torch's DataLoader alone")];

/// Arguments of `dropin`.
#[derive(Debug, Args)]
pub(crate) struct DropinArgs {
    /// Folder of the data sets, which are made if they do not exist (some 600 MB)
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Interpreter with both packages
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: PathBuf,
    /// Worker processes of the DataLoader
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [0, 1, 2])]
    workers: Vec<usize>,
    /// Worker processes when start-up is measured
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [0, 1, 2, 8])]
    start_workers: Vec<usize>,
    /// Number of samples of tokens; a quarter of it for files, twice as many for records
    #[arg(long, default_value_t = 16_000)]
    samples: u64,
    /// Shards of the data set for measuring start-up, with ten samples each
    #[arg(long, default_value_t = 100_000)]
    shards: u64,
    /// Samples per batch
    #[arg(long, default_value_t = 64)]
    batch: usize,
    /// Measured epochs per round, after one for warming up
    #[arg(long, default_value_t = 2)]
    epochs: usize,
    /// Rounds; each restarts every child
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Run only groups with this text in their names; may be repeated
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
}

/// Data and way of reading it.
#[derive(Clone, Debug)]
struct Task {
    content: Content,
    way: Way,
    workers: usize,
    /// True if every epoch starts its own workers.
    fresh: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// StreamingDataset through a DataLoader.
    Loader,
    /// StreamingDataset by index.
    Index,
    /// LocalDataset by index.
    Local,
    /// Readers of single shards.
    Reader,
}

impl Way {
    /// Returns the name in the children's configuration.
    fn id(self) -> &'static str {
        match self {
            Self::Loader => "loader",
            Self::Index => "index",
            Self::Local => "local",
            Self::Reader => "reader",
        }
    }
}

impl Task {
    fn group(&self) -> String {
        let content = self.content.name();
        let workers = format!("{} worker{}", self.workers, if self.workers == 1 { "" } else { "s" });
        match self.way {
            Way::Loader if self.fresh => format!("{content}, {workers}, fresh each epoch"),
            Way::Loader => format!("{content}, {workers}"),
            Way::Index => format!("{content}, dataset[i]"),
            Way::Local => format!("{content}, LocalDataset[i]"),
            Way::Reader => format!("{content}, readers of shards"),
        }
    }

    /// Returns true if only the start is measured.
    fn is_start(&self) -> bool {
        self.content == Content::Shards
    }
}

/// Results of all rounds of one program.
#[derive(Default)]
struct Outcome {
    epochs: Vec<Epoch>,
    firsts: Vec<First>,
    memory_bytes_max: u64,
    /// CPU seconds of other processes during the measured epochs.
    others_s: f64,
}

/// Runs all measurements.
pub(crate) fn run(args: &DropinArgs) -> Result<Report> {
    let scripts = Scripts::unpack(SCRIPTS)?;
    let tasks = tasks(args);
    if tasks.is_empty() {
        return Err(Error::config("--only leaves nothing to measure"));
    }
    let mut folders = HashMap::new();
    for task in &tasks {
        let samples = samples(args, task.content);
        let folder = data::make(&args.data, task.content, samples)?;
        let folder =
            std::fs::canonicalize(folder).map_err(|e| Error::from_io(e, "the data set's folder cannot be found"))?;
        folders.insert(task.content.name(), (folder, samples));
    }
    let title = format!("one program with both imports, batches of {}, shards on local disk, cached", args.batch);
    let mut report = Report::new("dropin", title, columns());
    report.baseline = Some(REFERENCE.to_owned());
    report.notes.push("memory is the proportional set size of the process tree, workers included".to_owned());
    let mut outcomes: BTreeMap<(usize, usize), Outcome> = BTreeMap::new();
    for round in 0..args.rounds {
        for (t, task) in tasks.iter().enumerate() {
            let (folder, samples) = &folders[task.content.name()];
            for (s, (module, name)) in SIDES.iter().enumerate() {
                if *module == "ready" && (task.way != Way::Loader || task.is_start()) {
                    continue;
                }
                eprintln!("round {}/{}, {}: {name}", round + 1, args.rounds, task.group());
                let child = Child { args, scripts: &scripts, module, task, folder, samples: *samples };
                let outcome = outcomes.entry((t, s)).or_default();
                if let Err(error) = child.measure(outcome, round == 0, &mut report.versions) {
                    eprintln!("  {error}");
                    let reason = error.to_string();
                    report.skipped.push(Skipped { name: format!("{name} ({})", task.group()), reason });
                }
            }
        }
    }
    for ((t, s), outcome) in &outcomes {
        if !outcome.firsts.is_empty() {
            report.rows.push(outcome.row(&tasks[*t], SIDES[*s].1));
        }
    }
    verdict(&mut report);
    Ok(report)
}

fn tasks(args: &DropinArgs) -> Vec<Task> {
    let loader = |content, workers| Task { content, way: Way::Loader, workers, fresh: false };
    let alone = |content, way| Task { content, way, workers: 0, fresh: false };
    let mut tasks = Vec::new();
    for content in [Content::Tokens, Content::Files, Content::Records] {
        tasks.extend(args.workers.iter().map(|workers| loader(content, *workers)));
    }
    let most = args.workers.iter().copied().max().unwrap_or(0);
    if most > 0 {
        tasks.push(Task { fresh: true, ..loader(Content::Tokens, most) });
    }
    for content in [Content::Tokens, Content::Files, Content::Records] {
        tasks.extend([Way::Index, Way::Local, Way::Reader].map(|way| alone(content, way)));
    }
    tasks.extend(args.start_workers.iter().map(|workers| loader(Content::Shards, *workers)));
    tasks.retain(|task| args.only.is_empty() || args.only.iter().any(|text| task.group().contains(text)));
    tasks
}

fn samples(args: &DropinArgs, content: Content) -> u64 {
    match content {
        Content::Tokens => args.samples,
        Content::Files => args.samples / 4,
        Content::Records => args.samples * 2,
        Content::Shards => args.shards * 10,
    }
}

fn columns() -> Vec<Column> {
    vec![
        Column::new("samples_per_s", "samples/s", 0, Better::Higher).plotted(),
        Column::new("first_batch_s", "first batch s", 3, Better::Lower).plotted(),
        Column::new("open_s", "open s", 3, Better::Lower),
        Column::new("next_epoch_s", "next epoch s", 4, Better::Lower).plotted(),
        Column::new("memory_mib_max", "peak MiB", 0, Better::Lower).plotted(),
        Column::new("others_percent", "others' CPU %", 1, Better::Neither),
    ]
}

/// Measures one program at one task.
struct Child<'a> {
    args: &'a DropinArgs,
    scripts: &'a Scripts,
    module: &'a str,
    task: &'a Task,
    folder: &'a Path,
    samples: u64,
}

impl Child<'_> {
    fn measure(&self, outcome: &mut Outcome, memory_too: bool, versions: &mut BTreeMap<String, String>) -> Result<()> {
        let cpus = cpus_allowed();
        if !self.task.is_start() {
            read_through(self.folder)?;
        }
        let mut peer = self.start(&cpus)?;
        versions.append(&mut peer.versions);
        let (first, _) = peer.first_epoch(Watch::Never)?;
        outcome.firsts.push(first);
        if !self.task.is_start() {
            for _ in 0..self.args.epochs {
                let busy = busy_seconds(&cpus);
                let epoch = peer.epoch()?;
                if epoch.items != self.samples {
                    let (items, samples) = (epoch.items, self.samples);
                    return Err(Error::internal(format!("it delivered {items} of {samples} samples")));
                }
                outcome.others_s += (busy_seconds(&cpus) - busy - epoch.cpu_seconds).max(0.0);
                outcome.epochs.push(epoch);
            }
        }
        drop(peer);
        if memory_too {
            let mut peer = self.start(&cpus)?;
            peer.first_epoch(Watch::Closely)?;
            outcome.memory_bytes_max = peer.memory_bytes_max;
        }
        Ok(())
    }

    fn start(&self, cpus: &[usize]) -> Result<Peer> {
        let Task { way, workers, fresh, .. } = *self.task;
        let config = json!({
            "cpus": cpus, "way": way.id(), "data": self.folder, "batch": self.args.batch, "workers": workers,
            "fresh": fresh, "batches_max": self.task.is_start().then_some(1),
        });
        Peer::start(self.scripts, &self.args.python, self.module, &config)
    }
}

impl Outcome {
    fn row(&self, task: &Task, name: &str) -> Row {
        let seconds: f64 = self.epochs.iter().map(|e| e.seconds).sum();
        let rate = median(self.epochs.iter().map(|e| e.items as f64 / e.seconds).collect());
        let next = match task.way {
            Way::Loader => median(self.epochs.iter().filter_map(|e| e.first_seconds).collect()),
            _ => f64::NAN,
        };
        let values = BTreeMap::from([
            ("samples_per_s", rate),
            ("first_batch_s", median(self.firsts.iter().map(|f| f.seconds).collect())),
            ("open_s", median(self.firsts.iter().filter_map(|f| f.open_seconds).collect())),
            ("next_epoch_s", next),
            ("memory_mib_max", self.memory_bytes_max as f64 / f64::from(1 << 20)),
            ("others_percent", 100.0 * self.others_s / (seconds * cpus_allowed().len() as f64)),
        ]);
        let values = values.into_iter().filter(|(_, v)| v.is_finite()).collect();
        let details = json!({ "epochs": self.epochs, "first_batches": self.firsts });
        Row { group: task.group(), name: name.to_owned(), values, details, ..Row::default() }
    }
}

/// Adds a note with every figure in which forebay.streaming is slower.
fn verdict(report: &mut Report) {
    let mut behind = Vec::new();
    for row in report.rows.iter().filter(|row| row.name == OURS) {
        for column in report.columns.iter().filter(|column| column.better != Better::Neither) {
            if let Some(times) = report.times_better(row, column.key).filter(|times| *times < 1.0) {
                behind.push(format!("{} in {} ({times:.2} times)", row.group, column.title));
            }
        }
    }
    let note = if behind.is_empty() {
        format!("{OURS} is not slower than {REFERENCE} at any task")
    } else {
        format!("{OURS} is behind {REFERENCE} at {}", behind.join("; "))
    };
    report.notes.push(note);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slower_column_is_named() {
        let mut report = Report::new("dropin", "", columns());
        report.baseline = Some(REFERENCE.to_owned());
        for (name, rate, memory) in [(OURS, 300.0, 40.0), (REFERENCE, 100.0, 30.0)] {
            let values = BTreeMap::from([("samples_per_s", rate), ("memory_mib_max", memory)]);
            report.rows.push(Row { group: "tokens".into(), name: name.into(), values, ..Row::default() });
        }
        verdict(&mut report);
        let note = report.notes.last().expect("a note");
        assert_eq!(note, "forebay.streaming is behind MosaicML streaming at tokens in peak MiB (0.75 times)");
    }
}
