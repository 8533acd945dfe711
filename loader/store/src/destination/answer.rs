//! Reading of responses that several stores have in common.

use super::payload::Payload;
use super::target::{Conditional, Expected, ListedEntry, ObjectTag};
use crate::failure::Failure;
use crate::http::{Answer, Refusal};
use crate::{Error, ErrorKind};
use serde::de::DeserializeOwned;

/// Headers with the MD5 of the bytes that the store received, in base 64.
const MD5_HEADERS: [&str; 2] = ["content-md5", "opc-content-md5"];

/// Compares the digest of the bytes that a store received, if the response has it, with the digest of `payload`.
pub(crate) fn check_md5(answer: &Answer, payload: &Payload) -> Result<(), Failure> {
    let of_google = || {
        let values = answer.headers.get_all("x-goog-hash").iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).find_map(|hash| hash.trim().strip_prefix("md5="))
    };
    let received = MD5_HEADERS.iter().find_map(|name| answer.header(name)).or_else(of_google);
    match received {
        Some(received) if received != payload.md5() => {
            let why = format!("the store received different bytes: their MD5 is {received}, and not {}", payload.md5());
            Err(Failure::transient(Error::new(ErrorKind::Checksum, why)))
        }
        _ => Ok(()),
    }
}

/// Parses a document in JSON.
pub(crate) fn read_json<T: DeserializeOwned>(body: &[u8], subject: &str) -> Result<T, Failure> {
    // A gateway may have sent a different document, so a further attempt may help.
    serde_json::from_slice(body)
        .map_err(|e| Failure::transient(Error::format(format!("{subject} cannot be read")).caused_by(e)))
}

/// Parses a document in XML with the outermost element `root`: the fields that a different document lacks would be
/// taken for empty ones, and so would fields that are missing at its end.
pub(crate) fn read_xml<T: DeserializeOwned>(body: &[u8], root: &str, subject: &str) -> Result<T, Failure> {
    let text = String::from_utf8_lossy(body);
    if !text.trim_end().ends_with(&format!("</{root}>")) {
        let why = format!("{subject} ends early, or is a different document than {root}");
        return Err(Failure::transient(Error::format(why)));
    }
    quick_xml::de::from_str(&text)
        .map_err(|e| Failure::transient(Error::format(format!("{subject} cannot be read")).caused_by(e)))
}

/// Returns the failure of an incomplete page of a listing, or the token of the next page.
pub(crate) fn incomplete(why: &str) -> Failure {
    let why = format!("the listing is incomplete: {why}");
    // A proxy may have changed the answer, so a further attempt may help.
    let advice = "check the endpoint, and whether a proxy changes responses";
    Failure::transient(Error::format(why).hinting(advice))
}

/// Returns an entity tag without its quotation marks, and without the mark of a weak one.
pub(crate) fn unquoted(tag: &str) -> String {
    tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"').to_owned()
}

/// Returns the entity tag of the object that a response is about.
pub(crate) fn object_tag(answer: &Answer) -> ObjectTag {
    answer.header("etag").map(unquoted).filter(|tag| !tag.is_empty())
}

/// Returns the entity tag of a part, as the store has it: a proxy may have made a weak one of it.
pub(crate) fn part_tag(answer: &Answer) -> Result<String, Failure> {
    let tag = answer.header("etag").map(|tag| tag.strip_prefix("W/").unwrap_or(tag)).filter(|tag| !tag.is_empty());
    tag.map(str::to_owned).ok_or_else(|| Failure::network("the response to a part has no entity tag"))
}

/// Returns the result of a removal, for which a refusal that `is_missing` is as good as success.
pub(crate) fn unless_missing(
    answer: Result<Answer, Refusal>,
    is_missing: impl Fn(&Refusal) -> bool,
) -> Result<(), Failure> {
    match answer {
        Err(refusal) if !is_missing(&refusal) => Err(refusal.failure),
        _ => Ok(()),
    }
}

/// Codes of rejections of a write because the object is not as expected, also with an unusual status.
const NOT_AS_EXPECTED: [&str; 6] =
    ["BlobAlreadyExists", "ConditionNotMet", "IfMatchFailed", "IfNoneMatchFailed", "NoEtagMatch", "PreconditionFailed"];

/// Codes of stores that have no conditional writes.
const WITHOUT_CONDITIONS: [&str; 2] = ["NotImplemented", "UnsupportedHeader"];

/// Reads the response to a conditional write. An object that has to have a version and does not exist has changed.
pub(crate) fn conditional(
    answer: Result<Answer, Refusal>,
    payload: &Payload,
    expected: &Expected,
) -> Result<Conditional, Failure> {
    match answer {
        Ok(answer) => check_md5(&answer, payload).map(|()| Conditional::Stored),
        Err(refusal) if refusal.failure.error.kind() == ErrorKind::Stale => Ok(Conditional::Unexpected),
        Err(refusal) if refusal.has_code(&NOT_AS_EXPECTED) => Ok(Conditional::Unexpected),
        Err(refusal) if refusal.has_code(&WITHOUT_CONDITIONS) => Ok(Conditional::Unsupported),
        Err(refusal)
            if matches!(expected, Expected::Version(_)) && refusal.has_code(&["NoSuchKey", "BlobNotFound"]) =>
        {
            Ok(Conditional::Unexpected)
        }
        Err(refusal) => Err(refusal.failure),
    }
}

/// Returns the header of a conditional write, as HTTP has it.
pub(crate) fn condition(expected: &Expected) -> (&'static str, String) {
    match expected {
        Expected::Absent => ("if-none-match", "*".to_owned()),
        Expected::Version(tag) => ("if-match", format!("\"{tag}\"")),
    }
}

/// Returns the object `key` that the response to a HEAD request describes.
pub(crate) fn described(key: &str, answer: Result<Answer, Refusal>) -> Result<Option<ListedEntry>, Failure> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(refusal) if refusal.is_missing() => return Ok(None),
        Err(refusal) => return Err(refusal.failure),
    };
    let size = answer.header("content-length").and_then(|size| size.parse().ok());
    let size = size.ok_or_else(|| Failure::network("the response has no size"))?;
    let modified = answer.header("last-modified").and_then(|time| httpdate::parse_http_date(time).ok());
    Ok(Some(ListedEntry { key: key.to_owned(), size, etag: object_tag(&answer), modified }))
}
