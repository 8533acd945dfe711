//! Verification of requests to Azure's blob service, written from its documentation, independently of the client's
//! library.

use super::date::parse_http;
use super::sigv4::{Refusal, decode};
use aws_lc_rs::{constant_time, hmac};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::request::Parts;
use std::time::{Duration, SystemTime};

/// Maximum difference between the request's time and the server's.
const SKEW_MAX: Duration = Duration::from_secs(15 * 60);

/// Storage account. Every request must have its key or shared access signature.
#[derive(Clone, Debug)]
pub struct AzureAccount {
    /// Name; the first part of every path, as with an emulator.
    pub name: String,
    /// Key in base 64.
    pub key: String,
    /// A query that is as good as a signature.
    pub sas_token: Option<String>,
}

/// Checks a request's signature.
pub(super) fn check(account: &AzureAccount, head: &Parts) -> Result<(), Refusal> {
    let header = |name: &str| head.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let denied = |why: &str| Err(("AuthenticationFailed", why.to_owned()));
    if let Some(token) = &account.sas_token
        && let sent = pairs(head.uri.query().unwrap_or_default())
        && pairs(token).iter().all(|pair| sent.contains(pair))
    {
        return Ok(());
    }
    let Some((name, signature)) = header("authorization").strip_prefix("SharedKey ").and_then(|s| s.split_once(':'))
    else {
        return Err(("NoAuthenticationInformation", "the request is not signed".to_owned()));
    };
    if name != account.name {
        return denied("a different account");
    }
    let Some(date) = parse_http(header("date")) else { return denied("no date") };
    let now = SystemTime::now();
    if now.duration_since(date).unwrap_or_else(|e| e.duration()) > SKEW_MAX {
        return denied("the clocks differ by more than 15 minutes");
    }
    if header("x-ms-version") < "2015-02-21" {
        return denied("the rules of the signature are the rules of 2015-02-21 and later");
    }
    let text = text_to_sign(account, head);
    let Ok(key) = BASE64_STANDARD.decode(&account.key) else { return denied("the server's key is not in base 64") };
    let expected = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), text.as_bytes());
    let expected = BASE64_STANDARD.encode(expected.as_ref());
    match constant_time::verify_slices_are_equal(expected.as_bytes(), signature.as_bytes()) {
        Ok(()) => Ok(()),
        Err(_) => denied(&format!("the text to sign is {text:?}")),
    }
}

/// Returns the text that a signature covers: method, standard headers, headers of the service, resource.
fn text_to_sign(account: &AzureAccount, head: &Parts) -> String {
    let header = |name: &str| head.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let length = Some(header("content-length")).filter(|length| *length != "0").unwrap_or_default();
    let mut lines = vec![head.method.as_str(), header("content-encoding"), header("content-language"), length];
    let names = ["content-md5", "content-type", "date", "if-modified-since", "if-match", "if-none-match"];
    lines.extend(names.map(header));
    lines.extend(["if-unmodified-since", "range"].map(header));
    let mut of_service: Vec<String> = head
        .headers
        .keys()
        .filter(|name| name.as_str().starts_with("x-ms-"))
        .map(|name| format!("{name}:{}", header(name.as_str())))
        .collect();
    of_service.sort_unstable();
    let mut text = lines.join("\n");
    for line in of_service {
        text = format!("{text}\n{line}");
    }
    text = format!("{text}\n/{}{}", account.name, head.uri.path());
    for (name, value) in pairs(head.uri.query().unwrap_or_default()) {
        text = format!("{text}\n{}:{value}", name.to_lowercase());
    }
    text
}

/// Returns the parameters of a query, decoded and sorted.
fn pairs(query: &str) -> Vec<(String, String)> {
    let decode = |text: &str| decode(text).unwrap_or_default();
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    };
    let mut pairs: Vec<_> = query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect();
    pairs.sort_unstable();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of "Authorize with Shared Key", with its date in a header of the service.
    #[test]
    fn the_text_of_the_manual_is_signed() {
        let (parts, ()) = http::Request::builder()
            .uri("/mycontainer?restype=container&comp=metadata&timeout=20")
            .header("x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT")
            .header("x-ms-version", "2015-02-21")
            .body(())
            .expect("valid")
            .into_parts();
        let account = AzureAccount { name: "myaccount".into(), key: String::new(), sas_token: None };
        let expected = "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n\
            /myaccount/mycontainer\ncomp:metadata\nrestype:container\ntimeout:20";
        assert_eq!(text_to_sign(&account, &parts), expected);
    }
}
