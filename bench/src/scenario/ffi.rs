//! The consumer's cost of a finished batch: the Rust call, the C interface and Python.
//!
//! Every program gets the same batches of tokens. An epoch is prefetched completely before its time is taken, so that
//! nothing else is measured than taking a batch, finding its tensor and releasing it. The C program is compiled here
//! and linked with the library that `cargo build -p forebay-ffi` puts next to this binary.

use crate::python::{Scripts, answer};
use crate::report::{Better, Column, Report, Row, Skipped, median};
use crate::synth::{DataSet, SampleKind, read_through};
use clap::Args;
use forebay_loader::batch::Output;
use forebay_loader::config::LoaderConfig;
use forebay_loader::loader::{Loader, Next};
use forebay_loader::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const SCRIPTS: &[(&str, &str)] = &[
    ("forebay.h", include_str!("../../../ffi/include/forebay.h")),
    ("next.c", include_str!("../../scripts/ffi/next.c")),
    ("next.py", include_str!("../../scripts/ffi/next.py")),
];

const RUST: &str = "Rust";

/// Arguments of `ffi`.
#[derive(Debug, Args)]
pub(crate) struct FfiArgs {
    /// Tokens made by `forebay-bench synth --kind tokens`, with the form mds
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Folder of libforebay.so [default: the folder of this program]
    #[arg(long, value_name = "DIR")]
    library: Option<PathBuf>,
    /// Interpreter with forebay
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: PathBuf,
    /// Samples per batch
    #[arg(long, default_value_t = 1)]
    batch: u64,
    /// Batches of an epoch
    #[arg(long, default_value_t = 1_000)]
    batches: u64,
    /// Epochs of every program
    #[arg(long, default_value_t = 20)]
    rounds: u64,
}

/// Nanoseconds per batch in each round, by the way of taking batches.
type Times = BTreeMap<String, Vec<f64>>;

/// Measures every program.
pub(crate) fn run(args: &FfiArgs) -> Result<Report> {
    let data = DataSet::open(&args.data)?;
    if data.kind != SampleKind::Tokens {
        return Err(Error::config("the data set does not hold tokens; make one with synth --kind tokens"));
    }
    if args.batch * args.batches > data.samples {
        return Err(Error::config("an epoch has more samples than the data set: lower --batch or --batches")
            .with("samples", data.samples));
    }
    let folder = data.form("mds");
    read_through(&folder)?;
    let folder =
        std::fs::canonicalize(&folder).map_err(|e| Error::from_io(e, "the data set's folder cannot be found"))?;
    let scripts = Scripts::unpack(SCRIPTS)?;
    let common = json!({
        "batch_size": args.batch, "shuffle": true, "order": {"epoch_size": args.batch * args.batches},
        "engine": {"prefetch": args.batches, "memory": "1gb"},
    });
    let merged = |further: Value| {
        let (mut all, further) = (common.clone(), further);
        if let (Some(all), Value::Object(further)) = (all.as_object_mut(), further) {
            all.extend(further);
        }
        all
    };
    let tokens = json!({"kind": "tokens", "column": "tokens", "length": data.length, "dtype": "uint16"});
    let config = merged(json!({"streams": [{"local": &folder}], "fields": [["x", tokens]]})).to_string();

    let columns = vec![
        Column::new("median_ns_per_batch", "ns per batch, median", 0, Better::Lower).plotted(),
        Column::new("best_ns_per_batch", "ns per batch, best", 0, Better::Lower),
    ];
    let title = format!("finished batches of {} x {} uint16, {} per round", args.batch, data.length, args.batches);
    let mut report = Report::new("ffi", title, columns);
    report.baseline = Some(RUST.to_owned());

    let (times, sum) = in_rust(&config, args)?;
    add(&mut report, "", times);
    match in_c(&scripts, &config, args) {
        Ok(of_c) if of_c["sum"] != json!(sum) => {
            return Err(Error::internal("two programs get different batches").with("program", "C"));
        }
        Ok(of_c) => add(&mut report, "C, ", times_of(&of_c)?),
        Err(error) => report.skipped.push(Skipped { name: "C".to_owned(), reason: error.to_string() }),
    }
    let arguments = merged(json!({"local": &folder, "length": data.length})).to_string();
    match answer(Command::new(&args.python).arg(scripts.path("next.py")).args(arguments_of(&arguments, args))) {
        Ok(of_python) => {
            add(&mut report, "Python, ", times_of(&of_python)?);
            let versions = of_python["versions"].as_object().into_iter().flatten();
            report
                .versions
                .extend(versions.map(|(name, version)| (name.clone(), version.as_str().unwrap_or("").into())));
        }
        Err(error) => report.skipped.push(Skipped { name: "Python".to_owned(), reason: error.to_string() }),
    }
    Ok(report)
}

