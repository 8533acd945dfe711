//! The engine from one thread to many, with its limits at each step and the nearest of them.
//!
//! Samples are in the page cache. At each number of threads, epochs of the engine and its limits take turns, and the
//! best round of each counts. The limits, all in samples/s:
//!
//! * *decode threads*: the rate if they were busy all the time, from the engine's counters;
//! * *CPUs*: the rate if all CPUs of the process worked, at the engine's CPU time per sample;
//! * *memory*: the same number of threads copies the bytes of samples and rows, from shards in memory to batches;
//! * *page cache*: the same number of threads reads every sample with one pread;
//! * *Python*: one thread that iterates over `forebay.Loader`, from its CPU time (`--python`).
//!
//! The first two follow from the run itself and show its limit. The rest are measured separately.

use super::pipeline::{Drained, config, epoch, fields};
use super::samples::{SamplePosition, SampleTable};
use super::tokens::timed;
use crate::machine::{cpus_allowed, own_cpu_seconds};
use crate::python::{Scripts, answer};
use crate::report::{Better, Column, Report, Row, Skipped};
use crate::synth::{DataSet, SampleKind, read_through};
use clap::Args;
use forebay_loader::config::StreamConfig;
use forebay_loader::loader::Loader;
use forebay_loader::{Error, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const SCRIPT: &str = "consumer.py";
const SCRIPTS: &[(&str, &str)] = &[
    (SCRIPT, include_str!("../../scripts/scaling/consumer.py")),
    ("peer_forebay.py", include_str!("../../scripts/peers/peer_forebay.py")),
];

/// Columns of the limits: key and name.
const LIMITS: [(&str, &str); 5] = [
    ("limit_decode_threads_per_s", "decode threads"),
    ("limit_cpus_per_s", "CPUs"),
    ("limit_memory_per_s", "memory"),
    ("limit_page_cache_per_s", "page cache"),
    ("limit_python_per_s", "Python"),
];

/// Arguments of `scaling`.
#[derive(Debug, Args)]
pub(crate) struct ScalingArgs {
    /// Data set made by `forebay-bench synth`, with the form mds; it must fit into memory twice
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Maximum number of threads [default: all CPUs of this process]
    #[arg(long, value_name = "N")]
    threads: Option<u32>,
    /// Samples per batch
    #[arg(long, default_value_t = 64)]
    batch: u32,
    /// Side of the square crop, pixels
    #[arg(long, default_value_t = 224)]
    crop: u32,
    /// Rounds at every number of threads, after one for warming up; the best one counts
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Interpreter with forebay and torch, for the limit of its consumer
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
}

/// Way of reading the data set.
struct Work {
    /// Name in the table.
    name: &'static str,
    fields: Value,
    /// Name in `peer_forebay.py`.
    python: &'static str,
    /// Bytes of a row that differs from the stored bytes.
    pixel_bytes: usize,
}

/// Best results of one number of threads.
struct Step {
    engine: Drained,
    /// Busy seconds of decode threads per sample.
    busy_s: f64,
    memory_s: f64,
    page_cache_s: f64,
}

/// Measures every way of reading the data set, from one thread to the maximum.
pub(crate) fn run(args: &ScalingArgs) -> Result<Report> {
    let data = DataSet::open(&args.data)?;
    let folder = data.form("mds");
    read_through(&folder)?;
    let samples = SampleTable::open(&folder, args.batch.max(1) as usize)?;
    let cpus = cpus_allowed().len();
    let most = args.threads.unwrap_or(cpus as u32).max(1);

    let mut columns = vec![
        Column::new("samples_per_s", "samples/s", 0, Better::Higher).plotted(),
        Column::new("efficiency_percent", "% of n x 1", 0, Better::Higher).plotted(),
    ];
    columns.extend(LIMITS.map(|(key, name)| Column::new(key, name, 0, Better::Higher)));
    let title = format!(
        "{} {} in batches of {} from the page cache, on 1 to {most} decode threads and {cpus} CPUs; limits in \
         samples/s",
        data.samples,
        data.kind.name(),
        args.batch
    );
    let mut report = Report::new("scaling", title, columns);
    report.is_listed = true;
    // Undecoded bytes are ten times as fast as crops.
    report.is_scaled_by_group = true;
    for work in works(&data, args.crop) {
        let python = consumer(&mut report, args, &folder, &work);
        let mut alone = None;
        for threads in steps(most) {
            let step = climb(args, &folder, &work, &samples, threads)?;
            let count = samples.order.len() as f64;
            let (rate, cpu_s) = (step.engine.rows as f64 / step.engine.seconds, step.engine.cpu_seconds / count);
            let alone = *alone.get_or_insert(rate);
            let limits = [
                Some(f64::from(threads) / step.busy_s),
                Some(cpus as f64 / cpu_s),
                Some(count / step.memory_s),
                Some(count / step.page_cache_s),
                python,
            ];
            let limits = LIMITS.iter().zip(limits).filter_map(|((key, name), limit)| Some((*key, *name, limit?)));
            let limits: Vec<_> = limits.filter(|(_, _, limit)| limit.is_finite()).collect();
            let mut values: BTreeMap<_, _> = limits.iter().map(|(key, _, limit)| (*key, *limit)).collect();
            values.insert("samples_per_s", rate);
            values.insert("efficiency_percent", 100.0 * rate / (alone * f64::from(threads)));
            let nearest = limits.iter().min_by(|a, b| a.2.total_cmp(&b.2));
            let remark = nearest.map_or_else(String::new, |(_, name, limit)| {
                format!("{:.0} % of {name}, the nearest limit", 100.0 * rate / limit)
            });
            let name = format!("{threads} thread{}", if threads == 1 { "" } else { "s" });
            let details = json!({ "threads": threads, "nearest_limit": nearest.map(|(key, ..)| key) });
            report.rows.push(Row { group: work.name.to_owned(), name, values, remark, details });
        }
    }
    if args.python.is_none() {
        report.notes.push("the limit of a Python consumer is measured with --python".to_owned());
    }
    Ok(report)
}

fn works(data: &DataSet, crop: u32) -> Vec<Work> {
    let pixel_bytes = crop as usize * crop as usize * 3;
    let work = |(name, fields): (&'static str, Value)| match (data.kind, name) {
        (SampleKind::Tokens, "tokens as uint16") => Some(Work { name, fields, python: "tokens", pixel_bytes: 0 }),
        (SampleKind::Images, "crops as uint8") => Some(Work { name, fields, python: "images", pixel_bytes }),
        (SampleKind::Images, "undecoded bytes") => Some(Work { name, fields, python: "bytes", pixel_bytes: 0 }),
        _ => None,
    };
    fields(data, crop).into_iter().filter_map(work).collect()
}

/// Returns 1, 2, 3, 4, 6, 8, 12, 16 and so on up to the maximum, which is included.
fn steps(most: u32) -> Vec<u32> {
    let is_step = |n: u32| n == most || n.is_power_of_two() || (n.is_multiple_of(3) && (n / 3).is_power_of_two());
    (1..=most).filter(|n| is_step(*n)).collect()
}

fn climb(args: &ScalingArgs, folder: &Path, work: &Work, samples: &SampleTable, threads: u32) -> Result<Step> {
    let stream = StreamConfig { local: Some(folder.to_owned()), ..StreamConfig::default() };
    let loader = Loader::new(config(stream, &work.fields, args.batch, threads)?)?;
    let drain = || epoch(&loader, own_cpu_seconds(), Instant::now());
    let (threads, row_bytes) = (threads as usize, samples.bytes_max() + work.pixel_bytes);
    let copy = |place: SamplePosition, row: &mut [u8], _: &mut [u8]| {
        let (stored, pixels) = row.split_at_mut(place.bytes);
        stored.copy_from_slice(samples.in_memory(place));
        let from = samples.around(place, work.pixel_bytes);
        pixels[..from.len()].copy_from_slice(from);
        Ok(())
    };
    let read = |place: SamplePosition, row: &mut [u8], _: &mut [u8]| samples.read(place, row);
    let mut step = Step { engine: drain()?, busy_s: f64::NAN, memory_s: f64::INFINITY, page_cache_s: f64::INFINITY };
    if step.engine.rows != samples.order.len() as u64 {
        return Err(Error::internal("the engine brings a wrong number of samples").with("samples", step.engine.rows));
    }
    step.engine.seconds = f64::INFINITY;
    for _ in 0..args.rounds.max(1) {
        let drained = drain()?;
        if drained.seconds < step.engine.seconds {
            step.engine = drained;
        }
        step.memory_s = step.memory_s.min(timed(|| samples.bring(threads, row_bytes, copy))?.seconds);
        step.page_cache_s = step.page_cache_s.min(timed(|| samples.bring(threads, row_bytes, read))?.seconds);
    }
    let stats = loader.stats()?;
    // Decode threads read samples in the page cache themselves.
    let stages = || stats.stages.iter().filter(|stage| matches!(stage.name, "read" | "decode"));
    let busy_s: f64 = stages().map(|stage| stage.busy.as_secs_f64()).sum();
    step.busy_s = busy_s / stages().map(|stage| stage.items).max().unwrap_or(0) as f64;
    Ok(step)
}

/// Returns the samples/s of a Python thread that never waits.
fn consumer(report: &mut Report, args: &ScalingArgs, folder: &Path, work: &Work) -> Option<f64> {
    let python = args.python.as_ref()?;
    let config = json!({
        "kind": work.python, "source": "mds", "mds": folder, "batch": args.batch, "crop": args.crop,
        "workers": cpus_allowed().len(), "rounds": args.rounds.max(1),
    });
    let found = Scripts::unpack(SCRIPTS)
        .and_then(|scripts| answer(Command::new(python).arg(scripts.path(SCRIPT)).arg(config.to_string())));
    match found {
        Ok(found) => {
            report.add_versions(&found);
            Some(found["items"].as_f64()? / found["cpu_s"].as_f64()?)
        }
        Err(error) => {
            report.skipped.push(Skipped { name: format!("Python, {}", work.name), reason: error.to_string() });
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_go_from_one_thread_to_the_most() {
        assert_eq!(steps(1), [1]);
        assert_eq!(steps(2), [1, 2]);
        assert_eq!(steps(13), [1, 2, 3, 4, 6, 8, 12, 13]);
    }
}
