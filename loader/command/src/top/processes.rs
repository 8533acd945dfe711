//! Processes of a run, by the file of `Loader.save_run`.

use super::record::loaders;
use crate::run_file::RunFile;
use forebay_loader::monitor::{Job, Target, running};
use forebay_loader::{Error, ErrorKind, Result};
use serde_json::{Value, json};

/// Returns the run's processes on this machine: the one that wrote the file, and those with further ranks of the
/// same data. Empty if it has ended.
///
/// # Errors
///
/// As [`Target::job`], except for a process that has ended.
pub(super) fn jobs(run: &RunFile) -> Result<Vec<Job>> {
    let process = run.process()?;
    let first = match Target::Process(process).job() {
        Ok(job) => job,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let config = &run.document()["config"];
    let of_file = [&config["world"]["world_size"], &config["batch_size"]];
    let is_of_file = |loader: &&Value| [&loader["world_size"], &loader["batch_size"]] == of_file;
    // A different program may have the number of a process that has ended.
    let Some(known) = loaders(&first).iter().find(is_of_file).cloned() else { return Ok(Vec::new()) };
    let keys = ["source", "world_size", "batch_size"];
    let is_of_run = |loader: &Value| keys.iter().all(|key| loader[*key] == known[*key]);
    let others = running().into_iter().filter(|pid| *pid != process);
    // One that ends meanwhile is none of its processes.
    let others = others.filter_map(|pid| Target::Process(pid).job().ok());
    let mut jobs: Vec<Job> = others.filter(|job| loaders(job).iter().any(is_of_run)).collect();
    jobs.push(first);
    Ok(jobs)
}

/// Returns the figures in the file.
///
/// # Errors
///
/// `Config` for a file without figures.
pub(super) fn last(run: &RunFile) -> Result<Vec<Job>> {
    let (process, document) = (run.process()?, run.document());
    let (config, mut figures) = (&document["config"], document["stats"].clone());
    if !figures["stages"].is_object() {
        return Err(Error::config("the file of the run has no figures").with("file", run.name()));
    }
    figures["rank"] = document["process"]["rank"].clone();
    figures["world_size"] = config["world"]["world_size"].clone();
    figures["batch_size"] = config["batch_size"].clone();
    let stream = &config["streams"][0];
    figures["source"] = if stream["remote"].is_string() { &stream["remote"] } else { &stream["local"] }.clone();
    let figures = json!({"pid": process, "loaders": [figures]});
    Ok(vec![Job { target: Target::Process(process), figures }])
}
