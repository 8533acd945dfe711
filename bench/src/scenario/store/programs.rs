//! Foreign clients: curl, and the Python packages that read S3. They read the objects and discard them.

use super::work::Work;
use crate::scenario::s3_clients::{S3Clients, Took};
use forebay_loader::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Python clients, by the name of their function in `fetch.py`.
pub(super) const PYTHON_CLIENTS: [&str; 5] =
    ["s3torchconnector", "boto3", "s3fs", "multi-storage-client", "multi-storage-client, Rust"];

/// Script of the Python clients.
pub(super) const SCRIPT: (&str, &str) = ("fetch.py", include_str!("../../../scripts/store/fetch.py"));

/// Fetches every object with curl.
///
/// # Errors
///
/// [`ErrorKind::NotFound`] without curl on this machine.
pub(super) fn curl(work: &Work<'_>) -> Result<Took> {
    let mut curl = Command::new("curl");
    curl.args(["--no-progress-meter", "--fail", "--parallel", "--parallel-max"]).arg(work.at_a_time.to_string());
    curl.arg("--cacert").arg(work.ca);
    for object in work.objects {
        curl.args(["--output", "/dev/null"]).arg(format!("{}/{}", work.url, object.key));
    }
    let (cpu, start) = (waited_cpu_seconds(), Instant::now());
    let status = curl.stdin(Stdio::null()).status().map_err(|e| Error::from_io(e, "curl cannot be started"))?;
    if !status.success() {
        return Err(Error::new(ErrorKind::Network, format!("curl ended with {status}")));
    }
    Ok(Took { seconds: start.elapsed().as_secs_f64(), cpu_seconds: waited_cpu_seconds() - cpu })
}

/// Returns the CPU seconds of the children that this process has waited for.
fn waited_cpu_seconds() -> f64 {
    // User and system time of waited-for children are fields 16 and 17 of the whole line, 13 and 14 after the name.
    const TICKS_PER_S: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    fields.skip(13).take(2).filter_map(|f| f.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_S
}

/// Fetches every object of the bucket with `client`, `rounds` times. Returns its best round and its versions.
pub(super) fn python(clients: &S3Clients<'_>, client: &str, work: &Work<'_>, rounds: usize) -> Result<(Took, Value)> {
    let keys: Vec<&str> = work.objects.iter().map(|object| object.key.as_str()).collect();
    let bytes: u64 = work.objects.iter().map(|object| object.bytes).sum();
    clients.measure(client, &work.url, (rounds, bytes), json!({ "keys": keys, "objects": work.at_a_time }))
}
