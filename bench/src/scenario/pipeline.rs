//! The engine without Python: batches drained from `Loader::next`.
//!
//! Every kind of field that the data set allows is drained from local shards (*cached*), and once from the embedded
//! server into an empty cache (*cold*). The table under the rates has the time of each stage: the stage that is
//! busy while the next one waits is the bottleneck.

use super::served::{Server, Serving};
use crate::machine::own_cpu_seconds;
use crate::report::{Better, Column, Report, Row};
use crate::synth::{DataSet, SampleKind, read_through};
use clap::Args;
use forebay_loader::config::{LoaderConfig, StreamConfig};
use forebay_loader::loader::{Loader, Next};
use forebay_loader::stats::Snapshot;
use forebay_loader::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

/// Arguments of `pipeline`.
#[derive(Debug, Args)]
pub(crate) struct PipelineArgs {
    /// Data set made by `forebay-bench synth`, with the form mds
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Numbers of decode threads [default: all CPUs of this process]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    threads: Vec<u32>,
    /// Samples per batch
    #[arg(long, default_value_t = 64)]
    batch: u32,
    /// Side of the square crop, pixels
    #[arg(long, default_value_t = 224)]
    crop: u32,
    /// Measured epochs, after one for warming up
    #[arg(long, default_value_t = 3)]
    epochs: u32,
    /// Omit the cold epoch from the embedded server
    #[arg(long)]
    no_cold: bool,
    /// Delays of every answer of the embedded server, with a cold epoch for each
    #[arg(long, value_name = "MS,...", value_delimiter = ',', default_value = "0")]
    latency_ms: Vec<u64>,
    /// Write the Chrome trace of the last cached run to this file
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// Drained epoch.
#[derive(Clone, Copy)]
pub(super) struct Drained {
    pub(super) rows: u64,
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
    first_batch_s: f64,
}

/// Measures every kind of field with every number of threads.
pub(crate) fn run(args: &PipelineArgs) -> Result<Report> {
    let data = DataSet::open(&args.data)?;
    let shards = data.form("mds");
    if !shards.is_dir() {
        return Err(Error::new(ErrorKind::NotFound, "the data set lacks the form mds; make it with synth --forms"));
    }
    let unit = if data.kind == SampleKind::Images { "images/s" } else { "samples/s" };
    let columns = vec![
        Column::new("items_per_s", unit, 0, Better::Higher).plotted(),
        Column::new("items_per_cpu_s", "per CPU s", 0, Better::Higher),
        Column::new("cpu_s_per_1000", "CPU s per 1,000", 3, Better::Lower).plotted(),
        Column::new("mb_per_s", "stored MB/s", 0, Better::Higher),
        Column::new("first_batch_s", "first batch s", 3, Better::Lower).plotted(),
    ];
    let title = format!("{} {} in batches of {}, in this process", data.samples, data.kind.name(), args.batch);
    let mut report = Report::new("pipeline", title, columns);
    let threads = if args.threads.is_empty() { vec![report.machine.cpus as u32] } else { args.threads.clone() };
    for threads in threads {
        let group = format!("{threads} threads");
        for (name, fields) in fields(&data, args.crop) {
            let local = StreamConfig { local: Some(shards.clone()), ..StreamConfig::default() };
            read_through(&shards)?;
            let cached = drain(args, local, fields.clone(), threads, args.epochs)?;
            report.rows.push(cached.row(&group, format!("forebay {name}, cached"), &data));
            report.blocks.push(stages(&format!("{name}, {threads} threads, cached"), &cached.stats));
            if let (Some(path), Some(trace)) = (&args.trace, &cached.trace) {
                std::fs::write(path, trace).map_err(|e| Error::from_io(e, "the trace").with("file", path.display()))?;
            }
            if args.no_cold {
                continue;
            }
            for &latency_ms in &args.latency_ms {
                let server = Server::embedded(&shards, Serving { latency_ms, ..Serving::default() })?;
                let cache = tempfile::tempdir().map_err(|e| Error::from_io(e, "an empty cache"))?;
                let served = StreamConfig {
                    remote: Some(server.url.clone()),
                    local: Some(cache.path().to_owned()),
                    ..StreamConfig::default()
                };
                let cold = drain(args, served, fields.clone(), threads, 0)?;
                let name = match latency_ms {
                    0 => format!("{name}, cold"),
                    _ => format!("{name}, cold, latency of {latency_ms} ms"),
                };
                report.rows.push(cold.row(&group, format!("forebay {name}"), &data));
                report.blocks.push(stages(&format!("{name}, {threads} threads"), &cold.stats));
            }
        }
    }
    Ok(report)
}

/// Returns the kinds of fields that a data set allows, as the loader's JSON.
pub(super) fn fields(data: &DataSet, crop: u32) -> Vec<(&'static str, Value)> {
    if data.kind == SampleKind::Tokens {
        return vec![
            ("tokens as uint16", json!([["x", {"kind": "array", "column": "tokens"}]])),
            ("tokens as int64", json!([["x", {"kind": "tokens", "column": "tokens", "length": data.length}]])),
        ];
    }
    let ops = |normalise: bool| {
        let mut ops =
            vec![json!({"op": "random_resized_crop", "size": [crop, crop]}), json!({"op": "random_horizontal_flip"})];
        if normalise {
            ops.push(json!({"op": "normalize", "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}));
        }
        ops
    };
    let image = |dtype: &str, normalise: bool| {
        json!([["x", {"kind": "image", "column": "image", "ops": ops(normalise), "dtype": dtype, "layout": "NCHW"}],
               ["y", {"kind": "scalar", "column": "class"}]])
    };
    vec![
        ("crops as uint8", image("uint8", false)),
        ("crops as float32", image("float32", true)),
        ("undecoded bytes", json!([["x", {"kind": "bytes", "column": "image"}]])),
    ]
}

/// Epochs of one loader.
struct Outcome {
    /// First epoch, from the loader's constructor on.
    first: Drained,
    /// Later epochs.
    epochs: Vec<Drained>,
    stats: Snapshot,
    trace: Option<String>,
}

/// Makes a shuffled loader of one stream; `fields` is the loader's JSON.
pub(super) fn config(stream: StreamConfig, fields: &Value, batch: u32, threads: u32) -> Result<LoaderConfig> {
    let config = json!({
        "streams": [stream], "fields": fields, "batch_size": batch, "shuffle": true, "threads": threads,
    });
    LoaderConfig::from_json(&config.to_string())
}

fn drain(args: &PipelineArgs, stream: StreamConfig, fields: Value, threads: u32, epochs: u32) -> Result<Outcome> {
    let mut config = config(stream, &fields, args.batch, threads)?;
    config.engine.trace = args.trace.is_some();
    let (cpu, start) = (own_cpu_seconds(), Instant::now());
    let loader = Loader::new(config)?;
    let first = epoch(&loader, cpu, start)?;
    let epochs = (0..epochs).map(|_| epoch(&loader, own_cpu_seconds(), Instant::now())).collect::<Result<Vec<_>>>()?;
    Ok(Outcome { first, epochs, stats: loader.stats()?, trace: loader.trace_json()? })
}

/// Drains one epoch. `cpu` and `start` are the times of its beginning.
pub(super) fn epoch(loader: &Loader, cpu: f64, start: Instant) -> Result<Drained> {
    loader.start_epoch()?;
    let (mut rows, mut first_batch_s) = (0, f64::NAN);
    while let Next::Batch(batch) = loader.next()? {
        if rows == 0 {
            first_batch_s = start.elapsed().as_secs_f64();
        }
        rows += batch.rows as u64;
    }
    Ok(Drained { rows, seconds: start.elapsed().as_secs_f64(), cpu_seconds: own_cpu_seconds() - cpu, first_batch_s })
}

impl Outcome {
    fn row(&self, group: &str, name: String, data: &DataSet) -> Row {
        let measured = if self.epochs.is_empty() { std::slice::from_ref(&self.first) } else { &self.epochs };
        let sum = |f: fn(&Drained) -> f64| measured.iter().map(f).sum::<f64>();
        let (rows, seconds, cpu) = (sum(|d| d.rows as f64), sum(|d| d.seconds), sum(|d| d.cpu_seconds));
        let bytes = rows * data.bytes as f64 / data.samples.max(1) as f64;
        let values = BTreeMap::from([
            ("items_per_s", rows / seconds),
            ("items_per_cpu_s", rows / cpu),
            ("cpu_s_per_1000", cpu / rows * 1e3),
            ("mb_per_s", bytes / seconds / 1e6),
            ("first_batch_s", self.first.first_batch_s),
        ]);
        let values = values.into_iter().filter(|(_, v)| v.is_finite()).collect();
        let details = json!({ "stages": self.stats.stages.iter().map(|s| json!({
            "stage": s.name, "busy_s": s.busy.as_secs_f64(), "input_s": s.input.as_secs_f64(),
            "output_s": s.output.as_secs_f64(), "items": s.items, "bytes": s.bytes,
        })).collect::<Vec<_>>(), "counters": self.stats.counters.iter().map(|(n, v)| json!([n, v])).collect::<Vec<_>>(),
            "notes": self.stats.notes });
        Row { group: group.to_owned(), name, values, details, ..Row::default() }
    }
}

/// Returns the table of each stage's time, summed over its threads and all epochs.
fn stages(title: &str, stats: &Snapshot) -> String {
    let mut out = format!(
        "{title}\n{:<12}{:>10}{:>15}{:>16}{:>12}{:>12}\n",
        "stage", "busy s", "waits input s", "waits output s", "items", "MB"
    );
    for s in &stats.stages {
        let _ = writeln!(
            out,
            "{:<12}{:>10.2}{:>15.2}{:>16.2}{:>12}{:>12.1}",
            s.name,
            s.busy.as_secs_f64(),
            s.input.as_secs_f64(),
            s.output.as_secs_f64(),
            s.items,
            s.bytes as f64 / 1e6
        );
    }
    for note in &stats.notes {
        let _ = writeln!(out, "{note}");
    }
    out
}
