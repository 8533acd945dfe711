//! Checksums of S3: SHA-256 of objects and parts.

use crate::server::answer::{Answer, problem};
use crate::server::state::ServerState;
use crate::server::unfinished::Whole;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use forebay_loader::sync::Arc;
use http::StatusCode;
use http::request::Parts;

pub(super) const NAME: &str = "x-amz-checksum-sha256";

fn of(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(digest(&SHA256, bytes))
}

/// Returns true if a request begins an upload with checksums of the parts.
pub(super) fn is_announced(head: &Parts) -> bool {
    head.headers.get("x-amz-checksum-algorithm").is_some_and(|algorithm| algorithm == "SHA256")
}

/// Checks the checksum of an object, or of a part of `upload`.
pub(super) fn check(state: &Arc<ServerState>, head: &Parts, upload: Option<&str>, body: &Bytes) -> Option<Answer> {
    let sent = head.headers.get(NAME).and_then(|value| value.to_str().ok());
    let rejected = |code, why| Some(problem(state, StatusCode::BAD_REQUEST, code, why));
    let is_needed = match upload {
        None => state.options.needs_checksum,
        Some(id) => state.unfinished.uploads.lock().get(id).is_some_and(|upload| upload.has_checksums),
    };
    match sent {
        Some(sent) if sent != of(body) => rejected("BadDigest", "the body is not the announced one"),
        Some(_) if upload.is_some() && !is_needed => {
            rejected("InvalidRequest", "the upload was begun without an algorithm of checksums")
        }
        None if is_needed => rejected("InvalidRequest", "Content-MD5 OR x-amz-checksum- HTTP header is required"),
        _ => None,
    }
}

/// Returns true if the end of an upload has the checksums that its parts need.
pub(super) fn are_repeated(whole: &Whole, sent: &[&str]) -> bool {
    let expected = whole.sha256.iter().map(|sha256| BASE64_STANDARD.encode(sha256)).collect::<Vec<_>>();
    if whole.has_checksums { sent == expected } else { sent.is_empty() }
}

/// Returns the checksum of an object that consists of parts.
pub(super) fn of_parts(whole: &Whole) -> String {
    format!("{}-{}", of(&whole.sha256.concat()), whole.parts)
}
