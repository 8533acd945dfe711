//! The embedded server as a separate process, so that its CPU time is not the client's.

use forebay_loader::{Error, Result};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Running server: this binary with `serve`. Dropping it closes its input, which ends it.
pub(super) struct Server {
    process: Child,
    /// URL of the folder.
    pub(super) url: String,
}

impl Server {
    /// Serves `root` on a free port.
    pub(super) fn start(root: &Path, threads: usize, tls: bool) -> Result<Self> {
        let failed = |e| Error::from_io(e, "the server cannot be started");
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.arg("serve").arg(root).args(["--until-eof", "--threads"]).arg(threads.to_string());
        if tls {
            command.arg("--tls");
        }
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(failed)?;
        let mut line = String::new();
        let output = process.stdout.take().expect("standard output is a pipe");
        let read = BufReader::new(output).read_line(&mut line);
        let server = Self { url: line.rsplit(' ').next().unwrap_or_default().trim().to_owned(), process };
        match read {
            Ok(_) if server.url.starts_with("http") => Ok(server),
            _ => Err(Error::internal("the server did not print its address")),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // The process ends with its input; an error leaves nothing to do here.
        let _ = self.process.wait();
    }
}
