//! Hugging Face hub: addresses and tokens of data sets.

use super::settings::HfSettings;
use crate::context::ThreadContext;
use crate::credentials::is_same_server;
use crate::failure::Failure;
use crate::http::{Protocol, Redirects};
use crate::key::{encode_component, encode_path, encode_prefix, with_slash};
use crate::source::Version;
use crate::url::Repository;
use crate::{Error, Result};
use async_trait::async_trait;
use bytes::Bytes;
use forebay_core::sync::OnceLock;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{HeaderMap, Request, StatusCode, Uri};

const ENDPOINT: &str = "https://huggingface.co";

/// Folder of a data set's repository.
pub(crate) struct HfProtocol {
    /// Folder in the repository, encoded; ends with a slash unless it is empty.
    encoded_prefix: String,
    /// Address of the listings of all revisions; ends with a slash.
    trees: String,
    /// Folder in the repository, not encoded. It ends with a slash unless it is empty.
    prefix: String,
    /// Owner and name.
    repository: String,
    revision: String,
    /// Address of the page about the data set.
    page: String,
    authorization: Option<HeaderValue>,
    /// Commit of the revision at the first response. All later requests are for it, so that an epoch has one commit
    /// even if the branch moves.
    commit: OnceLock<String>,
    redirects: Redirects,
}

impl HfProtocol {
    pub(crate) fn new(settings: HfSettings, repository: Repository) -> Result<Self> {
        settings.validate()?;
        let endpoint = settings.endpoint.as_deref().unwrap_or(ENDPOINT).trim_end_matches('/');
        let page = format!("{endpoint}/datasets/{}", repository.name);
        let authorization = settings.token.as_ref().map(|token| {
            let mut header = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| Error::config("the hub's token has characters that cannot be sent"))?;
            header.set_sensitive(true);
            Ok::<_, Error>(header)
        });
        Ok(Self {
            encoded_prefix: encode_prefix(&repository.prefix),
            trees: format!("{endpoint}/api/datasets/{}/tree/", repository.name),
            prefix: with_slash(repository.prefix),
            repository: repository.name,
            revision: repository.revision,
            page,
            authorization: authorization.transpose()?,
            commit: OnceLock::new(),
            redirects: Redirects::default(),
        })
    }
}

impl HfProtocol {
    /// Returns the address of the listing of the revision's root, without a slash at the end.
    pub(super) fn tree_address(&self) -> String {
        format!("{}{}", self.trees, encode_component(&self.revision))
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }
}

/// True for the hexadecimal digits of a commit.
fn is_commit(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[async_trait(?Send)]
impl Protocol for HfProtocol {
    fn address(&self, key: &str) -> String {
        let revision = self.commit.get().unwrap_or(&self.revision);
        format!("{}/resolve/{}/{}{}", self.page, encode_component(revision), self.encoded_prefix, encode_path(key))
    }

    async fn sign(&self, _: &ThreadContext, request: &mut Request<Bytes>) -> Result<(), Failure> {
        // The server that the hub redirects to needs no token: its addresses are signed.
        if let Some(header) = &self.authorization
            && is_same_server(request.uri(), &self.page)
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

    fn redirects(&self) -> Option<&Redirects> {
        // The hub limits the requests to its own server.
        Some(&self.redirects)
    }

    fn note(&self, address: &Uri, received: &HeaderMap) {
        let commit = received.get("x-repo-commit").and_then(|value| value.to_str().ok());
        if let Some(commit) = commit.filter(|commit| is_commit(commit))
            && is_same_server(address, &self.page)
        {
            self.commit.get_or_init(|| {
                log::info!("data set {}: {} is commit {commit}", self.repository, self.revision);
                commit.to_owned()
            });
        }
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
            (404, Some("RevisionNotFound")) => match self.commit.get() {
                Some(commit) => format!("commit {commit} of data set {repository} was removed: start again"),
                None => format!("data set {repository} has no revision {revision}"),
            },
            (400 | 404 | 405, None) => "the server may not be the hub: check HF_ENDPOINT".to_owned(),
            (429, _) if self.authorization.is_none() => {
                "the hub allows fewer requests without a token: set HF_TOKEN or run `hf auth login`".to_owned()
            }
            (429, _) => "the hub's limit of requests is used up: use larger shards, or wait some minutes".to_owned(),
            _ => return None,
        })
    }
}
