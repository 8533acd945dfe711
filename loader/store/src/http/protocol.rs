//! Addresses and signatures of an HTTP store, which differ between stores.

use super::redirects::Redirects;
use crate::context::ThreadContext;
use crate::failure::Failure;
use crate::key::encode_path;
use crate::source::Version;
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, Uri};

/// Store-specific parts of a request.
#[async_trait(?Send)]
pub(crate) trait Protocol: Send + Sync {
    fn address(&self, key: &str) -> String;

    /// Signs `request`, which has an absolute address. Called again after every redirect.
    async fn sign(&self, context: &ThreadContext, request: &mut Request<Bytes>) -> Result<(), Failure>;

    /// Returns true if a request may name the version that it needs: `If-Match` and the like.
    fn has_conditions(&self) -> bool {
        true
    }

    /// Returns true if equal content has equal tags. Of several web servers behind one address each may have its own.
    fn has_tags_of_content(&self) -> bool {
        true
    }

    /// Returns the version of the object that a redirect leads to, if its headers name it.
    fn version_in_redirect(&self, _headers: &HeaderMap) -> Option<Version> {
        None
    }

    /// Returns the addresses that keys were redirected to, where they may be used for further requests.
    fn redirects(&self) -> Option<&Redirects> {
        None
    }

    /// Receives the headers of a response from the store's own server that is no error.
    fn note(&self, _address: &Uri, _received: &HeaderMap) {}

    /// Learns from a response without success; true if the same request should be sent again.
    fn learn(&self, _rejected: &Rejected<'_>) -> bool {
        false
    }

    /// Returns a hint for the error about a rejected request; `code` is the server's word for the reason.
    fn hint(&self, _status: StatusCode, _code: Option<&str>) -> Option<String> {
        None
    }
}

/// Exchange that ended without success.
pub(crate) struct Rejected<'a> {
    pub(crate) address: &'a Uri,
    /// Headers of the request.
    pub(crate) sent: &'a HeaderMap,
    pub(crate) status: StatusCode,
    pub(crate) received: &'a HeaderMap,
}

/// Plain HTTP, without signatures.
pub(crate) struct PlainProtocol {
    /// Address of the folder, without a slash at the end.
    base: String,
}

impl PlainProtocol {
    pub(crate) fn new(base: &url::Url) -> Self {
        Self { base: base.as_str().trim_end_matches('/').to_owned() }
    }
}

#[async_trait(?Send)]
impl Protocol for PlainProtocol {
    fn address(&self, key: &str) -> String {
        format!("{}/{}", self.base, encode_path(key))
    }

    async fn sign(&self, _: &ThreadContext, _: &mut Request<Bytes>) -> Result<(), Failure> {
        Ok(())
    }

    fn has_tags_of_content(&self) -> bool {
        false
    }

    fn hint(&self, status: StatusCode, _: Option<&str>) -> Option<String> {
        matches!(status.as_u16(), 401 | 403).then(|| {
            "no credentials are sent over http(s): use an address with a signature that has not expired, or the \
             store's own scheme, such as s3://"
                .to_owned()
        })
    }
}
