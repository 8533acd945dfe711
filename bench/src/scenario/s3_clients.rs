//! Python's readers of S3. Each runs its rounds in a separate process, by an embedded script.

use super::served::BUCKET;
use crate::python::{Scripts, answer};
use clap::Args;
use forebay_loader::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Keys of the clients that sign. No server of the bench checks them.
pub(super) const ACCESS_KEY: &str = "AKIAIOSFODNN7EXAMPLE";
pub(super) const SECRET_KEY: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

/// Arguments of scenarios that measure such clients at the embedded server.
#[derive(Debug, Args)]
pub(super) struct ClientArgs {
    /// Threads of the server
    #[arg(long, default_value_t = 1)]
    pub(super) server_threads: usize,
    /// Rounds; the best one counts
    #[arg(long, default_value_t = 3)]
    pub(super) rounds: usize,
    /// Interpreter with forebay, torch and all clients
    #[arg(long, value_name = "PATH", default_value = "python3")]
    pub(super) python: PathBuf,
}

/// Cost of a round.
#[derive(Clone, Copy)]
pub(super) struct Took {
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
}

/// Script with several clients, and the interpreter that has them.
pub(super) struct S3Clients<'a> {
    scripts: Scripts,
    script: &'static str,
    interpreter: &'a Path,
}

impl<'a> S3Clients<'a> {
    /// Unpacks `script`, a name and its text.
    pub(super) fn new(script: (&'static str, &'static str), interpreter: &'a Path) -> Result<Self> {
        let rounds = ("rounds.py", include_str!("../../scripts/store/rounds.py"));
        Ok(Self { scripts: Scripts::unpack(&[script, rounds])?, script: script.0, interpreter })
    }

    /// Runs `client` against the server at `url`, `rounds` times, with the script's own `settings`. Each round must
    /// result in `expected`. Returns the best round and the versions.
    pub(super) fn measure(
        &self,
        client: &str,
        url: &str,
        (rounds, expected): (usize, u64),
        mut settings: Value,
    ) -> Result<(Took, Value)> {
        settings["endpoint"] = json!(url);
        settings["bucket"] = json!(BUCKET);
        settings["rounds"] = json!(rounds);
        settings["expected"] = json!(expected);
        let mut command = Command::new(self.interpreter);
        command.arg(self.scripts.path(self.script)).arg(client).arg(settings.to_string());
        command.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
        command.env("AWS_DEFAULT_REGION", "us-east-1").env("AWS_EC2_METADATA_DISABLED", "true");
        let printed = answer(&mut command)?;
        match (printed["seconds"].as_f64(), printed["cpu_seconds"].as_f64()) {
            (Some(seconds), Some(cpu_seconds)) => Ok((Took { seconds, cpu_seconds }, printed)),
            _ => Err(Error::new(ErrorKind::Unsupported, "printed no times")),
        }
    }
}
