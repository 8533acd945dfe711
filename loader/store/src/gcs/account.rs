//! Accounts of Google Cloud, and the tokens that Google's services issue for them.
//!
//! The kinds of credentials files and their requests are in Google's AIPs 4110 to 4119.

use crate::context::ThreadContext;
use crate::credentials::{METADATA_LIMIT, SigningKey, Token, fetch_token, form};
use crate::failure::Failure;
use crate::http::call;
use crate::key::encode_component;
use crate::{Error, ErrorKind, Result};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::Request;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Token service of users and service accounts if their files name none.
const TOKEN_SERVICE: &str = "https://oauth2.googleapis.com/token";

const METADATA_HOST: &str = "metadata.google.internal";

/// Right of the tokens for buckets.
const READ: &str = "https://www.googleapis.com/auth/devstorage.read_only";

/// Right of the tokens for destinations.
const WRITE: &str = "https://www.googleapis.com/auth/devstorage.read_write";

/// Right of tokens that are exchanged for tokens of a second account.
const IMPERSONATE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// Seconds for which a token is requested; most accounts allow no more.
const LIFETIME_S: u64 = 3600;

const SUBJECT_BYTES_MAX: u64 = 1 << 20;

/// Account of a credentials file.
pub(super) struct Account {
    identity: Identity,
    /// Project that pays for requests.
    pub(super) quota_project: Option<String>,
}

enum Identity {
    Service { email: String, key_id: Option<String>, key: SigningKey, token_service: String },
    User { client_id: String, client_secret: String, refresh_token: String, token_service: String },
    External(Box<External>),
    Impersonated { source: Box<Identity>, address: String, delegates: Vec<String> },
}

/// Identity of a foreign cloud or of a cluster, which Google exchanges for a token.
#[derive(Deserialize)]
struct External {
    audience: String,
    subject_token_type: String,
    token_url: String,
    credential_source: SubjectSource,
    service_account_impersonation_url: Option<String>,
    /// Project that pays for the requests of a user of a workforce.
    workforce_pool_user_project: Option<String>,
}

/// Location of the token that proves an external identity.
#[derive(Deserialize)]
struct SubjectSource {
    file: Option<PathBuf>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    format: Option<SubjectFormat>,
}

#[derive(Deserialize)]
struct SubjectFormat {
    r#type: String,
    subject_token_field_name: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Document {
    ServiceAccount {
        client_email: String,
        private_key: String,
        private_key_id: Option<String>,
        token_uri: Option<String>,
    },
    AuthorizedUser {
        client_id: String,
        client_secret: String,
        refresh_token: String,
        token_uri: Option<String>,
    },
    ExternalAccount(External),
    ImpersonatedServiceAccount {
        service_account_impersonation_url: String,
        source_credentials: Box<Document>,
        /// Accounts between the two. Each one may act as the next one.
        #[serde(default)]
        delegates: Vec<String>,
    },
}

impl Account {
    /// Parses the content of a credentials file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for a file of an unknown kind, or without one of the parts of its kind; its content is not
    /// part of the message.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let unreadable = || {
            Error::config(
                "the Google credentials cannot be used: GOOGLE_APPLICATION_CREDENTIALS must name a JSON file of the \
                 type service_account, authorized_user, external_account (with a file or url) or \
                 impersonated_service_account",
            )
        };
        let document: Value = serde_json::from_str(text).map_err(|_| unreadable())?;
        let quota_project = document.get("quota_project_id").and_then(Value::as_str).map(str::to_owned);
        // The library's error is not kept, since it contains values.
        let document = Document::deserialize(document).map_err(|_| unreadable())?;
        Ok(Self { identity: Identity::new(document)?, quota_project })
    }

    /// Fetches a token to read objects with, or to write them.
    pub(super) async fn token(&self, context: &ThreadContext, writes: bool) -> Result<Token, Failure> {
        self.identity.token(context, if writes { WRITE } else { READ }).await
    }
}