fn arguments_of(config: &str, args: &FfiArgs) -> [String; 3] {
    [config.to_owned(), args.rounds.to_string(), args.batches.to_string()]
}

fn add(report: &mut Report, program: &str, times: Times) {
    for (way, times) in times {
        let best = times.iter().copied().fold(f64::INFINITY, f64::min);
        let values = BTreeMap::from([("median_ns_per_batch", median(times)), ("best_ns_per_batch", best)]);
        let row = Row { group: "a batch".to_owned(), name: format!("{program}{way}"), values, ..Row::default() };
        report.rows.push(row);
    }
}

/// Reads the times that a child has printed.
fn times_of(printed: &Value) -> Result<Times> {
    let times = serde_json::from_value(printed["ns"].clone());
    times.map_err(|e| Error::format("a program printed no times").caused_by(e))
}

/// Takes all batches in this process. Returns the sum of their first bytes as well.
fn in_rust(config: &str, args: &FfiArgs) -> Result<(Times, u64)> {
    let loader = Loader::new(LoaderConfig::from_json(config)?)?;
    let (mut times, mut sum) = (Vec::new(), 0);
    for round in 1..=args.rounds {
        loader.start_epoch()?;
        wait_for(&loader, round * args.batches)?;
        let start = Instant::now();
        for _ in 0..args.batches {
            let Next::Batch(batch) = loader.next()? else {
                return Err(Error::internal("an epoch ended early"));
            };
            match batch.get("x") {
                Some(Output::Tensor(tensor)) => sum += tensor.host().map_or(0, |bytes| u64::from(bytes[0])),
                _ => return Err(Error::internal("a batch without tokens")),
            }
        }
        times.push(start.elapsed().as_nanos() as f64 / args.batches as f64);
    }
    Ok((Times::from([(RUST.to_owned(), times)]), sum))
}

/// Waits until `batches` batches are finished in total.
fn wait_for(loader: &Loader, batches: u64) -> Result<()> {
    let finished = |stats: forebay_loader::stats::Snapshot| {
        stats.stages.iter().find(|stage| stage.name == "place").map_or(0, |stage| stage.items)
    };
    while finished(loader.stats()?) < batches {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Compiles and runs the program in C.
fn in_c(scripts: &Scripts, config: &str, args: &FfiArgs) -> Result<Value> {
    let own = || std::env::current_exe().ok()?.parent().map(Path::to_owned);
    let library = args.library.clone().or_else(own).unwrap_or_default();
    if !library.join("libforebay.so").exists() {
        let message =
            "there is no libforebay.so: run `cargo build --release -p forebay-ffi`, or name its folder with --library";
        return Err(Error::new(ErrorKind::NotFound, message).with("folder", library.display()));
    }
    let program = scripts.path("next");
    let mut compile = Command::new("cc");
    compile.args(["-std=gnu11", "-O2", "-o"]).arg(&program).arg(scripts.path("next.c"));
    compile.arg("-L").arg(&library).arg("-lforebay").arg(format!("-Wl,-rpath,{}", library.display()));
    let compiled = compile.output().map_err(|e| Error::from_io(e, "there is no C compiler"))?;
    if !compiled.status.success() {
        let why = String::from_utf8_lossy(&compiled.stderr).into_owned();
        return Err(Error::new(ErrorKind::Unsupported, format!("the C program cannot be compiled: {why}")));
    }
    // Cargo's search path may contain an older build.
    answer(Command::new(&program).args(arguments_of(config, args)).env_remove("LD_LIBRARY_PATH"))
}
