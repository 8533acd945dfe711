//! Search for credentials of the machine, such as those of its metadata service.

use crate::store::context::StoreContext;
use crate::store::failure::Failure;
use crate::sync::{AtomicBool, Ordering};
use crate::{Error, ErrorKind};
use std::time::Duration;

/// Time until the next search after one without a result.
const SEARCH_PAUSE: Duration = Duration::from_secs(60);

/// Searches for credentials of one remote. It is no error to find none: public data needs none.
pub(crate) struct Search {
    store: &'static str,
    /// Earliest time of the next search. Locked during a search, so that other requests wait for its result.
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

    /// Calls `find`, which returns credentials or the reason for having none, unless it found none a short time ago.
    ///
    /// # Errors
    ///
    /// There were credentials before, and they cannot be renewed.
    pub(crate) async fn run<T>(
        &self,
        context: &StoreContext,
        find: impl AsyncFnOnce() -> Result<T, String>,
    ) -> Result<Option<T>, Failure> {
        let mut next = self.next.lock().await;
        if next.is_some_and(|until| context.clock.now() < until) {
            return Ok(None);
        }
        match find().await {
            Ok(found) => {
                self.has_found.store(true, Ordering::Relaxed);
                self.is_unsigned.store(false, Ordering::Relaxed);
                Ok(Some(found))
            }
            // A request without a signature would be a final error.
            Err(why) if self.has_found.load(Ordering::Relaxed) => {
                let why = format!("the machine's credentials for {} cannot be renewed: {why}", self.store);
                Err(Failure::transient(Error::new(ErrorKind::Permission, why)))
            }
            Err(why) => {
                log::info!("no credentials for {}: {why}", self.store);
                self.give_up();
                context.stats.note(format!("requests to {} are not signed: no credentials were found", self.store));
                *next = Some(context.clock.now() + SEARCH_PAUSE);
                Ok(None)
            }
        }
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
