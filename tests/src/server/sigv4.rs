//! Verification of AWS signatures, version 4, written from the specification, independently of the client's library.

use super::date::parse_amz;
use aws_lc_rs::{constant_time, digest, hmac};
use bytes::Bytes;
use http::request::Parts;
use std::time::{Duration, SystemTime};

/// Maximum difference between the request's time and the server's.
const SKEW_MAX: Duration = Duration::from_secs(15 * 60);

/// Credentials that requests must be signed with.
#[derive(Clone, Debug)]
pub struct Keys {
    /// `AWS_ACCESS_KEY_ID`.
    pub access_key: String,
    /// `AWS_SECRET_ACCESS_KEY`.
    pub secret_key: String,
    /// `AWS_SESSION_TOKEN`; must be sent and signed when given.
    pub token: Option<String>,
    /// The region that signatures must name.
    pub region: String,
    /// Check as Google's servers do: the front end changes a header on the way, and headers of Google may not be mixed
    /// with the headers of a signature of S3.
    pub is_google: bool,
}

impl Keys {
    /// Returns keys for the region `us-east-1`.
    pub fn new(access_key: &str, secret_key: &str) -> Self {
        let (access_key, secret_key) = (access_key.to_owned(), secret_key.to_owned());
        Self { access_key, secret_key, token: None, region: "us-east-1".to_owned(), is_google: false }
    }

    /// Returns an HMAC key of Google.
    pub fn of_google(access_key: &str, secret_key: &str) -> Self {
        Self { region: "auto".to_owned(), is_google: true, ..Self::new(access_key, secret_key) }
    }
}