impl Identity {
    fn new(document: Document) -> Result<Self> {
        let or_default = |address: Option<String>| address.unwrap_or_else(|| TOKEN_SERVICE.to_owned());
        Ok(match document {
            Document::ServiceAccount { client_email, private_key, private_key_id, token_uri } => Self::Service {
                email: client_email,
                key_id: private_key_id,
                key: SigningKey::from_pem(&private_key)?,
                token_service: or_default(token_uri),
            },
            Document::AuthorizedUser { client_id, client_secret, refresh_token, token_uri } => {
                Self::User { client_id, client_secret, refresh_token, token_service: or_default(token_uri) }
            }
            Document::ExternalAccount(external) => {
                if external.credential_source.file.is_none() && external.credential_source.url.is_none() {
                    return Err(Error::config(
                        "external Google credentials need a file or a url with the token: tokens of programs and \
                         of AWS are not supported",
                    ));
                }
                Self::External(Box::new(external))
            }
            Document::ImpersonatedServiceAccount {
                service_account_impersonation_url: address,
                source_credentials,
                delegates,
            } => Self::Impersonated { source: Box::new(Self::new(*source_credentials)?), address, delegates },
        })
    }

    async fn token(&self, context: &ThreadContext, scope: &str) -> Result<Token, Failure> {
        let limit = context.shared.config.download_timeout;
        match self {
            Self::Service { email, key_id, key, token_service } => {
                let assertion = assertion(email, key_id.as_deref(), key, token_service, scope)?;
                let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer";
                let request = form(token_service, &[("grant_type", grant), ("assertion", &assertion)])?;
                fetch_token(context, &request, limit).await
            }
            Self::User { client_id, client_secret, refresh_token, token_service } => {
                let pairs = [
                    ("grant_type", "refresh_token"),
                    ("client_id", client_id),
                    ("client_secret", client_secret),
                    ("refresh_token", refresh_token),
                ];
                fetch_token(context, &form(token_service, &pairs)?, limit).await
            }
            Self::External(external) => external.token(context, scope).await,
            Self::Impersonated { source, address, delegates } => {
                let own = Box::pin(source.token(context, IMPERSONATE)).await?;
                impersonate(context, &own, address, delegates, scope).await
            }
        }
    }
}

impl External {
    async fn token(&self, context: &ThreadContext, scope: &str) -> Result<Token, Failure> {
        let subject = self.credential_source.subject(context).await?;
        let own_scope = if self.service_account_impersonation_url.is_some() { IMPERSONATE } else { scope };
        let options = self.workforce_pool_user_project.as_ref().map(|project| {
            // Encoded twice, as Google's libraries do.
            encode_component(&json!({"userProject": project}).to_string())
        });
        let pairs = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
            ("audience", &self.audience),
            ("scope", own_scope),
            ("subject_token_type", &self.subject_token_type),
            ("subject_token", &subject),
            ("options", options.as_deref().unwrap_or_default()),
        ];
        let used = if options.is_some() { &pairs[..] } else { &pairs[..pairs.len() - 1] };
        let request = form(&self.token_url, used)?;
        let own = fetch_token(context, &request, context.shared.config.download_timeout).await?;
        match &self.service_account_impersonation_url {
            Some(address) => impersonate(context, &own, address, &[], scope).await,
            None => Ok(own),
        }
    }
}

