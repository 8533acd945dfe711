//! RSA keys that sign requests and tokens.

use crate::{Error, Result};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use base64::Engine as _;
use base64::engine::general_purpose::GeneralPurpose;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

/// Private RSA key that signs with SHA-256 and PKCS #1 v1.5 padding.
pub(crate) struct SigningKey(KeyPair);

impl SigningKey {
    /// Reads a key in PEM, in PKCS #8 or PKCS #1.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for anything else, which is not part of the message.
    pub(crate) fn from_pem(pem: &str) -> Result<Self> {
        let bad = || Error::config("the private key is no RSA key in PEM (PKCS #8 or PKCS #1, without a pass phrase)");
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| bad())?;
        let pair = match &key {
            PrivateKeyDer::Pkcs8(der) => KeyPair::from_pkcs8(der.secret_pkcs8_der()),
            PrivateKeyDer::Pkcs1(der) => KeyPair::from_der(der.secret_pkcs1_der()),
            _ => return Err(bad()),
        };
        pair.map(Self).map_err(|_| bad())
    }

    /// Returns the signature of `text` in base 64.
    pub(crate) fn sign(&self, text: &str, encoding: &GeneralPurpose) -> Result<String> {
        let mut signature = vec![0; self.0.public_modulus_len()];
        self.0
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
            .map_err(|_| Error::internal("a text cannot be signed with the private key"))?;
        Ok(encoding.encode(signature))
    }
}
