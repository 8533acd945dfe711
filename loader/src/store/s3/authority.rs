//! What makes an HTTP remote an S3 bucket: addresses, signatures, listing.
//!
//! The library signs (`AwsAuthorizer`) and finds credentials (its providers: static keys, web identity, container,
//! instance), because those are many and change; the requests for objects are ours, because they go into the caller's
//! memory, resume, and count their attempts. Signing costs some 20 µs a request.

use super::bridge::Bridge;
use super::settings::S3Settings;
use crate::clock::Clock;
use crate::stats::Stats;
use crate::store::http::{Authority, meaning};
use crate::store::source::{Failure, ObjectInfo};
use crate::store::thread::{Shared, ThreadContext};
use crate::store::url::encode_path;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering};
use crate::{Error, ErrorKind, Result};
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, Uri};
use object_store::aws::{AmazonS3, AmazonS3Builder, AwsAuthorizer, AwsCredential};
use object_store::client::HttpRequest;
use object_store::list::{PaginatedListOptions, PaginatedListStore as _};
use object_store::{RetryConfig, aws::AmazonS3ConfigKey};
use std::time::Duration;

/// Region until a setting or an answer says otherwise.
const REGION_DEFAULT: &str = "us-east-1";

/// After having found no credentials anywhere, they are not looked for again for this long.
const NONE_FOUND_FOR: Duration = Duration::from_secs(60);

/// Objects of one listing; more is a prefix that nobody meant.
const LIST_MAX: usize = 10_000_000;

/// One bucket and a prefix in it.
#[derive(Debug)]
pub(crate) struct S3 {
    settings: S3Settings,
    bucket: String,
    /// Ends with a slash unless it is empty.
    prefix: String,
    region: Mutex<String>,
    bridge: Bridge,
    /// The library's store for this bucket, remade when the region turns out to be another one.
    library: Mutex<Arc<AmazonS3>>,
    /// Until when nobody looks for credentials again. Held while looking, so that one looks and the others wait.
    none_until: tokio::sync::Mutex<Option<Duration>>,
    /// No credentials were found the last time.
    unsigned: AtomicBool,
    clock: Clock,
    stats: Arc<Stats>,
}

impl S3 {
    pub(crate) fn new(shared: &Arc<Shared>, settings: S3Settings, bucket: String, prefix: &str) -> Result<Self> {
        settings.validate()?;
        let region = settings.region.clone().unwrap_or_else(|| REGION_DEFAULT.to_owned());
        let bridge = Bridge::new(shared);
        let library = Arc::new(builder(&settings, &bucket, &region, &bridge).build().map_err(unfit)?);
        Ok(Self {
            settings,
            bucket,
            prefix: if prefix.is_empty() { String::new() } else { format!("{prefix}/") },
            region: Mutex::new(region),
            bridge,
            library: Mutex::new(library),
            none_until: tokio::sync::Mutex::new(None),
            unsigned: AtomicBool::new(false),
            clock: shared.clock.clone(),
            stats: shared.stats.clone(),
        })
    }

    fn region(&self) -> String {
        self.region.lock().clone()
    }

    /// Scheme, host and path of the bucket, without a slash at the end.
    fn bucket_address(&self) -> String {
        if let Some(endpoint) = &self.settings.endpoint {
            return format!("{}/{}", endpoint.trim_end_matches('/'), self.bucket);
        }
        let region = self.region();
        let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        // A dot in the bucket's name would not match the certificate.
        if self.bucket.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
            format!("https://{}.s3.{region}.{domain}", self.bucket)
        } else {
            format!("https://s3.{region}.{domain}/{}", self.bucket)
        }
    }

    /// Credentials to sign with; `None` to ask without.
    async fn credential(&self) -> Result<Option<Arc<AwsCredential>>, Failure> {
        if self.settings.anonymous {
            return Ok(None);
        }
        let library = self.library.lock().clone();
        if self.settings.names_credentials() {
            let found = library.credentials().get_credential().await;
            return found.map(Some).map_err(|e| {
                let why = "the credentials that the environment names cannot be had";
                Failure::transient(Error::new(ErrorKind::Permission, why).caused_by(e))
            });
        }
        let mut none_until = self.none_until.lock().await;
        self.unsigned.store(true, Ordering::Relaxed);
        if self.settings.no_metadata || none_until.is_some_and(|until| self.clock.now() < until) {
            return Ok(None);
        }
        match library.credentials().get_credential().await {
            Ok(found) => {
                self.unsigned.store(false, Ordering::Relaxed);
                Ok(Some(found))
            }
            Err(e) => {
                log::info!("no AWS credentials: {e}");
                self.stats.note("requests to S3 are not signed: no credentials were found");
                *none_until = Some(self.clock.now() + NONE_FOUND_FOR);
                Ok(None)
            }
        }
    }
}

