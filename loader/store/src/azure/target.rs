//! Containers as destinations: blocks, and a list that joins them.

use super::protocol::AzureProtocol;
use crate::Error;
use crate::context::ThreadContext;
use crate::destination::{
    Conditional, Expected, ListRequest, ListedEntry, ObjectTag, Page, PartAt, Payload, StoredPart, Target, check_md5,
    condition, conditional, described, incomplete, object_tag, read_xml, unless_missing, unquoted,
};
use crate::failure::Failure;
use crate::http::{Answer, Outgoing, Protocol as _, Refusal, Signer};
use crate::key::encode_component;
use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Method;
use http::header::HeaderName;
use serde::Deserialize;
use std::fmt::Write as _;

/// Most blocks of a blob.
const BLOCKS_MAX: u64 = 50_000;

const WRITE: &str = "to write to the container (the role Storage Blob Data Contributor, or `cw` of a SAS token)";
const LIST: &str = "to list the container (the role Storage Blob Data Reader, or `l` of a SAS token)";
const DELETE: &str = "to remove blobs (the role Storage Blob Data Contributor, or `d` of a SAS token)";

/// Headers of a request with a whole blob.
const PUT: [(&str, &str); 2] = [("x-ms-blob-type", "BlockBlob"), ("content-type", "application/octet-stream")];

