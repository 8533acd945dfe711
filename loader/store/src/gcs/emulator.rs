//! Buckets of emulators of Google Cloud Storage as destinations.
//!
//! Emulators have only the JSON interface: no uploads in parts that are joined, so an object is one request.

use super::protocol::GcsProtocol;
use crate::context::ThreadContext;
use crate::destination::{ListRequest, ListedEntry, ObjectTag, Page, Payload, Target, read_json, unless_missing};
use crate::failure::Failure;
use crate::http::{Answer, Outgoing, Refusal, Signer};
use crate::key::encode_component;
use crate::s3::BucketProtocol as _;
use crate::{Error, ErrorKind};
use async_trait::async_trait;
use http::{Method, header};
use serde::Deserialize;
use std::fmt::Write as _;

/// Folder in a bucket of an emulator.
pub(crate) struct EmulatorTarget {
    signer: Signer<GcsProtocol>,
    endpoint: String,
    bucket: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    #[serde(default)]
    items: Vec<Object>,
    #[serde(default)]
    prefixes: Vec<String>,
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    name: String,
    /// A number as text.
    size: serde_json::Value,
    etag: Option<String>,
    updated: Option<String>,
    md5_hash: Option<String>,
}

impl Object {
    fn size(&self) -> Result<u64, Failure> {
        let size = self.size.as_str().map_or_else(|| self.size.as_u64(), |text| text.parse().ok());
        size.ok_or_else(|| Failure::network("the response has no size"))
    }

    fn entry(self) -> Result<ListedEntry, Failure> {
        let (size, modified) = (self.size()?, self.updated.as_deref());
        let modified = modified.and_then(|time| humantime::parse_rfc3339_weak(time).ok());
        Ok(ListedEntry { key: self.name, size, etag: self.etag, modified })
    }
}

impl EmulatorTarget {
    pub(crate) fn new(protocol: GcsProtocol, user_agent: &str) -> Result<Self, Error> {
        let address = protocol.bucket_address();
        let (endpoint, bucket) = address.rsplit_once('/').unwrap_or_default();
        let (endpoint, bucket) = (endpoint.to_owned(), bucket.to_owned());
        Ok(Self { signer: Signer::new(protocol, user_agent)?, endpoint, bucket })
    }

    fn name(&self, key: &str) -> String {
        encode_component(&format!("{}{key}", self.signer.protocol.prefix()))
    }

    async fn call(
        &self,
        context: &ThreadContext,
        method: Method,
        path: &str,
        payload: &Payload,
    ) -> Result<Answer, Refusal> {
        let address = format!("{}{path}", self.endpoint);
        let outgoing = || {
            let outgoing = Outgoing::new(method.clone(), address.clone(), payload, "");
            outgoing.with(header::CONTENT_TYPE, "application/octet-stream")
        };
        self.signer.call(context, outgoing).await
    }

    fn object(&self, key: &str) -> String {
        format!("/storage/v1/b/{}/o/{}", self.bucket, self.name(key))
    }
}

#[async_trait(?Send)]
impl Target for EmulatorTarget {
    fn prepare(&self, payload: &Payload) {
        payload.md5();
    }

    async fn put(&self, context: &ThreadContext, key: &str, payload: &Payload) -> Result<ObjectTag, Failure> {
        let path = format!("/upload/storage/v1/b/{}/o?uploadType=media&name={}", self.bucket, self.name(key));
        let answer = self.call(context, Method::POST, &path, payload).await?;
        let stored: Object = read_json(&answer.body, "the description of the object")?;
        if stored.size()? != payload.len() || stored.md5_hash.is_some_and(|md5| md5 != payload.md5()) {
            return Err(Failure::transient(Error::new(ErrorKind::Checksum, "the store received different bytes")));
        }
        Ok(stored.etag)
    }

    async fn list(&self, context: &ThreadContext, request: &ListRequest) -> Result<Page, Failure> {
        let own = self.signer.protocol.prefix();
        let mut path = format!("/storage/v1/b/{}/o?prefix={}", self.bucket, self.name(&request.prefix));
        if !request.is_recursive {
            path.push_str("&delimiter=%2F");
        }
        if let Some(next) = &request.next {
            let _ = write!(path, "&pageToken={}", encode_component(next));
        }
        let answer = self.call(context, Method::GET, &path, &Payload::default()).await?;
        let listed: Listed = read_json(&answer.body, "the listing")?;
        let objects = listed.items.into_iter().map(Object::entry);
        let objects = objects.collect::<Result<Vec<_>, Failure>>()?.into_iter();
        let objects = objects.filter(|object| !object.key.ends_with('/'));
        Ok(Page::below(own, objects, listed.prefixes.into_iter(), listed.next_page_token))
    }

    async fn find(&self, context: &ThreadContext, key: &str) -> Result<Option<ListedEntry>, Failure> {
        match self.call(context, Method::GET, &self.object(key), &Payload::default()).await {
            Ok(answer) => read_json::<Object>(&answer.body, "the description of the object")?.entry().map(|entry| {
                // Relative to the destination.
                Some(ListedEntry { key: key.to_owned(), ..entry })
            }),
            Err(refusal) if refusal.is_missing() => Ok(None),
            Err(refusal) => Err(refusal.failure),
        }
    }

    async fn delete(&self, context: &ThreadContext, key: &str) -> Result<(), Failure> {
        let removed = self.call(context, Method::DELETE, &self.object(key), &Payload::default()).await;
        unless_missing(removed, Refusal::is_missing)
    }
}
