//! Addresses and tokens of data sets.

use super::settings::HfSettings;
use crate::store::context::ThreadContext;
use crate::store::credentials::is_same_server;
use crate::store::failure::Failure;
use crate::store::http::Protocol;
use crate::store::key::{encode_component, encode_path};
use crate::store::source::Version;
use crate::store::url::Repository;
use crate::{Error, Result};
use async_trait::async_trait;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{HeaderMap, Request, StatusCode};

const ENDPOINT: &str = "https://huggingface.co";

/// Folder of a data set's repository.
pub(crate) struct HfProtocol {
    /// Address of the folder at a revision; ends with a slash.
    base: String,
    /// Owner and name.
    repository: String,
    revision: String,
    /// Address of the page about the data set.
    page: String,
    authorization: Option<HeaderValue>,
}

impl HfProtocol {
    pub(crate) fn new(settings: HfSettings, place: Repository) -> Result<Self> {
        settings.validate()?;
        let endpoint = settings.endpoint.as_deref().unwrap_or(ENDPOINT).trim_end_matches('/');
        let page = format!("{endpoint}/datasets/{}", place.name);
        let prefix = match &*place.prefix {
            "" => String::new(),
            prefix => format!("{}/", encode_path(prefix)),
        };
        let authorization = settings.token.as_ref().map(|token| {
            let mut header = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| Error::config("the hub's token has characters that cannot be sent"))?;
            header.set_sensitive(true);
            Ok::<_, Error>(header)
        });
        Ok(Self {
            base: format!("{page}/resolve/{}/{prefix}", encode_component(&place.revision)),
            repository: place.name,
            revision: place.revision,
            page,
            authorization: authorization.transpose()?,
        })
    }
}

#[async_trait(?Send)]
impl Protocol for HfProtocol {
    fn address(&self, key: &str) -> String {
        format!("{}{}", self.base, encode_path(key))
    }

    async fn sign(&self, _: &ThreadContext, request: &mut Request<Bytes>) -> Result<(), Failure> {
        // The server that the hub redirects to needs no token: its addresses are signed.
        if let Some(header) = &self.authorization
            && is_same_server(request.uri(), &self.base)
        {
            request.headers_mut().insert(AUTHORIZATION, header.clone());
        }
        Ok(())
    }

    fn has_conditions(&self) -> bool {
        // The two servers have different names for versions, and a request with a condition goes to both.
        false
    }

    fn version_in_redirect(&self, headers: &HeaderMap) -> Option<Version> {
        let tag = headers.get("x-linked-etag")?.to_str().ok()?;
        Some(Version::ETag(tag.to_owned()))
    }

    fn hint(&self, status: StatusCode, code: Option<&str>) -> Option<String> {
        let Self { repository, revision, page, .. } = self;
        Some(match (status.as_u16(), code) {
            (401 | 403 | 404, Some("GatedRepo")) => format!("request access on {page}, then set HF_TOKEN"),
            (401 | 404, Some("RepoNotFound")) | (401, _) if self.authorization.is_none() => {
                format!("there is no data set {repository}, or it is private: set HF_TOKEN or run `hf auth login`")
            }
            (401 | 404, Some("RepoNotFound")) => {
                format!("there is no data set {repository}, or HF_TOKEN has no access to it")
            }
            (401, _) => "HF_TOKEN is not valid or has expired".to_owned(),
            (404, Some("RevisionNotFound")) => format!("data set {repository} has no revision {revision}"),
            _ => return None,
        })
    }
}
