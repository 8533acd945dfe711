//! Verification of requests to Oracle's object storage: draft-cavage-http-signatures-08 with a key in RSA, written from
//! the documentation, independently of the client.

use super::issuer::ServiceAccount;
use super::sigv4::Refusal;
use aws_lc_rs::digest;
use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::request::Parts;
use std::time::{Duration, SystemTime};

/// Maximum difference between the request's time and the server's.
const SKEW_MAX: Duration = Duration::from_secs(5 * 60);

/// Key with which every request must be signed.
#[derive(Clone, Debug)]
pub struct OciKey {
    /// Name of the key: tenancy, user and fingerprint, or a session's token.
    pub id: String,
    /// The key.
    pub key: ServiceAccount,
}

/// Checks a request's signature.
pub(super) fn check(key: &OciKey, head: &Parts, body: &Bytes) -> Result<(), Refusal> {
    let header = |name: &str| head.headers.get(name).and_then(|v| v.to_str().ok());
    let denied = |why: &str| ("NotAuthenticated", why.to_owned());
    let fields = header("authorization").and_then(|text| text.strip_prefix("Signature "));
    let fields = fields.ok_or_else(|| denied("the request is not signed"))?;
    let field = |name: &str| {
        let found = fields.split(',').find_map(|field| field.trim().strip_prefix(name)?.strip_prefix("=\""));
        found.and_then(|value| value.strip_suffix('"')).ok_or_else(|| denied("the Authorization header lacks a field"))
    };
    if field("version")? != "1" || field("algorithm")? != "rsa-sha256" {
        return Err(denied("a different version or algorithm"));
    }
    if field("keyId")? != key.id {
        return Err(denied("no such key"));
    }
    let names: Vec<&str> = field("headers")?.split(' ').collect();
    if !["date", "(request-target)", "host"].iter().all(|name| names.contains(name)) {
        return Err(denied("a header is not signed"));
    }
    if head.method == http::Method::POST {
        // Uploads of objects are exempt.
        if !["x-content-sha256", "content-type", "content-length"].iter().all(|name| names.contains(name)) {
            return Err(denied("the body is not signed"));
        }
        let digest = BASE64_STANDARD.encode(digest::digest(&digest::SHA256, body));
        if header("x-content-sha256") != Some(&*digest) {
            return Err(denied("the body is not the signed one"));
        }
    }
    let date = super::date::parse_http(header("date").unwrap_or_default()).ok_or_else(|| denied("no date"))?;
    if SystemTime::now().duration_since(date).unwrap_or_else(|e| e.duration()) > SKEW_MAX {
        return Err(denied("the clocks differ by more than 5 minutes"));
    }
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let line = |name: &&str| match *name {
        "(request-target)" => format!("(request-target): {} {path}", head.method.as_str().to_lowercase()),
        name => format!("{name}: {}", header(name).unwrap_or_default()),
    };
    let text = names.iter().map(line).collect::<Vec<_>>().join("\n");
    let signature = BASE64_STANDARD.decode(field("signature")?).map_err(|_| denied("not in base 64"))?;
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.key.public_key())
        .verify(text.as_bytes(), &signature)
        .map_err(|_| denied(&format!("the text to sign is {text:?}")))
}
