//! S3: uploads in parts, listing version 2, removal.

use super::checksum;
use super::common::{Item, elements, nothing, page, parameters, store, xml};
use crate::server::answer::{Answer, escape, problem};
use crate::server::date;
use crate::server::state::ServerState;
use bytes::Bytes;
use forebay_loader::sync::{Arc, Ordering};
use http::request::Parts;
use http::{Method, StatusCode};
use std::fmt::Write as _;

pub(super) fn answer(state: &Arc<ServerState>, head: &Parts, key: Option<&str>, body: &Bytes) -> Option<Answer> {
    let query = parameters(head);
    let upload = query.get("uploadId").map(String::as_str);
    if head.method == Method::PUT
        && let Some(problem) = checksum::check(state, head, upload, body)
    {
        return Some(problem);
    }
    let gone = || problem(state, StatusCode::NOT_FOUND, "NoSuchUpload", "the upload does not exist");
    Some(match (&head.method, key, upload) {
        (&Method::GET, None, _) if query.contains_key("uploads") => {
            let mut text = String::from("<ListMultipartUploadsResult>");
            for (id, upload) in &*state.unfinished.uploads.lock() {
                let (key, id) = (escape(&upload.key), escape(id));
                let _ = write!(text, "<Upload><Key>{key}</Key><UploadId>{id}</UploadId></Upload>");
            }
            xml(state, text + "</ListMultipartUploadsResult>")
        }
        (&Method::GET, None, _) => list(state, &query),
        (&Method::GET, Some(key), Some(upload)) => list_parts(state, key, upload, &query).unwrap_or_else(gone),
        (&Method::POST, Some(key), None) if query.contains_key("uploads") => {
            let has_checksums = checksum::is_announced(head);
            if state.options.needs_checksum && !has_checksums {
                return Some(problem(state, StatusCode::BAD_REQUEST, "InvalidRequest", "no algorithm of checksums"));
            }
            let id = escape(&state.unfinished.begin(key, has_checksums, state.options.has_plain_upload_names));
            let text =
                format!("<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>");
            xml(state, text)
        }
        (&Method::PUT, Some(key), Some(upload)) => {
            let number = query.get("partNumber").and_then(|number| number.parse().ok()).unwrap_or(0);
            match state.unfinished.put_part(key, upload, number, body.clone(), state.options.has_opaque_tags) {
                Some(tag) => nothing(state, 200, &[("etag", &tag)]),
                None => gone(),
            }
        }
        (&Method::POST, Some(key), Some(upload)) => {
            let text = String::from_utf8_lossy(body);
            let numbers = elements(&text, "PartNumber").into_iter().map(|number| number.parse().unwrap_or(0));
            let tags = elements(&text, "ETag").into_iter().map(|tag| tag.replace("&quot;", "\""));
            match state.unfinished.complete(key, upload, &numbers.zip(tags).collect::<Vec<_>>()) {
                Ok(whole) if !checksum::are_repeated(&whole, &elements(&text, "ChecksumSHA256")) => {
                    problem(state, StatusCode::BAD_REQUEST, "InvalidRequest", "the checksums of the parts are missing")
                }
                Ok(whole) => {
                    let md5 = if state.options.has_opaque_tags { "0".repeat(32) } else { hex::encode(&whole.md5) };
                    let tag = format!("\"{md5}-{}\"", whole.parts);
                    let digest = whole.has_checksums.then(|| (checksum::NAME, checksum::of_parts(&whole)));
                    let text = format!("<ETag>{}</ETag>", escape(&tag));
                    match state.root.put_joined(key, whole.bytes, tag, digest) {
                        Ok(()) => {
                            let name = "CompleteMultipartUploadResult";
                            xml(state, format!("<{name}><Key>{}</Key>{text}</{name}>", escape(key)))
                        }
                        Err(e) => problem(state, StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &e.to_string()),
                    }
                }
                Err("NoSuchUpload") => gone(),
                Err(code) => problem(state, StatusCode::BAD_REQUEST, code, "the parts are not the parts of the upload"),
            }
        }
        (&Method::DELETE, Some(key), Some(upload)) => {
            if state.unfinished.abort(key, upload) {
                nothing(state, 204, &[])
            } else {
                gone()
            }
        }
        (&Method::DELETE, Some(key), None) => {
            state.root.delete(key);
            nothing(state, 204, &[])
        }
        (&Method::PUT, Some(key), None) => {
            state.puts.fetch_add(1, Ordering::Relaxed);
            store(state, key, body.clone(), 200)
        }
        _ => return None,
    })
}

fn list(state: &Arc<ServerState>, query: &std::collections::BTreeMap<String, String>) -> Answer {
    state.lists.fetch_add(1, Ordering::Relaxed);
    let text = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
    let prefix = text("prefix");
    // Keys after the one that is named: those from the shortest key that is longer.
    let after = query.get("start-after").map(|key| format!("{key}\0"));
    let start = query.get("continuation-token").or(after.as_ref()).map(String::as_str).unwrap_or_default();
    let (items, next) = match page(state, prefix, text("delimiter").is_empty(), start) {
        Ok(page) => page,
        Err(e) => return problem(state, StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &e.to_string()),
    };
    let mut xml = String::from("<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    let _ = write!(xml, "<Name>{}</Name>", state.options.bucket.as_deref().unwrap_or_default());
    let _ = write!(xml, "<Prefix>{}</Prefix><KeyCount>{}</KeyCount>", escape(prefix), items.len());
    let _ = write!(xml, "<MaxKeys>{}</MaxKeys><IsTruncated>{}</IsTruncated>", state.options.list_page, next.is_some());
    if let Some(next) = next {
        let _ = write!(xml, "<NextContinuationToken>{}</NextContinuationToken>", escape(&next));
    }
    for item in &items {
        match item {
            Item::Folder(key) => {
                let _ = write!(xml, "<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", escape(key));
            }
            Item::Object(entry) => {
                let _ = write!(
                    xml,
                    "<Contents><Key>{}</Key><LastModified>{}</LastModified><ETag>{}</ETag><Size>{}</Size></Contents>",
                    escape(&entry.key),
                    date::iso(entry.modified),
                    escape(&entry.etag),
                    entry.len
                );
            }
        }
    }
    super::common::xml(state, xml + "</ListBucketResult>")
}

/// Lists the parts of an upload; `None` if there is none of this object.
fn list_parts(
    state: &Arc<ServerState>,
    key: &str,
    upload: &str,
    query: &std::collections::BTreeMap<String, String>,
) -> Option<Answer> {
    let parts = state.unfinished.parts(key, upload)?;
    let after = query.get("part-number-marker").and_then(|marker| marker.parse().ok()).unwrap_or(0);
    let mut rest = parts.into_iter().filter(|(number, ..)| *number > after).peekable();
    let (mut text, mut last) = (String::from("<ListPartsResult>"), after);
    for (number, tag, bytes) in rest.by_ref().take(state.options.list_page) {
        let tag = escape(&tag);
        let _ = write!(text, "<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag><Size>{bytes}</Size></Part>");
        last = number;
    }
    let is_truncated = rest.peek().is_some();
    let _ = write!(text, "<IsTruncated>{is_truncated}</IsTruncated>");
    Some(xml(state, text + &format!("<NextPartNumberMarker>{last}</NextPartNumberMarker></ListPartsResult>")))
}
