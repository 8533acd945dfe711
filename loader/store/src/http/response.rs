//! Interpretation of responses.

use super::body::HttpBody;
use super::client::Exchange;
use super::proxy::PROXY_CREDENTIALS;
use crate::context::ThreadContext;
use crate::failure::Failure;
use crate::retry::retry_after;
use crate::source::{GetRequest, Head, TimedBody, Times, Version};
use crate::{Error, ErrorKind};
use http::header::{self, HeaderMap};
use http::{Response, StatusCode, Uri};
use std::ops::Range;
use std::time::UNIX_EPOCH;

/// Most bytes of an error's body that are read for the message.
const EXPLANATION_BYTES: usize = 2048;

/// Longest code in an error's body.
const CODE_BYTES_MAX: usize = 60;

/// Reads the head of a 200 or 206 to `request`, and rejects one that contradicts itself or the request.
pub(super) fn read_head<B>(response: &Response<B>, request: &GetRequest) -> Result<Head, Failure> {
    let headers = response.headers();
    let length = number(headers, &header::CONTENT_LENGTH)?;
    let (version, encoding, times) = (version(headers), encoding(headers, &request.key), times(headers));
    if response.status() == StatusCode::OK {
        // The whole object, requested or not.
        return Ok(Head { start: 0, promised: length, total: length, version, encoding, times });
    }
    let requested = request.range.as_ref().ok_or_else(|| Failure::network("206 without a requested range"))?;
    let header = text(headers, &header::CONTENT_RANGE).ok_or_else(|| Failure::network("206 without Content-Range"))?;
    let (range, total) =
        content_range(header).ok_or_else(|| Failure::network(format!("Content-Range cannot be read: {header:.80}")))?;
    let promised = range.end - range.start;
    if range.start != requested.start || range.end > requested.end {
        let why = format!(
            "Content-Range is {header:.80}, and bytes {}-{} were requested",
            requested.start,
            requested.end - 1
        );
        return Err(Failure::network(why));
    }
    if length.is_some_and(|n| n != promised) {
        let why = format!("Content-Range is {header:.80} and Content-Length {}", length.unwrap_or_default());
        return Err(Failure::network(why));
    }
    Ok(Head { start: range.start, promised: Some(promised), total, version, encoding, times })
}

/// Parses `bytes 0-99/1000` or `bytes 0-99/*` into the range, its end exclusive, and the object's size.
fn content_range(value: &str) -> Option<(Range<u64>, Option<u64>)> {
    let (range, total) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    let total = match total.trim() {
        "*" => None,
        total => Some(total.parse().ok()?),
    };
    let end = last.checked_add(1)?;
    (first < end && total.is_none_or(|total| end <= total)).then_some((first..end, total))
}

fn text<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn number(headers: &HeaderMap, name: &header::HeaderName) -> Result<Option<u64>, Failure> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    number.map(Some).ok_or_else(|| Failure::network(format!("{name} is not a number")))
}

/// Returns the version of an object. Weak tags do not promise equal bytes, so the time of the last change is used
/// instead.
fn version(headers: &HeaderMap) -> Option<Version> {
    let tag = text(headers, &header::ETAG).filter(|tag| !tag.starts_with("W/"));
    tag.map(|tag| Version::ETag(tag.to_owned()))
        .or_else(|| text(headers, &header::LAST_MODIFIED).map(|time| Version::LastModified(time.to_owned())))
}

/// Returns the times in a response.
fn times(headers: &HeaderMap) -> Times {
    let seconds = |name| {
        let time = httpdate::parse_http_date(text(headers, name)?).ok()?;
        Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs())
    };
    Times { modified_s: seconds(&header::LAST_MODIFIED), answered_s: seconds(&header::DATE) }
}

