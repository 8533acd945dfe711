//! Requests for the credentials of a source, over the connections of the store.

use super::authorize::authorize;
use super::profile::Profiles;
use super::source::{Base, CredentialSource, ProfileFiles, Role, Sso};
use super::time::time;
use crate::context::ThreadContext;
use crate::credentials::form;
use crate::destination::read_xml;
use crate::failure::Failure;
use crate::http::{call, rejection};
use crate::{Error, ErrorKind, Result};
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use bytes::Bytes;
use forebay_core::sync::Arc;
use http::Request;
use http::header::{HeaderName, HeaderValue};
use object_store::aws::{AwsAuthorizer, AwsCredential};
use serde::Deserialize;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};
use url::form_urlencoded::Serializer;

/// Longest time of a command, as in the cloud's own libraries.
const PROCESS_LIMIT: Duration = Duration::from_secs(60);

/// Credentials, and the time at which they end.
pub(super) struct Fetched {
    pub(super) credential: Arc<AwsCredential>,
    pub(super) end: Option<SystemTime>,
}

/// Credentials in JSON, as commands and agents of containers have them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    version: Option<u64>,
    access_key_id: String,
    secret_access_key: String,
    #[serde(alias = "Token")]
    session_token: Option<String>,
    expiration: Option<String>,
}

/// Response of the portal of single sign-on.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PortalResponse {
    role_credentials: PortalCredentials,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PortalCredentials {
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
    /// Milliseconds since 1970.
    expiration: Option<u64>,
}

/// File of `aws sso login`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SsoToken {
    access_token: String,
    expires_at: Option<String>,
}

#[derive(Deserialize)]
struct RoleResponse {
    #[serde(rename = "AssumeRoleResult", alias = "AssumeRoleWithWebIdentityResult")]
    result: RoleResult,
}

#[derive(Deserialize)]
struct RoleResult {
    #[serde(rename = "Credentials")]
    credentials: Document,
}

impl CredentialSource {
    /// Returns the end of the login that the credentials come from. A login is not renewed.
    pub(super) fn end_of_login(&self) -> Option<SystemTime> {
        match &self.base {
            Base::Sso(sso) => sso.login()?.1,
            _ => None,
        }
    }

    /// Returns the keys of a profile, as its files have them now; `None` for a source that is no profile.
    pub(super) fn of_file(&self) -> Option<Result<Arc<AwsCredential>>> {
        match &self.base {
            Base::File { files, profile } if self.roles.is_empty() => Some(keys_of(files, profile)),
            _ => None,
        }
    }

    /// Fetches credentials. `machine` has the machine's own.
    pub(super) async fn fetch(
        &self,
        context: &ThreadContext,
        machine: impl AsyncFnOnce() -> Result<Arc<AwsCredential>, Failure>,
    ) -> Result<Fetched, Failure> {
        let lasting = |credential| Fetched { credential, end: None };
        let mut fetched = match &self.base {
            Base::File { files, profile } => lasting(keys_of(files, profile).map_err(Failure::permanent)?),
            Base::Process(command) => run(context, command).await?,
            Base::Container { address, token } => container(context, address, token.as_deref()).await?,
            Base::Sso(sso) => self.portal(context, sso).await?,
            Base::Identity(identity) => {
                let token = std::fs::read_to_string(&identity.token_file).map_err(|e| {
                    let error = Error::from_io(e, "the token cannot be read");
                    Failure::permanent(error.with("file", identity.token_file.display()))
                })?;
                self.assume(context, &identity.role, Err(token.trim())).await?
            }
            Base::Machine => lasting(machine().await?),
        };
        for role in &self.roles {
            fetched = self.assume(context, role, Ok(&fetched.credential)).await?;
        }
        Ok(fetched)
    }

    /// Assumes a role, with credentials or with a token of a web identity.
    async fn assume(
        &self,
        context: &ThreadContext,
        role: &Role,
        by: Result<&AwsCredential, &str>,
    ) -> Result<Fetched, Failure> {
        let region = self.services.region.as_deref().unwrap_or("us-east-1");
        let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        let address = self.services.sts.clone().unwrap_or_else(|| format!("https://sts.{region}.{domain}"));
        let action = if by.is_ok() { "AssumeRole" } else { "AssumeRoleWithWebIdentity" };
        let mut pairs = vec![("Action", action), ("Version", "2011-06-15"), ("RoleArn", &*role.arn)];
        pairs.push(("RoleSessionName", role.session.as_deref().unwrap_or("forebay")));
        pairs.extend(role.seconds.as_deref().map(|seconds| ("DurationSeconds", seconds)));
        pairs.extend(role.external_id.as_deref().filter(|_| by.is_ok()).map(|id| ("ExternalId", id)));
        pairs.extend(by.err().map(|token| ("WebIdentityToken", token)));
        let mut request = form(&format!("{}/", address.trim_end_matches('/')), &pairs)?;
        if let Ok(credential) = by {
            authorize(&mut request, &AwsAuthorizer::new(credential, "sts", region))?;
        }
        let body = answer(context, &request).await?;
        let response: RoleResponse =
            read_xml(&body, &format!("{action}Response"), "the response of the token service")?;
        response.result.credentials.fetched()
    }

