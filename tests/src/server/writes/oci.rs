//! Oracle's object storage: uploads in parts, listing, removal.

use super::common::{Item, json, nothing, page, parameters, store};
use crate::server::answer::Answer;
use crate::server::date;
use crate::server::sigv4::decode;
use crate::server::state::ServerState;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use forebay_loader::sync::{Arc, Ordering};
use http::Method;
use http::request::Parts;
use serde_json::{Value, json};

pub(super) fn answer(state: &Arc<ServerState>, head: &Parts, key: Option<&str>, body: &Bytes) -> Option<Answer> {
    let bucket = state.options.bucket.as_deref().unwrap_or_default();
    let uploads = format!("/{}", bucket.strip_suffix("/o").map_or(String::new(), |bucket| format!("{bucket}/u")));
    match head.uri.path().strip_prefix(&*uploads) {
        Some(place) => answer_upload(state, head, place.trim_start_matches('/'), body),
        None => answer_object(state, head, key, body),
    }
}

fn problem(state: &Arc<ServerState>, status: u16, code: &str) -> Answer {
    json(state, status, &json!({"code": code, "message": "no such object or part"}))
}

/// Answers a request for the uploads that are not complete.
fn answer_upload(state: &Arc<ServerState>, head: &Parts, key: &str, body: &Bytes) -> Option<Answer> {
    let query = parameters(head);
    let text = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
    let problem = |status, code: &str| problem(state, status, code);
    let sent: Value = serde_json::from_slice(body).unwrap_or_default();
    let key = decode(key).unwrap_or_default();
    let id = text("uploadId");
    Some(match (&head.method, &*key) {
        (&Method::POST, "") => {
            let id = state.unfinished.begin(sent["object"].as_str().unwrap_or_default(), false, false);
            json(state, 200, &json!({"uploadId": id}))
        }
        (&Method::GET, "") => {
            let uploads = state.unfinished.uploads.lock();
            let uploads = uploads.iter().map(|(id, upload)| json!({"object": upload.key, "uploadId": id}));
            json(state, 200, &uploads.collect())
        }
        (&Method::PUT, key) => {
            let number = text("uploadPartNum").parse().unwrap_or(0);
            match state.unfinished.put_part(key, id, number, body.clone(), state.options.has_opaque_tags) {
                Some(tag) => nothing(state, 200, &[("etag", tag.trim_matches('"'))]),
                None => problem(404, "NoSuchUpload"),
            }
        }
        (&Method::POST, key) => {
            let part = |part: &Value| {
                let tag = format!("\"{}\"", part["etag"].as_str().unwrap_or_default());
                (part["partNum"].as_u64().unwrap_or(0) as u32, tag)
            };
            let parts: Vec<_> = sent["partsToCommit"].as_array().into_iter().flatten().map(part).collect();
            match state.unfinished.complete(key, id, &parts) {
                Ok(whole) => {
                    let md5 = format!("{}-{}", BASE64_STANDARD.encode(&whole.md5), whole.parts);
                    let tag = format!("\"{id}\"");
                    let digest = Some(("opc-multipart-md5", md5));
                    match state.root.put_joined(key, whole.bytes, tag, digest) {
                        Ok(()) => nothing(state, 200, &[("etag", id)]),
                        Err(_) => problem(500, "InternalServerError"),
                    }
                }
                Err("NoSuchUpload") => problem(404, "NoSuchUpload"),
                Err(code) => problem(400, code),
            }
        }
        (&Method::DELETE, key) => {
            if state.unfinished.abort(key, id) {
                nothing(state, 204, &[])
            } else {
                problem(404, "NoSuchUpload")
            }
        }
        _ => return None,
    })
}

/// Answers a request for an object, or for the list of all.
fn answer_object(state: &Arc<ServerState>, head: &Parts, key: Option<&str>, body: &Bytes) -> Option<Answer> {
    let query = parameters(head);
    let text = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
    let problem = |status, code: &str| problem(state, status, code);
    Some(match (&head.method, key) {
        (&Method::GET, None) => {
            state.lists.fetch_add(1, Ordering::Relaxed);
            let Ok((items, next)) = page(state, text("prefix"), text("delimiter").is_empty(), text("start")) else {
                return Some(problem(500, "InternalServerError"));
            };
            let (mut objects, mut prefixes) = (Vec::new(), Vec::new());
            for item in items {
                match item {
                    Item::Folder(key) => prefixes.push(key),
                    Item::Object(entry) => objects.push(json!({
                        "name": entry.key, "size": entry.len, "etag": entry.etag.trim_matches('"'),
                        "timeModified": date::iso(entry.modified),
                    })),
                }
            }
            json(state, 200, &json!({"objects": objects, "prefixes": prefixes, "nextStartWith": next}))
        }
        (&Method::PUT, Some(key)) => {
            state.puts.fetch_add(1, Ordering::Relaxed);
            let mut answer = store(state, key, body.clone(), 200);
            if let Some(md5) = answer.headers_mut().remove("content-md5") {
                answer.headers_mut().insert("opc-content-md5", md5);
            }
            answer
        }
        (&Method::DELETE, Some(key)) => {
            if state.root.delete(key) {
                nothing(state, 204, &[])
            } else {
                problem(404, "ObjectNotFound")
            }
        }
        _ => return None,
    })
}
