//! Trusted certificates: the system's store (with `SSL_CERT_FILE` and `SSL_CERT_DIR`), and the configured authority.

use crate::{Error, ErrorKind, Result};
use forebay_core::sync::{Arc, Mutex};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use std::path::PathBuf;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// TLS settings, created for the first `https` connection: reading some hundred certificates takes time.
#[derive(Debug)]
pub struct Tls {
    ca_file: Option<PathBuf>,
    config: Mutex<Option<Arc<ClientConfig>>>,
}

impl Tls {
    /// Settings with the authorities in `ca_file` in addition to the system's.
    pub fn new(ca_file: Option<PathBuf>) -> Self {
        Self { ca_file, config: Mutex::new(None) }
    }

    /// Starts TLS with `host` on a connection.
    ///
    /// # Errors
    ///
    /// `Permission` for a certificate that is not trusted, `Network` for a different failure of the handshake, and
    /// `Config` for a host name that no certificate can have, and without any authority.
    pub async fn connect<S>(&self, host: &str, stream: S) -> Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let config = self.config()?;
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
            .map_err(|e| Error::config("the host name cannot be checked against a certificate").caused_by(e))?;
        TlsConnector::from(config).connect(name, stream).await.map_err(|e| {
            let cause = e.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            let certificate = if let Some(rustls::Error::InvalidCertificate(why)) = cause { Some(why) } else { None };
            let why = match certificate {
                None => Error::new(
                    ErrorKind::Network,
                    "the TLS handshake failed: check that the server speaks https at this port, and the proxies on the \
                     way",
                ),
                Some(why) => Error::new(ErrorKind::Permission, certificate_advice(why)),
            };
            why.caused_by(e)
        })
    }

    /// Returns the settings that all connections share, including session tickets.
    fn config(&self) -> Result<Arc<ClientConfig>> {
        let mut known = self.config.lock();
        if let Some(config) = &*known {
            return Ok(config.clone());
        }
        let mut roots = RootCertStore::empty();
        let system = rustls_native_certs::load_native_certs();
        let (added, ignored) = roots.add_parsable_certificates(system.certs);
        log::debug!("{added} certificates of the system are trusted, {ignored} cannot be read");
        if let Some(path) = &self.ca_file {
            let problem = |e: rustls::pki_types::pem::Error| {
                Error::config("the certificates to trust cannot be read").caused_by(e).with("ca_file", path.display())
            };
            for certificate in CertificateDer::pem_file_iter(path).map_err(problem)? {
                roots.add(certificate.map_err(problem)?).map_err(|e| {
                    Error::config("a certificate to trust is not valid").caused_by(e).with("ca_file", path.display())
                })?;
            }
        }
        if roots.is_empty() {
            let why = system.errors.first().map(|e| format!(": {e}")).unwrap_or_default();
            return Err(Error::config(format!(
                "no certificates to trust: install the system's (ca-certificates) or set SSL_CERT_FILE{why}"
            )));
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::internal("the TLS library rejects its own defaults").caused_by(e))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(known.insert(Arc::new(config)).clone())
    }
}

/// Returns the message for a certificate that is not trusted.
fn certificate_advice(why: &CertificateError) -> &'static str {
    match why {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid now: check this machine's clock, or have the certificate renewed"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the server's certificate is for a different host: check the address and the endpoint"
        }
        _ => "the server's certificate is not trusted: set SSL_CERT_FILE or ca_file to a file with its authority",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_is_rejected_names_its_remedy() {
        for (why, advice) in [
            (CertificateError::Expired, "check this machine's clock"),
            (CertificateError::NotValidYet, "check this machine's clock"),
            (CertificateError::NotValidForName, "check the address and the endpoint"),
            (CertificateError::UnknownIssuer, "set SSL_CERT_FILE or ca_file"),
        ] {
            assert!(certificate_advice(&why).contains(advice), "{why:?}");
        }
    }
}
