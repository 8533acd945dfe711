//! Planning and resuming an epoch: the engine, MosaicML streaming, and for orders that permute all samples, numpy's
//! permutation, on the same shards.
//!
//! Every program runs in a child process, so that its memory can be measured. The engine's child is this binary
//! (`order-child`).

use crate::python::{Scripts, answer};
use crate::report::{Better, Column, Report, Row, Skipped};
use clap::Args;
use forebay_loader::order::{DataSetShape, EpochPlan, OrderConfig, Rank, Resume, ShuffleAlgo, Weight, World};
use forebay_loader::{Error, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

const SCRIPT: &str = "plan.py";
const SCRIPTS: &[(&str, &str)] = &[(SCRIPT, include_str!("../../scripts/order/plan.py"))];
/// Positions that are read to measure the cost per sample of a finished plan.
const READ_SAMPLES: u64 = 4_000_000;
const BATCH: u64 = 256;
const SEED: u64 = 9176;

/// Arguments of `order`.
#[derive(Debug, Args)]
pub(crate) struct OrderArgs {
    /// Number of samples
    #[arg(long, default_value_t = 100_000_000)]
    samples: u64,
    /// Number of shards
    #[arg(long, default_value_t = 20_000)]
    shards: u64,
    /// Number of canonical nodes
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8])]
    canonical: Vec<u64>,
    /// Shuffle algorithms
    #[arg(long, value_delimiter = ',', default_values = ["py1s", "py2s", "py1br", "py1e", "naive"])]
    algo: Vec<String>,
    /// Fraction of the data set in an epoch, measured with py1e on one canonical node; 1: not measured
    #[arg(long, default_value_t = 0.5)]
    repeat: f64,
    /// Interpreter with mosaicml-streaming
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: PathBuf,
}

/// Order to plan.
#[derive(Clone, Debug, Args)]
pub(crate) struct WayArgs {
    algo: String,
    samples: u64,
    shards: u64,
    canonical: u64,
    repeat: f64,
    /// `sample_in_epoch`
    resume_at: u64,
}

/// Measures all orders with all programs.
pub(crate) fn run(args: &OrderArgs) -> Result<Report> {
    let title = format!("an epoch of {} samples in {} shards, planned and resumed half-way", args.samples, args.shards);
    let columns = vec![
        Column::new("ready_s", "s to first batch", 2, Better::Lower).plotted(),
        Column::new("memory_mib", "MiB at most", 0, Better::Lower).plotted(),
        Column::new("read_ns", "ns per sample after", 0, Better::Lower),
    ];
    let mut report = Report::new("order", title, columns);
    report.baseline = Some("MosaicML streaming".to_owned());
    let scripts = Scripts::unpack(SCRIPTS)?;
    let half = args.samples / 2 / BATCH * BATCH;
    for algo in &args.algo {
        for &canonical in &args.canonical {
            let way = WayArgs {
                algo: algo.clone(),
                samples: args.samples,
                shards: args.shards,
                canonical,
                repeat: 1.0,
                resume_at: half,
            };
            let group = format!("{algo}, canonical nodes: {canonical}");
            measure(&mut report, &group, &way, args, &scripts)?;
        }
    }
    if args.repeat != 1.0 {
        let epoch = (args.samples as f64 * args.repeat) as u64;
        let way = WayArgs {
            algo: "py1e".to_owned(),
            samples: args.samples,
            shards: args.shards,
            canonical: 1,
            repeat: args.repeat,
            resume_at: epoch / 2 / BATCH * BATCH,
        };
        let group = format!("py1e, each sample {} times", args.repeat);
        measure(&mut report, &group, &way, args, &scripts)?;
    }
    report.notes.push("memory is the largest growth of the child, its modules and code not counted".to_owned());
    report
        .notes
        .push("MosaicML streaming plans for all ranks at once and holds ids: reading costs it nothing".to_owned());
    Ok(report)
}

