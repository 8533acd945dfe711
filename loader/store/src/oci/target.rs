//! Buckets of Oracle's object storage as destinations.

use super::protocol::OciProtocol;
use crate::Error;
use crate::context::ThreadContext;
use crate::destination::{
    Conditional, Expected, ListRequest, ListedEntry, ObjectTag, Page, PageMarks, PartAt, Payload, StoredPart, Target,
    check_md5, condition, conditional, described, object_tag, part_tag, read_json, unless_missing, unquoted,
};
use crate::failure::Failure;
use crate::http::{Answer, Outgoing, Refusal, Signer};
use crate::key::encode_component;
use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Method;
use http::header::{self, HeaderName};
use md5::{Digest as _, Md5};
use serde::Deserialize;
use serde_json::json;
use std::fmt::Write as _;

/// Most parts of an object.
const PARTS_MAX: u64 = 10_000;

const WRITE: &str = "to write to the bucket (OBJECT_CREATE, and OBJECT_OVERWRITE to replace)";
const LIST: &str = "to list the bucket (OBJECT_INSPECT)";
const LIST_UPLOADS: &str = "to list unfinished uploads (BUCKET_READ)";
const DELETE: &str = "to remove objects of the bucket (OBJECT_DELETE)";

/// Folder in a bucket.
pub(crate) struct OciTarget {
    signer: Signer<OciProtocol>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    upload_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    objects: Vec<Object>,
    #[serde(default)]
    prefixes: Vec<String>,
    next_start_with: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    name: String,
    size: Option<u64>,
    etag: Option<String>,
    time_modified: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Unfinished {
    object: String,
    upload_id: String,
}

impl OciTarget {
    pub(crate) fn new(protocol: OciProtocol, user_agent: &str) -> Result<Self, Error> {
        Ok(Self { signer: Signer::new(protocol, user_agent)? })
    }

    fn name(&self, key: &str) -> String {
        format!("{}{key}", self.signer.protocol.prefix())
    }

    /// Makes an exchange at `path` relative to the bucket: `o` has objects, `u` uploads in parts.
    async fn call(
        &self,
        context: &ThreadContext,
        exchange: (Method, &str, &str),
        payload: &Payload,
    ) -> Result<Answer, Refusal> {
        self.call_with(context, exchange, payload, None).await
    }

    /// Makes an exchange with a further header.
    async fn call_with(
        &self,
        context: &ThreadContext,
        (method, path, right): (Method, &str, &str),
        payload: &Payload,
        header: Option<(&'static str, String)>,
    ) -> Result<Answer, Refusal> {
        let outgoing = || {
            let address = format!("{}/{path}", self.signer.protocol.bucket_address());
            let mut outgoing = Outgoing::new(method.clone(), address, payload, right);
            match method {
                Method::PUT => {
                    outgoing = outgoing
                        .with(header::CONTENT_TYPE, "application/octet-stream")
                        .with(HeaderName::from_static("content-md5"), payload.md5());
                }
                Method::POST => outgoing = outgoing.with(header::CONTENT_TYPE, "application/json").once(),
                _ => {}
            }
            match &header {
                Some((name, value)) => outgoing.with(HeaderName::from_static(name), value),
                None => outgoing,
            }
        };
        self.signer.call(context, outgoing).await
    }

    async fn head(&self, context: &ThreadContext, key: &str) -> Result<Answer, Refusal> {
        let path = format!("o/{}", encode_component(&self.name(key)));
        self.call(context, (Method::HEAD, &path, LIST), &Payload::default()).await
    }

    /// Returns the address of an upload, relative to the bucket.
    fn upload(&self, key: &str, upload: &str) -> String {
        format!("u/{}?uploadId={}", encode_component(&self.name(key)), encode_component(upload))
    }
}

fn has_size_of(object: &ListedEntry, parts: &[StoredPart]) -> bool {
    object.size == parts.iter().map(|part| part.len).sum::<u64>()
}

fn without_missing(answer: Result<Answer, Refusal>) -> Result<(), Failure> {
    unless_missing(answer, |refusal| refusal.has_code(&["ObjectNotFound", "NoSuchUpload"]))
}

#[async_trait(?Send)]
impl Target for OciTarget {
    fn parts_max(&self) -> u64 {
        PARTS_MAX
    }

    fn prepare(&self, payload: &Payload) {
        payload.md5();
    }

    async fn put(&self, context: &ThreadContext, key: &str, payload: &Payload) -> Result<ObjectTag, Failure> {
        let path = format!("o/{}", encode_component(&self.name(key)));
        let answer = self.call(context, (Method::PUT, &path, WRITE), payload).await?;
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
        let path = format!("o/{}", encode_component(&self.name(key)));
        let answer = self.call_with(context, (Method::PUT, &path, WRITE), payload, Some(condition(expected))).await;
        conditional(answer, payload, expected)
    }

