//! forebay compared with rival loaders: same files, same crops, same CPUs, one run.
//!
//! Every loader, forebay included, is a separate Python process (`child`) with the same protocol: the modules are
//! imported, one epoch warms up and measures the time to the first batch and the peak memory, and the epochs
//! after it measure the rates. The CPU set is the process's affinity; loaders use one worker or thread per CPU in
//! it. The table includes the load of other processes on those CPUs, because it spoils a run.

mod entrants;

use super::child::{self, Epoch, First, Peer, Watch};
use super::recipe::{self, Recipe};
use crate::folder::make_whole;
use crate::machine::{busy_seconds, cpus_allowed};
use crate::python::Scripts;
use crate::report::{Better, Column, Report, Row, Skipped, median};
use crate::synth::{DataSet, SampleKind, read_through};
use clap::Args;
use entrants::{ENTRANTS, Entrant, Work};
use forebay_loader::{Error, ErrorKind, Result};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const SCRIPTS: &[(&str, &str)] = &[
    child::SCRIPT,
    recipe::SCRIPT,
    ("torchpeer.py", include_str!("../../../scripts/peers/torchpeer.py")),
    ("peer_imagefolder.py", include_str!("../../../scripts/peers/peer_imagefolder.py")),
    ("peer_albumentations.py", include_str!("../../../scripts/peers/peer_albumentations.py")),
    ("peer_webdataset.py", include_str!("../../../scripts/peers/peer_webdataset.py")),
    ("peer_streaming.py", include_str!("../../../scripts/peers/peer_streaming.py")),
    ("peer_litdata.py", include_str!("../../../scripts/peers/peer_litdata.py")),
    ("peer_ffcv.py", include_str!("../../../scripts/peers/peer_ffcv.py")),
    ("peer_spdl.py", include_str!("../../../scripts/peers/peer_spdl.py")),
    ("peer_dali.py", include_str!("../../../scripts/peers/peer_dali.py")),
    ("peer_dataio.py", include_str!("../../../scripts/peers/peer_dataio.py")),
    ("peer_datago.py", include_str!("../../../scripts/peers/peer_datago.py")),
    ("peer_lancedb.py", include_str!("../../../scripts/peers/peer_lancedb.py")),
    ("peer_datasets.py", include_str!("../../../scripts/peers/peer_datasets.py")),
    ("parquet_files.py", include_str!("../../../scripts/peers/parquet_files.py")),
    ("peer_forebay.py", include_str!("../../../scripts/peers/peer_forebay.py")),
];

/// Arguments of `peers`.
#[derive(Debug, Args)]
pub(crate) struct PeersArgs {
    /// Data set made by `forebay-bench synth`
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Interpreter with the loaders; may be repeated: the first one that has a loader runs it
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: Vec<PathBuf>,
    /// Deliver the JPEG files as they are, neither decoded nor cropped
    #[arg(long)]
    undecoded: bool,
    /// Operations on each picture
    #[arg(long, value_enum, default_value = "crop")]
    recipe: Recipe,
    /// Loaders, in this order [default: all that read such data]
    #[arg(long, value_name = "ID,...", value_delimiter = ',', value_parser = ids())]
    only: Vec<String>,
    /// Sizes of the CPU sets [default: 1 and 2, up to the number of CPUs]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Samples per batch
    #[arg(long, default_value_t = 64)]
    batch: usize,
    /// Side of the square crop, pixels
    #[arg(long, default_value_t = 224)]
    crop: usize,
    /// Measured epochs per round, after one for warming up
    #[arg(long, default_value_t = 3)]
    epochs: usize,
    /// Rounds; each restarts every loader, so that slow drifts of the machine affect all of them
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Loader that ratios refer to
    #[arg(long, value_name = "ID", default_value = "streaming", value_parser = ids())]
    baseline: String,
}

/// Names of the loaders.
fn ids() -> Vec<&'static str> {
    ENTRANTS.iter().map(|entrant| entrant.id).collect()
}

