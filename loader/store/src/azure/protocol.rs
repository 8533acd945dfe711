//! Azure: addresses and signatures of containers.

use super::login::Login;
use super::settings::AzureSettings;
use crate::context::ThreadContext;
use crate::credentials::{Bridge, Search, is_same_server, refuse_redirect, sign_with};
use crate::failure::Failure;
use crate::http::{Protocol, Rejected};
use crate::key::{encode_path, encode_prefix, with_slash};
use crate::threads::FetchQueues;
use crate::url::Container;
use crate::{Error, Result};
use async_trait::async_trait;
use bytes::Bytes;
use forebay_core::sync::{Arc, Mutex};
use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, StatusCode};
use object_store::RetryConfig;
use object_store::azure::{AzureAuthorizer, AzureConfigKey, AzureCredential, MicrosoftAzure, MicrosoftAzureBuilder};
use std::time::Duration;

/// Version of the service for requests without a signature; signatures set it themselves. The oldest one, which is the
/// default, has no ranges above 4 MiB.
const VERSION: HeaderValue = HeaderValue::from_static("2023-11-03");

/// Ends of the hosts of Azure's storage, in all its clouds. A token may not go to a different host that a remote names.
const HOSTS: [&str; 5] = [
    ".core.windows.net",
    ".storage.azure.net",
    ".core.usgovcloudapi.net",
    ".core.chinacloudapi.cn",
    ".fabric.microsoft.com",
];

/// Token of the library that was used last.
#[derive(Default)]
struct LastToken {
    /// Its header.
    header: Option<HeaderValue>,
    /// Number of times that the library's store was created again.
    renewals: u64,
}

/// One container, with a prefix in it.
pub(crate) struct AzureProtocol {
    settings: AzureSettings,
    account: String,
    container: String,
    /// Address of container and prefix; ends with a slash.
    base: String,
    /// Address of the container, without a slash at the end.
    container_address: String,
    /// Folder in the container, not encoded. It ends with a slash unless it is empty.
    prefix: String,
    bridge: Bridge,
    /// The library's store for the container, created again to renew a token.
    library: Mutex<Arc<MicrosoftAzure>>,
    last_token: Mutex<LastToken>,
    login: Login,
    search: Search,
}

impl AzureProtocol {
    pub(crate) fn new(queues: &Arc<FetchQueues>, settings: AzureSettings, container: Container) -> Result<Self> {
        settings.validate()?;
        let of_host = container.host.as_ref().and_then(|host| host.split('.').next());
        let account = settings.account.clone().or_else(|| of_host.map(str::to_owned)).ok_or_else(|| {
            Error::config("the remote names no storage account: set AZURE_ACCOUNT_NAME, or use CONTAINER@ACCOUNT")
        })?;
        let of_host = container.host.filter(|host| host.contains('.') && host.split('.').next() == Some(&account));
        if let (Some(host), None) = (&of_host, &settings.endpoint)
            && !HOSTS.iter().any(|end| host.to_ascii_lowercase().ends_with(end))
        {
            let message = "the remote's host is not one of Azure's, so it gets no credentials: check the remote, or \
                           set AZURE_STORAGE_SERVICE_ENDPOINT";
            return Err(Error::config(message).with("host", host));
        }
        let endpoint = settings.endpoint.clone().unwrap_or_else(|| match of_host {
            Some(host) => format!("https://{host}"),
            None => format!("https://{account}.{}.core.windows.net", if container.is_lake { "dfs" } else { "blob" }),
        });
        let container_address = format!("{}/{}", endpoint.trim_end_matches('/'), container.name);
        let bridge = Bridge::new(queues);
        let library = library(&settings, &account, &container.name, &bridge)?;
        Ok(Self {
            base: format!("{container_address}/{}", encode_prefix(&container.prefix)),
            container_address,
            prefix: with_slash(container.prefix),
            login: Login::new(settings.login_command.clone()),
            settings,
            account,
            container: container.name,
            bridge,
            library: Mutex::new(Arc::new(library)),
            last_token: Mutex::default(),
            search: Search::new("Azure"),
        })
    }

