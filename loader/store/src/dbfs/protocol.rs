//! Databricks: addresses and tokens of volumes.

use super::settings::DbfsSettings;
use crate::Result;
use crate::context::{StoreContext, ThreadContext};
use crate::credentials::{Token, TokenCache, fetch_token, form, is_same_server};
use crate::failure::Failure;
use crate::http::{Protocol, Rejected};
use crate::key::encode_path;
use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, StatusCode};
use std::time::Duration;

/// Folder of a volume.
pub(crate) struct DbfsProtocol {
    settings: DbfsSettings,
    host: String,
    /// Address of the folder, without a slash at the end.
    base: String,
    /// The same of the interface for folders.
    folder_address: String,
    tokens: TokenCache,
}

impl DbfsProtocol {
    /// Opens `path`, which begins with `/Volumes/`.
    pub(crate) fn new(settings: DbfsSettings, path: &str) -> Result<Self> {
        settings.validate()?;
        let host = settings.workspace();
        Ok(Self {
            base: format!("{host}/api/2.0/fs/files{}", encode_path(path)),
            folder_address: format!("{host}/api/2.0/fs/directories{}", encode_path(path)),
            host,
            settings,
            tokens: TokenCache::default(),
        })
    }

    pub(super) fn folder_address(&self) -> &str {
        &self.folder_address
    }

    async fn token(&self, context: &ThreadContext) -> Result<Token, Failure> {
        let DbfsSettings { token, client_id, client_secret, .. } = &self.settings;
        if let Some(token) = token {
            return Self::own_token(&context.shared, token);
        }
        let pair = [client_id, client_secret].map(|part| part.as_deref().unwrap_or_default()).join(":");
        let address = format!("{}/oidc/v1/token", self.host);
        let mut request = form(&address, &[("grant_type", "client_credentials"), ("scope", "all-apis")])?;
        // Base 64 can be sent.
        if let Ok(mut header) = HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(pair))) {
            header.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, header);
        }
        fetch_token(context, &request, context.shared.config.download_timeout).await
    }

    fn own_token(context: &StoreContext, token: &str) -> Result<Token, Failure> {
        // It has no known end.
        Token::new(context, token, Duration::from_secs(3600)).map_err(Failure::permanent)
    }
}

#[async_trait(?Send)]
impl Protocol for DbfsProtocol {
    fn address(&self, key: &str) -> String {
        format!("{}/{}", self.base, encode_path(key))
    }

    async fn sign(&self, context: &ThreadContext, request: &mut Request<Bytes>) -> Result<(), Failure> {
        // Storage behind the workspace has signed addresses and needs no token.
        if is_same_server(request.uri(), &self.base) {
            let header = self.tokens.get(&context.shared, async || self.token(context).await).await?;
            request.headers_mut().insert(AUTHORIZATION, header);
        }
        Ok(())
    }

    fn learn(&self, rejected: &Rejected<'_>) -> bool {
        match rejected.sent.get(AUTHORIZATION) {
            Some(sent) if rejected.status == StatusCode::UNAUTHORIZED && self.settings.token.is_none() => {
                self.tokens.reject(sent);
                true
            }
            _ => false,
        }
    }

    fn hint(&self, status: StatusCode, code: Option<&str>) -> Option<String> {
        let hint = match (status.as_u16(), code) {
            (401, _) => {
                "check DATABRICKS_TOKEN, or the secret of the service principal, and that they belong to \
                 DATABRICKS_HOST"
            }
            (403, _) => {
                "the user needs READ VOLUME on the volume, and USE on its catalog and schema; a token may have expired"
            }
            (404, Some(_)) => "check the volume and the path",
            (400 | 404 | 405, None) => "the server may not be a workspace of Databricks: check DATABRICKS_HOST",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}
