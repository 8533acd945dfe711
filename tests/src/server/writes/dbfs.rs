//! Files of Databricks: files, folders, removal. A file needs its folder.

use super::common::{Item, json, nothing, page, parameters};
use crate::server::answer::Answer;
use crate::server::sigv4::decode;
use crate::server::state::ServerState;
use bytes::Bytes;
use forebay_loader::sync::{Arc, Ordering};
use http::Method;
use http::request::Parts;
use serde_json::json;
use std::time::UNIX_EPOCH;

pub(super) fn answer(state: &Arc<ServerState>, head: &Parts, key: Option<&str>, body: &Bytes) -> Option<Answer> {
    let missing = || json(state, 404, &json!({"error_code": "NOT_FOUND", "message": "no such folder"}));
    let bucket = state.options.bucket.as_deref().unwrap_or_default();
    let folders = format!("/{}", bucket.replacen("/files/", "/directories/", 1));
    let is_there = |folder: &str| {
        folder.is_empty()
            || state.unfinished.folders.lock().contains(folder)
            || state.root.list(&format!("{folder}/")).is_ok_and(|found| !found.is_empty())
    };
    if let Some(folder) = head.uri.path().strip_prefix(&*folders) {
        let folder = decode(folder.trim_matches('/')).unwrap_or_default();
        return Some(match head.method {
            Method::PUT => {
                state.unfinished.folders.lock().insert(folder);
                nothing(state, 204, &[])
            }
            Method::GET if !is_there(&folder) => missing(),
            Method::GET => {
                state.lists.fetch_add(1, Ordering::Relaxed);
                let query = parameters(head);
                let start = query.get("page_token").map(String::as_str).unwrap_or_default();
                let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
                let Ok((items, next)) = page(state, &prefix, false, start) else { return Some(missing()) };
                let child = |item: &Item| {
                    let name = item.key()[prefix.len()..].trim_end_matches('/');
                    match item {
                        Item::Folder(_) => json!({"name": name, "is_directory": true}),
                        Item::Object(entry) => {
                            let modified = entry.modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
                            json!({"name": name, "file_size": entry.len, "last_modified": modified as u64})
                        }
                    }
                };
                let contents: Vec<_> = items.iter().map(child).collect();
                json(state, 200, &json!({"contents": contents, "next_page_token": next}))
            }
            _ => return None,
        });
    }
    Some(match (&head.method, key) {
        (&Method::PUT, Some(key)) if !is_there(key.rsplit_once('/').map_or("", |(folder, _)| folder)) => missing(),
        (&Method::PUT, Some(key)) => {
            state.puts.fetch_add(1, Ordering::Relaxed);
            let is_new = state.root.get(key).is_none() || head.uri.query() == Some("overwrite=true");
            if is_new && state.root.put(key, body.clone()).is_ok() {
                nothing(state, 204, &[])
            } else {
                json(state, 409, &json!({"error_code": "ALREADY_EXISTS"}))
            }
        }
        (&Method::DELETE, Some(key)) => {
            if state.root.delete(key) {
                nothing(state, 204, &[])
            } else {
                missing()
            }
        }
        _ => return None,
    })
}