impl SubjectSource {
    /// Returns the token that proves the identity. It is read again for each use, because it is replaced before it
    /// expires.
    async fn subject(&self, context: &ThreadContext) -> Result<String, Failure> {
        let text = match (&self.file, &self.url) {
            (Some(path), _) => {
                let problem = |e| Error::from_io(e, "cannot read the identity's token").with("path", path.display());
                let meta = std::fs::metadata(path).map_err(|e| Failure::transient(problem(e)))?;
                if meta.len() > SUBJECT_BYTES_MAX {
                    let why = "the identity's token is larger than 1 MiB";
                    return Err(Failure::permanent(Error::config(why).with("path", path.display())));
                }
                std::fs::read_to_string(path).map_err(|e| Failure::transient(problem(e)))?
            }
            (None, address) => {
                let bad = || Failure::permanent(Error::config("the url of external Google credentials is not valid"));
                let mut request = Request::get(address.as_deref().unwrap_or_default());
                for (name, value) in &self.headers {
                    request = request.header(name, value);
                }
                let request = request.body(Bytes::new()).map_err(|_| bad())?;
                let (head, body) = call(context, &request, context.shared.config.download_timeout).await?;
                if !head.status.is_success() {
                    let why = format!("the url of external Google credentials responds with {}", head.status.as_u16());
                    return Err(Failure::transient(Error::new(ErrorKind::Permission, why)));
                }
                String::from_utf8(body).map_err(|_| bad())?
            }
        };
        match &self.format {
            Some(format) if format.r#type == "json" => {
                let name = format.subject_token_field_name.as_deref().unwrap_or("access_token");
                let document: Option<Value> = serde_json::from_str(&text).ok();
                let token = document.as_ref().and_then(|document| document.get(name)?.as_str());
                token.map(str::to_owned).ok_or_else(|| {
                    let why = format!("the identity's document has no text field {name:?}");
                    Failure::permanent(Error::config(why))
                })
            }
            _ => Ok(text.trim().to_owned()),
        }
    }
}

/// Returns a signed statement that `email` requests a token.
fn assertion(
    email: &str,
    key_id: Option<&str>,
    key: &SigningKey,
    token_service: &str,
    scope: &str,
) -> Result<String, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut head = json!({"alg": "RS256", "typ": "JWT"});
    if let Some(key_id) = key_id {
        head["kid"] = key_id.into();
    }
    let claims = json!({"iss": email, "scope": scope, "aud": token_service, "iat": now, "exp": now + LIFETIME_S});
    let encode = |part: &Value| BASE64_URL_SAFE_NO_PAD.encode(part.to_string());
    let text = format!("{}.{}", encode(&head), encode(&claims));
    let signature = key.sign(&text, &BASE64_URL_SAFE_NO_PAD).map_err(Failure::permanent)?;
    Ok(format!("{text}.{signature}"))
}

/// Exchanges a token for one of the service account at `address`.
async fn impersonate(
    context: &ThreadContext,
    own: &Token,
    address: &str,
    delegates: &[String],
    scope: &str,
) -> Result<Token, Failure> {
    let body = json!({"delegates": delegates, "scope": [scope], "lifetime": format!("{LIFETIME_S}s")}).to_string();
    let mut request = Request::post(address).body(Bytes::from(body)).map_err(|e| {
        Failure::permanent(Error::config("the address of an impersonated account is not valid").caused_by(e))
    })?;
    request.headers_mut().insert(AUTHORIZATION, own.header.clone());
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    fetch_token(context, &request, context.shared.config.download_timeout).await
}

/// Fetches the token of the machine's own account.
pub(super) async fn metadata_token(context: &ThreadContext, host: Option<&str>) -> Result<Token, Failure> {
    let host = host.unwrap_or(METADATA_HOST);
    let address = format!("http://{host}/computeMetadata/v1/instance/service-accounts/default/token");
    let request = Request::get(address).header("metadata-flavor", "Google").body(Bytes::new());
    let request = request
        .map_err(|e| Failure::permanent(Error::config("GCE_METADATA_HOST is not the name of a host").caused_by(e)))?;
    fetch_token(context, &request, METADATA_LIMIT).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_used_is_an_error_without_its_content() {
        for text in [
            "geheim",
            r#"{"type": "geheim"}"#,
            r#"{"type": "service_account", "client_email": "e", "private_key": ["geheim"]}"#,
            r#"{"type": "service_account", "client_email": "e", "private_key": "geheim"}"#,
            r#"{"type": "authorized_user", "client_id": "c", "client_secret": "geheim"}"#,
        ] {
            let Err(error) = Account::parse(text) else { panic!("{text}") };
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(!format!("{error} {error:?}").contains("geheim"), "{error:?}");
        }
        let of_aws = r#"{"type": "external_account", "audience": "a", "subject_token_type": "t", "token_url": "u",
            "credential_source": {"environment_id": "aws1"}}"#;
        let Err(error) = Account::parse(of_aws) else { panic!("AWS is not supported") };
        assert!(error.to_string().contains("AWS are not supported"), "{error}");
    }
}
