//! Uploads, listings and removals, by the interfaces of several clouds, written from their documentation, independently
//! of the client.
//!
//! * `s3`, `azure`, `oci`, `dbfs`: one interface each; `hub` only lists. `common` has their common parts, `checksum`
//!   the checksums of S3, `condition` the writes that depend on an object's state.

mod azure;
mod checksum;
mod common;
mod condition;
mod dbfs;
mod hub;
mod oci;
mod s3;

use super::answer::{Answer, problem};
use super::state::ServerState;
use super::unfinished::Interface;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use forebay_loader::sync::Arc;
use http::StatusCode;
use http::request::Parts;
use md5::{Digest as _, Md5};

pub(super) use condition::{GENERATION, generation};
pub(super) use hub::tree;

/// Answers a request that writes or lists, of the interface that the server has; `None` for a different request.
pub(super) fn answer(state: &Arc<ServerState>, head: &Parts, key: Option<&str>, body: &Bytes) -> Option<Answer> {
    if let Some(problem) = digest_problem(state, head, body) {
        return Some(problem);
    }
    if let Some(problem) = condition::problem_of(state, head, key) {
        return Some(problem);
    }
    match state.options.interface {
        Interface::S3 => s3::answer(state, head, key, body),
        Interface::Azure => azure::answer(state, head, key, body),
        Interface::Oci => oci::answer(state, head, key, body),
        Interface::Dbfs => dbfs::answer(state, head, key, body),
    }
}

/// Compares a body with its `Content-MD5`, and requires one where neither a signature covers the body nor the interface
/// lacks digests.
fn digest_problem(state: &Arc<ServerState>, head: &Parts, body: &Bytes) -> Option<Answer> {
    let sent = head.headers.get("content-md5").and_then(|value| value.to_str().ok());
    match sent {
        Some(sent) if sent != BASE64_STANDARD.encode(Md5::digest(body)) => {
            Some(problem(state, StatusCode::BAD_REQUEST, "BadDigest", "the body is not the announced one"))
        }
        None if state.options.needs_digest && !body.is_empty() && !has_signed_body(head) => {
            Some(problem(state, StatusCode::BAD_REQUEST, "MissingDigest", "the body has no digest"))
        }
        _ => None,
    }
}

fn has_signed_body(head: &Parts) -> bool {
    ["x-amz-content-sha256", "x-content-sha256"]
        .iter()
        .any(|name| head.headers.get(*name).is_some_and(|value| value != "UNSIGNED-PAYLOAD"))
}
