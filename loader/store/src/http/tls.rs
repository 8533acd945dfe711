//! Trusted certificates: the system's store (with `SSL_CERT_FILE` and `SSL_CERT_DIR`), and the configured authority.

use crate::{Error, Result};
use forebay_core::sync::{Arc, Mutex};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use std::path::PathBuf;

/// TLS settings, created for the first `https` connection: reading some hundred certificates takes time.
#[derive(Debug)]
pub(crate) struct Tls {
    ca_file: Option<PathBuf>,
    config: Mutex<Option<Arc<ClientConfig>>>,
}

impl Tls {
    pub(crate) fn new(ca_file: Option<PathBuf>) -> Self {
        Self { ca_file, config: Mutex::new(None) }
    }

    /// Returns the settings that all connections share, including session tickets.
    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>> {
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
