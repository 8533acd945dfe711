//! Fetching shards over HTTP and HTTPS from the embedded server: the engine's store compared with curl.
//!
//! The server is a separate process, so that its CPU time is not the client's. Both clients fetch every object of the
//! folder, several at a time. The store writes into reused memory, curl discards the bytes.

use super::served::Server;
use crate::machine::own_cpu_seconds;
use crate::report::{Better, Column, Report, Row, Skipped};
use crate::synth::{files_below, read_through};
use clap::Args;
use forebay_loader::clock::Clock;
use forebay_loader::stats::Stats;
use forebay_loader::store::{FetchBuffer, FetchRequest, StoreConfig, Stores};
use forebay_loader::{Error, ErrorKind, Result};
use forebay_tests::server::TEST_CA;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

/// Arguments of `store`.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// Folder of objects, such as a data set's mds
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Objects in flight
    #[arg(long, default_value_t = 4)]
    objects: usize,
    /// Fetch threads of the store
    #[arg(long, default_value_t = 1)]
    fetch_threads: usize,
    /// Threads of the server
    #[arg(long, default_value_t = 1)]
    server_threads: usize,
    /// Rounds; the best one counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// Transfer of all objects.
#[derive(Clone, Copy)]
struct Took {
    seconds: f64,
    cpu_seconds: f64,
}

/// Measures both clients with and without TLS.
pub(crate) fn run(args: &StoreArgs) -> Result<Report> {
    let objects = objects(&args.data)?;
    let bytes: u64 = objects.iter().map(|o| o.1).sum();
    read_through(&args.data)?;
    let folder = tempfile::tempdir().map_err(|e| Error::from_io(e, "a folder for the certificate"))?;
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, TEST_CA).map_err(|e| Error::from_io(e, "the certificate"))?;
    let title = format!(
        "{} objects of {:.0} MB together from loopback, {} at a time, {} fetch threads",
        objects.len(),
        bytes as f64 / 1e6,
        args.objects,
        args.fetch_threads
    );
    let columns = vec![
        Column::new("gib_per_s", "GiB/s", 2, Better::Higher).plotted(),
        Column::new("gib_per_cpu_s", "GiB per client CPU s", 2, Better::Higher).plotted(),
        Column::new("cpus", "client CPUs busy", 2, Better::Neither),
    ];
    let mut report = Report::new("store", title, columns);
    report.baseline = Some("curl".to_owned());
    for (group, tls) in [("http", false), ("https", true)] {
        let server = Server::start(&args.data, args.server_threads, tls)?;
        let mut best: BTreeMap<&str, Took> = BTreeMap::new();
        for _ in 0..args.rounds.max(1) {
            let mut keep = |name, took: Took| {
                let best = best.entry(name).or_insert(took);
                if took.seconds < best.seconds {
                    *best = took;
                }
            };
            keep("forebay", with_store(args, &server.url, &objects, &ca)?);
            match with_curl(args, &server.url, &objects, &ca) {
                Ok(took) => keep("curl", took),
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    report.skipped.retain(|s: &Skipped| s.name != "curl");
                    report.skipped.push(Skipped { name: "curl".to_owned(), reason: e.to_string() });
                }
                Err(e) => return Err(e),
            }
        }
        for (name, took) in best {
            let gib = bytes as f64 / f64::from(1 << 30);
            let mut values =
                BTreeMap::from([("gib_per_s", gib / took.seconds), ("cpus", took.cpu_seconds / took.seconds)]);
            if took.cpu_seconds > 0.0 {
                values.insert("gib_per_cpu_s", gib / took.cpu_seconds);
            }
            report.rows.push(Row { group: group.to_owned(), name: name.to_owned(), values, ..Row::default() });
        }
    }
    Ok(report)
}

/// Returns the keys relative to the folder, and the lengths.
fn objects(folder: &Path) -> Result<Vec<(String, u64)>> {
    let mut objects = Vec::new();
    for path in files_below(folder)? {
        let key = path.strip_prefix(folder).ok().and_then(Path::to_str);
        let key = key.ok_or_else(|| Error::config("a name that is no text").with("path", path.display()))?;
        let len = path.metadata().map_err(|e| Error::from_io(e, "an object's length"))?.len();
        objects.push((key.to_owned(), len));
    }
    Ok(objects)
}

fn with_store(args: &StoreArgs, url: &str, objects: &[(String, u64)], ca: &Path) -> Result<Took> {
    let config =
        StoreConfig { fetch_threads: args.fetch_threads, ca_file: Some(ca.to_owned()), ..StoreConfig::default() };
    let stores = Stores::new(config, &Arc::new(Stats::default()), Clock::system())?;
    let remote = stores.open(url)?;
    // The first access to new memory costs more than the transfer, and the cache reuses its buffers as well.
    let longest = objects.iter().map(|o| o.1).max().unwrap_or(0) as usize;
    let mut spare: Vec<FetchBuffer> = (0..args.objects.max(1)).map(|_| touched(longest)).collect();
    let (cpu, start) = (own_cpu_seconds(), Instant::now());
    let mut on_the_way = VecDeque::new();
    for (key, len) in objects {
        if spare.is_empty() {
            let ticket: forebay_loader::store::FetchTicket = on_the_way.pop_front().expect("every buffer is with one");
            spare.push(ticket.wait()?);
        }
        let mut into = spare.pop().expect("just released");
        into.resize(*len as usize, 0);
        on_the_way.push_back(remote.fetch(FetchRequest { into, ..FetchRequest::new(key.clone(), 0) })?);
    }
    for ticket in on_the_way {
        ticket.wait()?;
    }
    Ok(Took { seconds: start.elapsed().as_secs_f64(), cpu_seconds: own_cpu_seconds() - cpu })
}

fn touched(len: usize) -> FetchBuffer {
    let mut buffer = FetchBuffer::new();
    buffer.resize(len, 0);
    buffer
}

fn with_curl(args: &StoreArgs, url: &str, objects: &[(String, u64)], ca: &Path) -> Result<Took> {
    let mut curl = Command::new("curl");
    curl.args(["--no-progress-meter", "--fail", "--parallel", "--parallel-max"]).arg(args.objects.to_string());
    curl.arg("--cacert").arg(ca);
    for (key, _) in objects {
        curl.args(["--output", "/dev/null"]).arg(format!("{}/{key}", url.trim_end_matches('/')));
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
