//! Addresses and signatures of S3 buckets.
//!
//! object_store signs requests (`AwsAuthorizer`) and finds credentials (static keys, web identity, container,
//! instance), because those are many and change; `source` has credentials of profiles. The requests for objects are
//! ours, because they write to the caller's memory, resume, and count their attempts. A signature costs some 20 µs.

use super::authorize::authorize;
use super::provided::Provided;
use super::settings::S3Settings;
use crate::context::ThreadContext;
use crate::credentials::{Bridge, Search, refuse_redirect};
use crate::failure::Failure;
use crate::http::{Origin, Protocol, Rejected};
use crate::key::encode_path;
use crate::threads::FetchQueues;
use crate::url::Bucket;
use crate::{Error, Result};
use async_trait::async_trait;
use bytes::Bytes;
use forebay_core::sync::{Arc, Mutex};
use http::header::AUTHORIZATION;
use http::{Request, StatusCode, Uri};
use object_store::aws::{AmazonS3, AmazonS3Builder, AwsAuthorizer, AwsCredential};
use object_store::{RetryConfig, aws::AmazonS3ConfigKey};
use std::time::Duration;

/// Region until a setting or a response names a different one.
const REGION_DEFAULT: &str = "us-east-1";

/// Ends of the names of AWS's servers.
const DOMAINS: [&str; 2] = [".amazonaws.com", ".amazonaws.com.cn"];

/// One bucket, with a prefix in it.
pub(crate) struct S3Protocol {
    settings: S3Settings,
    bucket: String,
    /// Ends with a slash unless it is empty.
    prefix: String,
    bridge: Bridge,
    /// The bucket's region and the library's store for it, created again when the region turns out to be a different
    /// one.
    library: Mutex<(String, Arc<AmazonS3>)>,
    search: Search,
    /// Credentials of a source that the settings name.
    provided: Option<Provided>,
}

impl S3Protocol {
    pub(crate) fn new(queues: &Arc<FetchQueues>, settings: S3Settings, bucket: Bucket) -> Result<Self> {
        settings.validate()?;
        let Bucket { name: bucket, prefix } = bucket;
        let region = settings.region.clone().unwrap_or_else(|| REGION_DEFAULT.to_owned());
        let bridge = Bridge::new(queues);
        let library = builder(&settings, &bucket, &region, &bridge).build();
        let library = library.map_err(|e| Error::config("the S3 settings do not fit together").caused_by(e))?;
        let provided = settings.source.clone().map(Provided::new);
        Ok(Self {
            provided,
            settings,
            bucket,
            prefix: if prefix.is_empty() { String::new() } else { format!("{prefix}/") },
            bridge,
            library: Mutex::new((region, Arc::new(library))),
            search: Search::new("S3"),
        })
    }

