//! Google Cloud: addresses and credentials of buckets.

use super::account::{Account, metadata_token};
use super::settings::GcsSettings;
use crate::context::ThreadContext;
use crate::credentials::{Search, TokenCache, is_same_server, refuse_redirect};
use crate::destination::Expected;
use crate::failure::Failure;
use crate::http::{Answer, Protocol, Rejected};
use crate::key::{encode_component, encode_path, encode_prefix, with_slash};
use crate::s3::{BucketProtocol, Right, authorize};
use crate::url::Bucket;
use crate::{Error, Result};
use async_trait::async_trait;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, StatusCode};
use object_store::aws::{AwsAuthorizer, AwsCredential};

const ENDPOINT: &str = "https://storage.googleapis.com";

/// Region of signatures with an HMAC key: any is accepted.
const REGION: &str = "auto";

/// One bucket, with a prefix in it.
pub(crate) struct GcsProtocol {
    settings: GcsSettings,
    bucket: String,
    /// Address of bucket and prefix; ends with a slash.
    base: String,
    /// Address of the bucket, without a slash at the end.
    bucket_address: String,
    /// Folder in the bucket, not encoded. It ends with a slash unless it is empty.
    prefix: String,
    /// Requests write as well.
    writes: bool,
    account: Option<Account>,
    tokens: TokenCache,
    search: Search,
}

impl GcsProtocol {
    pub(crate) fn new(settings: GcsSettings, bucket: Bucket) -> Result<Self> {
        settings.validate()?;
        let Bucket { name: bucket, prefix } = bucket;
        // A file that is not used may be of any kind.
        let is_used = !settings.anonymous && settings.access_key.is_none();
        let account = settings.credentials.as_deref().filter(|_| is_used).map(Account::parse).transpose()?;
        let endpoint = settings.endpoint.as_deref().unwrap_or(ENDPOINT).trim_end_matches('/');
        Ok(Self {
            base: format!("{endpoint}/{bucket}/{}", encode_prefix(&prefix)),
            bucket_address: format!("{endpoint}/{bucket}"),
            prefix: with_slash(prefix),
            writes: false,
            settings,
            bucket,
            account,
            tokens: TokenCache::default(),
            search: Search::new("Google Cloud Storage"),
        })
    }

    /// Requests tokens that may write.
    pub(crate) fn for_writing(self) -> Self {
        Self { writes: true, ..self }
    }

    /// Returns the HMAC key, if there is one.
    fn hmac_key(&self) -> Option<AwsCredential> {
        let (Some(key_id), Some(secret_key)) = (&self.settings.access_key, &self.settings.secret_key) else {
            return None;
        };
        Some(AwsCredential { key_id: key_id.clone(), secret_key: secret_key.clone(), token: None })
    }

    /// Returns the header with a token; `None` to send requests without one.
    async fn authorization(&self, context: &ThreadContext) -> Result<Option<HeaderValue>, Failure> {
        let shared = &context.shared;
        if let Some(account) = &self.account {
            return self.tokens.get(shared, async || account.token(context, self.writes).await).await.map(Some);
        }
        if self.settings.no_metadata {
            self.search.give_up();
            return Ok(None);
        }
        let host = self.settings.metadata_host.as_deref();
        let find = async || self.tokens.get(shared, async || metadata_token(context, host).await).await;
        self.search.run(shared, find).await
    }
}

impl BucketProtocol for GcsProtocol {
    fn bucket_address(&self) -> String {
        self.bucket_address.clone()
    }

    fn prefix(&self) -> &str {
        &self.prefix
    }

    fn sends_md5(&self) -> bool {
        true
    }

    fn condition(&self, expected: &Expected) -> Option<(&'static str, String)> {
        // Headers of Google may not be mixed with headers of a signature of S3.
        let generation = match expected {
            Expected::Absent => "0",
            Expected::Version(generation) => generation,
        };
        self.hmac_key().is_none().then(|| ("x-goog-if-generation-match", generation.to_owned()))
    }

    fn version(&self, answer: &Answer) -> Option<String> {
        answer.header("x-goog-generation").map(str::to_owned)
    }

