//! Addresses that the figures are served at or sent to.

use crate::error::{Error, Result};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

/// Value of `engine.metrics`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metrics {
    /// `prometheus://HOST:PORT`: an HTTP server for Prometheus. The rank of a process on its node is added to the port.
    Prometheus(SocketAddr),
    /// `otlp`: a collector of OpenTelemetry, with the environment's `OTEL_EXPORTER_OTLP_...`.
    Otlp,
}

impl Metrics {
    /// Reads the option's value, for the process with `local_rank`.
    ///
    /// # Errors
    ///
    /// `Config` for a different form, and for a port that is too large.
    pub fn parse(text: &str, local_rank: u32) -> Result<Self> {
        if text == "otlp" {
            return Ok(Self::Otlp);
        }
        let wrong = || {
            Error::config(format!(
                "engine.metrics must be \"prometheus://:PORT\", \"prometheus://HOST:PORT\" or \"otlp\", not {text:?}"
            ))
        };
        let place = text.strip_prefix("prometheus://").ok_or_else(wrong)?;
        let (host, port) = place.trim_end_matches('/').rsplit_once(':').ok_or_else(wrong)?;
        let first: u16 = port.parse().map_err(|_| wrong())?;
        let port = u32::from(first).saturating_add(if first == 0 { 0 } else { local_rank });
        let port = u16::try_from(port).map_err(|_| {
            Error::config(format!(
                "engine.metrics: port {first} and the local rank {local_rank} exceed 65535: use a lower port"
            ))
        })?;
        if host.is_empty() {
            return Ok(Self::Prometheus((IpAddr::V4(Ipv4Addr::UNSPECIFIED), port).into()));
        }
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let found = (host, port).to_socket_addrs().ok().and_then(|mut found| found.next());
        let unknown = || Error::config(format!("engine.metrics: the host {host:?} has no address"));
        found.map(Self::Prometheus).ok_or_else(unknown)
    }
}

/// Folder of the sockets of this user's processes.
pub fn socket_folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder).join("forebay"),
        None => std::env::temp_dir().join(format!("forebay-{}", rustix::process::geteuid().as_raw())),
    }
}

/// Socket of process `pid`.
pub fn socket_of(pid: u32) -> PathBuf {
    socket_folder().join(format!("{pid}.sock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_a_process_follows_from_its_local_rank() {
        let port = |text, rank| match Metrics::parse(text, rank).expect(text) {
            Metrics::Prometheus(address) => address.to_string(),
            Metrics::Otlp => "otlp".to_owned(),
        };
        assert_eq!(port("prometheus://:9400", 0), "0.0.0.0:9400");
        assert_eq!(port("prometheus://127.0.0.1:9400/", 3), "127.0.0.1:9403");
        assert_eq!(port("prometheus://[::1]:9400", 1), "[::1]:9401");
        assert_eq!(port("prometheus://:0", 7), "0.0.0.0:0");
        assert_eq!(port("otlp", 7), "otlp");
    }

    #[test]
    fn a_wrong_value_is_an_error_with_the_right_forms() {
        for text in ["", "9400", "http://:9400", "prometheus://", "prometheus://host", "prometheus://:port", "otlp:"] {
            let error = Metrics::parse(text, 0).expect_err(text).to_string();
            assert!(error.contains("prometheus://:PORT"), "{error}");
        }
        let error = Metrics::parse("prometheus://:65535", 1).expect_err("too large").to_string();
        assert!(error.contains("use a lower port"), "{error}");
    }
}