/// The library's store, used for its credentials, its listing and its signatures. It makes no second attempts: those
/// are counted above.
fn builder(settings: &S3Settings, bucket: &str, region: &str, bridge: &Bridge) -> AmazonS3Builder {
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(bucket)
        .with_region(region)
        .with_allow_http(true)
        .with_skip_signature(settings.anonymous)
        .with_request_payer(settings.requester_pays(bucket))
        .with_retry(RetryConfig { max_retries: 0, retry_timeout: Duration::ZERO, ..RetryConfig::default() })
        .with_http_connector(bridge.clone());
    if let (Some(key), Some(secret)) = (&settings.access_key, &settings.secret_key) {
        builder = builder.with_access_key_id(key).with_secret_access_key(secret);
        if let Some(token) = &settings.token {
            builder = builder.with_token(token);
        }
    }
    if let Some(endpoint) = &settings.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    for (name, value) in &settings.providers {
        if let Ok(key) = name.to_lowercase().parse::<AmazonS3ConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    builder
}

fn unfit(error: object_store::Error) -> Error {
    Error::config("the S3 settings do not fit together").caused_by(error)
}

#[async_trait(?Send)]
impl Authority for S3 {
    fn address(&self, key: &str) -> Result<Uri> {
        let address = format!("{}/{}{}", self.bucket_address(), encode_path(&self.prefix), encode_path(key));
        address.parse().map_err(|e| Error::config("not a valid address").caused_by(e).with("address", address))
    }

    async fn authorize(&self, _: &ThreadContext, request: &mut Request<Bytes>) -> Result<(), Failure> {
        let Some(credential) = self.credential().await? else { return Ok(()) };
        let mut signed = HttpRequest::new(request.body().clone().into());
        *signed.method_mut() = request.method().clone();
        *signed.uri_mut() = request.uri().clone();
        *signed.headers_mut() = std::mem::take(request.headers_mut());
        let region = self.region();
        AwsAuthorizer::new(&credential, "s3", &region)
            .with_request_payer(self.settings.requester_pays(&self.bucket))
            .try_authorize(&mut signed, None)
            .map_err(|e| Failure::last(Error::internal("the request cannot be signed").caused_by(e)))?;
        *request.headers_mut() = std::mem::take(signed.headers_mut());
        Ok(())
    }

    fn learn(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        // A wrong region shows as a redirect without an address, or as a malformed signature.
        if !matches!(status.as_u16(), 301 | 307 | 400) {
            return false;
        }
        let Some(told) = headers.get("x-amz-bucket-region").and_then(|v| v.to_str().ok()) else { return false };
        let sound = !told.is_empty() && told.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        let mut region = self.region.lock();
        if !sound || *region == told {
            return false;
        }
        match builder(&self.settings, &self.bucket, told, &self.bridge).build() {
            Ok(library) => *self.library.lock() = Arc::new(library),
            Err(_) => return false,
        }
        log::info!("bucket {} is in {told}, not in {region}", self.bucket);
        told.clone_into(&mut region);
        true
    }

    fn hint(&self) -> Option<&'static str> {
        self.unsigned
            .load(Ordering::Relaxed)
            .then_some("no credentials were found: set AWS_ACCESS_KEY_ID or AWS_PROFILE")
    }

    async fn list(&self, _: &ThreadContext, prefix: &str) -> Result<Vec<ObjectInfo>, Failure> {
        let bridge = self.bridge.another();
        let mut found = self.list_pages(&bridge, prefix).await;
        if found.is_err()
            && let Some((status, headers)) = bridge.last()
            && self.learn(status, &headers)
        {
            found = self.list_pages(&bridge, prefix).await;
        }
        let mut found = found?;
        found.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(found)
    }
}

impl S3 {
    async fn list_pages(&self, bridge: &Bridge, prefix: &str) -> Result<Vec<ObjectInfo>, Failure> {
        let start = format!("{}{prefix}", self.prefix);
        let signed = self.credential().await?.is_some();
        let credentials = self.library.lock().credentials().clone();
        // A store of its own for its own bridge, with the credentials that are there already.
        let store = builder(&self.settings, &self.bucket, &self.region(), bridge)
            .with_credentials(credentials)
            .with_skip_signature(!signed)
            .build()
            .map_err(|e| Failure::last(unfit(e)))?;
        let mut found = Vec::new();
        let mut page_token = None;
        loop {
            let options = PaginatedListOptions { page_token, ..PaginatedListOptions::default() };
            let page = store.list_paginated(Some(&start), options).await;
            let page = page.map_err(|e| self.listing_failed(e, bridge))?;
            found.extend(page.result.objects.into_iter().filter_map(|object| {
                let key = object.location.as_ref().strip_prefix(self.prefix.as_str())?.to_owned();
                Some(ObjectInfo { key, bytes: object.size })
            }));
            if found.len() > LIST_MAX {
                return Err(Failure::last(Error::new(ErrorKind::Unsupported, "too many objects below the prefix")));
            }
            page_token = page.page_token;
            if page_token.is_none() {
                return Ok(found);
            }
        }
    }

    fn listing_failed(&self, error: object_store::Error, bridge: &Bridge) -> Failure {
        let (kind, retried, why) = match bridge.last() {
            Some((status, _)) if !status.is_success() => meaning(status),
            _ => (ErrorKind::Network, true, "the bucket cannot be listed"),
        };
        let mut error = Error::new(kind, why).caused_by(error);
        if kind == ErrorKind::Permission
            && let Some(hint) = self.hint()
        {
            error = error.with("hint", hint);
        }
        Failure { error, retried, retry_after: None }
    }
}
