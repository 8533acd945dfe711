//! The two ends of the queue between fetch threads and the threads of a library.

use super::exchange::Exchange;
use super::request::{Operation, Reply, Request};
use super::shared::Shared;
use crate::Result;
use forebay_core::sync::Arc;
use std::fmt;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Exchanges that fetch threads wait for at the same time. Each is a connection of the library, and servers accept few:
/// OpenSSH begins to reject clients at 10 that are not logged in yet.
pub(super) const AWAITED_MAX: usize = 8;

/// Library's end of the queue. Cheap to clone.
#[derive(Clone, Default)]
pub struct LibraryQueue(Arc<Shared>);

impl LibraryQueue {
    /// Returns the engine's end, for [`StoreConfig::library`](crate::StoreConfig::library). The queue closes when
    /// all clones of it are dropped. Call this once per queue.
    pub fn stores(&self) -> LibraryStores {
        let owner = Owner { queue: self.clone(), process: std::process::id() };
        LibraryStores { owner: Arc::new(owner), permits: Arc::new(Semaphore::new(AWAITED_MAX)) }
    }

    /// Waits for the next exchange; `None` when the queue is closed.
    pub fn next(&self) -> Option<Exchange> {
        Shared::next(&self.0).map(|(request, running)| Exchange::new(request, running))
    }

    /// Rejects further exchanges, fails the queued ones and ends every [`next`](Self::next).
    pub fn close(&self) {
        self.0.close();
    }
}

impl fmt::Debug for LibraryQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

struct Owner {
    queue: LibraryQueue,
    process: u32,
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            self.queue.close();
        }
    }
}

/// Stores that a library serves: the engine's end of the queue. Cheap to clone.
#[derive(Clone)]
pub struct LibraryStores {
    owner: Arc<Owner>,
    permits: Arc<Semaphore>,
}

/// An exchange from the engine's side: its replies, and the permit for it.
pub(super) struct Awaited {
    pub(super) replies: Receiver<Reply>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl LibraryStores {
    /// Queues an exchange as soon as few enough are awaited.
    ///
    /// # Errors
    ///
    /// `Closed` when the queue is closed.
    pub(super) async fn ask(
        &self,
        remote: &str,
        key: &str,
        operation: Operation,
        timeout: Duration,
    ) -> Result<Awaited> {
        // Never closed.
        let permit = self.permits.clone().acquire_owned().await.ok();
        let (request, replies) = Request::new(remote, key, operation, timeout);
        self.owner.queue.0.push(request)?;
        Ok(Awaited { replies, _permit: permit })
    }

    /// Returns true when no exchange is made any more.
    pub(super) fn is_closed(&self) -> bool {
        self.owner.queue.0.is_closed()
    }
}

impl fmt::Debug for LibraryStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.owner.queue.fmt(f)
    }
}
