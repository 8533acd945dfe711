//! Bearer tokens: a token service and metadata services of two clouds, written from their documentation, independently
//! of the client.

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use forebay_loader::sync::Mutex;
use http::Method;
use http::request::Parts;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// End of the address at which a token is exchanged for the token of a different account.
const IMPERSONATION: &str = ":generateAccessToken";

/// Returns true for the address of a service that issues tokens.
pub(super) fn is_service(path: &str) -> bool {
    path.ends_with("/token") || path.ends_with(IMPERSONATION)
}

/// Longest time between the parts of a statement's validity, in seconds.
const STATEMENT_S_MAX: u64 = 3600;

/// Token service. A server with one accepts only requests with one of its tokens.
#[derive(Clone, Debug, Default)]
pub struct Issuer {
    /// Tokens that are valid from the start.
    pub tokens: Vec<String>,
    /// Start of issued tokens, before their number.
    pub prefix: String,
    /// Account that gets a token for a signed statement.
    pub account: Option<ServiceAccount>,
    /// Fields of a form, where any field gets a token, such as a refresh token.
    pub secrets: Vec<(String, String)>,
    /// Accounts that must be between the two of an exchange.
    pub delegates: Vec<String>,
    /// Name and secret in base 64, which get a token in a header.
    pub basic: Option<String>,
    /// Answer as the metadata services of Google and Azure.
    pub has_metadata: bool,
    /// Lifetime of tokens, in seconds.
    pub lifetime_s: u64,
}

/// Account with a new key, such as a service account of Google Cloud.
#[derive(Clone, Debug)]
pub struct ServiceAccount {
    /// Name of the account.
    pub email: String,
    /// Private key, in PEM.
    pub private_key: String,
    public_key: Vec<u8>,
}

impl ServiceAccount {
    /// Creates an account.
    ///
    /// # Panics
    ///
    /// When the system has no random numbers.
    pub fn new(email: &str) -> Self {
        let pair = KeyPair::generate(KeySize::Rsa2048).expect("random numbers");
        let der: Pkcs8V1Der<'_> = pair.as_der().expect("a new key");
        let text = BASE64_STANDARD.encode(der.as_ref());
        Self {
            email: email.to_owned(),
            private_key: format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n"),
            public_key: pair.public_key().as_ref().to_vec(),
        }
    }

    /// Returns the public key.
    pub(super) fn public_key(&self) -> &[u8] {
        &self.public_key
    }

    /// Returns the content of the account's credentials file, for the token service of the server at `url`.
    pub fn credentials(&self, url: &str) -> String {
        json!({
            "type": "service_account",
            "client_email": self.email,
            "private_key": self.private_key,
            "private_key_id": "key-1",
            "token_uri": format!("{url}/token"),
        })
        .to_string()
    }
}

/// Tokens of a running server.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    valid: Mutex<Vec<String>>,
    issued: Mutex<usize>,
}

/// Answer of a token service: status and document.
pub(super) type Issued = (u16, Value);

impl Tokens {
    pub(super) fn new(issuer: Option<&Issuer>) -> Self {
        let valid = issuer.map(|issuer| issuer.tokens.clone()).unwrap_or_default();
        Self { valid: Mutex::new(valid), issued: Mutex::default() }
    }

    pub(super) fn revoke(&self) {
        self.valid.lock().clear();
    }

    pub(super) fn issued(&self) -> usize {
        *self.issued.lock()
    }

    fn issue(&self, issuer: &Issuer) -> String {
        let mut issued = self.issued.lock();
        *issued += 1;
        let token = format!("{}{}", issuer.prefix, *issued);
        self.valid.lock().push(token.clone());
        token
    }

    /// Returns true if a request has a valid token.
    pub(super) fn is_valid(&self, head: &Parts) -> bool {
        let header = head.headers.get("authorization").and_then(|value| value.to_str().ok());
        let token = header.and_then(|header| header.strip_prefix("Bearer "));
        token.is_some_and(|token| self.valid.lock().iter().any(|valid| valid == token))
    }

