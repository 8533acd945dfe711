//! Processes of a run, by the file of `Loader.save_run`.

use super::record::loaders;
use forebay_loader::monitor::{Job, Target, running};
use forebay_loader::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::path::Path;

/// File of a run: the process that wrote it, and its figures at that time.
#[derive(Debug)]
pub(super) struct RunFile {
    document: Value,
    name: String,
    pid: u32,
}

impl RunFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// `Config` for a file that is of no run, of a version that did not note its process, or of a different machine.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let document = crate::run_file::RunFile::read(file, &[])?.document().clone();
        let name = file.display().to_string();
        let wrong = |message: &str| Error::config(message).with("file", &name);
        let process = &document["process"];
        let (Some(pid), Some(host)) = (process["pid"].as_u64(), process["host"].as_str()) else {
            return Err(wrong("the file of the run names no process: it is of an earlier version"));
        };
        let here = rustix::system::uname().nodename().to_string_lossy().into_owned();
        if host != here {
            let message =
                format!("the run is on {host}, and this is {here}: run `forebay top` there, or pass HOST:PORT");
            return Err(wrong(&message));
        }
        let pid = u32::try_from(pid).map_err(|_| wrong("the number of the run's process is none"))?;
        Ok(Self { document, name, pid })
    }

    /// Returns the run's processes on this machine: the one that wrote the file, and those with further ranks of the
    /// same data. Empty if it has ended.
    ///
    /// # Errors
    ///
    /// As [`Target::job`], except for a process that has ended.
    pub(super) fn jobs(&self) -> Result<Vec<Job>> {
        let first = match Target::Process(self.pid).job() {
            Ok(job) => job,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(e),
        };
        let config = &self.document["config"];
        let of_file = [&config["world"]["world_size"], &config["batch_size"]];
        let is_of_file = |loader: &&Value| [&loader["world_size"], &loader["batch_size"]] == of_file;
        // A different program may have the number of a process that has ended.
        let Some(known) = loaders(&first).iter().find(is_of_file).cloned() else { return Ok(Vec::new()) };
        let keys = ["source", "world_size", "batch_size"];
        let is_of_run = |loader: &Value| keys.iter().all(|key| loader[*key] == known[*key]);
        let others = running().into_iter().filter(|pid| *pid != self.pid);
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
    pub(super) fn last(&self) -> Result<Vec<Job>> {
        let (config, mut figures) = (&self.document["config"], self.document["stats"].clone());
        if !figures["stages"].is_object() {
            return Err(Error::config("the file of the run has no figures").with("file", &self.name));
        }
        figures["rank"] = self.document["process"]["rank"].clone();
        figures["world_size"] = config["world"]["world_size"].clone();
        figures["batch_size"] = config["batch_size"].clone();
        let stream = &config["streams"][0];
        figures["source"] = if stream["remote"].is_string() { &stream["remote"] } else { &stream["local"] }.clone();
        let figures = json!({"pid": self.pid, "loaders": [figures]});
        Ok(vec![Job { target: Target::Process(self.pid), figures }])
    }
}