    fn right(&self, right: Right) -> &'static str {
        match right {
            Right::Write => "to write to the bucket (storage.objects.create, and delete to replace)",
            Right::List => "to list the bucket (storage.objects.list)",
            Right::Delete => "to remove objects of the bucket (storage.objects.delete)",
            Right::Abort => "to abort uploads (storage.multipartUploads.abort)",
            Right::ListUploads => "to list unfinished uploads (storage.multipartUploads.list)",
        }
    }
}

/// Adds a parameter to the query of a request, unless it has one of this name.
fn add_to_query(request: &mut Request<Bytes>, name: &str, value: &str) -> Result<(), Failure> {
    let query = request.uri().query().unwrap_or_default();
    if query.split('&').any(|pair| pair.split('=').next() == Some(name)) {
        return Ok(());
    }
    let separator = if request.uri().query().is_some() { '&' } else { '?' };
    let address = format!("{}{separator}{name}={}", request.uri(), encode_component(value));
    let why = "the address of the request cannot be extended";
    *request.uri_mut() = address.parse().map_err(|_| Failure::permanent(Error::internal(why)))?;
    Ok(())
}

#[async_trait(?Send)]
impl Protocol for GcsProtocol {
    fn address(&self, key: &str) -> String {
        format!("{}{}", self.base, encode_path(key))
    }

    async fn sign(&self, context: &ThreadContext, request: &mut Request<Bytes>) -> Result<(), Failure> {
        if self.settings.anonymous {
            return Ok(());
        }
        let quota_project = self.account.as_ref().and_then(|account| account.quota_project.as_ref());
        let user_project = self.settings.user_project.as_ref().or(quota_project);
        if let Some(key) = self.hmac_key() {
            if !is_same_server(request.uri(), &self.base) {
                return Err(refuse_redirect(request.uri()));
            }
            // In the query, because headers of Google may not be mixed with headers of a signature of S3.
            if let Some(project) = user_project {
                add_to_query(request, "userProject", project)?;
            }
            return authorize(request, &AwsAuthorizer::new(&key, "s3", REGION));
        }
        let Some(header) = self.authorization(context).await? else { return Ok(()) };
        if !is_same_server(request.uri(), &self.base) {
            return Err(refuse_redirect(request.uri()));
        }
        request.headers_mut().insert(AUTHORIZATION, header);
        if let Some(project) = user_project.and_then(|project| HeaderValue::from_str(project).ok()) {
            request.headers_mut().insert("x-goog-user-project", project);
        }
        Ok(())
    }

    fn learn(&self, rejected: &Rejected<'_>) -> bool {
        // An expired or revoked token; one that was used is renewed by the next request.
        match rejected.sent.get(AUTHORIZATION) {
            Some(sent) if rejected.status == StatusCode::UNAUTHORIZED && self.hmac_key().is_none() => {
                self.tokens.reject(sent);
                true
            }
            _ => false,
        }
    }

    fn hint(&self, status: StatusCode, code: Option<&str>) -> Option<String> {
        let hint = match (status.as_u16(), code) {
            (401 | 403, _) if self.search.is_unsigned() => {
                "no credentials were found: set GOOGLE_APPLICATION_CREDENTIALS to a credentials file, or GCS_KEY and \
                 GCS_SECRET, or run `gcloud auth application-default login`"
            }
            (401 | 403, _) if self.settings.anonymous => {
                "requests are not signed: unset GOOGLE_SKIP_SIGNATURE, or STORAGE_EMULATOR_HOST if the server is not \
                 an emulator"
            }
            (403, Some("SignatureDoesNotMatch")) => "check GCS_SECRET",
            (403, Some("InvalidAccessKeyId" | "InvalidSecurity")) => "check GCS_KEY",
            (_, Some("RequestTimeTooSkewed")) => "set this machine's clock",
            (_, Some("UserProjectMissing")) => {
                "the requester pays for this bucket: set GOOGLE_CLOUD_QUOTA_PROJECT to the project that pays"
            }
            (403, Some("AccessDenied")) => {
                let bucket = &self.bucket;
                return Some(format!("the account needs the role Storage Object Viewer for bucket {bucket}"));
            }
            (404, Some("NoSuchBucket")) => return Some(format!("there is no bucket {}", self.bucket)),
            (400 | 404 | 405, None) if self.settings.endpoint.is_some() => {
                "the server may not be Google Cloud Storage: check STORAGE_EMULATOR_HOST and \
                 CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}
