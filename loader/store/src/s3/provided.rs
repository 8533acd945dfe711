//! Credentials of a source, kept until they expire or are rejected.

use super::source::CredentialSource;
use crate::context::ThreadContext;
use crate::failure::Failure;
use crate::{Error, ErrorKind};
use forebay_core::sync::Arc;
use object_store::aws::AwsCredential;
use std::time::{Duration, Instant, SystemTime};

/// Time before their end at which credentials are renewed.
const RENEWAL: Duration = Duration::from_secs(300);

/// Least time between two fetches because of a rejection: a missing right is no reason to run a command for each
/// object.
const PAUSE: Duration = Duration::from_secs(60);

/// Credentials of a remote, which all its requests share.
pub(super) struct Provided {
    source: CredentialSource,
    /// Locked while credentials are fetched, so that further requests wait for them.
    kept: tokio::sync::Mutex<Option<KeptKeys>>,
}

struct KeptKeys {
    credential: Arc<AwsCredential>,
    end: Option<SystemTime>,
    /// Time to renew them.
    renewal: Option<SystemTime>,
    fetched: Instant,
}

impl Provided {
    pub(super) fn new(source: CredentialSource) -> Self {
        Self { source, kept: tokio::sync::Mutex::default() }
    }

    /// Returns the credentials, which are fetched where they are missing, expire or were rejected. `machine` has the
    /// machine's own.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Permission`] with the settings that name the source.
    pub(super) async fn get(
        &self,
        context: &ThreadContext,
        machine: impl AsyncFnOnce() -> Result<Arc<AwsCredential>, Failure>,
    ) -> Result<Arc<AwsCredential>, Failure> {
        let mut kept = self.kept.lock().await;
        let now = SystemTime::now();
        if let Some(kept) = &*kept
            && kept.renewal.is_none_or(|renewal| now < renewal)
        {
            return Ok(kept.credential.clone());
        }
        match self.source.fetch(context, machine).await {
            Ok(fetched) => {
                let left = fetched.end.map(|end| end.duration_since(now).unwrap_or_default());
                let renewal = left.map(|left| now + (left - RENEWAL.min(left / 2)));
                let new =
                    KeptKeys { credential: fetched.credential, end: fetched.end, renewal, fetched: Instant::now() };
                Ok(kept.insert(new).credential.clone())
            }
            Err(failure) => match &*kept {
                // They are still valid.
                Some(kept) if kept.end.is_none_or(|end| now < end) => Ok(kept.credential.clone()),
                _ => {
                    let (of, why) = (self.source.described(), &failure.error);
                    let message = format!("the credentials of {of} cannot be fetched: {why}");
                    let is_retried = failure.is_retried || kept.is_some();
                    Err(Failure::new(Error::new(ErrorKind::Permission, message), is_retried))
                }
            },
        }
    }

    /// Looks for credentials after the ones with the id `key` were rejected. Returns true if the request
    /// should be sent again.
    pub(super) fn renew(&self, key: &str) -> bool {
        // A parallel request is fetching them.
        let Ok(mut kept) = self.kept.try_lock() else { return true };
        let Some(known) = &mut *kept else { return false };
        if known.credential.key_id != key {
            return true;
        }
        match self.source.of_file() {
            Some(Ok(now)) if now != known.credential => {
                log::info!("the keys of {} have changed, and are read again", self.source.described());
                known.credential = now;
                true
            }
            Some(_) => false,
            None if known.fetched.elapsed() >= PAUSE => {
                *kept = None;
                true
            }
            None => false,
        }
    }
}
