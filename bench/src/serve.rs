//! `serve`: the embedded object server on a folder, as a separate process.

use clap::Args;
use forebay_loader::{Error, Result};
use forebay_tests::server::{Keys, ObjectServer, Options, Root};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Folder to serve
    root: PathBuf,
    /// Port on 127.0.0.1; 0 selects a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Serve the folder also as this bucket: S3 in path style
    #[arg(long)]
    bucket: Option<String>,
    /// Require every request to be signed with this key
    #[arg(long, requires = "secret_key")]
    access_key: Option<String>,
    /// Secret of --access-key
    #[arg(long, requires = "access_key")]
    secret_key: Option<String>,
    /// Serve https with the test certificate
    #[arg(long)]
    tls: bool,
    /// Number of server threads
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Limit of the rate of all bodies together
    #[arg(long, value_name = "BYTES")]
    bytes_per_s: Option<u64>,
    /// Limit of the rate of requests; those above it are refused with status 503
    #[arg(long, value_name = "N")]
    requests_per_s: Option<u64>,
    /// Delay of every answer
    #[arg(long, value_name = "MS", default_value_t = 0)]
    latency_ms: u64,
    /// Tags of uploaded parts that are no digests: the server is then several times as fast
    #[arg(long)]
    opaque_tags: bool,
    /// End when standard input ends, so that the server does not outlive the process that started it
    #[arg(long)]
    until_eof: bool,
}

/// Serves until the process is terminated or, with `--until-eof`, until its input ends.
pub(crate) fn run(args: &ServeArgs) -> Result<()> {
    if !args.root.is_dir() {
        return Err(Error::config("there is no such folder to serve").with("root", args.root.display()));
    }
    let options = Options {
        port: args.port,
        bucket: args.bucket.clone(),
        keys: args.access_key.as_deref().zip(args.secret_key.as_deref()).map(|(a, s)| Keys::new(a, s)),
        has_opaque_tags: args.opaque_tags,
        has_plain_upload_names: true,
        tls: args.tls,
        threads: args.threads.max(1),
        bytes_per_s: args.bytes_per_s,
        requests_per_s: args.requests_per_s,
        latency: Duration::from_millis(args.latency_ms),
        ..Options::default()
    };
    let failed = |e| Error::from_io(e, "the server cannot start; is the port taken?").with("port", args.port);
    let server = ObjectServer::start(Root::folder(&args.root), options).map_err(failed)?;
    let unprintable = |e| Error::from_io(e, "the address cannot be printed");
    if args.until_eof {
        return server.serve_until_eof(&args.root).map_err(unprintable);
    }
    server.announce(&args.root).map_err(unprintable)?;
    loop {
        std::thread::park();
    }
}
