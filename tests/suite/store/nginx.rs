//! The client against nginx.

use crate::rig::{Rig, config, content};
use forebay_loader::ErrorKind;
use forebay_loader::store::{FetchRequest, StoreConfig, Transport};
use forebay_tests::server::Options;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

/// Running nginx that serves a folder; stopped when dropped.
struct Nginx {
    folder: tempfile::TempDir,
    http: u16,
    https: u16,
}

impl Nginx {
    /// Starts nginx. Prints the reason and returns `None` where there is none.
    fn start() -> Option<Self> {
        let version = Command::new("nginx").arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if version.is_err() {
            println!("skipped: nginx is not installed");
            return None;
        }
        let folder = tempfile::tempdir().expect("temporary folder");
        std::fs::create_dir(folder.path().join("data")).expect("made");
        let free = || TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
        let server = Self { http: free(), https: free(), folder };
        let tls = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/tls");
        let text = format!(
            "user root; worker_processes 1; pid pid; error_log error.log;\n\
             events {{ worker_connections 64; }}\n\
             http {{ access_log off; sendfile on; tcp_nopush off;\n\
             client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path \
             t5;\n\
             server {{ listen 127.0.0.1:{}; root data; }}\n\
             server {{ listen 127.0.0.1:{} ssl; root data;\n\
             ssl_certificate {tls}/server.pem; ssl_certificate_key {tls}/server.key; }} }}\n",
            server.http,
            server.https,
            tls = tls.display()
        );
        std::fs::write(server.folder.path().join("nginx.conf"), text).expect("written");
        // The command returns when the ports are open.
        assert!(server.command(&[]), "nginx does not start: {:?}", std::fs::read_to_string(server.path("error.log")));
        Some(server)
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, more: &[&str]) -> bool {
        let mut command = Command::new("nginx");
        command.arg("-p").arg(self.folder.path()).arg("-c").arg(self.path("nginx.conf")).args(more);
        command.stderr(Stdio::null()).status().expect("nginx").success()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        self.command(&["-s", "stop"]);
    }
}

#[test]
fn nginx_serves_ranges_over_every_transport_and_tls() {
    let Some(nginx) = Nginx::start() else { return };
    let ca_file = nginx.path("ca.pem");
    std::fs::write(&ca_file, forebay_tests::server::TEST_CA).expect("written");
    std::fs::write(nginx.path("data/a shard.mds"), content(3_000_000)).expect("written");
    let plain = |io_uring, transport| StoreConfig { io_uring, transport, part_bytes: 400_000, ..config() };
    for base in [
        plain(true, Transport::Readiness),
        plain(true, Transport::Uring),
        plain(false, Transport::Readiness),
        plain(false, Transport::Uring),
    ] {
        let rig = Rig::with(Options::default(), StoreConfig { ca_file: Some(ca_file.clone()), ..base });
        for url in [format!("http://127.0.0.1:{}", nginx.http), format!("https://localhost:{}", nginx.https)] {
            let (remote, retries) = (rig.stores.open(&url).expect("valid"), rig.count("store_retries"));
            for _ in 0..3 {
                let ticket = remote.fetch(FetchRequest::new("a shard.mds", 3_000_000)).expect("queued");
                assert!(*ticket.wait().unwrap_or_else(|e| panic!("{url}: {e}")) == *content(3_000_000), "{url}");
            }
            assert_eq!(remote.get_small("none", 10).expect_err("missing").kind(), ErrorKind::NotFound);
            assert_eq!(rig.count("store_retries"), retries, "{url}");
            // Retried, because a gateway may have responded.
            let short = remote.fetch(FetchRequest::new("a shard.mds", 3_000_001)).expect("queued");
            assert_eq!(short.wait().expect_err("size").kind(), ErrorKind::Checksum);
        }
    }
}
