//! Bearer tokens, renewed before they end.

use crate::context::StoreContext;
use crate::failure::Failure;
use crate::{Error, Result};
use forebay_core::sync::Mutex;
use http::HeaderValue;
use std::time::Duration;

/// Time before its end at which a token is renewed. Metadata services return the same token until 4 minutes before.
const RENEWAL: Duration = Duration::from_secs(225);

/// Bearer token in the form of an `Authorization` header.
#[derive(Clone)]
pub(crate) struct Token {
    pub(crate) header: HeaderValue,
    /// Time to renew it, on the store's clock.
    until: Duration,
}

impl Token {
    /// Creates a token that is valid for `lifetime` from now on.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if it cannot be sent.
    pub(crate) fn new(context: &StoreContext, bearer: &str, lifetime: Duration) -> Result<Self> {
        // The error of the library is not kept, in case it contains the token.
        let mut header = HeaderValue::from_str(&format!("Bearer {bearer}"))
            .map_err(|_| Error::config("a token has characters that cannot be sent: look for a stray line end"))?;
        header.set_sensitive(true);
        let remaining = lifetime - RENEWAL.min(lifetime / 2);
        Ok(Self { header, until: context.clock.now().saturating_add(remaining) })
    }
}

/// Token of a remote, which all its requests share.
#[derive(Default)]
pub(crate) struct TokenCache {
    /// Locked while a token is fetched, so that further requests wait for it.
    token: tokio::sync::Mutex<Option<Token>>,
    /// The last header that the store rejected.
    rejected: Mutex<Option<HeaderValue>>,
}

impl TokenCache {
    /// Returns the header with the token; `fetch` makes a new one where it is missing, expired or rejected.
    pub(crate) async fn get(
        &self,
        context: &StoreContext,
        fetch: impl AsyncFnOnce() -> Result<Token, Failure>,
    ) -> Result<HeaderValue, Failure> {
        let mut kept = self.token.lock().await;
        let rejected = self.rejected.lock().clone();
        if let Some(token) = &*kept
            && context.clock.now() < token.until
            && rejected.as_ref() != Some(&token.header)
        {
            return Ok(token.header.clone());
        }
        let token = fetch().await?;
        Ok(kept.insert(token).header.clone())
    }

    /// Records that the store rejected a request with the header `sent`: the next request gets a new token.
    pub(crate) fn reject(&self, sent: &HeaderValue) {
        *self.rejected.lock() = Some(sent.clone());
    }
}