    pub(super) fn container_address(&self) -> &str {
        &self.container_address
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the credentials; `None` to send requests unsigned. The order is as in Azure's libraries: the settings,
    /// the machine's identity, the login of the command line.
    async fn credential(&self, context: &ThreadContext) -> Result<Option<Credential>, Failure> {
        let library = self.library.lock().clone();
        let provider = &**library.credentials();
        if self.settings.names_credentials() {
            return self.bridge.named(provider).await.map(|found| Some(Credential::Library(found)));
        }
        if self.settings.no_metadata {
            self.search.give_up();
            return Ok(None);
        }
        let find = async || {
            if !self.login.is_used() {
                match self.bridge.find(provider).await {
                    Err(failure) if failure.is_absent && self.login.is_present() => {}
                    found => return found.map(Credential::Library),
                }
            }
            self.login.header(context).await.map(Credential::Login)
        };
        self.search.run(&context.shared, find).await
    }
}

/// Credentials of a request.
enum Credential {
    Library(Arc<AzureCredential>),
    /// Header with a token of the command line's login.
    Login(HeaderValue),
}

/// Configures the library's store, which is used for its credentials. It does not retry: attempts are counted above.
fn library(settings: &AzureSettings, account: &str, container: &str, bridge: &Bridge) -> Result<MicrosoftAzure> {
    let mut builder = MicrosoftAzureBuilder::new()
        .with_account(account)
        .with_container_name(container)
        .with_allow_http(true)
        .with_skip_signature(settings.anonymous)
        .with_retry(RetryConfig { max_retries: 0, retry_timeout: Duration::ZERO, ..RetryConfig::default() })
        .with_http_connector(bridge.clone());
    if let Some(key) = &settings.account_key {
        builder = builder.with_access_key(key);
    }
    if let Some(token) = &settings.sas_token {
        builder = builder.with_config(AzureConfigKey::SasKey, token);
    }
    for (name, value) in &settings.providers {
        if let Ok(key) = name.to_lowercase().parse::<AzureConfigKey>() {
            // The authority's address may end with a slash.
            builder = builder.with_config(key, value.trim_end_matches('/'));
        }
    }
    // The library's error is not kept, in case it has parts of a key.
    builder.build().map_err(|_| {
        Error::config(
            "the Azure credentials cannot be used: the account key must be in base 64 and a SAS token a query such as \
             sv=...&sig=...",
        )
    })
}

#[async_trait(?Send)]
impl Protocol for AzureProtocol {
    fn address(&self, key: &str) -> String {
        format!("{}{}", self.base, encode_path(key))
    }

    async fn sign(&self, context: &ThreadContext, request: &mut Request<Bytes>) -> Result<(), Failure> {
        request.headers_mut().insert("x-ms-version", VERSION);
        let is_own = is_same_server(request.uri(), &self.base);
        if self.settings.anonymous {
            return Ok(());
        }
        let renewals = self.last_token.lock().renewals;
        let Some(credential) = self.credential(context).await? else { return Ok(()) };
        if !is_own {
            return Err(refuse_redirect(request.uri()));
        }
        let credential = match credential {
            Credential::Library(credential) => credential,
            Credential::Login(header) => {
                request.headers_mut().insert(AUTHORIZATION, header);
                return Ok(());
            }
        };
        // A shared access signature becomes part of the query.
        sign_with(request, |signed| AzureAuthorizer::new(&credential, &self.account).try_authorize(signed))?;
        if matches!(&*credential, AzureCredential::BearerToken(_)) {
            let mut last = self.last_token.lock();
            // The token may be from a store that was replaced in the meantime.
            if last.renewals == renewals {
                last.header = request.headers().get(AUTHORIZATION).cloned();
            }
        }
        Ok(())
    }

    fn learn(&self, rejected: &Rejected<'_>) -> bool {
        let Some(sent) = rejected.sent.get(AUTHORIZATION).filter(|sent| sent.as_bytes().starts_with(b"Bearer ")) else {
            return false;
        };
        if rejected.status != StatusCode::UNAUTHORIZED {
            return false;
        }
        self.login.reject(sent);
        // The library keeps a token until its end, which a revoked one does not reach. A parallel request may have
        // renewed it already.
        let mut last = self.last_token.lock();
        if last.header.as_ref() == Some(sent)
            && let Ok(new) = library(&self.settings, &self.account, &self.container, &self.bridge)
        {
            *self.library.lock() = Arc::new(new);
            *last = LastToken { header: None, renewals: last.renewals + 1 };
        }
        true
    }

    fn hint(&self, status: StatusCode, code: Option<&str>) -> Option<String> {
        let hint = match (status.as_u16(), code) {
            // A container that is not public is not there, for a request without credentials.
            (401 | 403 | 404 | 409, _) if self.search.is_unsigned() => {
                "no credentials were found: set AZURE_ACCOUNT_ACCESS_KEY, AZURE_STORAGE_CONNECTION_STRING or \
                 AZURE_STORAGE_SAS_TOKEN, or AZURE_CLIENT_ID with AZURE_TENANT_ID and AZURE_CLIENT_SECRET, or run `az \
                 login`"
            }
            (401 | 403 | 404 | 409, _) if self.settings.anonymous => {
                "requests are not signed: unset AZURE_SKIP_SIGNATURE, unless the container is public"
            }
            (403, Some("AuthenticationFailed")) => {
                "check the account's name and key or the SAS token with its end, and this machine's clock"
            }
            (403, Some("AuthorizationPermissionMismatch")) => {
                "the identity needs the role Storage Blob Data Reader for the container"
            }
            (403, Some("AuthorizationFailure")) => "the account's network rules may not admit this machine",
            (401, _) => "the token is not accepted: log in again with `az login`, and check AZURE_TENANT_ID",
            (404, Some("ContainerNotFound" | "FilesystemNotFound")) => {
                return Some(format!("account {} has no container {}", self.account, self.container));
            }
            (400, Some("InvalidBlobOrBlock")) | (409, Some("BlockCountExceedsLimit")) => {
                "a program has left blocks at this key that are not committed, with names of a different length or \
                 too many: store an object there, which discards them, or name a different folder"
            }
            (400 | 404 | 405, None) if self.settings.endpoint.is_some() => {
                "the server may not be Azure's: check AZURE_STORAGE_SERVICE_ENDPOINT and \
                 AZURE_STORAGE_CONNECTION_STRING"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}
