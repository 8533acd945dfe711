//! Buckets of S3, and of all stores with its interface, as destinations.

use super::protocol::S3Protocol;
use crate::context::ThreadContext;
use crate::destination::{
    Conditional, Expected, ListRequest, ListedEntry, ObjectTag, Page, PageMarks, PartAt, Payload, StoredPart, Target,
    check_md5, condition, conditional, described, incomplete, object_tag, part_tag, read_xml, unless_missing, unquoted,
};
use crate::failure::Failure;
use crate::http::{Answer, Outgoing, Protocol, Refusal, Signer, error_code};
use crate::key::encode_component;
use crate::{Error, ErrorKind};
use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Method;
use http::header::{self, HeaderName};
use md5::{Digest as _, Md5};
use serde::Deserialize;
use std::collections::HashMap;
use std::fmt::Write as _;

/// Most parts of an object.
const PARTS_MAX: u64 = 10_000;

/// Query of the request that begins an upload in parts.
const BEGIN: &str = "uploads=";

/// Protocol of a store with S3's interface.
pub(crate) trait BucketProtocol: Protocol {
    /// Returns the address of the bucket, without a slash at the end.
    fn bucket_address(&self) -> String;

    /// Returns the destination's folder in the bucket, not encoded. It ends with a slash unless it is empty.
    fn prefix(&self) -> &str;

    /// Returns true if the bytes need a `Content-MD5`. Otherwise their SHA-256 is part of the signature.
    fn sends_md5(&self) -> bool;

    /// Returns true if objects are sent with a SHA-256 that the store keeps. Buckets with Object Lock need it.
    fn sends_checksum(&self) -> bool {
        false
    }

    /// Returns the name of the access list of new objects.
    fn acl(&self) -> Option<&str> {
        None
    }

    /// Returns the header of a write that depends on the object's state; `None` if there is none.
    fn condition(&self, expected: &Expected) -> Option<(&'static str, String)> {
        Some(condition(expected))
    }

    /// Returns the version of the object that a response is about, for `condition`.
    fn version(&self, answer: &Answer) -> ObjectTag {
        object_tag(answer)
    }

    /// Returns the words for a right: to write, to list or to remove.
    fn right(&self, right: Right) -> &'static str;
}

/// Right that an exchange needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Right {
    Write,
    List,
    Delete,
    Abort,
    ListUploads,
}

impl BucketProtocol for S3Protocol {
    fn bucket_address(&self) -> String {
        self.bucket_address()
    }

    fn prefix(&self) -> &str {
        self.prefix()
    }

    fn sends_md5(&self) -> bool {
        self.is_anonymous()
    }

    fn sends_checksum(&self) -> bool {
        self.sends_checksum()
    }

    fn acl(&self) -> Option<&str> {
        self.canned_acl()
    }

    fn right(&self, right: Right) -> &'static str {
        match right {
            Right::Write => "to write to the bucket (s3:PutObject)",
            Right::List => "to list the bucket (s3:ListBucket)",
            Right::Delete => "to remove objects of the bucket (s3:DeleteObject)",
            Right::Abort => "to abort uploads (s3:AbortMultipartUpload)",
            Right::ListUploads => "to list unfinished uploads (s3:ListBucketMultipartUploads)",
        }
    }
}

