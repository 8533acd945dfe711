//! Search for credentials of the machine, such as credentials of its metadata service.

use crate::context::StoreContext;
use crate::failure::Failure;
use crate::{Error, ErrorKind};
use forebay_core::sync::{AtomicBool, Ordering};
use http::StatusCode;
use std::time::Duration;

/// Time until the next search after one without a result.
const SEARCH_PAUSE: Duration = Duration::from_secs(60);

/// Searches for credentials of one remote. It is no error to find none: public data needs none.
pub(crate) struct Search {
    store: &'static str,
    /// Earliest time of the next search. Locked during a search, so that further requests wait for its result.
    next: tokio::sync::Mutex<Option<Duration>>,
    /// A search found credentials: the next ones fail only for a time.
    has_found: AtomicBool,
    /// The last search found no credentials.
    is_unsigned: AtomicBool,
}

impl Search {
    /// Creates searches for `store`, a name for messages.
    pub(crate) fn new(store: &'static str) -> Self {
        let flag = || AtomicBool::new(false);
        Self { store, next: tokio::sync::Mutex::new(None), has_found: flag(), is_unsigned: flag() }
    }

    /// Calls `find`, unless it found nothing a short time ago. `None` where no service has credentials.
    ///
    /// # Errors
    ///
    /// A service that has credentials, or may have them, fails: a request without a signature would be a final error.
    pub(crate) async fn run<T>(
        &self,
        context: &StoreContext,
        find: impl AsyncFnOnce() -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        let mut next = self.next.lock().await;
        if next.is_some_and(|until| context.clock.now() < until) {
            return Ok(None);
        }
        let failure = match find().await {
            Ok(found) => {
                self.has_found.store(true, Ordering::Relaxed);
                self.is_unsigned.store(false, Ordering::Relaxed);
                return Ok(Some(found));
            }
            Err(failure) => failure,
        };
        let (store, why) = (self.store, &failure.error);
        let has_found = self.has_found.load(Ordering::Relaxed);
        if has_found || !failure.is_absent {
            let verb = if has_found { "renewed" } else { "fetched" };
            let message = format!("the machine's credentials for {store} cannot be {verb}: {why}");
            return Err(Failure::new(Error::new(ErrorKind::Permission, message), has_found || failure.is_retried));
        }
        log::info!("no credentials for {store}: {why}");
        self.give_up();
        context.stats.note(format!("requests to {store} are not signed: no credentials were found"));
        *next = Some(context.clock.now() + SEARCH_PAUSE);
        Ok(None)
    }

    /// Records that there are no credentials, without a search.
    pub(crate) fn give_up(&self) {
        self.is_unsigned.store(true, Ordering::Relaxed);
    }

    /// Returns true if requests are not signed, for lack of credentials.
    pub(crate) fn is_unsigned(&self) -> bool {
        self.is_unsigned.load(Ordering::Relaxed)
    }
}

/// True for statuses of a service that may respond otherwise later.
pub(super) fn is_temporary(status: StatusCode) -> bool {
    status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED || matches!(status.as_u16(), 408 | 410 | 429)
}

/// True for statuses of a machine with a metadata service that is turned off or has no identity for it: AWS responds
/// with 403 and 404, Azure with 400.
pub(super) fn is_no_service(status: StatusCode) -> bool {
    !status.is_success() && !is_temporary(status)
}