/// Folder in a container.
pub(crate) struct AzureTarget {
    signer: Signer<AzureProtocol>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    blobs: Blobs,
    /// Empty on the last page.
    next_marker: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Blobs {
    #[serde(default)]
    blob: Vec<Blob>,
    #[serde(default)]
    blob_prefix: Vec<BlobPrefix>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Blob {
    name: String,
    properties: Properties,
}

#[derive(Deserialize)]
struct Properties {
    #[serde(rename = "Content-Length")]
    length: u64,
    #[serde(rename = "Last-Modified")]
    modified: Option<String>,
    #[serde(rename = "Etag")]
    etag: Option<String>,
    /// "directory" in accounts with folders.
    #[serde(rename = "ResourceType")]
    resource: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct BlobPrefix {
    name: String,
}

impl AzureTarget {
    pub(crate) fn new(protocol: AzureProtocol, user_agent: &str) -> Result<Self, Error> {
        Ok(Self { signer: Signer::new(protocol, user_agent)? })
    }

    /// Makes an exchange about a blob, or about the container for `None`.
    async fn call(
        &self,
        context: &ThreadContext,
        (method, key, query, right): (Method, Option<&str>, &str, &str),
        payload: &Payload,
        headers: &[(&'static str, &str)],
    ) -> Result<Answer, Refusal> {
        let outgoing = || {
            let address = match key {
                Some(key) => self.signer.protocol.address(key),
                None => self.signer.protocol.container_address().to_owned(),
            };
            let address = if query.is_empty() { address } else { format!("{address}?{query}") };
            let mut outgoing = Outgoing::new(method.clone(), address, payload, right);
            if !payload.is_empty() {
                outgoing = outgoing.with(HeaderName::from_static("content-md5"), payload.md5());
            }
            headers
                .iter()
                .fold(outgoing, |outgoing, (name, value)| outgoing.with(HeaderName::from_static(name), *value))
        };
        self.signer.call(context, outgoing).await
    }
}

/// Returns the name of a block: the names of a blob's blocks have equal lengths.
fn block_name(upload: &str, number: u32) -> String {
    BASE64_STANDARD.encode(format!("{upload}-{number:06}"))
}

#[async_trait(?Send)]
impl Target for AzureTarget {
    fn parts_max(&self) -> u64 {
        BLOCKS_MAX
    }

    fn prepare(&self, payload: &Payload) {
        payload.md5();
    }

    async fn put(&self, context: &ThreadContext, key: &str, payload: &Payload) -> Result<ObjectTag, Failure> {
        let exchange = (Method::PUT, Some(key), "", WRITE);
        let answer = self.call(context, exchange, payload, &PUT).await?;
        check_md5(&answer, payload)?;
        Ok(object_tag(&answer))
    }

    async fn put_if(
        &self,
        context: &ThreadContext,
        key: &str,
        payload: &Payload,
        expected: &Expected,
    ) -> Result<Conditional, Failure> {
        let exchange = (Method::PUT, Some(key), "", WRITE);
        let (name, value) = condition(expected);
        let headers = [PUT[0], PUT[1], (name, &*value)];
        conditional(self.call(context, exchange, payload, &headers).await, payload, expected)
    }

    /// Names the upload; the service knows of it from the first block. The name keeps blocks apart from blocks of
    /// another writer of the same blob.
    async fn begin(&self, context: &ThreadContext, _: &str) -> Result<String, Failure> {
        Ok(format!("{:016x}", context.draws.borrow_mut().next()))
    }

    async fn put_part(
        &self,
        context: &ThreadContext,
        key: &str,
        at: PartAt<'_>,
        payload: &Payload,
    ) -> Result<StoredPart, Failure> {
        let name = block_name(at.upload, at.number);
        let query = format!("comp=block&blockid={}", encode_component(&name));
        check_md5(&self.call(context, (Method::PUT, Some(key), &query, WRITE), payload, &[]).await?, payload)?;
        Ok(at.stored(payload, name))
    }

    async fn complete(
        &self,
        context: &ThreadContext,
        key: &str,
        _: &str,
        parts: &[StoredPart],
    ) -> Result<ObjectTag, Failure> {
        let mut body = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>");
        // After a response that was lost, the blob has the blocks: the latest ones are in either list.
        parts.iter().for_each(|part| {
            let _ = write!(body, "<Latest>{}</Latest>", part.tag);
        });
        body.push_str("</BlockList>");
        let headers = [("x-ms-blob-content-type", "application/octet-stream")];
        let body = Payload::from(body.into_bytes());
        let answer = self.call(context, (Method::PUT, Some(key), "comp=blocklist", WRITE), &body, &headers).await?;
        Ok(object_tag(&answer))
    }

    /// Does nothing: blocks that are not joined are not shown, and removed by the service within a week.
    async fn abort(&self, _: &ThreadContext, _: &str, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    async fn list(&self, context: &ThreadContext, request: &ListRequest) -> Result<Page, Failure> {
        let own = self.signer.protocol.prefix();
        let prefix = encode_component(&format!("{own}{}", request.prefix));
        let mut query = format!("restype=container&comp=list&prefix={prefix}");
        if !request.is_recursive {
            query.push_str("&delimiter=%2F");
        }
        if let Some(next) = &request.next {
            let _ = write!(query, "&marker={}", encode_component(next));
        }
        let exchange = (Method::GET, None, &*query, LIST);
        let answer = self.call(context, exchange, &Payload::default(), &[]).await?;
        // The document may begin with a byte order mark.
        let body = answer.body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&answer.body);
        let listed: Listed = read_xml(body, "EnumerationResults", "the listing")?;
        let blobs = listed.blobs.blob.into_iter();
        let blobs = blobs.filter(|blob| blob.properties.resource.as_deref() != Some("directory"));
        let blobs = blobs.map(|blob| ListedEntry {
            key: blob.name,
            size: blob.properties.length,
            etag: blob.properties.etag.as_deref().map(unquoted),
            modified: blob.properties.modified.and_then(|time| httpdate::parse_http_date(&time).ok()),
        });
        let folders = listed.blobs.blob_prefix.into_iter().map(|folder| folder.name);
        let next = listed.next_marker.ok_or_else(|| incomplete("the answer has no NextMarker"))?;
        Ok(Page::below(own, blobs, folders, Some(next)))
    }

    async fn find(&self, context: &ThreadContext, key: &str) -> Result<Option<ListedEntry>, Failure> {
        described(key, self.call(context, (Method::HEAD, Some(key), "", LIST), &Payload::default(), &[]).await)
    }

    async fn delete(&self, context: &ThreadContext, key: &str) -> Result<(), Failure> {
        let exchange = (Method::DELETE, Some(key), "", DELETE);
        let removed = self.call(context, exchange, &Payload::default(), &[]).await;
        unless_missing(removed, |refusal| refusal.has_code(&["BlobNotFound"]))
    }
}
