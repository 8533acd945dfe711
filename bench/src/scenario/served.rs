//! Object servers as separate processes, so that their CPU time is not the client's.

use forebay_loader::{Error, Result};
use forebay_tests::server::{TEST_CERTIFICATE, TEST_KEY};
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Bucket that the folder appears as, too, in path style.
pub(super) const BUCKET: &str = "bench";

/// Longest time until nginx accepts connections.
const START_MAX: Duration = Duration::from_secs(10);

/// Settings of a server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Serving {
    /// Threads, or nginx's workers; 0 means one.
    pub(super) threads: usize,
    /// Serve https with the test certificate.
    pub(super) tls: bool,
    /// Delay of every answer. Only the embedded server has it.
    pub(super) latency_ms: u64,
    /// Limit of the rate of all bodies together. Only the embedded server has it.
    pub(super) bytes_per_s: Option<u64>,
    /// Give uploaded parts tags that are no digests. Only the embedded server does.
    pub(super) opaque_tags: bool,
}

/// Running server. Dropping it ends it.
pub(super) struct Server {
    process: Child,
    /// URL of the folder, without a slash at the end.
    pub(super) url: String,
    /// Configuration of nginx.
    folder: Option<TempDir>,
}

impl Server {
    /// Serves `root` on a free port with the embedded server: this binary with `serve`.
    pub(super) fn embedded(root: &Path, serving: Serving) -> Result<Self> {
        let failed = |e| Error::from_io(e, "the server cannot be started");
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.arg("serve").arg(root).args(["--until-eof", "--bucket", BUCKET]);
        command.arg("--threads").arg(serving.threads.max(1).to_string());
        command.arg("--latency-ms").arg(serving.latency_ms.to_string());
        if let Some(bytes_per_s) = serving.bytes_per_s {
            command.arg("--bytes-per-s").arg(bytes_per_s.to_string());
        }
        if serving.opaque_tags {
            command.arg("--opaque-tags");
        }
        if serving.tls {
            command.arg("--tls");
        }
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(failed)?;
        let mut line = String::new();
        let output = process.stdout.take().expect("standard output is a pipe");
        let read = BufReader::new(output).read_line(&mut line);
        let url = line.rsplit(' ').next().unwrap_or_default().trim().to_owned();
        let server = Self { process, url, folder: None };
        match read {
            Ok(_) if server.url.starts_with("http") => Ok(server),
            _ => Err(Error::internal("the server did not print its address")),
        }
    }

    /// Serves `root` with nginx, on a port that is free now.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](forebay_loader::ErrorKind::NotFound) without nginx on this machine.
    pub(super) fn nginx(root: &Path, serving: Serving) -> Result<Self> {
        let failed = |e| Error::from_io(e, "nginx cannot be started");
        let folder = tempfile::tempdir().map_err(failed)?;
        let root = root.canonicalize().map_err(failed)?;
        let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).map_err(failed)?;
        for (name, text) in [("server.pem", TEST_CERTIFICATE), ("server.key", TEST_KEY)] {
            std::fs::write(folder.path().join(name), text).map_err(failed)?;
        }
        let config = nginx_config(&root, folder.path(), address.port(), serving);
        let path = folder.path().join("nginx.conf");
        std::fs::write(&path, config).map_err(failed)?;
        let mut command = Command::new("nginx");
        command.arg("-p").arg(folder.path()).arg("-c").arg(&path).arg("-e").arg(folder.path().join("errors"));
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let scheme = if serving.tls { "https://localhost" } else { "http://127.0.0.1" };
        let url = format!("{scheme}:{}", address.port());
        let mut server = Self { process: process.map_err(failed)?, url, folder: Some(folder) };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            let ended = server.process.try_wait().map_err(failed)?;
            if ended.is_some() || started.elapsed() > START_MAX {
                let errors = server.folder.as_ref().map(|f| f.path().join("errors"));
                let text = errors.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
                let last = text.lines().last().unwrap_or("it does not listen").to_owned();
                return Err(Error::internal("nginx does not start").with("reason", last));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }
}

/// Returns a configuration that serves `root` as fast as nginx does, as it is and as a bucket.
fn nginx_config(root: &Path, folder: &Path, port: u16, serving: Serving) -> String {
    let (root, folder) = (root.display(), folder.display());
    let tls = if serving.tls {
        format!("ssl_certificate \"{folder}/server.pem\"; ssl_certificate_key \"{folder}/server.key\";")
    } else {
        String::new()
    };
    let ssl = if serving.tls { " ssl" } else { "" };
    let workers = serving.threads.max(1);
    // nginx would read the folder as a different user. With `tcp_nopush` a small answer takes 26 ms on loopback.
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    format!(
        "{user} worker_processes {workers}; daemon off; pid \"{folder}/pid\";
events {{ worker_connections 1024; }}
http {{
    access_log off; sendfile on; tcp_nopush off; tcp_nodelay on; keepalive_requests 1000000; keepalive_timeout 600;
    client_body_temp_path \"{folder}/body\"; proxy_temp_path \"{folder}/proxy\"; fastcgi_temp_path \"{folder}/fastcgi\";
    uwsgi_temp_path \"{folder}/uwsgi\"; scgi_temp_path \"{folder}/scgi\";
    server {{
        listen 127.0.0.1:{port}{ssl}; {tls}
        root \"{root}\";
        location /{BUCKET}/ {{ alias \"{root}/\"; }}
    }}
}}
"
    )
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.process.stdin.take().is_none() {
            // nginx has no input to be ended by: its master ends with its workers.
            let master = rustix::process::Pid::from_child(&self.process);
            let _ = rustix::process::kill_process(master, rustix::process::Signal::TERM);
        }
        // The embedded server ends with its input; an error leaves nothing to do here.
        let _ = self.process.wait();
    }
}