    async fn begin(&self, context: &ThreadContext, key: &str) -> Result<String, Failure> {
        let body = json!({"object": self.name(key), "contentType": "application/octet-stream"}).to_string();
        let body = Payload::from(body.into_bytes());
        let answer = self.call(context, (Method::POST, "u", WRITE), &body).await?;
        Ok(read_json::<Created>(&answer.body, "the name of the upload")?.upload_id)
    }

    async fn put_part(
        &self,
        context: &ThreadContext,
        key: &str,
        at: PartAt<'_>,
        payload: &Payload,
    ) -> Result<StoredPart, Failure> {
        let path = format!("{}&uploadPartNum={}", self.upload(key, at.upload), at.number);
        let answer = self.call(context, (Method::PUT, &path, WRITE), payload).await?;
        check_md5(&answer, payload)?;
        let digest = Some(payload.md5().to_owned());
        Ok(StoredPart { digest, ..at.stored(payload, part_tag(&answer)?) })
    }

    async fn complete(
        &self,
        context: &ThreadContext,
        key: &str,
        upload: &str,
        parts: &[StoredPart],
    ) -> Result<ObjectTag, Failure> {
        let parts: Vec<_> = parts.iter().map(|part| json!({"partNum": part.number, "etag": part.tag})).collect();
        let body = Payload::from(json!({"partsToCommit": parts}).to_string().into_bytes());
        let answer = self.call(context, (Method::POST, &self.upload(key, upload), WRITE), &body).await?;
        Ok(object_tag(&answer))
    }

    async fn joined(
        &self,
        context: &ThreadContext,
        key: &str,
        parts: &[StoredPart],
    ) -> Result<Option<ListedEntry>, Failure> {
        let answer = match self.head(context, key).await {
            Err(refusal) if refusal.is_missing() => return Ok(None),
            answer => answer?,
        };
        let md5 = answer.header("opc-multipart-md5").map(str::to_owned);
        let found = described(key, Ok(answer))?;
        let digests = parts.iter().filter_map(|part| BASE64_STANDARD.decode(part.digest.as_deref()?).ok());
        let expected = BASE64_STANDARD.encode(Md5::digest(digests.flatten().collect::<Vec<_>>()));
        let expected = format!("{expected}-{}", parts.len());
        Ok(found.filter(|found| md5.as_ref() == Some(&expected) && has_size_of(found, parts)))
    }

    async fn abort(&self, context: &ThreadContext, key: &str, upload: &str) -> Result<(), Failure> {
        let exchange = (Method::DELETE, &*self.upload(key, upload), WRITE);
        without_missing(self.call(context, exchange, &Payload::default()).await)
    }

    async fn unfinished(&self, context: &ThreadContext, key: &str) -> Result<Vec<String>, Failure> {
        let name = self.name(key);
        let mut found = Vec::new();
        let (mut page, mut marks): (Option<String>, _) = (None, PageMarks::default());
        loop {
            let path = match &page {
                Some(page) => format!("u?page={}", encode_component(page)),
                None => "u".to_owned(),
            };
            let answer = self.call(context, (Method::GET, &path, LIST_UPLOADS), &Payload::default()).await?;
            let uploads: Vec<Unfinished> = read_json(&answer.body, "the list of uploads")?;
            found.extend(uploads.into_iter().filter(|upload| upload.object == name).map(|upload| upload.upload_id));
            let Some(next) = answer.header("opc-next-page") else { return Ok(found) };
            marks.check(next)?;
            page = Some(next.to_owned());
        }
    }

    async fn list(&self, context: &ThreadContext, request: &ListRequest) -> Result<Page, Failure> {
        let own = self.signer.protocol.prefix();
        let prefix = encode_component(&self.name(&request.prefix));
        let mut path = format!("o?fields=name%2Csize%2Cetag%2CtimeModified&prefix={prefix}");
        if !request.is_recursive {
            path.push_str("&delimiter=%2F");
        }
        if let Some(next) = &request.next {
            let _ = write!(path, "&start={}", encode_component(next));
        }
        let answer = self.call(context, (Method::GET, &path, LIST), &Payload::default()).await?;
        let listed: Listed = read_json(&answer.body, "the listing")?;
        let objects = listed.objects.into_iter().map(|object| {
            Ok(ListedEntry {
                key: object.name,
                size: object.size.ok_or_else(|| Failure::network("the listing has an object without its size"))?,
                etag: object.etag.as_deref().map(unquoted),
                modified: object.time_modified.and_then(|time| humantime::parse_rfc3339(&time).ok()),
            })
        });
        let objects = objects.collect::<Result<Vec<_>, Failure>>()?.into_iter();
        Ok(Page::below(own, objects, listed.prefixes.into_iter(), listed.next_start_with))
    }

    async fn find(&self, context: &ThreadContext, key: &str) -> Result<Option<ListedEntry>, Failure> {
        described(key, self.head(context, key).await)
    }

    async fn delete(&self, context: &ThreadContext, key: &str) -> Result<(), Failure> {
        let path = format!("o/{}", encode_component(&self.name(key)));
        without_missing(self.call(context, (Method::DELETE, &path, DELETE), &Payload::default()).await)
    }
}