    fn region(&self) -> String {
        self.library.lock().0.clone()
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn canned_acl(&self) -> Option<&str> {
        self.settings.canned_acl.as_deref()
    }

    pub(super) fn is_anonymous(&self) -> bool {
        self.settings.anonymous
    }

    /// Returns true for AWS, and for further servers if that is configured: some of them reject the header.
    pub(super) fn sends_checksum(&self) -> bool {
        let endpoint = self.settings.endpoint.as_deref();
        let host = endpoint.and_then(|endpoint| Origin::of(&endpoint.parse().ok()?)).map(|origin| origin.host);
        let is_aws = endpoint.is_none() || host.is_some_and(|host| DOMAINS.iter().any(|domain| host.ends_with(domain)));
        !self.settings.anonymous && (self.settings.checksums || is_aws)
    }

    /// Returns scheme, host and path of the bucket, without a slash at the end.
    pub(super) fn bucket_address(&self) -> String {
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

    /// Returns true if a request was made for a region that is not the bucket's, which is `region`.
    fn is_of_earlier_region(&self, rejected: &Rejected<'_>, region: &str) -> bool {
        let signature = rejected.sent.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        // AWS4-HMAC-SHA256 Credential=KEY/DATE/REGION/s3/aws4_request, ...
        let scope = signature.and_then(|text| text.split_once("Credential=")?.1.split(',').next());
        match scope {
            Some(scope) => scope.rsplit('/').nth(2) != Some(region),
            None => {
                let own = self.bucket_address().parse().ok().and_then(|own| Origin::of(&own));
                Origin::of(rejected.address) != own
            }
        }
    }

    /// Returns true if there are credentials that differ from the rejected ones.
    fn renews(&self, rejected: &Rejected<'_>) -> bool {
        let Some(provided) = &self.provided else { return false };
        let signature = rejected.sent.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let key = signature.and_then(|text| text.split_once("Credential=")?.1.split('/').next());
        matches!(rejected.status.as_u16(), 400 | 401 | 403) && key.is_some_and(|key| provided.renew(key))
    }

    /// Returns true for addresses on the bucket's own server, or on one of S3 in a different region.
    fn may_sign(&self, address: &Uri) -> bool {
        let own = self.bucket_address().parse().ok().and_then(|own| Origin::of(&own));
        let origin = Origin::of(address);
        let is_aws = self.settings.endpoint.is_none() && origin.as_ref().is_some_and(|to| is_s3(to, &self.bucket));
        is_aws || origin.is_some() && origin == own
    }

    /// Returns the credentials for signatures; `None` to send requests unsigned.
    async fn credential(&self, context: &ThreadContext) -> Result<Option<Arc<AwsCredential>>, Failure> {
        if self.settings.anonymous {
            return Ok(None);
        }
        let library = self.library.lock().1.clone();
        let provider = &**library.credentials();
        if let Some(provided) = &self.provided {
            return provided.get(context, async || self.bridge.named(provider).await).await.map(Some);
        }
        if self.settings.names_credentials() {
            return self.bridge.named(provider).await.map(Some);
        }
        if self.settings.no_metadata {
            self.search.give_up();
            return Ok(None);
        }
        self.search.run(&context.shared, async || self.bridge.find(provider).await).await
    }
}

/// Configures the library's store, which is used for its credentials. It does not retry: attempts are counted above.
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

/// Returns true for `s3.REGION.amazonaws.com`, its older form `s3-REGION`, and the bucket's name before it. Later hosts
/// may have hosts with more labels in this domain.
fn is_s3(origin: &Origin, bucket: &str) -> bool {
    let Some(name) = DOMAINS.iter().find_map(|domain| origin.host.strip_suffix(domain)) else { return false };
    let name = name.strip_prefix(bucket).and_then(|name| name.strip_prefix('.')).unwrap_or(name);
    let is_region = |text: &str| text.strip_prefix(['.', '-']).is_some_and(|region| !region.contains('.'));
    origin.tls && name.strip_prefix("s3").is_some_and(|rest| rest.is_empty() || is_region(rest))
}

#[async_trait(?Send)]
impl Protocol for S3Protocol {
    fn address(&self, key: &str) -> String {
        format!("{}/{}{}", self.bucket_address(), encode_path(&self.prefix), encode_path(key))
    }

    async fn sign(&self, context: &ThreadContext, request: &mut Request<Bytes>) -> Result<(), Failure> {
        let Some(credential) = self.credential(context).await? else { return Ok(()) };
        if !self.may_sign(request.uri()) {
            return Err(refuse_redirect(request.uri()));
        }
        let region = self.region();
        let authorizer = AwsAuthorizer::new(&credential, "s3", &region)
            .with_request_payer(self.settings.requester_pays(&self.bucket));
        authorize(request, &authorizer)
    }

    fn learn(&self, rejected: &Rejected<'_>) -> bool {
        if self.renews(rejected) {
            return true;
        }
        // A wrong region shows as a redirect without an address, or as a malformed signature.
        if !matches!(rejected.status.as_u16(), 301 | 307 | 400) {
            return false;
        }
        let Some(named) = rejected.received.get("x-amz-bucket-region").and_then(|v| v.to_str().ok()) else {
            return false;
        };
        let is_valid =
            !named.is_empty() && named.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !is_valid {
            return false;
        }
        if self.region() == named {
            // A request that was in flight at the same time, may have learned it before.
            return self.is_of_earlier_region(rejected, named);
        }
        let mut current = self.library.lock();
        let Ok(library) = builder(&self.settings, &self.bucket, named, &self.bridge).build() else { return false };
        log::info!("bucket {} is in {named}, not in {}", self.bucket, current.0);
        *current = (named.to_owned(), Arc::new(library));
        true
    }

    fn hint(&self, status: StatusCode, code: Option<&str>) -> Option<String> {
        let hint = match (status.as_u16(), code) {
            (401 | 403, _) if self.search.is_unsigned() && self.settings.profile.is_some() => {
                let profile = self.settings.profile.as_deref().unwrap_or_default();
                return Some(format!(
                    "AWS profile {profile} has no credentials: keys, credential_process, sso_session or role_arn"
                ));
            }
            (401 | 403, _) if self.search.is_unsigned() => {
                "no credentials were found: set AWS_ACCESS_KEY_ID or AWS_PROFILE"
            }
            (401 | 403, _) if self.settings.anonymous => "requests are not signed: unset AWS_SKIP_SIGNATURE",
            (_, Some("ExpiredToken" | "TokenRefreshRequired")) => {
                "the credentials have expired: get new ones, such as with `aws sso login`, and start again"
            }
            (_, Some("InvalidToken")) => "check AWS_SESSION_TOKEN, which long-lived keys do not have",
            (403, Some("InvalidAccessKeyId")) => "check AWS_ACCESS_KEY_ID, AWS_PROFILE and the endpoint",
            (403, Some("SignatureDoesNotMatch")) => "check AWS_SECRET_ACCESS_KEY",
            (403, Some("RequestTimeTooSkewed")) => "set this machine's clock",
            (403, _) => {
                return Some(format!("the credentials need the right to read bucket {} (s3:GetObject)", self.bucket));
            }
            (_, Some("AuthorizationHeaderMalformed" | "PermanentRedirect" | "IllegalLocationConstraintException")) => {
                let region = self.region();
                return Some(format!("bucket {} is not in {region}: set AWS_REGION to its region", self.bucket));
            }
            (404, Some("NoSuchBucket")) => {
                return Some(format!("there is no bucket {}: check its name and the endpoint", self.bucket));
            }
            (400, Some("InvalidRequest")) if !self.sends_checksum() && !self.settings.anonymous => {
                "a bucket with Object Lock needs checksums: set AWS_REQUEST_CHECKSUM_CALCULATION=when_supported"
            }
            // All responses of S3 without success have a code, except for some behind a proxy.
            (400..500, None) if self.settings.endpoint.is_some() => {
                "the server may not be S3: check the endpoint (S3_ENDPOINT_URL, AWS_ENDPOINT_URL_S3)"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protocol(settings: S3Settings) -> S3Protocol {
        let stats = Arc::new(forebay_core::stats::Stats::default());
        let config = crate::config::StoreConfig::default();
        let threads = crate::threads::FetchThreads::start(config, &stats, forebay_core::clock::Clock::manual());
        let queues = &threads.expect("threads").queues;
        let bucket = Bucket { name: "b".into(), prefix: String::new() };
        S3Protocol::new(queues, settings, bucket).expect("valid")
    }

    #[test]
    fn all_requests_in_flight_learn_the_region_of_the_bucket() {
        for (endpoint, is_signed) in [(None, true), (None, false), (Some("http://127.0.0.1:1".to_owned()), true)] {
            let protocol = protocol(S3Settings { endpoint, no_metadata: true, ..S3Settings::default() });
            let request = |region: &str| {
                let address: Uri = protocol.address("k").parse().expect("an address");
                let mut sent = http::HeaderMap::new();
                if is_signed {
                    let text = format!("AWS4-HMAC-SHA256 Credential=K/20261125/{region}/s3/aws4_request, Signature=0");
                    sent.insert(AUTHORIZATION, text.parse().expect("a header"));
                }
                (address, sent)
            };
            let mut received = http::HeaderMap::new();
            received.insert("x-amz-bucket-region", http::HeaderValue::from_static("eu-west-1"));
            let learns = |(address, sent): &(Uri, http::HeaderMap)| {
                protocol.learn(&Rejected { address, sent, status: StatusCode::BAD_REQUEST, received: &received })
            };
            let in_flight = [(); 8].map(|()| request(REGION_DEFAULT));
            assert!(in_flight.iter().all(learns), "{is_signed}");
            assert_eq!(protocol.region(), "eu-west-1");
            assert!(!learns(&request("eu-west-1")), "it was not rejected for its region");
        }
    }

    #[test]
    fn checksums_are_for_aws_unless_they_are_configured() {
        let sends = |endpoint: Option<&str>, checksums, anonymous| {
            let endpoint = endpoint.map(str::to_owned);
            protocol(S3Settings { endpoint, checksums, anonymous, ..S3Settings::default() }).sends_checksum()
        };
        assert!(sends(None, false, false));
        assert!(sends(Some("https://bucket.vpce-1.s3.us-east-1.vpce.amazonaws.com"), false, false));
        assert!(!sends(Some("https://amazonaws.com.example.org"), false, false));
        assert!(sends(Some("http://127.0.0.1:9000"), true, false));
        assert!(!sends(None, true, true), "requests without a signature have a different digest");
    }

    #[test]
    fn only_servers_of_s3_may_have_the_credentials_of_a_bucket_on_aws() {
        let origin = |address: &str| Origin::of(&address.parse().expect("an address")).expect("an origin");
        for address in [
            "https://b.s3.eu-west-1.amazonaws.com/x",
            "https://b.s3-eu-west-1.amazonaws.com",
            "https://s3.cn-north-1.amazonaws.com.cn/b",
            "https://b.s3.amazonaws.com",
        ] {
            assert!(is_s3(&origin(address), "b"), "{address}");
        }
        for address in [
            "http://b.s3.eu-west-1.amazonaws.com/x",
            "https://s3-evil-1.eu-west-1.elb.amazonaws.com",
            "https://evil.s3.eu-west-1.amazonaws.com",
            "https://s3evil.amazonaws.com",
            "https://b.s3.eu-west-1.amazonaws.com.evil.org",
            "https://evil.org",
        ] {
            assert!(!is_s3(&origin(address), "b"), "{address}");
        }
    }
}