    /// Gets the credentials of a role from the portal of single sign-on.
    async fn portal(&self, context: &ThreadContext, sso: &Sso) -> Result<Fetched, Failure> {
        let token = sso.token().map_err(Failure::permanent)?;
        let own = || format!("https://portal.sso.{}.amazonaws.com", sso.region);
        let address = self.services.sso.clone().unwrap_or_else(own);
        let mut query = Serializer::new(String::new());
        query.extend_pairs([("role_name", &sso.role), ("account_id", &sso.account)]);
        let address = format!("{}/federation/credentials?{}", address.trim_end_matches('/'), query.finish());
        let request = get(&address, Some(("x-amz-sso_bearer_token", &token)))?;
        let body = answer(context, &request).await?;
        let response: PortalResponse = serde_json::from_slice(&body).map_err(|_| unreadable("the portal"))?;
        let PortalCredentials { access_key_id, secret_access_key, session_token, expiration } =
            response.role_credentials;
        Ok(Fetched {
            credential: AwsCredential { key_id: access_key_id, secret_key: secret_access_key, token: session_token }
                .into(),
            end: expiration.map(|ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms)),
        })
    }
}

impl Sso {
    /// Returns the token of the last login.
    fn token(&self) -> Result<String> {
        let token = self.login().filter(|(_, end)| end.is_none_or(|end| end > SystemTime::now()));
        let (token, _) = token.ok_or_else(|| {
            let why = "there is no valid login: run `aws sso login --profile ".to_owned() + &self.profile + "`";
            Error::new(ErrorKind::Permission, why)
        })?;
        Ok(token)
    }

    /// Returns the token of the last login and its end, which may be over.
    fn login(&self) -> Option<(String, Option<SystemTime>)> {
        let name = hex::encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, self.key.as_bytes()));
        let text = std::fs::read_to_string(self.cache.as_ref()?.join(format!("{name}.json"))).ok()?;
        let token: SsoToken = serde_json::from_str(&text).ok()?;
        let end = token.expires_at.as_deref().and_then(time);
        Some((token.access_token, end))
    }
}

impl Document {
    fn fetched(self) -> Result<Fetched, Failure> {
        let Self { access_key_id, secret_access_key, session_token, expiration, .. } = self;
        Ok(Fetched {
            credential: AwsCredential { key_id: access_key_id, secret_key: secret_access_key, token: session_token }
                .into(),
            end: expiration.as_deref().and_then(time),
        })
    }
}

fn keys_of(files: &ProfileFiles, profile: &str) -> Result<Arc<AwsCredential>> {
    let profiles = Profiles::load(files)?;
    let get = |key| profiles.get(profile, key);
    match (get("aws_access_key_id"), get("aws_secret_access_key")) {
        (Some(key_id), Some(secret_key)) => {
            Ok(AwsCredential { key_id, secret_key, token: get("aws_session_token") }.into())
        }
        _ => Err(Error::config(format!("AWS profile {profile} has no pair of keys now"))),
    }
}

fn unreadable(subject: &str) -> Failure {
    Failure::permanent(Error::new(
        ErrorKind::Permission,
        format!("{subject} responds without credentials that can be read"),
    ))
}

fn get(address: &str, header: Option<(&'static str, &str)>) -> Result<Request<Bytes>, Failure> {
    let invalid =
        |e| Failure::permanent(Error::config("the address of a source of credentials is not valid").caused_by(e));
    let mut request = Request::get(address).body(Bytes::new()).map_err(invalid)?;
    if let Some((name, value)) = header {
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| Failure::permanent(Error::config("a token has characters that cannot be sent")))?;
        value.set_sensitive(true);
        request.headers_mut().insert(HeaderName::from_static(name), value);
    }
    Ok(request)
}

/// Sends a request, and returns the body of a response of success. Neither is part of an error.
async fn answer(context: &ThreadContext, request: &Request<Bytes>) -> Result<Vec<u8>, Failure> {
    let host = request.uri().host().unwrap_or_default().to_owned();
    let (head, body) = call(context, request, context.shared.config.download_timeout).await?;
    if head.status.is_success() {
        return Ok(body);
    }
    let is_retried = head.status.is_server_error() && head.status.as_u16() != 501 || head.status.as_u16() == 429;
    Err(Failure::new(Error::new(ErrorKind::Permission, rejection(&host, &head, &body)), is_retried))
}

async fn container(context: &ThreadContext, address: &str, token: Option<&str>) -> Result<Fetched, Failure> {
    let request = get(address, token.map(|token| ("authorization", token)))?;
    let body = answer(context, &request).await?;
    serde_json::from_slice::<Document>(&body).map_err(|_| unreadable("the agent"))?.fetched()
}

/// Runs a command that prints credentials. Its output is not part of an error, but its error output is.
async fn run(context: &ThreadContext, command: &str) -> Result<Fetched, Failure> {
    let failed = |why: String| Failure::permanent(Error::new(ErrorKind::Permission, why));
    let unstarted = |e| Failure::permanent(Error::from_io(e, "the command cannot be run"));
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // With all that it starts.
    shell.process_group(0);
    let child = shell.spawn().map_err(unstarted)?;
    let process = rustix::process::Pid::from_child(&child);
    let waiting = tokio::task::spawn_blocking(move || child.wait_with_output());
    let Some(ended) = context.within(PROCESS_LIMIT, waiting).await else {
        // The waiting thread waits for it, so the number is still its own.
        let _ = rustix::process::kill_process_group(process, rustix::process::Signal::KILL);
        return Err(failed(format!("the command did not end within {} s", PROCESS_LIMIT.as_secs())));
    };
    let output = ended.map_err(|_| failed("the command was not waited for".to_owned()))?.map_err(unstarted)?;
    if !output.status.success() {
        let text: String = String::from_utf8_lossy(&output.stderr).trim().chars().take(200).collect();
        return Err(failed(format!("the command failed ({}): {text}", output.status)));
    }
    let document: Document = serde_json::from_slice(&output.stdout)
        .map_err(|_| failed("the command prints no credentials in JSON".to_owned()))?;
    match document.version {
        Some(1) => document.fetched(),
        _ => Err(failed("the command prints credentials of a Version that is not 1".to_owned())),
    }
}
