//! The queue: fetchers put requests into it, and the program's downloader takes them.

use super::request::{FetchTask, Request, SharedQueue, closed_error};
use crate::Result;
use crate::fetcher::{FetchStatus, Fetcher};
use forebay_core::sync::Arc;
use std::fs::File;

/// Upper bound of running fetches that have a waiting thread. Threads that read a data set request one file each, and a
/// machine has dozens of processes that read.
pub(super) const AWAITED_MAX: usize = 8;

/// Upper bound of all running fetches, including abandoned ones, which run to their end.
const RUNNING_MAX: usize = 32;

/// Requests of one reader for files. Each belongs to a thread that waits, so there are never many.
#[derive(Clone, Debug, Default)]
pub struct FetchQueue(pub(super) Arc<SharedQueue>);

/// Work for the program's downloader.
#[derive(Debug)]
pub enum FetchCommand {
    /// Fetch this file, in parallel with those in flight.
    Fetch(FetchTask),
    /// Stop the fetch of this number if possible: the thread that waited for it has given up with an error.
    Cancel(u64),
}

impl FetchQueue {
    /// Returns a fetcher for each of `streams`, at its number. The queue closes when all of them are dropped.
    pub fn fetchers(&self, streams: &[usize]) -> Vec<Option<Arc<dyn Fetcher>>> {
        let owner = Arc::new(Owner(self.clone()));
        let mut fetchers: Vec<Option<Arc<dyn Fetcher>>> = Vec::new();
        for &stream in streams {
            fetchers.resize_with(fetchers.len().max(stream + 1), || None);
            fetchers[stream] = Some(Arc::new(QueueFetcher { owner: owner.clone(), stream }));
        }
        fetchers
    }

    /// Waits for the next command; `None` when the queue is closed.
    pub fn next(&self) -> Option<FetchCommand> {
        let mut state = self.0.state.lock();
        loop {
            if let Some(number) = state.cancelled.pop_front() {
                return Some(FetchCommand::Cancel(number));
            }
            let has_room = state.awaited < AWAITED_MAX && state.awaited + state.abandoned < RUNNING_MAX;
            if has_room && let Some(request) = state.queued.pop_front() {
                // It may have been abandoned since it was queued.
                if request.begin() {
                    state.awaited += 1;
                    return Some(FetchCommand::Fetch(FetchTask::new(request)));
                }
                continue;
            }
            if state.is_closed {
                return None;
            }
            state = self.0.changed.wait(state);
        }
    }

    /// Rejects further requests, fails the queued ones and ends every [`next`](Self::next).
    pub fn close(&self) {
        let mut state = self.0.state.lock();
        state.is_closed = true;
        let queued = std::mem::take(&mut state.queued);
        drop(state);
        self.0.changed.notify_all();
        for request in queued {
            request.end(Err(closed_error()));
        }
    }
}

/// Closes the queue when the last fetcher of its reader is dropped.
#[derive(Debug)]
struct Owner(FetchQueue);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Fetcher of one stream's files through the queue.
#[derive(Debug)]
struct QueueFetcher {
    owner: Arc<Owner>,
    stream: usize,
}

impl Fetcher for QueueFetcher {
    fn fetch(&self, key: &str, watch: &dyn Fn(FetchStatus) -> Result<()>) -> Result<File> {
        Request::enqueue(&self.owner.0.0, self.stream, key)?.wait(watch)
    }
}
