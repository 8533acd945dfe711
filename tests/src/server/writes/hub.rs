//! The Hugging Face hub: listing of a data set.

use super::common::{Item, json, page, parameters};
use crate::server::answer::Answer;
use crate::server::hub::Hub;
use crate::server::sigv4::decode;
use crate::server::state::ServerState;
use forebay_loader::sync::{Arc, Ordering};
use http::request::Parts;
use serde_json::json;

/// Answers a request for the tree of the data set; `None` for a different request.
pub(in crate::server) fn tree(state: &Arc<ServerState>, hub: &Hub, head: &Parts) -> Option<Answer> {
    let start = format!("/api/datasets/{}/tree/{}/", hub.repository, hub.revision);
    let folder = decode(head.uri.path().strip_prefix(&*start)?)?;
    state.lists.fetch_add(1, Ordering::Relaxed);
    let query = parameters(head);
    let text = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
    let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let (items, next) = page(state, &prefix, text("recursive") == "true", text("cursor")).ok()?;
    let item = |item: &Item| match item {
        Item::Folder(key) => json!({"type": "directory", "path": key.trim_end_matches('/'), "size": 0, "oid": "f"}),
        Item::Object(entry) => json!({"type": "file", "path": entry.key, "size": entry.len, "oid": entry.etag}),
    };
    let mut answer = json(state, 200, &items.iter().map(item).collect());
    if let Some(next) = next {
        let host = head.headers.get("host").and_then(|host| host.to_str().ok()).unwrap_or_default();
        let next: String = next.bytes().map(|b| format!("%{b:02X}")).collect();
        let path = head.uri.path();
        let link = format!("<http://{host}{path}?recursive={}&cursor={next}>; rel=\"next\"", text("recursive"));
        answer.headers_mut().insert("link", link.parse().ok()?);
    }
    Some(answer)
}
