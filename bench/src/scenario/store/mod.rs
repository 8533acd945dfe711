//! Fetching shards over HTTP, HTTPS and S3: the engine's store, the limit of its HTTP library, and rival clients.
//!
//! The server is a separate process, so that its CPU time is not the client's: nginx, or the embedded server if nginx
//! is not installed. Every client fetches every object of the folder, several at a time, the store into memory that it
//! reuses.
//!
//! * [`work`] — the objects;
//! * [`engine`] — the engine's store;
//! * [`bare`] — hyper with nothing around it;
//! * [`programs`] — curl, and Python packages that read S3.

mod bare;
mod engine;
mod programs;
mod work;

use self::engine::Engine;
use self::programs::{PYTHON_CLIENTS, SCRIPT};
use self::work::{Object, Work};
use super::s3_clients::{S3Clients, Took};
use super::served::{Server, Serving};
use crate::report::{Better, Column, Report, Row};
use crate::synth::read_through;
use clap::{Args, ValueEnum};
use forebay_loader::store::StoreConfig;
use forebay_loader::{Error, ErrorKind, Result};
use forebay_tests::server::TEST_CA;
use std::collections::BTreeMap;
use std::path::PathBuf;

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
    /// Server [default: nginx if it is installed]
    #[arg(long, value_enum)]
    server: Option<ServerKind>,
    /// Rounds; the best one counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Delays of every answer of the embedded server, to measure in addition, in a run without a pause
    #[arg(long, value_name = "MS,...", value_delimiter = ',')]
    latency_ms: Vec<u64>,
    /// Bytes per second of that server, as over a link with this limit [default: as many as it can]
    #[arg(long, value_name = "BYTES")]
    link_bytes_per_s: Option<u64>,
    /// Times that such a run fetches all objects, besides a first and a last time that do not count
    #[arg(long, default_value_t = 3)]
    passes: usize,
    /// Interpreter with s3torchconnector, boto3, s3fs and multi-storage-client
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: PathBuf,
}

/// Server of the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ServerKind {
    /// nginx of this machine
    Nginx,
    /// The embedded server
    Embedded,
}

/// Measures all clients with and without TLS, as S3, and with each latency.
pub(crate) fn run(args: &StoreArgs) -> Result<Report> {
    let objects = Object::all(&args.data)?;
    let bytes: u64 = objects.iter().map(|o| o.bytes).sum();
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
        Column::new("cpu_s_per_gib", "client CPU s per GiB", 2, Better::Lower),
        Column::new("cpus", "client CPUs busy", 2, Better::Neither),
    ];
    let mut report = Report::new("store", title, columns);
    report.baseline = Some("curl".to_owned());
    let python = S3Clients::new(SCRIPT, &args.python)?;
    let (at_a_time, fetch_threads) = (args.objects.max(1), args.fetch_threads);
    let work = |server: &Server| Work { url: server.url.clone(), objects: &objects, ca: &ca, at_a_time, fetch_threads };
    for (name, tls) in [("http", false), ("https", true)] {
        let serving = Serving { threads: args.server_threads, tls, ..Serving::default() };
        let (server, kind) = start(args, serving)?;
        let work = work(&server);
        let mut group = Group { report: &mut report, name: format!("{name}, {kind}"), bytes };
        let mut engine = Engine::open(&work, false)?;
        group.add(
            args.rounds,
            &mut [
                ("forebay", &mut || engine.fetch(&objects)),
                ("bare hyper", &mut || bare::fetch(&work, StoreConfig::default().parts_in_flight)),
                ("curl", &mut || programs::curl(&work)),
            ],
        )?;
        if !tls {
            group.name = format!("s3, {kind}");
            let mut engine = Engine::open(&work, true)?;
            group.add(args.rounds, &mut [("forebay", &mut || engine.fetch(&objects))])?;
            for client in PYTHON_CLIENTS {
                group.add_python(args.rounds.max(1), &python, client, &work);
            }
        }
    }
    for latency_ms in &args.latency_ms {
        let (threads, bytes_per_s) = (args.server_threads, args.link_bytes_per_s);
        let serving = Serving { threads, latency_ms: *latency_ms, bytes_per_s, ..Serving::default() };
        let server = Server::embedded(&args.data, serving)?;
        let work = work(&server);
        let (mut engine, mut endless) = (Engine::open(&work, false)?, Engine::open(&work, false)?);
        let mut group = Group { report: &mut report, name: format!("latency of {latency_ms} ms"), bytes };
        group.add(
            args.rounds,
            &mut [
                ("forebay", &mut || engine.fetch(&objects)),
                ("forebay, without ends", &mut || endless.fetch_without_ends(&objects, args.passes.max(1))),
                ("bare hyper", &mut || bare::fetch(&work, StoreConfig::default().parts_in_flight_max)),
                ("curl", &mut || programs::curl(&work)),
            ],
        )?;
    }
    Ok(report)
}

/// Starts the server that `args` select. Returns its name as well.
fn start(args: &StoreArgs, serving: Serving) -> Result<(Server, &'static str)> {
    let embedded = || Ok((Server::embedded(&args.data, serving)?, "embedded server"));
    if args.server == Some(ServerKind::Embedded) {
        return embedded();
    }
    match Server::nginx(&args.data, serving) {
        Err(e) if e.kind() == ErrorKind::NotFound && args.server.is_none() => embedded(),
        server => Ok((server?, "nginx")),
    }
}

/// Clients that fetch the same objects from the same server.
struct Group<'a> {
    report: &'a mut Report,
    name: String,
    bytes: u64,
}

/// Client with its name.
type Client<'a> = (&'static str, &'a mut dyn FnMut() -> Result<Took>);

impl Group<'_> {
    /// Measures clients in turn, and adds the best round of each. A program that is not installed is skipped.
    fn add(&mut self, rounds: usize, clients: &mut [Client<'_>]) -> Result<()> {
        let mut best: BTreeMap<&str, Took> = BTreeMap::new();
        for _ in 0..rounds.max(1) {
            for (name, fetch) in &mut *clients {
                match fetch() {
                    Ok(took) => {
                        let best = best.entry(*name).or_insert(took);
                        if took.seconds < best.seconds {
                            *best = took;
                        }
                    }
                    Err(e) if e.kind() == ErrorKind::NotFound => self.report.skip(name, &e),
                    Err(e) => return Err(e.with("client", name)),
                }
            }
        }
        for (name, took) in best {
            self.push(name, took);
        }
        Ok(())
    }

    fn add_python(&mut self, rounds: usize, python: &S3Clients<'_>, client: &str, work: &Work<'_>) {
        match programs::python(python, client, work, rounds) {
            Ok((took, printed)) => {
                self.report.add_versions(&printed);
                self.push(client, took);
            }
            Err(e) => self.report.skip(client, &e),
        }
    }

    fn push(&mut self, name: &str, took: Took) {
        let gib = self.bytes as f64 / f64::from(1 << 30);
        let mut values = BTreeMap::from([
            ("gib_per_s", gib / took.seconds),
            ("cpus", took.cpu_seconds / took.seconds),
            ("cpu_s_per_gib", took.cpu_seconds / gib),
        ]);
        if took.cpu_seconds > 0.0 {
            values.insert("gib_per_cpu_s", gib / took.cpu_seconds);
        }
        self.report.rows.push(Row { group: self.name.clone(), name: name.to_owned(), values, ..Row::default() });
    }
}
