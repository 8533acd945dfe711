//! Answers of the object server to requests.

use super::answer::{Answer, build, empty, problem};
use super::body::{ObjectBody, Twist};
use super::hub::Found;
use super::objects::{Content, Object};
use super::script::{self, Fault};
use super::sigv4::decode;
use super::state::{SEEN_MAX, Seen, ServerState};
use super::{azure, date, issuer, oci, sigv4, writes};
use bytes::Bytes;
use forebay_loader::sync::{Arc, Ordering};
use http::header::{self, HeaderMap};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use std::io;
use std::ops::Range;
use std::time::Instant;

/// Size limit of an uploaded object.
const PUT_BYTES_MAX: usize = 1 << 30;

/// Mark of an answer that is not sent until the test releases it.
#[derive(Clone, Copy, Debug)]
struct Silent;

/// Status of an answer that is not sent: its connection is closed.
const CLOSED: StatusCode = StatusCode::IM_A_TEAPOT;

/// Answers a request and records it.
///
/// # Errors
///
/// A fault that closes the connection.
pub(super) async fn answer(state: &Arc<ServerState>, request: Request<Incoming>) -> io::Result<Answer> {
    let (head, body) = request.into_parts();
    state.requests.fetch_add(1, Ordering::Relaxed);
    if !state.options.latency.is_zero() {
        tokio::time::sleep(state.options.latency).await;
    }
    let answer = match Limited::new(body, PUT_BYTES_MAX).collect().await {
        Ok(body) => {
            let body = body.to_bytes();
            let path = head.uri.path_and_query().map_or("", |place| place.as_str());
            let flip = script::flip(&mut state.rules.lock(), &format!("{} {path}", head.method), body.len());
            route(state, &head, flip.map_or(body.clone(), |at| flipped(&body, at)))
        }
        Err(_) => problem(state, StatusCode::BAD_REQUEST, "IncompleteBody", "the body ended early"),
    };
    let is_closed = answer.status() == CLOSED;
    let text = |name| head.headers.get(name).and_then(|v: &header::HeaderValue| v.to_str().ok()).map(str::to_owned);
    let received = Seen {
        method: head.method.to_string(),
        path: head.uri.path_and_query().map_or_else(String::new, ToString::to_string),
        range: text(header::RANGE),
        if_match: text(header::IF_MATCH),
        acl: text(header::HeaderName::from_static("x-amz-acl")),
        has_credentials: ["authorization", "x-amz-security-token"].iter().any(|name| head.headers.contains_key(*name)),
        status: answer.status().as_u16(),
    };
    {
        let mut seen = state.seen.lock();
        if seen.len() == SEEN_MAX {
            seen.pop_front();
        }
        seen.push_back(received);
    }
    if answer.extensions().get::<Silent>().is_some() {
        let released = state.release.notified();
        tokio::pin!(released);
        // Registered before it is counted, so that a release that follows the count is not missed.
        released.as_mut().enable();
        *state.stalls.lock() += 1;
        state.stalled.notify_all();
        released.await;
    }
    if is_closed { Err(io::Error::other("a scripted end of the connection")) } else { Ok(answer) }
}

fn flipped(body: &Bytes, at: usize) -> Bytes {
    let mut bytes = body.to_vec();
    bytes[at] ^= 1;
    bytes.into()
}