/// Results of all rounds of one loader on one CPU set.
#[derive(Default)]
struct Outcome {
    warm_up: Vec<Epoch>,
    epochs: Vec<Epoch>,
    firsts: Vec<First>,
    memory_bytes_max: u64,
    /// CPU seconds of other processes on the same CPUs during the measured epochs.
    others_s: f64,
}

impl PeersArgs {
    fn work(&self, data: &DataSet) -> Work {
        match data.kind {
            SampleKind::Images if self.undecoded => Work::Bytes,
            SampleKind::Images => Work::Images,
            SampleKind::Tokens => Work::Tokens,
        }
    }
}

/// Runs every loader on every CPU set.
pub(crate) fn run(args: &PeersArgs) -> Result<Report> {
    let data = DataSet::open(&args.data)?;
    let allowed = cpus_allowed();
    let sizes = cpu_set_sizes(&args.cpus, allowed.len())?;
    let scripts = Scripts::unpack(SCRIPTS)?;
    let work = args.work(&data);
    let chosen: Vec<&Entrant> = if args.only.is_empty() {
        ENTRANTS.iter().filter(|e| work == Work::Images || e.also.contains(&work)).collect()
    } else {
        args.only.iter().filter_map(|id| ENTRANTS.iter().find(|e| e.id == *id)).collect()
    };
    let mut report = Report::new("peers", title(args, &data), columns(work));
    report.baseline = ENTRANTS.iter().find(|e| e.id == args.baseline).map(|e| e.name.to_owned());
    let mut outcomes: BTreeMap<(usize, usize), Outcome> = BTreeMap::new();
    let mut out_of_it = vec![false; chosen.len()];
    for round in 0..args.rounds {
        for (s, size) in sizes.iter().enumerate() {
            for (e, entrant) in chosen.iter().enumerate() {
                if out_of_it[e] {
                    continue;
                }
                eprintln!("round {}/{}, {size} CPUs: {}", round + 1, args.rounds, entrant.name);
                let outcome = outcomes.entry((s, e)).or_default();
                let ran = measure(args, &data, &scripts, entrant, &allowed[..*size], outcome, &mut report.versions);
                if let Err(error) = ran {
                    eprintln!("  {error}");
                    out_of_it[e] = true;
                    report.skipped.push(Skipped { name: entrant.name.to_owned(), reason: error.to_string() });
                }
            }
        }
    }
    for ((s, e), outcome) in &outcomes {
        if !outcome.epochs.is_empty() {
            report.rows.push(outcome.row(group_name(sizes[*s]), chosen[*e].name, sizes[*s]));
        }
    }
    comparisons(&mut report);
    let ran = |e: &&&Entrant| report.rows.iter().any(|row| row.name == e.name);
    let differ = chosen.iter().filter(ran).map(|e| e.differs).filter(|d| !d.is_empty()).map(str::to_owned);
    report.notes.extend(differ);
    Ok(report)
}

/// Returns the name of a group of rows by its number of CPUs.
pub(super) fn group_name(cpus: usize) -> String {
    if cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") }
}

/// Returns the sizes of the CPU sets that were asked for, or 1 and 2.
///
/// # Errors
///
/// A size that the process does not have.
pub(super) fn cpu_set_sizes(asked: &[usize], allowed: usize) -> Result<Vec<usize>> {
    if asked.is_empty() {
        return Ok([1, 2].into_iter().filter(|n| *n <= allowed).collect());
    }
    match asked.iter().find(|n| **n == 0 || **n > allowed) {
        Some(n) => Err(Error::config(format!("--cpus {n}: this process may use 1 to {allowed} CPUs"))),
        None => Ok(asked.to_vec()),
    }
}

fn title(args: &PeersArgs, data: &DataSet) -> String {
    let samples = data.samples;
    let kb = data.bytes as f64 / data.samples.max(1) as f64 / 1e3;
    let batch = args.batch;
    match args.work(data) {
        Work::Bytes => format!("{samples} JPEGs of {kb:.0} kB, as they are stored, batches of {batch}, cached"),
        Work::Images => {
            let crop = args.crop;
            format!(
                "{samples} JPEGs of {kb:.0} kB, random-resized-crop {crop} + flip, {}, batches of {batch}, cached",
                args.recipe.description()
            )
        }
        Work::Tokens => {
            format!("{samples} samples of {} uint16 tokens, batches of {batch}, cached", data.length)
        }
    }
}