/// Encodings of content, each with the extensions of files that are compressed with it.
const ENCODINGS: [(&str, &[&str]); 17] = [
    ("gzip", &["gz", "gzip", "tgz", "svgz"]),
    ("x-gzip", &["gz", "gzip", "tgz", "svgz"]),
    ("br", &["br"]),
    ("zstd", &["zst", "zstd", "tzst"]),
    ("deflate", &["zz", "zlib", "deflate"]),
    ("compress", &["z"]),
    ("x-compress", &["z"]),
    ("bzip2", &["bz2", "tbz", "tbz2"]),
    ("x-bzip2", &["bz2", "tbz", "tbz2"]),
    ("xz", &["xz", "txz"]),
    ("lzma", &["lzma"]),
    ("lz4", &["lz4"]),
    ("snappy", &["snappy", "sz"]),
    ("dcb", &[]),
    ("dcz", &[]),
    ("pack200-gzip", &[]),
    ("aes128gcm", &[]),
];

/// Returns the encodings that an object is sent with, which the upload or the server has chosen.
///
/// A compressed file is often stored with the encoding that its name has as well: its bytes are the bytes of the file.
/// Texts that are no encodings, such as `utf-8`, are mistakes of the upload. `aws-chunked` is one of some stores: it is
/// of the upload, not of the object.
pub(super) fn encoding(headers: &HeaderMap, key: &str) -> Option<String> {
    let values = headers.get_all(header::CONTENT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(',')).map(|name| name.trim().to_ascii_lowercase());
    let found: Vec<_> = names.filter_map(|name| ENCODINGS.iter().find(|(known, _)| *known == name)).collect();
    let extension = || key.rsplit('/').next()?.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    if let [(_, extensions)] = found[..]
        && extension().is_some_and(|extension| extensions.contains(&&*extension))
    {
        return None;
    }
    let names: Vec<_> = found.iter().map(|(name, _)| *name).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Returns the encoding that Google has unpacked on the way, if there is one.
pub(super) fn unpacked_encoding(headers: &HeaderMap) -> Option<&str> {
    let stored = text(headers, &header::HeaderName::from_static("x-goog-stored-content-encoding"))?;
    Some(stored).filter(|stored| !matches!(*stored, "" | "identity"))
}

/// Returns true for a redirect that names the new address. 300 has several targets, and 304 is no redirect.
pub(super) fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

pub(super) fn redirect_target(from: &Uri, headers: &HeaderMap) -> Result<Uri, Failure> {
    let permanent = |kind, why: String| Failure::permanent(Error::new(kind, why));
    let to = text(headers, &header::LOCATION)
        .ok_or_else(|| permanent(ErrorKind::Config, "a redirect has no target: check the remote's address".into()))?;
    let base = url::Url::parse(&from.to_string());
    let to = base
        .and_then(|base| base.join(to))
        .map_err(|e| permanent(ErrorKind::Config, format!("a redirect leads to an address that is not valid: {e}")))?;
    if !matches!(to.scheme(), "http" | "https") || from.scheme_str() == Some("https") && to.scheme() == "http" {
        let why = format!("the server redirects to {}://, which is less safe than the remote's scheme", to.scheme());
        return Err(permanent(ErrorKind::Permission, why));
    }
    to.as_str()
        .parse()
        .map_err(|_| permanent(ErrorKind::Config, "a redirect leads to an address that is not valid".into()))
}

/// Converts a response without the object into an error; returns also the server's code for the reason.
pub(super) async fn rejection(context: &ThreadContext, exchange: Exchange) -> (Failure, Option<String>) {
    let status = exchange.response.status();
    let headers = exchange.response.headers().clone();
    let host = exchange.origin.to_string();
    let mut text = Vec::new();
    let mut body = HttpBody::new(context, exchange);
    let mut body = TimedBody::new(context, &mut body, context.shared.config.download_timeout);
    // The part that has arrived is enough.
    let _ = body.read_whole(EXPLANATION_BYTES, &mut text).await;
    let code = error_code(&headers, &text);
    let (kind, is_retried, why) = match code.as_deref() {
        // S3 responds with 400.
        Some("ExpiredToken" | "InvalidToken" | "TokenRefreshRequired") => meaning(StatusCode::FORBIDDEN),
        _ => meaning(status),
    };
    let shown = code.as_ref().map(|code| format!(", {code}")).unwrap_or_default();
    let error = Error::new(kind, format!("{why} ({}{shown})", status.as_u16())).with("host", host);
    let (retry_after, is_throttled) = (retry_after(&headers), matches!(status.as_u16(), 429 | 503));
    (Failure { retry_after, is_throttled, ..Failure::new(error, is_retried) }, code)
}

/// Returns the kind of error for a status, true if a further attempt may help, and the message.
fn meaning(status: StatusCode) -> (ErrorKind, bool, &'static str) {
    match status.as_u16() {
        404 | 410 => (ErrorKind::NotFound, false, "there is no such object"),
        407 => (ErrorKind::Permission, false, PROXY_CREDENTIALS),
        401 | 403 => (ErrorKind::Permission, false, "the store denies access: check the credentials"),
        412 => (ErrorKind::Stale, false, "the object changed while it was being fetched"),
        416 => (ErrorKind::Checksum, false, "the object is shorter than expected"),
        408 | 425 | 429 => (ErrorKind::Network, true, "the server is busy"),
        500..=599 => (ErrorKind::Network, true, "the server failed"),
        _ => (ErrorKind::Config, false, "the server rejects the request: check the remote's address"),
    }
}

/// Headers with a code: Azure, the Hugging Face hub.
const CODE_HEADERS: [&str; 2] = ["x-ms-error-code", "x-error-code"];

/// Members with a code in a JSON document: token services, Databricks, Oracle.
const CODE_MEMBERS: [&str; 3] = ["error", "error_code", "code"];

/// Returns the code of an error, from a header, or from a text in XML or JSON. The rest of the text is not shown,
/// because it may repeat keys and tokens of the request, and neither is a code that does not look like one.
pub(crate) fn error_code(headers: &HeaderMap, text: &[u8]) -> Option<String> {
    let in_header = || CODE_HEADERS.iter().find_map(|name| headers.get(*name)?.to_str().ok()).map(str::to_owned);
    let in_xml = || {
        let text = String::from_utf8_lossy(text);
        let (code, _) = text.split_once("<Code>")?.1.split_once("</Code>")?;
        Some(code.to_owned())
    };
    let in_json = || {
        let document: serde_json::Value = serde_json::from_slice(text).ok()?;
        // Google has an object with the code in `status`.
        let status = || document.get("error")?.get("status")?.as_str();
        CODE_MEMBERS.iter().find_map(|name| document.get(name)?.as_str()).or_else(status).map(str::to_owned)
    };
    let code = in_header().or_else(in_xml).or_else(in_json)?;
    let is_code = code.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_'));
    (is_code && (1..=CODE_BYTES_MAX).contains(&code.len())).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, headers: &[(&str, &str)]) -> Response<()> {
        let mut builder = Response::builder().status(status);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(()).expect("valid")
    }

    fn request(range: Range<u64>) -> GetRequest {
        GetRequest { key: "k".into(), range: Some(range), version: None }
    }

    #[test]
    fn a_range_is_accepted_only_if_it_was_requested() {
        let good = response(206, &[("content-range", "bytes 10-19/100"), ("content-length", "10"), ("etag", "\"a\"")]);
        let head = read_head(&good, &request(10..20)).expect("good");
        let version = Some(Version::ETag("\"a\"".into()));
        let times = Times::default();
        assert_eq!(head, Head { start: 10, promised: Some(10), total: Some(100), version, encoding: None, times });
        let shorter = response(206, &[("content-range", "bytes 10-14/*")]);
        assert_eq!(read_head(&shorter, &request(10..20)).expect("shorter is fine").promised, Some(5));
        for (headers, hint) in [
            (vec![("content-range", "bytes 0-9/100")], "were requested"),
            (vec![("content-range", "bytes 10-20/100")], "were requested"),
            (vec![("content-range", "bytes 10-19/100"), ("content-length", "9")], "Content-Length 9"),
            (vec![("content-range", "bytes 10-19/100"), ("content-length", "-9")], "not a number"),
            (vec![("content-range", "bytes 19-10/100")], "cannot be read"),
            (vec![("content-range", "bytes 10-19/15")], "cannot be read"),
            (vec![("content-range", "bytes 10-18446744073709551615/*")], "cannot be read"),
            (vec![("content-range", "rows 10-19/100")], "cannot be read"),
            (vec![], "without Content-Range"),
        ] {
            let failure = read_head(&response(206, &headers), &request(10..20)).expect_err(hint);
            assert!(failure.error.to_string().contains(hint), "{:?}", failure.error);
        }
    }

    #[test]
    fn an_encoding_counts_unless_the_name_has_it_as_well() {
        let of = |values: &[&str], key: &str| {
            let headers: Vec<_> = values.iter().map(|value| ("content-encoding", *value)).collect();
            encoding(response(200, &headers).headers(), key)
        };
        for (values, key, expected) in [
            (&["gzip"][..], "a.txt", Some("gzip")),
            (&["GZIP"], "a", Some("gzip")),
            (&["gzip"], "gz/a", Some("gzip")),
            (&["gzip"], "a.gz", None),
            (&["x-gzip"], "folder/a.tar.GZ", None),
            (&["gzip"], "a.tgz", None),
            (&["gzip"], "a.zst", Some("gzip")),
            (&["zstd"], "shard.00000.mds.zstd", None),
            (&["gzip, gzip"], "a.gz", Some("gzip, gzip")),
            (&["br", "gzip"], "a.br", Some("br, gzip")),
            (&["identity"], "a", None),
            (&["aws-chunked"], "a", None),
            (&["aws-chunked,gzip"], "a", Some("gzip")),
            (&["utf-8"], "a", None),
            (&[""], "a", None),
            (&[], "a", None),
        ] {
            assert_eq!(of(values, key).as_deref(), expected, "{values:?} {key}");
        }
    }

    #[test]
    fn the_times_of_a_response_are_read() {
        let headers = [("last-modified", "Thu, 01 Jan 1970 00:01:00 GMT"), ("date", "Thu, 01 Jan 1970 00:02:00 GMT")];
        let expected = Times { modified_s: Some(60), answered_s: Some(120) };
        assert_eq!(times(response(200, &headers).headers()), expected);
        assert_eq!(times(response(200, &[("date", "soon")]).headers()), Times::default());
    }

    #[test]
    fn a_weak_tag_is_no_version() {
        let weak = response(200, &[("etag", "W/\"a\""), ("last-modified", "Fri, 20 Nov 2026 10:00:00 GMT")]);
        assert!(matches!(version(weak.headers()), Some(Version::LastModified(_))));
        assert_eq!(version(response(200, &[("etag", "W/\"a\"")]).headers()), None);
    }

    #[test]
    fn a_redirect_may_be_relative_but_never_leaves_tls() {
        let to = |location: &'static str| {
            let headers = response(302, &[("location", location)]);
            redirect_target(&Uri::from_static("https://h/a/b"), headers.headers())
        };
        assert_eq!(to("c?d=1").expect("relative").to_string(), "https://h/a/c?d=1");
        assert_eq!(to("https://i:8/x").expect("absolute").to_string(), "https://i:8/x");
        assert_eq!(to("http://h/a").expect_err("downgrade").error.kind(), ErrorKind::Permission);
        assert_eq!(to("file:///etc/passwd").expect_err("scheme").error.kind(), ErrorKind::Permission);
        assert!(redirect_target(&Uri::from_static("https://h/"), response(302, &[]).headers()).is_err());
    }
}
