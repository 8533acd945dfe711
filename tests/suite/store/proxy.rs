//! Fetches through a proxy that wants credentials.

use super::rig::{config, content};
use forebay_loader::clock::Clock;
use forebay_loader::stats::Stats;
use forebay_loader::store::{FetchRequest, Proxies, StoreConfig, Stores};
use forebay_loader::sync::{Arc, Mutex};
use forebay_loader::{ErrorKind, Result};
use forebay_tests::server::{ObjectServer, Options, TEST_CA};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// The header of the user `user` with the password `pa ss`.
const AUTHORIZATION: &str = "Basic dXNlcjpwYSBzcw==";

/// Starts a proxy that leads every host to `server`. Returns its address, and the first lines of requests.
fn proxy(server: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = lines.clone();
    // It ends with the process.
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(io::Result::ok) {
            let seen = seen.clone();
            std::thread::spawn(move || serve(client, server, &seen));
        }
    });
    (address, lines)
}

fn serve(mut client: TcpStream, server: SocketAddr, seen: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        head.extend_from_slice(&byte);
    }
    let text = String::from_utf8_lossy(&head).to_lowercase();
    seen.lock().push(text.lines().next().unwrap_or_default().to_owned());
    if !text.contains(&format!("proxy-authorization: {}\r\n", AUTHORIZATION.to_lowercase())) {
        return client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n");
    }
    let mut upstream = TcpStream::connect(server)?;
    if text.starts_with("connect ") {
        client.write_all(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")?;
    } else {
        upstream.write_all(&head)?;
    }
    let (mut from, mut to) = (client.try_clone()?, upstream.try_clone()?);
    std::thread::spawn(move || io::copy(&mut from, &mut to));
    io::copy(&mut upstream, &mut client).map(drop)
}

/// Fetches an object of `server` from `remote`, through a proxy of the given user. Returns the first lines that the
/// proxy received.
fn fetched(server: &ObjectServer, remote: &str, user: &str) -> (Result<Vec<u8>>, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, TEST_CA).expect("written");
    server.put("shard", content(1000)).expect("memory");
    let (address, lines) = proxy(server.address());
    let config = StoreConfig {
        ca_file: Some(ca_file),
        proxies: Some(Proxies::all(&format!("http://{user}@{address}"))),
        ..config()
    };
    let stores = Stores::new(config, &Arc::new(Stats::default()), Clock::manual()).expect("threads");
    let ticket = stores.open(remote).expect("valid").fetch(FetchRequest::new("shard", 1000));
    let fetched = ticket.and_then(|ticket| ticket.wait()).map(Vec::from);
    let lines = lines.lock().clone();
    (fetched, lines)
}

#[test]
fn plain_requests_go_to_the_proxy_with_the_whole_address() {
    let server = ObjectServer::in_memory(Options::default()).expect("loopback");
    // The proxy resolves the name.
    let (fetched, lines) = fetched(&server, "http://store.invalid", "user:pa%20ss");
    assert_eq!(fetched.expect("fetched"), content(1000));
    assert!(lines.iter().all(|line| line == "get http://store.invalid/shard http/1.1"), "{lines:?}");
}

#[test]
fn encrypted_requests_go_through_a_tunnel() {
    let server = ObjectServer::in_memory(Options { tls: true, ..Options::default() }).expect("loopback");
    let (fetched, lines) = fetched(&server, &server.url(), "user:pa%20ss");
    assert_eq!(fetched.expect("fetched"), content(1000));
    let port = server.address().port();
    assert!(lines.iter().all(|line| *line == format!("connect localhost:{port} http/1.1")), "{lines:?}");
}

#[test]
fn the_connection_to_a_proxy_may_be_encrypted() {
    let folder = tempfile::tempdir().expect("a folder");
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, TEST_CA).expect("written");
    // It answers requests in absolute form itself, and refuses tunnels.
    let proxy = ObjectServer::in_memory(Options { tls: true, ..Options::default() }).expect("loopback");
    proxy.put("shard", content(1000)).expect("memory");
    let config = StoreConfig { ca_file: Some(ca_file), proxies: Some(Proxies::all(&proxy.url())), ..config() };
    let stores = Stores::new(config, &Arc::new(Stats::default()), Clock::manual()).expect("threads");
    let fetch = |remote| stores.open(remote).expect("valid").fetch(FetchRequest::new("shard", 1000))?.wait();
    assert_eq!(*fetch("http://store.invalid").unwrap_or_else(|e| panic!("{e}")), *content(1000));
    let error = fetch("https://store.invalid").expect_err("refused");
    assert!(error.to_string().contains("the proxy refuses a tunnel to this host (405)"), "{error}");
    assert!(proxy.seen().iter().any(|seen| seen.method == "CONNECT"));
}

#[test]
fn wrong_credentials_of_a_proxy_are_named_without_them() {
    for tls in [false, true] {
        let server = ObjectServer::in_memory(Options { tls, ..Options::default() }).expect("loopback");
        let remote = if tls { server.url() } else { "http://store.invalid".to_owned() };
        let (fetched, lines) = fetched(&server, &remote, "user:TOPSECRET");
        let error = fetched.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
        let text = format!("{error} {error:?}");
        assert!(text.contains("write them into HTTPS_PROXY") && !text.contains("TOPSECRET"), "{text}");
        assert!(!lines.is_empty());
    }
}
