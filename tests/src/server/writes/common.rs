//! Pages of listings, and answers, that several interfaces have in common.

use crate::server::answer::{Answer, build, problem};
use crate::server::body::ObjectBody;
use crate::server::objects::ListedObject;
use crate::server::sigv4::decode;
use crate::server::state::ServerState;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use forebay_loader::sync::Arc;
use http::request::Parts;
use http::{Response, StatusCode};
use md5::{Digest as _, Md5};
use std::collections::BTreeMap;

/// Object or folder of a listing.
pub(super) enum Item {
    Object(ListedObject),
    Folder(String),
}

impl Item {
    /// Returns the key. The key of a folder ends with a slash.
    pub(super) fn key(&self) -> &str {
        match self {
            Self::Object(entry) => &entry.key,
            Self::Folder(key) => key,
        }
    }
}

/// Returns the items from `start` on (inclusive), and the start of the next page.
pub(super) fn page(
    state: &ServerState,
    prefix: &str,
    is_recursive: bool,
    start: &str,
) -> std::io::Result<(Vec<Item>, Option<String>)> {
    let mut items: Vec<Item> = Vec::new();
    for entry in state.root.list(prefix)? {
        let folder = entry.key[prefix.len()..].split_once('/').map(|(name, _)| format!("{prefix}{name}/"));
        match folder.filter(|_| !is_recursive) {
            Some(folder) if items.last().is_some_and(|last| last.key() == folder) => {}
            Some(folder) => items.push(Item::Folder(folder)),
            None => items.push(Item::Object(entry)),
        }
    }
    items.retain(|item| item.key() >= start);
    let next = items.get(state.options.list_page).map(|item| item.key().to_owned());
    items.truncate(state.options.list_page);
    Ok((items, next))
}

/// Returns the parameters of a query.
pub(super) fn parameters(head: &Parts) -> BTreeMap<String, String> {
    let decoded = |text: &str| decode(&text.replace('+', " ")).unwrap_or_default();
    let pairs = head.uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}

pub(super) fn document(state: &Arc<ServerState>, status: u16, kind: &str, text: String) -> Answer {
    build(state, Response::builder().status(status).header("content-type", kind), ObjectBody::text(state, text))
}

pub(super) fn json(state: &Arc<ServerState>, status: u16, value: &serde_json::Value) -> Answer {
    document(state, status, "application/json", value.to_string())
}

pub(super) fn xml(state: &Arc<ServerState>, text: String) -> Answer {
    document(state, 200, "application/xml", format!("<?xml version=\"1.0\" encoding=\"utf-8\"?>{text}"))
}

pub(super) fn nothing(state: &Arc<ServerState>, status: u16, headers: &[(&str, &str)]) -> Answer {
    let builder = headers.iter().fold(Response::builder().status(status), |b, (name, value)| b.header(*name, *value));
    build(state, builder, ObjectBody::text(state, ""))
}

/// Stores an object, and answers with its entity tag.
pub(super) fn store(state: &Arc<ServerState>, key: &str, bytes: Bytes, status: u16) -> Answer {
    let md5 = BASE64_STANDARD.encode(Md5::digest(&bytes));
    match state.root.put(key, bytes) {
        Ok(()) => {
            let tag = state.root.get(key).map(|object| object.etag).unwrap_or_default();
            nothing(state, status, &[("etag", &tag), ("content-md5", &md5)])
        }
        Err(e) => problem(state, StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &e.to_string()),
    }
}

/// Returns the texts between `<name>` and `</name>`.
pub(super) fn elements<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    text.split(&open).skip(1).filter_map(|rest| rest.split_once(&*close)).map(|(inner, _)| inner).collect()
}
