//! The embedded server as a process of its own, for scenarios whose client must not pay for it.

use forebay_loader::{Error, Result};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// This binary, serving; ends with its input when dropped.
pub(super) struct Server {
    process: Child,
    /// Where the folder is.
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
            _ => Err(Error::internal("the server did not say where it listens")),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // It ends with its input; if not, there is nothing more to do here.
        let _ = self.process.wait();
    }
}
