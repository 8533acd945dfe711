//! Azure: blocks and their lists, listing of a container, removal.

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
    let text = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
    Some(match (&head.method, key, text("comp")) {
        (&Method::GET, None, "list") => {
            state.lists.fetch_add(1, Ordering::Relaxed);
            let listed = page(state, text("prefix"), text("delimiter").is_empty(), text("marker"));
            let Ok((items, next)) = listed else {
                return Some(problem(state, StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "no listing"));
            };
            let mut out = String::from("<EnumerationResults><Blobs>");
            for item in &items {
                let name = escape(item.key());
                let _ = match item {
                    Item::Folder(_) => write!(out, "<BlobPrefix><Name>{name}</Name></BlobPrefix>"),
                    Item::Object(entry) => write!(
                        out,
                        "<Blob><Name>{name}</Name><Properties><Last-Modified>{}</Last-Modified><Etag>{}</Etag>\
                         <Content-Length>{}</Content-Length></Properties></Blob>",
                        date::http(entry.modified),
                        escape(&entry.etag),
                        entry.len
                    ),
                };
            }
            let _ = write!(out, "</Blobs><NextMarker>{}</NextMarker>", escape(&next.unwrap_or_default()));
            xml(state, out + "</EnumerationResults>")
        }
        (&Method::PUT, Some(key), "block") => {
            let block = (key.to_owned(), text("blockid").to_owned());
            state.unfinished.blocks.lock().insert(block, body.clone());
            nothing(state, 201, &[])
        }
        (&Method::PUT, Some(key), "blocklist") => {
            let list = String::from_utf8_lossy(body);
            let mut whole = Vec::new();
            for name in elements(&list, "Latest") {
                match state.unfinished.blocks.lock().get(&(key.to_owned(), name.to_owned())) {
                    Some(block) => whole.extend_from_slice(block),
                    None => return Some(problem(state, StatusCode::BAD_REQUEST, "InvalidBlockList", "no such block")),
                }
            }
            without_digest(store(state, key, whole.into(), 201))
        }
        (&Method::PUT, Some(key), "") if head.headers.get("x-ms-blob-type").is_some_and(|kind| kind == "BlockBlob") => {
            state.puts.fetch_add(1, Ordering::Relaxed);
            store(state, key, body.clone(), 201)
        }
        (&Method::PUT, Some(_), _) => {
            problem(state, StatusCode::BAD_REQUEST, "MissingRequiredHeader", "the kind of blob is not named")
        }
        (&Method::DELETE, Some(key), _) => {
            if state.root.delete(key) {
                nothing(state, 202, &[])
            } else {
                problem(state, StatusCode::NOT_FOUND, "BlobNotFound", "the blob does not exist")
            }
        }
        _ => return None,
    })
}

/// The digest of a list of blocks is the digest of the list itself.
fn without_digest(mut answer: Answer) -> Answer {
    answer.headers_mut().remove("content-md5");
    answer
}
