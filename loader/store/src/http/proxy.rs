//! Proxies between this machine and the stores.
//!
//! The connection to a proxy is encrypted if its address is `https`. Requests for `http` go to the proxy in absolute
//! form. For `https` the proxy opens a tunnel, so that it sees no more than the name of the host. The proxy resolves
//! the names of hosts.

use super::pool::Origin;
use crate::failure::Failure;
use crate::{Error, ErrorKind};
use http::HeaderValue;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Largest head of a response to `CONNECT`.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Advice after the status 407.
pub(super) const PROXY_CREDENTIALS: &str = "the proxy wants different credentials: write them into HTTPS_PROXY (for \
                                            plain http HTTP_PROXY), as in http://user:password@proxy:3128";

/// Rules that choose the proxy of a host.
#[derive(Clone)]
pub struct Proxies {
    rules: Arc<Matcher>,
    /// Hosts of this machine and its metadata services have no proxy.
    has_local: bool,
}

impl fmt::Debug for Proxies {
    /// Addresses of proxies may contain passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxies").finish_non_exhaustive()
    }
}

/// Proxy of one host.
pub(super) struct Proxy(Intercept);

impl Proxies {
    /// Reads `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, also in lower case, as curl does. This machine
    /// itself and the metadata services of clouds have no proxy.
    pub fn from_env() -> Self {
        Self { rules: Arc::new(Matcher::from_env()), has_local: false }
    }

    /// Uses the proxy at `url` for all hosts, such as `http://user:password@proxy:3128`.
    pub fn all(url: &str) -> Self {
        Self { rules: Arc::new(Matcher::builder().all(url).build()), has_local: true }
    }

    /// Returns the proxy of `origin`, if it has one.
    pub(super) fn of(&self, origin: &Origin) -> Option<Proxy> {
        if !self.has_local && is_local(&origin.host) {
            return None;
        }
        self.rules.intercept(&origin.uri()?).map(Proxy)
    }
}

impl Proxy {
    /// Returns the server to connect to.
    pub(super) fn server(&self) -> Result<Origin, Failure> {
        let unsupported = || {
            let scheme = self.0.uri().scheme_str().unwrap_or_default();
            let message = format!(
                "{scheme} proxies are not supported: set HTTPS_PROXY to an http:// or https:// proxy, or NO_PROXY"
            );
            Failure::permanent(Error::new(ErrorKind::Unsupported, message))
        };
        Origin::of(self.0.uri()).ok_or_else(unsupported)
    }

    /// Returns the credentials of the proxy, for the header `Proxy-Authorization`.
    pub(super) fn authorization(&self) -> Option<&HeaderValue> {
        self.0.basic_auth()
    }

    /// Asks the proxy for a tunnel to `origin` through `stream`.
    pub(super) async fn open_tunnel(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        origin: &Origin,
    ) -> Result<(), Failure> {
        let target = format!("{}:{}", origin.host, origin.port);
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
        if let Some(value) = self.authorization() {
            request.extend_from_slice(b"Proxy-Authorization: ");
            request.extend_from_slice(value.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        let lost = |e: std::io::Error| {
            let message = "the proxy closed the connection: check HTTPS_PROXY";
            Failure::transient(Error::new(ErrorKind::Network, message).caused_by(e))
        };
        stream.write_all(&request).await.map_err(lost)?;
        stream.flush().await.map_err(lost)?;
        let mut head = Vec::new();
        // Byte by byte: the next bytes belong to the tunnel.
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() == HEAD_BYTES_MAX {
                return Err(Failure::permanent(Error::format("the proxy's response has no end: check HTTPS_PROXY")));
            }
            head.push(stream.read_u8().await.map_err(lost)?);
        }
        let status =
            head.split(|byte| *byte == b' ').nth(1).and_then(|code| std::str::from_utf8(code).ok()?.parse().ok());
        check_status(status.unwrap_or(0)).map_err(|mut failure| {
            failure.error = failure.error.with("host", origin);
            failure
        })
    }
}

/// Checks the status of the response to `CONNECT`.
fn check_status(status: u16) -> Result<(), Failure> {
    let (kind, message) = match status {
        200..300 => return Ok(()),
        407 => (ErrorKind::Permission, PROXY_CREDENTIALS.to_owned()),
        403 | 405 => {
            let message =
                format!("the proxy refuses a tunnel to this host ({status}): allow the host, or set NO_PROXY");
            (ErrorKind::Permission, message)
        }
        0 => (ErrorKind::Network, "the proxy's response is not HTTP: check HTTPS_PROXY".to_owned()),
        _ => {
            let message = format!("the proxy could not open a tunnel (status {status})");
            return Err(Failure::transient(Error::new(ErrorKind::Network, message)));
        }
    };
    Err(Failure::permanent(Error::new(kind, message)))
}

/// True for hosts of this machine, and for metadata services, since their tokens must not pass a proxy.
fn is_local(host: &str) -> bool {
    match host.trim_matches(['[', ']']).parse() {
        Ok(IpAddr::V4(ip)) => ip.is_loopback() || ip.is_link_local(),
        // Amazon's metadata service has a unique local address.
        Ok(IpAddr::V6(ip)) => ip.is_loopback() || ip.segments() == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254],
        Err(_) => ["localhost", "metadata.google.internal", "metadata"].contains(&host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(tls: bool, host: &str) -> Origin {
        Origin { tls, host: host.to_owned(), port: 443 }
    }

    #[test]
    fn this_machine_and_metadata_services_have_no_proxy() {
        let proxies = Proxies { has_local: false, ..Proxies::all("http://u:secret@proxy:3128") };
        for host in
            ["localhost", "127.0.0.1", "[::1]", "169.254.169.254", "[fd00:ec2::254]", "metadata.google.internal"]
        {
            assert!(proxies.of(&origin(false, host)).is_none(), "{host}");
        }
        for host in ["bucket.s3.amazonaws.com", "10.0.0.1", "[2001:db8::1]"] {
            let proxy = proxies.of(&origin(true, host)).expect(host);
            assert_eq!(proxy.server().ok().map(|server| server.to_string()).as_deref(), Some("proxy:3128"));
            assert!(proxy.authorization().is_some());
        }
        assert!(!format!("{proxies:?}").contains("secret"));
    }

    #[test]
    fn a_proxy_of_a_different_protocol_is_refused_with_the_remedy() {
        let proxy = Proxies::all("socks5://proxy:1080").of(&origin(true, "host")).expect("a proxy");
        let Err(failure) = proxy.server() else { panic!("not supported") };
        assert!(failure.error.to_string().contains("HTTPS_PROXY"), "{}", failure.error);
        let proxy = Proxies::all("https://proxy:3128").of(&origin(false, "host")).expect("a proxy");
        assert!(proxy.server().is_ok_and(|server| server.tls));
    }

    #[test]
    fn each_refusal_of_a_tunnel_has_advice() {
        for (status, kind, words) in [
            (407, ErrorKind::Permission, "write them into HTTPS_PROXY"),
            (403, ErrorKind::Permission, "NO_PROXY"),
            (0, ErrorKind::Network, "check HTTPS_PROXY"),
            (502, ErrorKind::Network, "status 502"),
        ] {
            let failure = check_status(status).expect_err("refused");
            assert_eq!((failure.error.kind(), failure.is_retried), (kind, status == 502));
            assert!(failure.error.to_string().contains(words), "{}", failure.error);
        }
        assert!(check_status(200).is_ok());
    }
}
