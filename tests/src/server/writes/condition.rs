//! Conditions of writes.

use super::common::json;
use crate::server::answer::{Answer, problem};
use crate::server::objects::Object;
use crate::server::state::ServerState;
use crate::server::unfinished::Interface;
use forebay_loader::sync::Arc;
use http::request::Parts;
use http::{Method, StatusCode};
use serde_json::json;
use std::time::UNIX_EPOCH;

/// Header with the generation of an object of Google.
pub(in crate::server) const GENERATION: &str = "x-goog-generation";

/// Returns the generation of an object: a different number for each write.
pub(in crate::server) fn generation(object: &Object) -> u128 {
    object.modified.duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos())
}

/// Returns the rejection of a write with a condition that is not met.
pub(super) fn problem_of(state: &Arc<ServerState>, head: &Parts, key: Option<&str>) -> Option<Answer> {
    let key = key.filter(|_| head.method == Method::PUT)?;
    let sent = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let found = state.root.get(key);
    let rejected = |status, code: &str| match state.options.interface {
        Interface::Oci => json(state, status, &json!({"code": code, "message": "a condition is not met"})),
        _ => problem(state, StatusCode::from_u16(status).unwrap_or_default(), code, "a condition is not met"),
    };
    if sent("if-none-match") == Some("*") && found.is_some() {
        return Some(match state.options.interface {
            Interface::Azure => rejected(409, "BlobAlreadyExists"),
            Interface::Oci => rejected(412, "IfNoneMatchFailed"),
            _ => rejected(412, "PreconditionFailed"),
        });
    }
    if let Some(wanted) = sent("if-match") {
        let is_met = found.as_ref().is_some_and(|found| found.etag.trim_matches('"') == wanted.trim_matches('"'));
        return (!is_met).then(|| match state.options.interface {
            Interface::Azure => rejected(412, "ConditionNotMet"),
            Interface::Oci => rejected(412, "IfMatchFailed"),
            _ if found.is_none() => rejected(404, "NoSuchKey"),
            _ => rejected(412, "PreconditionFailed"),
        });
    }
    let wanted: u128 = sent("x-goog-if-generation-match")?.parse().ok()?;
    (found.as_ref().map_or(0, generation) != wanted).then(|| rejected(412, "PreconditionFailed"))
}