fn columns(work: Work) -> Vec<Column> {
    let (rate, per_cpu, cost) = match work {
        Work::Images | Work::Bytes => ("images/s", "images per CPU s", "CPU s per 1,000 images"),
        Work::Tokens => ("samples/s", "samples per CPU s", "CPU s per 1,000 samples"),
    };
    let cost_decimals = if work == Work::Images { 2 } else { 4 };
    vec![
        Column::new("items_per_s", rate, 0, Better::Higher).plotted(),
        Column::new("items_per_s_per_core", "per core", 0, Better::Higher),
        Column::new("items_per_cpu_s", per_cpu, 0, Better::Higher),
        Column::new("cpu_s_per_1000", cost, cost_decimals, Better::Lower).plotted(),
        Column::new("memory_mib_max", "peak MiB", 0, Better::Lower).plotted(),
        Column::new("first_batch_s", "first batch s", 2, Better::Lower).plotted(),
        Column::new("others_percent", "others' CPU %", 1, Better::Neither),
    ]
}

fn measure(
    args: &PeersArgs,
    data: &DataSet,
    scripts: &Scripts,
    entrant: &Entrant,
    cpus: &[usize],
    outcome: &mut Outcome,
    versions: &mut BTreeMap<String, String>,
) -> Result<()> {
    let config = json!({
        "kind": args.work(data), "recipe": args.recipe, "classes": data.classes().map_or(0, |classes| classes.len()),
        "cpus": cpus, "workers": cpus.len(), "batch": args.batch, "crop": args.crop,
        "length": data.length, "source": entrant.form, "files": data.form("files"), "tar": data.form("tar"),
        "mds": data.form("mds"), "mds-indexed": data.form("mds-indexed"), "litdata": data.form("litdata"),
        "ffcv": data.form("ffcv"), "parquet": data.form("parquet"), "lancedb": data.form("lancedb"),
    });
    let mut peer = start_somewhere(args, scripts, entrant, &config)?;
    versions.append(&mut peer.versions);
    let form = data.form(entrant.form);
    if !form.exists() {
        if !entrant.makes_form {
            return Err(Error::new(ErrorKind::NotFound, "the data set lacks this form; make it with synth --forms")
                .with("form", entrant.form));
        }
        make_form(args, scripts, entrant, &form, config)?;
    }
    read_through(&form)?;
    let (first, warm_up) = peer.first_epoch(Watch::AfterFirst)?;
    whole(warm_up, data)?;
    outcome.firsts.push(first);
    outcome.warm_up.push(warm_up);
    for _ in 0..args.epochs {
        let busy = busy_seconds(cpus);
        let epoch = peer.epoch()?;
        whole(epoch, data)?;
        outcome.others_s += (busy_seconds(cpus) - busy - epoch.cpu_seconds).max(0.0);
        outcome.epochs.push(epoch);
    }
    outcome.memory_bytes_max = outcome.memory_bytes_max.max(peer.memory_bytes_max);
    Ok(())
}

/// Makes the loader's form of the data set with its module. After an interruption the next run starts over.
fn make_form(
    args: &PeersArgs,
    scripts: &Scripts,
    entrant: &Entrant,
    form: &Path,
    mut config: serde_json::Value,
) -> Result<()> {
    make_whole(form, |part| {
        config[entrant.form] = json!(part);
        // In a separate process, so that its imports do not count for the memory of the measured one.
        start_somewhere(args, scripts, entrant, &config)?.convert()
    })
}

/// Returns an error for a loader that omits or repeats samples, since its work differs from the rest.
fn whole(epoch: Epoch, data: &DataSet) -> Result<()> {
    if epoch.items == data.samples {
        return Ok(());
    }
    Err(Error::internal(format!("it delivered {} of {} samples", epoch.items, data.samples)))
}