fn measure(report: &mut Report, group: &str, way: &WayArgs, args: &OrderArgs, scripts: &Scripts) -> Result<()> {
    let list = [
        way.algo.clone(),
        way.samples.to_string(),
        way.shards.to_string(),
        way.canonical.to_string(),
        way.repeat.to_string(),
        way.resume_at.to_string(),
    ];
    let ours = std::env::current_exe().map_err(|e| Error::from_io(e, "this program cannot find itself"))?;
    let mut ours = Command::new(ours);
    ours.arg("order-child").args(&list);
    let python = |algo: &str| {
        let mut command = Command::new(&args.python);
        command.arg(scripts.path(SCRIPT)).arg(algo).args(&list[1..]);
        command
    };
    let mut ways = vec![("forebay", ours), ("MosaicML streaming", python(&way.algo))];
    if way.algo == ShuffleAlgo::Naive.name() || way.repeat != 1.0 {
        ways.push(("numpy permutation", python("numpy")));
    }
    let mut firsts = Vec::new();
    for (name, mut command) in ways {
        match answer(&mut command) {
            Ok(found) => {
                if !name.starts_with("numpy") {
                    firsts.push(found["first"].clone());
                }
                report.rows.push(row(group, name, &found));
                report.add_versions(&found);
            }
            Err(error) if name == "forebay" => return Err(error),
            Err(error) => {
                report.skipped.push(Skipped { name: format!("{name} ({group})"), reason: error.to_string() });
            }
        }
    }
    if firsts.iter().any(|first| *first != firsts[0]) {
        return Err(Error::internal("two ways see different samples first").with("order", group));
    }
    Ok(())
}

fn row(group: &str, name: &str, found: &Value) -> Row {
    let number = |key: &str, scale: f64| found[key].as_f64().map(|value| value / scale);
    let values = [
        ("ready_s", number("ready_s", 1.0)),
        ("memory_mib", number("memory_bytes", 1_048_576.0)),
        ("read_ns", number("read_ns", 1.0)),
    ];
    let values: BTreeMap<_, _> = values.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
    Row { group: group.to_owned(), name: name.to_owned(), values, details: found.clone(), ..Row::default() }
}

/// Plans with the engine and prints the time and memory; runs in a separate process.
pub(crate) fn run_child(way: &WayArgs) -> Result<()> {
    let shape = DataSetShape::new(&[vec![way.samples / way.shards.max(1); way.shards as usize]])?;
    let config = OrderConfig {
        shuffle: true,
        shuffle_algo: way.algo.parse()?,
        batch_size: BATCH,
        weights: if way.repeat == 1.0 { Vec::new() } else { vec![Weight::Repeat(way.repeat)] },
        ..OrderConfig::default()
    };
    let resume = Resume {
        epoch: 0,
        sample_in_epoch: way.resume_at,
        num_canonical_nodes: way.canonical,
        shuffle_seed: SEED,
        initial_physical_nodes: Some(1),
    };
    let before = status_bytes("VmRSS:");
    let begin = Instant::now();
    let plan = EpochPlan::new(&shape, &config, World::single(), 0, Some(&resume))?;
    let mut order = plan.rank(Rank(0));
    let mut rows = Vec::new();
    order.next_batch(&mut rows);
    let ready_s = begin.elapsed().as_secs_f64();
    let first = rows.first().map(|row| row.sample.0);

    let begin = Instant::now();
    let mut read = 0;
    while read < READ_SAMPLES && order.next_batch(&mut rows) {
        read += rows.len() as u64;
    }
    let read_ns = begin.elapsed().as_nanos() as f64 / read.max(1) as f64;
    let memory_bytes = status_bytes("VmHWM:").saturating_sub(before);
    println!("{}", json!({ "ready_s": ready_s, "memory_bytes": memory_bytes, "read_ns": read_ns, "first": first }));
    Ok(())
}

fn status_bytes(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = status.lines().find_map(|line| line.strip_prefix(key));
    value.and_then(|v| v.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}