/// Reason of a rejection: S3's code and a sentence.
pub(super) type Refusal = (&'static str, String);

/// Checks the signature over head and body of a request.
pub(super) fn check(keys: &Keys, head: &Parts, body: &Bytes) -> Result<(), Refusal> {
    if !keys.is_google {
        return check_as_sent(keys, head, body);
    }
    if let Some(name) = head.headers.keys().find(|name| name.as_str().starts_with("x-goog-")) {
        return Err(("InvalidArgument", format!("header {name} is mixed with headers of S3")));
    }
    let mut head = head.clone();
    if let Some(encoding) = head.headers.get_mut("accept-encoding") {
        let changed = [encoding.as_bytes(), b",gzip(gfe)"].concat();
        *encoding = changed.try_into().map_err(|_| ("InvalidArgument", "accept-encoding".to_owned()))?;
    }
    check_as_sent(keys, &head, body)
}

fn check_as_sent(keys: &Keys, head: &Parts, body: &Bytes) -> Result<(), Refusal> {
    let header = |name: &str| head.headers.get(name).and_then(|v| v.to_str().ok());
    let denied = |why: &str| ("AccessDenied", why.to_owned());
    let authorization = header("authorization").ok_or_else(|| denied("the request is not signed"))?;
    let fields = authorization.strip_prefix("AWS4-HMAC-SHA256 ").ok_or_else(|| denied("unknown kind of signature"))?;
    let field = |name: &str| {
        let found = fields.split(',').find_map(|f| f.trim().strip_prefix(name)?.strip_prefix('='));
        found.ok_or_else(|| denied("the Authorization header lacks a field"))
    };
    let (credential, signed, signature) = (field("Credential")?, field("SignedHeaders")?, field("Signature")?);
    let mut scope = credential.splitn(2, '/');
    if scope.next() != Some(&keys.access_key) {
        return Err(("InvalidAccessKeyId", "no such access key".to_owned()));
    }
    let scope = scope.next().unwrap_or_default();
    let time = header("x-amz-date").ok_or_else(|| denied("no x-amz-date"))?;
    let at = parse_amz(time).ok_or_else(|| denied("x-amz-date is not a time"))?;
    let now = SystemTime::now();
    let skew = now.duration_since(at).unwrap_or_else(|e| e.duration());
    if skew > SKEW_MAX {
        return Err(("RequestTimeTooSkewed", "the clocks differ by more than 15 minutes".to_owned()));
    }
    if scope != format!("{}/{}/s3/aws4_request", &time[..8], keys.region) {
        return Err(("AuthorizationHeaderMalformed", format!("wrong scope {scope}, expecting {}", keys.region)));
    }
    if keys.token.as_deref() != header("x-amz-security-token") {
        return Err(("InvalidToken", "wrong session token".to_owned()));
    }
    let declared = header("x-amz-content-sha256").ok_or_else(|| denied("no x-amz-content-sha256"))?;
    let actual = hex(digest::digest(&digest::SHA256, body).as_ref());
    if declared != "UNSIGNED-PAYLOAD" && declared != actual {
        return Err(("XAmzContentSHA256Mismatch", "the body is not the signed one".to_owned()));
    }
    let names: Vec<&str> = signed.split(';').collect();
    // The signature must cover all headers that change the meaning of a request.
    let must = |name: &str| name == "host" || name == "range" || name.starts_with("x-amz-");
    let uncovered = head.headers.keys().find(|name| must(name.as_str()) && !names.contains(&name.as_str()));
    if let Some(name) = uncovered.map(http::HeaderName::as_str).or((!names.contains(&"host")).then_some("host")) {
        return Err(denied(&format!("header {name} is not signed")));
    }
    let request = canonical_request(head, &names, signed, declared);
    let to_sign = format!(
        "AWS4-HMAC-SHA256\n{time}\n{scope}\n{}",
        hex(digest::digest(&digest::SHA256, request.as_bytes()).as_ref())
    );
    let expected = sign(&keys.secret_key, scope, &to_sign);
    match constant_time::verify_slices_are_equal(expected.as_bytes(), signature.as_bytes()) {
        Ok(()) => Ok(()),
        Err(_) => Err(("SignatureDoesNotMatch", format!("the canonical request is {request:?}"))),
    }
}

fn canonical_request(head: &Parts, names: &[&str], signed: &str, payload: &str) -> String {
    let pairs = head.uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut query: Vec<String> = pairs.map(|(name, value)| format!("{}={}", recode(name), recode(value))).collect();
    query.sort_unstable();
    let mut headers = String::new();
    for name in names {
        let values: Vec<String> = head
            .headers
            .get_all(*name)
            .iter()
            .map(|v| String::from_utf8_lossy(v.as_bytes()).split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        headers.push_str(&format!("{name}:{}\n", values.join(",")));
    }
    format!("{}\n{}\n{}\n{headers}\n{signed}\n{payload}", head.method, head.uri.path(), query.join("&"))
}

/// Returns a part of a query as signatures spell it: all characters but the unreserved ones percent-encoded.
fn recode(text: &str) -> String {
    let unreserved = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~');
    let text = decode(&text.replace('+', " ")).unwrap_or_default();
    text.bytes().map(|b| if unreserved(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// Returns the signature of `to_sign` with the key of `scope` (`date/region/service/aws4_request`).
fn sign(secret: &str, scope: &str, to_sign: &str) -> String {
    let first = format!("AWS4{secret}").into_bytes();
    let key = scope.split('/').fold(first, |key, part| mac(&key, part));
    hex(&mac(&key, to_sign))
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Decodes percent-encoding.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        if b != b'%' {
            out.push(b);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        out.push((high * 16 + low) as u8);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The GET example of the S3 manual, "Signature Calculations: Transferring Payload in a Single Chunk".
    #[test]
    fn the_example_of_the_s3_manual_has_its_signature() {
        let (parts, ()) = http::Request::builder()
            .uri("/test.txt")
            .header("host", "examplebucket.s3.amazonaws.com")
            .header("range", "bytes=0-9")
            .header("x-amz-content-sha256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
            .header("x-amz-date", "20130524T000000Z")
            .body(())
            .expect("valid")
            .into_parts();
        let signed = "host;range;x-amz-content-sha256;x-amz-date";
        let names: Vec<&str> = signed.split(';').collect();
        let payload = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let request = canonical_request(&parts, &names, signed, payload);
        let hash = hex(digest::digest(&digest::SHA256, request.as_bytes()).as_ref());
        assert_eq!(hash, "7344ae5b7ee6c3e7e6b0fe0640412a37625d1fbfff95c48bbb2dc43964946972");
        let scope = "20130524/us-east-1/s3/aws4_request";
        let to_sign = format!("AWS4-HMAC-SHA256\n20130524T000000Z\n{scope}\n{hash}");
        let signature = sign("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", scope, &to_sign);
        assert_eq!(signature, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
    }
}