/// Starts the loader under the first interpreter that has it.
fn start_somewhere(args: &PeersArgs, scripts: &Scripts, entrant: &Entrant, config: &serde_json::Value) -> Result<Peer> {
    let mut missing = Vec::new();
    for python in &args.python {
        match Peer::start(scripts, python, entrant.module, config) {
            Err(e) if e.kind() == ErrorKind::Unsupported => missing.push(e.to_string()),
            other => return other,
        }
    }
    Err(Error::new(ErrorKind::Unsupported, missing.join("; ")))
}

impl Outcome {
    fn row(&self, group: String, name: &str, cpus: usize) -> Row {
        let items: u64 = self.epochs.iter().map(|e| e.items).sum();
        let seconds: f64 = self.epochs.iter().map(|e| e.seconds).sum();
        let cpu: f64 = self.epochs.iter().map(|e| e.cpu_seconds).sum();
        let rate = median(self.epochs.iter().map(|e| e.items as f64 / e.seconds).collect());
        let values = BTreeMap::from([
            ("items_per_s", rate),
            ("items_per_s_per_core", rate / cpus as f64),
            ("items_per_cpu_s", items as f64 / cpu),
            ("cpu_s_per_1000", cpu / items as f64 * 1000.0),
            ("memory_mib_max", self.memory_bytes_max as f64 / f64::from(1 << 20)),
            ("first_batch_s", median(self.firsts.iter().map(|f| f.seconds).collect())),
            ("others_percent", 100.0 * self.others_s / (seconds * cpus as f64)),
        ]);
        // A child that ends within a tick of the clock has no CPU time to divide by.
        let values = values.into_iter().filter(|(_, v)| v.is_finite()).collect();
        let details = json!({ "epochs": self.epochs, "warm_up": self.warm_up, "first_batches": self.firsts });
        Row { group, name: name.to_owned(), values, details, ..Row::default() }
    }
}

/// Returns notes that compare forebay with every loader, and a warning if other processes used the CPUs.
fn comparisons(report: &mut Report) {
    const DISTURBED_PERCENT: f64 = 5.0;
    let rate = |row: &Row| row.values.get("items_per_s").copied();
    let mut notes = Vec::new();
    for ours in report.rows.iter().filter(|r| r.name == "forebay") {
        let others = report.rows.iter().filter(|r| r.group == ours.group && r.name != ours.name);
        let ratios: Vec<String> = others
            .filter_map(|theirs| Some(format!("{:.2} times {}", rate(ours)? / rate(theirs)?, theirs.name)))
            .collect();
        if !ratios.is_empty() {
            notes.push(format!("{}: forebay is {}", ours.group, ratios.join(", ")));
        }
    }
    let disturbed =
        report.rows.iter().filter(|r| r.values.get("others_percent").is_some_and(|p| *p > DISTURBED_PERCENT));
    let names: Vec<String> = disturbed.map(|r| format!("{} ({})", r.name, r.group)).collect();
    if !names.is_empty() {
        let names = names.join(", ");
        notes.push(format!("others used more than {DISTURBED_PERCENT} % of the CPUs while these ran: {names}"));
    }
    report.notes.append(&mut notes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_sets_are_those_the_process_may_use() {
        assert_eq!(cpu_set_sizes(&[], 1).expect("defaults"), [1]);
        assert_eq!(cpu_set_sizes(&[], 8).expect("defaults"), [1, 2]);
        assert!(cpu_set_sizes(&[3], 2).expect_err("too many").to_string().contains("1 to 2 CPUs"));
    }

    #[test]
    fn rates_are_medians_over_the_measured_epochs() {
        let epoch = |seconds| Epoch { items: 1000, seconds, first_seconds: None, cpu_seconds: 2.0, slots: None };
        let outcome =
            Outcome { epochs: vec![epoch(1.0), epoch(10.0), epoch(2.0)], others_s: 1.3, ..Outcome::default() };
        let row = outcome.row("2 CPUs".into(), "forebay", 2);
        assert_eq!(row.values["items_per_s"], 500.0);
        assert_eq!(row.values["items_per_s_per_core"], 250.0);
        assert_eq!(row.values["cpu_s_per_1000"], 2.0);
        assert_eq!(row.values["others_percent"], 5.0);
        assert!(!row.values.contains_key("first_batch_s"), "no measurements, no notes");
    }
}