    /// Answers a request to a service.
    pub(super) fn answer(&self, issuer: &Issuer, url: &str, head: &Parts, body: &Bytes) -> Issued {
        let path = head.uri.path();
        let has = |name: &str, value: &str| head.headers.get(name).is_some_and(|v| v == value);
        if head.method == Method::GET {
            let is_google = path.starts_with("/computeMetadata/v1/") && has("metadata-flavor", "Google");
            let is_azure = path == "/metadata/identity/oauth2/token" && has("metadata", "true");
            let is_granted = issuer.has_metadata && (is_google || is_azure);
            return if is_granted { self.granted(issuer) } else { (404, json!({"error": "not_found"})) };
        }
        if path.ends_with(IMPERSONATION) {
            let document: Value = serde_json::from_slice(body).unwrap_or_default();
            let is_delegated = issuer.delegates.iter().eq(document["delegates"].as_array().into_iter().flatten());
            return if self.is_valid(head) && is_delegated {
                (200, json!({"accessToken": self.issue(issuer), "expireTime": "2099-01-01T00:00:00Z"}))
            } else {
                (401, json!({"error": {"code": 401, "status": "UNAUTHENTICATED"}}))
            };
        }
        let form: Vec<(String, String)> = url_decoded(body);
        let field = |name: &str| form.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
        let is_basic = issuer.basic.as_ref().is_some_and(|basic| has("authorization", &format!("Basic {basic}")));
        let checked = match (field("assertion"), &issuer.account) {
            (Some(statement), Some(account)) => check(account, &format!("{url}{path}"), statement),
            _ if form.iter().any(|pair| issuer.secrets.contains(pair)) => Ok(()),
            _ if is_basic => Ok(()),
            _ => Err("unknown secret"),
        };
        match checked {
            Ok(()) => self.granted(issuer),
            // Real services repeat parts of the request in their explanation.
            Err(why) => {
                let repeated = String::from_utf8_lossy(body).into_owned();
                (400, json!({"error": "invalid_grant", "error_description": format!("{why}: {repeated}")}))
            }
        }
    }

    fn granted(&self, issuer: &Issuer) -> Issued {
        let lifetime = if issuer.lifetime_s == 0 { 3600 } else { issuer.lifetime_s };
        let expires_on = now_s() + lifetime;
        let token = self.issue(issuer);
        let document = json!({
            "access_token": token, "expires_in": lifetime, "expires_on": expires_on.to_string(), "token_type": "Bearer",
        });
        (200, document)
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Checks a JSON web token of an account: signature, issuer, audience, time and scope.
fn check(account: &ServiceAccount, audience: &str, statement: &str) -> Result<(), &'static str> {
    let (text, signature) = statement.rsplit_once('.').ok_or("not a JSON web token")?;
    let (head, claims) = text.split_once('.').ok_or("not a JSON web token")?;
    let decoded = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| "not in base 64");
    let document = |part: &str| serde_json::from_slice::<Value>(&decoded(part)?).map_err(|_| "not in JSON");
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &account.public_key)
        .verify(text.as_bytes(), &decoded(signature)?)
        .map_err(|_| "the signature is wrong")?;
    if document(head)?["alg"] != "RS256" {
        return Err("a different algorithm");
    }
    let claims = document(claims)?;
    let (issued, end) = (claims["iat"].as_u64().unwrap_or(0), claims["exp"].as_u64().unwrap_or(0));
    if claims["iss"] != account.email {
        return Err("a different account");
    }
    if claims["aud"] != audience {
        return Err("a different audience");
    }
    if issued.abs_diff(now_s()) > 300 || end.saturating_sub(issued) > STATEMENT_S_MAX || end < now_s() {
        return Err("the token must be short-lived");
    }
    let scopes = ["read_only", "read_write"].map(|right| format!("https://www.googleapis.com/auth/devstorage.{right}"));
    if !scopes.iter().any(|scope| claims["scope"] == **scope) {
        return Err("a different scope");
    }
    Ok(())
}

/// Parses a form.
fn url_decoded(body: &Bytes) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(body);
    let decode = |part: &str| super::sigv4::decode(&part.replace('+', " ")).unwrap_or_default();
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    };
    text.split('&').map(pair).collect()
}