/// Folder in a bucket.
pub(crate) struct S3Target<P> {
    signer: Signer<P>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Initiated {
    upload_id: String,
}

#[derive(Deserialize)]
struct Joined {
    #[serde(rename = "ETag")]
    etag: Option<String>,
}

/// Parts of an upload, as the store has them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedParts {
    #[serde(default)]
    part: Vec<ListedPart>,
    #[serde(default)]
    is_truncated: bool,
    next_part_number_marker: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedPart {
    part_number: u32,
    #[serde(rename = "ETag")]
    etag: String,
    size: u64,
    #[serde(rename = "ChecksumSHA256")]
    checksum: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    #[serde(default)]
    contents: Vec<Contents>,
    #[serde(default)]
    common_prefixes: Vec<Prefix>,
    key_count: Option<usize>,
    #[serde(default)]
    is_truncated: bool,
    next_continuation_token: Option<String>,
}

impl Listed {
    /// Rejects a page with a wrong count of entries, or with more pages after it and no token for them.
    fn check(&self) -> Result<(), Failure> {
        let (keys, all) = (self.contents.len(), self.contents.len() + self.common_prefixes.len());
        if let Some(count) = self.key_count.filter(|count| !(keys..=all).contains(count)) {
            // Some stores count the folders, and some do not.
            return Err(incomplete(&format!("a page of the listing declares {count} keys, but has {all}")));
        }
        match self.next_continuation_token.as_deref() {
            None | Some("") if self.is_truncated => {
                Err(incomplete("the page is not the last one, and has no NextContinuationToken"))
            }
            _ => Ok(()),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Contents {
    key: String,
    size: u64,
    #[serde(rename = "ETag")]
    etag: Option<String>,
    last_modified: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Prefix {
    prefix: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Unfinished {
    #[serde(default)]
    upload: Vec<UnfinishedUpload>,
    #[serde(default)]
    is_truncated: bool,
    next_key_marker: Option<String>,
    next_upload_id_marker: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct UnfinishedUpload {
    key: String,
    upload_id: String,
}

impl<P: BucketProtocol> S3Target<P> {
    pub(crate) fn new(protocol: P, user_agent: &str) -> Result<Self, Error> {
        Ok(Self { signer: Signer::new(protocol, user_agent)? })
    }

    fn protocol(&self) -> &P {
        &self.signer.protocol
    }

    /// Asks the store to join `parts`.
    async fn join(
        &self,
        context: &ThreadContext,
        key: &str,
        upload: &str,
        parts: &[StoredPart],
    ) -> Result<Answer, Refusal> {
        let mut body = String::from("<CompleteMultipartUpload>");
        for part in parts {
            let tag = escape(&part.tag);
            let _ = write!(body, "<Part><PartNumber>{}</PartNumber><ETag>{tag}</ETag>", part.number);
            if let Some(checksum) = &part.digest {
                let _ = write!(body, "<ChecksumSHA256>{checksum}</ChecksumSHA256>");
            }
            body.push_str("</Part>");
        }
        body.push_str("</CompleteMultipartUpload>");
        let query = format!("uploadId={}", encode_component(upload));
        let body = Payload::from(body.into_bytes());
        self.call(context, (Method::POST, Some(key), &query, Right::Write), &body).await
    }

    /// Returns `parts` with the entity tags that the store has for them; `None` if no tag differs, or if a part is
    /// a different one than was sent.
    async fn tagged_again(
        &self,
        context: &ThreadContext,
        key: &str,
        upload: &str,
        parts: &[StoredPart],
    ) -> Result<Option<Vec<StoredPart>>, Refusal> {
        let (mut listed, mut marker) = (HashMap::new(), 0);
        loop {
            let query = format!("uploadId={}&part-number-marker={marker}", encode_component(upload));
            let exchange = (Method::GET, Some(key), &*query, Right::Write);
            let answer = self.call(context, exchange, &Payload::default()).await?;
            let page: ListedParts = read_xml(&answer.body, "ListPartsResult", "the list of parts")?;
            listed.extend(page.part.into_iter().map(|part| (part.part_number, part)));
            match page.next_part_number_marker.filter(|next| page.is_truncated && *next > marker) {
                Some(next) => marker = next,
                None => break,
            }
        }
        let tagged = |part: &StoredPart| {
            let found = listed.remove(&part.number).filter(|found| found.size == part.len)?;
            let is_other = matches!((&found.checksum, &part.digest), (Some(found), Some(sent)) if found != sent);
            (!is_other).then(|| StoredPart { tag: found.etag, ..part.clone() })
        };
        let tagged: Option<Vec<_>> = parts.iter().map(tagged).collect();
        Ok(tagged
            .filter(|tagged| tagged.iter().zip(parts).any(|(now, then)| unquoted(&now.tag) != unquoted(&then.tag))))
    }

    /// Makes an exchange about an object, or about the bucket for `None`.
    async fn call(
        &self,
        context: &ThreadContext,
        exchange: (Method, Option<&str>, &str, Right),
        payload: &Payload,
    ) -> Result<Answer, Refusal> {
        self.call_with(context, exchange, payload, &[]).await
    }

    /// Makes an exchange with further headers.
    async fn call_with(
        &self,
        context: &ThreadContext,
        (method, key, query, right): (Method, Option<&str>, &str, Right),
        payload: &Payload,
        headers: &[(&'static str, &str)],
    ) -> Result<Answer, Refusal> {
        let is_begin_or_end = method == Method::POST;
        let outgoing = || {
            let address = match key {
                Some(key) => self.protocol().address(key),
                None => format!("{}/", self.protocol().bucket_address()),
            };
            let address = if query.is_empty() { address } else { format!("{address}?{query}") };
            let mut outgoing = Outgoing::new(method.clone(), address, payload, self.protocol().right(right));
            if self.protocol().sends_md5() && !payload.is_empty() {
                outgoing = outgoing.with(HeaderName::from_static("content-md5"), payload.md5());
            }
            let checksum = match method {
                _ if !self.protocol().sends_checksum() => None,
                Method::PUT => Some((CHECKSUM, checksum(payload))),
                Method::POST if query == BEGIN => Some(("x-amz-checksum-algorithm", "SHA256".to_owned())),
                _ => None,
            };
            if let Some((name, value)) = checksum {
                outgoing = outgoing.with(HeaderName::from_static(name), value);
            }
            if method == Method::PUT && query.is_empty() || query == BEGIN {
                outgoing = outgoing.with(header::CONTENT_TYPE, "application/octet-stream");
                if let Some(acl) = self.protocol().acl() {
                    outgoing = outgoing.with(HeaderName::from_static("x-amz-acl"), acl);
                }
            }
            for (name, value) in headers {
                outgoing = outgoing.with(HeaderName::from_static(name), *value);
            }
            if is_begin_or_end { outgoing.once().patient() } else { outgoing }
        };
        self.signer.call(context, outgoing).await
    }
}

/// Returns false for the tag of an object that does not consist of `parts`. S3 and most stores make the tag of
/// the MD5 of the parts' own tags, and of their number. A tag of a different form is accepted.
fn may_consist_of(tag: Option<&str>, parts: &[StoredPart]) -> bool {
    let md5 = |tag: &str| hex::decode(tag).ok().filter(|md5| md5.len() == 16);
    let Some(tag) = tag else { return true };
    let (joined, count) = tag.split_once('-').unwrap_or((tag, ""));
    let Some(joined) = md5(joined) else { return true };
    if count.parse() != Ok(parts.len()) {
        return false;
    }
    let tags: Option<Vec<_>> = parts.iter().map(|part| md5(&unquoted(&part.tag))).collect();
    tags.is_none_or(|tags| Md5::digest(tags.concat())[..] == joined[..])
}

/// Header with the SHA-256 of an object or a part.
const CHECKSUM: &str = "x-amz-checksum-sha256";

fn checksum(payload: &Payload) -> String {
    BASE64_STANDARD.encode(payload.sha256())
}

/// Returns true if the checksum of an object is the checksum of these parts' checksums.
fn has_checksums_of(checksum: &str, parts: &[StoredPart]) -> bool {
    let digests = parts.iter().map(|part| BASE64_STANDARD.decode(part.digest.as_deref()?).ok());
    let Some(digests) = digests.collect::<Option<Vec<_>>>() else { return false };
    let joined = Payload::from(digests.concat());
    checksum == format!("{}-{}", self::checksum(&joined), parts.len())
}

/// Codes in a response after the status of success for which a further attempt may help.
const BUSY: [&str; 5] = ["InternalError", "OperationAborted", "RequestTimeout", "ServiceUnavailable", "SlowDown"];

/// Returns true if the store rejects the entity tag of a part, also after the status of success.
fn is_of_different_part(answer: &Result<Answer, Refusal>) -> bool {
    match answer {
        Ok(answer) => error_code(&answer.headers, &answer.body).as_deref() == Some("InvalidPart"),
        Err(refusal) => refusal.has_code(&["InvalidPart"]),
    }
}

fn different_part() -> Failure {
    let why =
        "the store does not join the parts (InvalidPart): it has one with a different entity tag than in its response";
    Failure::permanent(Error::new(ErrorKind::Checksum, why).hinting(
        "save again, and give the right to list parts (s3:ListMultipartUploadParts), with which the tags are read \
         again",
    ))
}

/// Returns the failure in a response with a status that was sent before the parts were joined.
fn not_joined(answer: &Answer) -> Failure {
    let why = "the store did not join the parts";
    match error_code(&answer.headers, &answer.body).as_deref() {
        None => Failure::network(why),
        Some(code) if BUSY.contains(&code) => Failure::network(format!("{why} ({code})")),
        Some(code) => {
            let kind = match code {
                "NoSuchUpload" => ErrorKind::NotFound,
                "AccessDenied" => ErrorKind::Permission,
                _ => ErrorKind::Config,
            };
            Failure::permanent(Error::new(kind, format!("{why} ({code})")))
        }
    }
}

fn escape(text: &str) -> String {
    quick_xml::escape::escape(text).into_owned()
}

#[async_trait(?Send)]
impl<P: BucketProtocol> Target for S3Target<P> {
    fn parts_max(&self) -> u64 {
        PARTS_MAX
    }

    fn prepare(&self, payload: &Payload) {
        if self.protocol().sends_md5() {
            payload.md5();
        } else {
            payload.sha256();
        }
    }

    async fn put(&self, context: &ThreadContext, key: &str, payload: &Payload) -> Result<ObjectTag, Failure> {
        let answer = self.call(context, (Method::PUT, Some(key), "", Right::Write), payload).await?;
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
        let Some((name, value)) = self.protocol().condition(expected) else { return Ok(Conditional::Unsupported) };
        let exchange = (Method::PUT, Some(key), "", Right::Write);
        conditional(self.call_with(context, exchange, payload, &[(name, &value)]).await, payload, expected)
    }

    async fn version(&self, context: &ThreadContext, key: &str) -> Result<Option<String>, Failure> {
        match self.call(context, (Method::HEAD, Some(key), "", Right::List), &Payload::default()).await {
            Ok(answer) => Ok(Some(self.protocol().version(&answer).unwrap_or_default())),
            Err(refusal) if refusal.is_missing() => Ok(None),
            Err(refusal) => Err(refusal.failure),
        }
    }

    async fn begin(&self, context: &ThreadContext, key: &str) -> Result<String, Failure> {
        let exchange = (Method::POST, Some(key), BEGIN, Right::Write);
        let answer = self.call(context, exchange, &Payload::default()).await?;
        Ok(read_xml::<Initiated>(&answer.body, "InitiateMultipartUploadResult", "the name of the upload")?.upload_id)
    }

    async fn put_part(
        &self,
        context: &ThreadContext,
        key: &str,
        at: PartAt<'_>,
        payload: &Payload,
    ) -> Result<StoredPart, Failure> {
        let query = format!("partNumber={}&uploadId={}", at.number, encode_component(at.upload));
        let answer = self.call(context, (Method::PUT, Some(key), &query, Right::Write), payload).await?;
        check_md5(&answer, payload)?;
        let digest = self.protocol().sends_checksum().then(|| checksum(payload));
        Ok(StoredPart { digest, ..at.stored(payload, part_tag(&answer)?) })
    }

    async fn complete(
        &self,
        context: &ThreadContext,
        key: &str,
        upload: &str,
        parts: &[StoredPart],
    ) -> Result<ObjectTag, Failure> {
        let mut answer = self.join(context, key, upload, parts).await;
        if is_of_different_part(&answer) {
            // A response to a part had a wrong tag. Its bytes were compared with their digest.
            match self.tagged_again(context, key, upload, parts).await {
                Ok(Some(tagged)) => answer = self.join(context, key, upload, &tagged).await,
                Ok(None) => {}
                Err(refusal) => log::warn!("the parts of {key} cannot be listed: {}", refusal.failure.error),
            }
            if is_of_different_part(&answer) {
                return Err(different_part());
            }
        }
        let answer = answer?;
        // The status is sent before the parts are joined, so a failure is in the body.
        let is_joined = String::from_utf8_lossy(&answer.body).contains("<CompleteMultipartUploadResult");
        if !is_joined {
            return Err(not_joined(&answer));
        }
        // Blanks before the document keep the connection open.
        let root = "CompleteMultipartUploadResult";
        let joined = read_xml::<Joined>(answer.body.trim_ascii_start(), root, "the description of the object");
        Ok(joined.ok().and_then(|joined| joined.etag).as_deref().map(unquoted))
    }

    async fn joined(
        &self,
        context: &ThreadContext,
        key: &str,
        parts: &[StoredPart],
    ) -> Result<Option<ListedEntry>, Failure> {
        // The checksum of an object is sent on demand, and with keys of KMS the right to decrypt is needed for it.
        let mode = [("x-amz-checksum-mode", "ENABLED")];
        let headers = if self.protocol().sends_checksum() { &mode[..] } else { &[] };
        let exchange = (Method::HEAD, Some(key), "", Right::List);
        let answer = match self.call_with(context, exchange, &Payload::default(), headers).await {
            Err(refusal) if refusal.is_missing() => return Ok(None),
            answer => answer?,
        };
        let of_checksum = answer.header(CHECKSUM).map(|checksum| has_checksums_of(checksum, parts));
        let object = described(key, Ok(answer))?;
        let len = parts.iter().map(|part| part.len).sum::<u64>();
        Ok(object.filter(|object| {
            object.size == len && of_checksum.unwrap_or_else(|| may_consist_of(object.etag.as_deref(), parts))
        }))
    }

    async fn abort(&self, context: &ThreadContext, key: &str, upload: &str) -> Result<(), Failure> {
        let query = format!("uploadId={}", encode_component(upload));
        let exchange = (Method::DELETE, Some(key), &*query, Right::Abort);
        let removed = self.call(context, exchange, &Payload::default()).await;
        unless_missing(removed, |refusal| refusal.has_code(&["NoSuchUpload"]))
    }

    async fn unfinished(&self, context: &ThreadContext, key: &str) -> Result<Vec<String>, Failure> {
        let key = format!("{}{key}", self.protocol().prefix());
        let (mut uploads, mut marker, mut marks) = (Vec::new(), String::new(), PageMarks::default());
        loop {
            let query = format!("uploads=&prefix={}{marker}", encode_component(&key));
            let exchange = (Method::GET, None, &*query, Right::ListUploads);
            let answer = self.call(context, exchange, &Payload::default()).await?;
            let found: Unfinished = read_xml(&answer.body, "ListMultipartUploadsResult", "the list of uploads")?;
            let of_key = found.upload.into_iter().filter(|upload| upload.key == key);
            uploads.extend(of_key.map(|upload| upload.upload_id));
            if !found.is_truncated {
                return Ok(uploads);
            }
            let markers = found.next_key_marker.zip(found.next_upload_id_marker);
            let (next_key, next_upload) =
                markers.ok_or_else(|| incomplete("the page is not the last one, and has no NextKeyMarker"))?;
            marker = format!(
                "&key-marker={}&upload-id-marker={}",
                encode_component(&next_key),
                encode_component(&next_upload)
            );
            marks.check(&marker)?;
        }
    }

    async fn list(&self, context: &ThreadContext, request: &ListRequest) -> Result<Page, Failure> {
        let own = self.protocol().prefix();
        let mut query = format!("list-type=2&prefix={}", encode_component(&format!("{own}{}", request.prefix)));
        if !request.is_recursive {
            query.push_str("&delimiter=%2F");
        }
        if let Some(next) = &request.next {
            let _ = write!(query, "&continuation-token={}", encode_component(next));
        }
        let answer = self.call(context, (Method::GET, None, &query, Right::List), &Payload::default()).await?;
        let listed: Listed = read_xml(&answer.body, "ListBucketResult", "the listing")?;
        listed.check()?;
        let objects = listed.contents.into_iter().map(|object| ListedEntry {
            key: object.key,
            size: object.size,
            etag: object.etag.as_deref().map(unquoted),
            modified: object.last_modified.and_then(|time| humantime::parse_rfc3339(&time).ok()),
        });
        let folders = listed.common_prefixes.into_iter().map(|folder| folder.prefix);
        Ok(Page::below(own, objects, folders, listed.next_continuation_token))
    }

    async fn find(&self, context: &ThreadContext, key: &str) -> Result<Option<ListedEntry>, Failure> {
        let exchange = (Method::HEAD, Some(key), "", Right::List);
        described(key, self.call(context, exchange, &Payload::default()).await)
    }

    async fn delete(&self, context: &ThreadContext, key: &str) -> Result<(), Failure> {
        let exchange = (Method::DELETE, Some(key), "", Right::Delete);
        let removed = self.call(context, exchange, &Payload::default()).await;
        unless_missing(removed, |refusal| refusal.has_code(&["NoSuchKey"]))
    }
}
