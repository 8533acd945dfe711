//! Oracle: addresses and signatures of buckets.

use super::region;
use super::settings::OciSettings;
use crate::context::ThreadContext;
use crate::credentials::{SigningKey, is_same_server, read_text, refuse_redirect};
use crate::destination::Payload;
use crate::failure::Failure;
use crate::http::{Origin, Protocol, Rejected};
use crate::key::{encode_component, encode_path};
use crate::url::NamespacedBucket;
use crate::{Error, Result};
use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use forebay_core::sync::{Arc, Mutex};
use http::header::{AUTHORIZATION, CONTENT_TYPE, DATE, HeaderValue};
use http::{Method, Request, StatusCode};
use std::fmt::Write as _;
use std::time::SystemTime;

/// One bucket, with a prefix in it.
pub(crate) struct OciProtocol {
    settings: OciSettings,
    bucket: String,
    /// Address of the bucket's objects; ends with a slash.
    base: String,
    /// Ends with a slash unless it is empty.
    prefix: String,
    key: Option<Arc<SigningKey>>,
    /// Last token of the session, and its key.
    session: Mutex<Option<(String, Arc<SigningKey>)>>,
}

impl OciProtocol {
    pub(crate) fn new(settings: OciSettings, container: NamespacedBucket) -> Result<Self> {
        settings.validate()?;
        let endpoint = match (&settings.endpoint, &settings.region) {
            (Some(endpoint), _) => endpoint.trim_end_matches('/').to_owned(),
            (None, Some(region)) => region::endpoint(region),
            (None, None) => {
                return Err(Error::config(
                    "the region of Oracle's cloud is not known: set OCI_REGION, or run `oci setup config`",
                ));
            }
        };
        let key = settings.key.as_deref().map(SigningKey::from_pem).transpose()?.map(Arc::new);
        let NamespacedBucket { name: bucket, namespace, prefix } = container;
        Ok(Self {
            base: format!("{endpoint}/n/{namespace}/b/{}/o/", encode_path(&bucket)),
            prefix: if prefix.is_empty() { String::new() } else { format!("{prefix}/") },
            settings,
            bucket,
            key,
            session: Mutex::new(None),
        })
    }

    /// Returns the address of the bucket, without a slash at the end.
    pub(super) fn bucket_address(&self) -> &str {
        self.base.trim_end_matches("/o/")
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the key, and the name under which Oracle has it, or the session's token.
    fn named_key(&self, key: &Arc<SigningKey>) -> Result<(Arc<SigningKey>, String)> {
        let OciSettings { tenancy, user, fingerprint, security_token_file, key_file, .. } = &self.settings;
        let Some(path) = security_token_file else {
            let part = |part: &Option<String>| part.clone().unwrap_or_default();
            return Ok((key.clone(), format!("{}/{}/{}", part(tenancy), part(user), part(fingerprint))));
        };
        // Read for each request, because a session is renewed in its file.
        let token = read_text(path, "the session of Oracle's cloud")?;
        let missing = || {
            let why = "the session of Oracle's cloud has no token: run `oci session authenticate`";
            Error::config(why).with("path", path.display())
        };
        let token = token.ok_or_else(missing)?.trim().to_owned();
        let mut session = self.session.lock();
        if session.as_ref().is_none_or(|(last, _)| *last != token) {
            // A new session has a new key.
            let text =
                key_file.as_ref().map(|path| read_text(path, "the key of Oracle's cloud")).transpose()?.flatten();
            let key = text.map_or_else(|| Ok(key.clone()), |text| SigningKey::from_pem(&text).map(Arc::new))?;
            *session = Some((token.clone(), key));
        }
        let key = session.as_ref().map_or_else(|| key.clone(), |(_, key)| key.clone());
        Ok((key, format!("ST${token}")))
    }
}

#[async_trait(?Send)]
impl Protocol for OciProtocol {
    fn address(&self, key: &str) -> String {
        format!("{}{}", self.base, encode_component(&format!("{}{key}", self.prefix)))
    }

    async fn sign(&self, _: &ThreadContext, request: &mut Request<Bytes>) -> Result<(), Failure> {
        let Some(key) = &self.key else { return Ok(()) };
        if !is_same_server(request.uri(), &self.base) {
            return Err(refuse_redirect(request.uri()));
        }
        let date = httpdate::fmt_http_date(SystemTime::now());
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let host = Origin::of(request.uri()).map(|origin| origin.to_string()).unwrap_or_default();
        let method = request.method().as_str().to_lowercase();
        let mut text = format!("date: {date}\n(request-target): {method} {path}\nhost: {host}");
        let mut names = "date (request-target) host".to_owned();
        // Uploads of objects are exempt: their digest is `Content-MD5`.
        let body = request.extensions().get::<Payload>().filter(|_| request.method() == Method::POST);
        let digest = body.map(|body| BASE64_STANDARD.encode(body.sha256()));
        if let (Some(digest), Some(body)) = (&digest, body) {
            let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            let _ = write!(text, "\nx-content-sha256: {digest}\ncontent-type: {kind}\ncontent-length: {}", body.len());
            names.push_str(" x-content-sha256 content-type content-length");
        }
        let (key, id) = self.named_key(key).map_err(Failure::permanent)?;
        let signature = key.sign(&text, &BASE64_STANDARD).map_err(Failure::permanent)?;
        let header = format!(
            "Signature version=\"1\",keyId=\"{id}\",algorithm=\"rsa-sha256\",headers=\"{names}\",\
             signature=\"{signature}\""
        );
        let value = |text: &str| {
            let why = "the names or the token of Oracle's cloud have characters that cannot be sent";
            HeaderValue::from_str(text).map_err(|_| Failure::permanent(Error::config(why)))
        };
        let mut authorization = value(&header)?;
        authorization.set_sensitive(true);
        if let Some(digest) = digest {
            request.headers_mut().insert("x-content-sha256", value(&digest)?);
        }
        request.headers_mut().insert(DATE, value(&date)?);
        request.headers_mut().insert(AUTHORIZATION, authorization);
        Ok(())
    }

    fn learn(&self, rejected: &Rejected<'_>) -> bool {
        // The key and the token of a session that is being renewed may not belong together for a moment.
        rejected.status == StatusCode::UNAUTHORIZED && self.session.lock().take().is_some()
    }

    fn hint(&self, status: StatusCode, code: Option<&str>) -> Option<String> {
        Some(match (status.as_u16(), code) {
            // A bucket that is not public is not there, for a request without a signature.
            (401 | 404, _) if self.key.is_none() => {
                "no credentials were found: run `oci setup config`, which writes ~/.oci/config".to_owned()
            }
            (401, _) => {
                "check tenancy, user, fingerprint and key in ~/.oci/config, that the session has not ended, and this \
                 machine's clock"
                    .to_owned()
            }
            (404, Some("BucketNotFound" | "BucketNotFoundOrNotAuthorized")) => {
                format!("there is no bucket {} in this region and namespace, or the user may not read it", self.bucket)
            }
            (400 | 404 | 405, None) => {
                "the server may not be Oracle's object storage: check OCI_CLI_ENDPOINT and the region".to_owned()
            }
            (404, Some("NamespaceNotFound")) => "`oci os ns get` prints the namespace".to_owned(),
            _ => return None,
        })
    }
}