fn route(state: &Arc<ServerState>, head: &Parts, body: Bytes) -> Answer {
    if let Some(answer) = rejection(state, head, &body) {
        return answer;
    }
    let is_service = issuer::is_service(head.uri.path());
    let path = head.uri.path_and_query().map_or("", |place| place.as_str());
    let fault = script::fault(&mut state.rules.lock(), &format!("{} {path}", head.method));
    if let (Some(issuer), None, true) = (&state.options.issuer, &fault, is_service) {
        let host = text(&head.headers, header::HOST).unwrap_or_default();
        let url = format!("{}://{host}", if state.options.tls { "https" } else { "http" });
        let (status, document) = state.tokens.answer(issuer, &url, head, &body);
        let builder = Response::builder().status(status).header(header::CONTENT_TYPE, "application/json");
        return build(state, builder, ObjectBody::text(state, document.to_string()));
    }
    if let Some(answer) = fault.as_ref().and_then(|fault| scripted(state, fault)) {
        return answer;
    }
    let mut place = head.uri.path();
    let mut commit = None;
    if let Some(hub) = &state.options.hub {
        commit = hub.commit.parse().ok().filter(|_| !hub.commit.is_empty());
        if let Some(answer) = writes::tree(state, hub, head) {
            return answer;
        }
        match hub.find(place, |key| state.root.get(key)) {
            Found::Here(file) => place = file,
            Found::Elsewhere(address, mut tag) => {
                if fault == Some(Fault::OtherETag) {
                    tag = "\"changed\"".to_owned();
                }
                let builder = Response::builder().status(302).header(header::LOCATION, address);
                let builder = builder.header("x-linked-etag", tag);
                let redirect = build(state, builder, ObjectBody::text(state, ""));
                return with_commit(redirect, commit);
            }
            Found::Rejected(status, code) => {
                let builder = Response::builder().status(status).header("x-error-code", code);
                return build(state, builder, ObjectBody::text(state, r#"{"error":"no such file"}"#));
            }
        }
    }
    let Some(path) = decode(place) else {
        return problem(state, StatusCode::BAD_REQUEST, "InvalidURI", "the path is not percent-encoded UTF-8");
    };
    let path = path.trim_start_matches('/');
    let key = key_of(state, path);
    let written = writes::answer(state, head, key, &body);
    if let Some(Fault::Overwrite(named, bytes)) = &fault {
        let key = key.filter(|_| named.is_empty()).unwrap_or(named);
        return match state.root.put(key, bytes.clone().into()) {
            Ok(()) => empty(state, CLOSED),
            Err(e) => problem(state, StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &e.to_string()),
        };
    }
    if fault == Some(Fault::LoseAnswer) {
        return empty(state, CLOSED);
    }
    match (written, key) {
        (Some(_), _) if matches!(fault, Some(Fault::StallAfter(_))) => {
            let mut answer = empty(state, CLOSED);
            answer.extensions_mut().insert(Silent);
            answer
        }
        (Some(mut answer), _) => {
            retag(&mut answer, fault.as_ref());
            answer
        }
        (None, Some(key)) if matches!(head.method, Method::GET | Method::HEAD) => {
            with_commit(get(state, head, key, fault), commit)
        }
        _ => problem(state, StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", "no such method"),
    }
}

/// Returns the answer to a request above the limit of their rate, or to one that is not signed, or has no valid token,
/// where the server asks for one.
fn rejection(state: &Arc<ServerState>, head: &Parts, body: &Bytes) -> Option<Answer> {
    if !state.quota.lock().takes(Instant::now()) {
        return Some(problem(state, StatusCode::SERVICE_UNAVAILABLE, "SlowDown", "too many requests"));
    }
    if let Some(keys) = &state.options.keys
        && let Err((code, why)) = sigv4::check(keys, head, body)
    {
        let malformed = matches!(code, "AuthorizationHeaderMalformed" | "XAmzContentSHA256Mismatch");
        let status = if malformed { StatusCode::BAD_REQUEST } else { StatusCode::FORBIDDEN };
        let mut answer = problem(state, status, code, &why);
        if let Ok(region) = keys.region.parse() {
            answer.headers_mut().insert("x-amz-bucket-region", region);
        }
        return Some(answer);
    }
    if let Some(account) = &state.options.azure
        && let Err((code, why)) = azure::check(account, head)
    {
        return Some(problem(state, StatusCode::FORBIDDEN, code, &why));
    }
    if let Some(key) = &state.options.oci
        && let Err((code, why)) = oci::check(key, head, body)
    {
        let document = serde_json::json!({"code": code, "message": why}).to_string();
        let builder = Response::builder().status(StatusCode::UNAUTHORIZED);
        return Some(build(state, builder, ObjectBody::text(state, document)));
    }
    if state.options.issuer.is_some() && !issuer::is_service(head.uri.path()) && !state.tokens.is_valid(head) {
        return Some(problem(state, StatusCode::UNAUTHORIZED, "AuthenticationRequired", "no valid token"));
    }
    None
}

/// Returns the answer that replaces the object's, if the fault has one.
fn scripted(state: &Arc<ServerState>, fault: &Fault) -> Option<Answer> {
    match fault {
        Fault::Reset => Some(empty(state, CLOSED)),
        Fault::Status(status, after) => {
            let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let mut answer = problem(state, status, "Scripted", "scripted status");
            if let Some(after) = after {
                answer.headers_mut().insert(header::RETRY_AFTER, (*after).into());
            }
            Some(answer)
        }
        Fault::Text(status, text) => {
            let builder = Response::builder().status(*status);
            // The page of an error may have an entity tag, too.
            let builder = if *status < 400 { builder } else { builder.header(header::ETAG, "\"page\"") };
            Some(build(state, builder, ObjectBody::text(state, text.clone())))
        }
        Fault::Page(text, named) => {
            let numbered = |text: &str| text.replace('#', &state.requests.load(Ordering::Relaxed).to_string());
            let builder = match named {
                Some((name, value)) => Response::builder().header(*name, numbered(value)),
                None => Response::builder(),
            };
            Some(build(state, builder, ObjectBody::text(state, numbered(text))))
        }
        Fault::DripStatus(status) => {
            let twist = Twist { stall_at: Some(0), drips: true, ..Twist::default() };
            let text = Content::Memory(vec![b' '; 4096].into());
            Some(build(state, Response::builder().status(*status), ObjectBody::range(state, text, 0..4096, twist)))
        }
        Fault::Redirect(status, to) => {
            let mut answer = empty(state, StatusCode::from_u16(*status).unwrap_or(StatusCode::FOUND));
            if let Ok(to) = to.parse() {
                answer.headers_mut().insert(header::LOCATION, to);
            }
            Some(answer)
        }
        _ => None,
    }
}

/// Returns the key in a path below the bucket, `None` for the bucket itself.
fn key_of<'a>(state: &ServerState, path: &'a str) -> Option<&'a str> {
    let in_bucket = state.options.bucket.as_deref().and_then(|bucket| path.strip_prefix(bucket));
    match in_bucket {
        Some("" | "/") => None,
        Some(rest) if rest.starts_with('/') => Some(&rest[1..]),
        _ => Some(path),
    }
}

/// Changes the entity tag in the answer to a write.
fn retag(answer: &mut Answer, fault: Option<&Fault>) {
    let tag = answer.headers().get(header::ETAG).and_then(|tag| tag.to_str().ok());
    let tag = match fault {
        Some(Fault::OtherETag) => "\"changed\"".to_owned(),
        Some(Fault::WeakETag) => format!("W/{}", tag.unwrap_or_default()),
        _ => return,
    };
    if let Ok(tag) = tag.parse() {
        answer.headers_mut().insert(header::ETAG, tag);
    }
}

fn get(state: &Arc<ServerState>, head: &Parts, key: &str, fault: Option<Fault>) -> Answer {
    state.gets.fetch_add(1, Ordering::Relaxed);
    let Some(object) = state.root.get(key) else {
        return problem(state, StatusCode::NOT_FOUND, "NoSuchKey", "the specified key does not exist");
    };
    let generation = writes::generation(&object);
    let Object { content, len, mut etag, modified, digest } = object;
    if fault == Some(Fault::OtherETag) {
        etag = "\"changed\"".to_owned();
    }
    if let Some(wanted) = text(&head.headers, header::IF_MATCH)
        && wanted != "*"
        && !wanted.split(',').any(|tag| tag.trim() == etag)
    {
        return problem(state, StatusCode::PRECONDITION_FAILED, "PreconditionFailed", "a different entity tag");
    }
    let range =
        text(&head.headers, header::RANGE).filter(|_| !matches!(fault, Some(Fault::IgnoreRange | Fault::Unpacked)));
    let mut wanted = match range.map(|range| parse_range(range, len)) {
        None | Some(Asked::Nonsense) => None,
        Some(Asked::Range(range)) => Some(range),
        Some(Asked::Beyond) => {
            let answer = problem(state, StatusCode::RANGE_NOT_SATISFIABLE, "InvalidRange", "beyond the object's end");
            return with(answer, header::CONTENT_RANGE, format!("bytes */{len}").parse().expect("ASCII"));
        }
    };
    if let (Some(Fault::Shorten(n)), Some(range)) = (&fault, &mut wanted) {
        range.end = range.end.min(range.start + n);
    }
    let partial = wanted.is_some();
    let range = wanted.unwrap_or(0..len);
    let mut twist = Twist::default();
    match &fault {
        Some(Fault::CutAfter(n)) => twist.cut_at = Some(*n),
        Some(Fault::StallAfter(n)) => twist.stall_at = Some(*n),
        Some(Fault::DripAfter(n)) => (twist.stall_at, twist.drips) = (Some(*n), true),
        Some(Fault::FlipByte(at)) => twist.flip_at = Some(*at),
        Some(Fault::Chunked | Fault::Unpacked) => twist.chunked = true,
        Some(Fault::ExcessLength(n)) => twist.excess = *n,
        _ => {}
    }
    let mut builder = Response::builder()
        .status(if partial { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK })
        .header(header::ACCEPT_RANGES, "bytes")
        .header(header::CONTENT_TYPE, "application/octet-stream");
    if fault == Some(Fault::Unpacked) {
        builder = builder.header("x-goog-stored-content-encoding", "gzip");
    }
    if let Some(Fault::Encoded(encoding)) = &fault {
        builder = builder.header(header::CONTENT_ENCODING, *encoding);
    }
    if fault != Some(Fault::NoVersion) {
        builder = builder.header(header::ETAG, etag).header(header::LAST_MODIFIED, date::http(modified));
        builder = builder.header(writes::GENERATION, generation.to_string());
    }
    if partial && fault != Some(Fault::NoContentRange) {
        let shift = if let Some(Fault::ShiftContentRange(n)) = fault { n } else { 0 };
        let (first, last) = (range.start + shift, range.end - 1 + shift);
        builder = builder.header(header::CONTENT_RANGE, format!("bytes {first}-{last}/{}", len + shift));
    }
    if let Some((name, digest)) = digest {
        builder = builder.header(name, digest);
    }
    if head.method == Method::HEAD {
        builder = builder.header(header::CONTENT_LENGTH, range.end - range.start);
        return build(state, builder, ObjectBody::text(state, ""));
    }
    build(state, builder, ObjectBody::range(state, content, range, twist))
}

enum Asked {
    Range(Range<u64>),
    /// Nothing of it exists: 416.
    Beyond,
    /// Not a valid range: ignored, as the standard requires.
    Nonsense,
}

/// One range: `bytes=0-9`, `bytes=10-`, `bytes=-5`. Several at once are ignored, as S3 does.
fn parse_range(value: &str, len: u64) -> Asked {
    let Some((first, last)) = value.strip_prefix("bytes=").and_then(|range| range.split_once('-')) else {
        return Asked::Nonsense;
    };
    let range = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => first..last.saturating_add(1).min(len),
        (Ok(first), Err(_)) if last.is_empty() => first..len,
        (Err(_), Ok(suffix)) if first.is_empty() => len.saturating_sub(suffix)..len,
        _ => return Asked::Nonsense,
    };
    if range.start < range.end { Asked::Range(range) } else { Asked::Beyond }
}

fn with(mut answer: Answer, name: header::HeaderName, value: header::HeaderValue) -> Answer {
    answer.headers_mut().insert(name, value);
    answer
}

/// Adds the commit of the hub.
fn with_commit(mut answer: Answer, commit: Option<header::HeaderValue>) -> Answer {
    if let Some(commit) = commit {
        answer.headers_mut().insert("x-repo-commit", commit);
    }
    answer
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}
