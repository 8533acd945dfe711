//! Requests for files, and their state between the waiting thread and the program's downloader.

use crate::fetcher::FetchStatus;
use crate::{Error, ErrorKind, Result};
use forebay_core::sync::{Arc, Condvar, Mutex};
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time between two checks of a fetch by its waiting thread: the same as for the engine's own downloads.
const CHECK_EVERY: Duration = Duration::from_millis(250);

/// Levels of folders below the one for a file in which the downloader may assemble it.
const LEVELS_MAX: usize = 8;

/// Queue that the fetchers and the program's downloader share.
#[derive(Debug, Default)]
pub(super) struct SharedQueue {
    pub(super) state: Mutex<QueueState>,
    pub(super) changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct QueueState {
    pub(super) queued: VecDeque<Arc<Request>>,
    /// Numbers of fetches to cancel, at most those that run.
    pub(super) cancelled: VecDeque<u64>,
    /// Running fetches with a thread that waits for them.
    pub(super) awaited: usize,
    /// Running fetches without a waiting thread.
    pub(super) abandoned: usize,
    pub(super) count: u64,
    pub(super) is_closed: bool,
}

pub(super) fn closed_error() -> Error {
    Error::new(ErrorKind::Closed, "the data set was closed, or its process ends")
}

/// File that a thread waits for.
///
/// A change of its phase is followed by an update of the counts of `queue`. Its own lock is never held at that time.
#[derive(Debug)]
pub(super) struct Request {
    number: u64,
    stream: usize,
    key: String,
    queue: Arc<SharedQueue>,
    state: Mutex<RequestState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct RequestState {
    phase: Phase,
    response: Option<Result<File>>,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Queued,
    /// The file is being fetched, into this folder if it is known.
    Running(Option<PathBuf>),
    /// The file is being fetched, and no thread waits for it any more.
    Abandoned,
    Ended,
}

impl Request {
    /// Queues a request for the file `key` of `stream`.
    pub(super) fn enqueue(queue: &Arc<SharedQueue>, stream: usize, key: &str) -> Result<Arc<Self>> {
        let mut state = queue.state.lock();
        if state.is_closed {
            return Err(closed_error());
        }
        let request = Arc::new(Self {
            number: state.count,
            stream,
            key: key.to_owned(),
            queue: queue.clone(),
            state: Mutex::default(),
            changed: Condvar::default(),
        });
        state.count += 1;
        state.queued.push_back(request.clone());
        drop(state);
        queue.changed.notify_all();
        Ok(request)
    }

    /// Starts the fetch; false if no thread waits for it any more.
    pub(super) fn begin(&self) -> bool {
        let mut state = self.state.lock();
        let is_awaited = matches!(state.phase, Phase::Queued);
        if is_awaited {
            state.phase = Phase::Running(None);
        }
        is_awaited
    }

    /// Ends the fetch. The first response counts.
    pub(super) fn end(&self, response: Result<File>) {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.phase, Phase::Ended);
        if !matches!(before, Phase::Ended) {
            state.response = Some(response);
        }
        drop(state);
        match before {
            Phase::Running(_) => self.queue.state.lock().awaited -= 1,
            Phase::Abandoned => self.queue.state.lock().abandoned -= 1,
            Phase::Queued => {}
            Phase::Ended => return,
        }
        self.changed.notify_all();
        self.queue.changed.notify_all();
    }

    /// Notes that no thread waits any more. With `cancel`, a running fetch is to stop.
    fn abandon(&self, cancel: bool) {
        let mut state = self.state.lock();
        let is_running = match state.phase {
            Phase::Queued => false,
            Phase::Running(_) => true,
            Phase::Abandoned | Phase::Ended => return,
        };
        state.phase = if is_running { Phase::Abandoned } else { Phase::Ended };
        drop(state);
        let mut queue = self.queue.state.lock();
        if is_running {
            queue.awaited -= 1;
            queue.abandoned += 1;
            if cancel {
                queue.cancelled.push_back(self.number);
            }
        } else {
            queue.queued.retain(|request| request.number != self.number);
        }
        drop(queue);
        self.queue.changed.notify_all();
    }

    /// Waits for the file; `watch` receives its status and may end the wait.
    pub(super) fn wait(&self, watch: &dyn Fn(FetchStatus) -> Result<()>) -> Result<File> {
        let mut state = self.state.lock();
        loop {
            if let Some(response) = state.response.take() {
                return response;
            }
            state = self.changed.wait_timeout(state, CHECK_EVERY).0;
            if state.response.is_some() {
                continue;
            }
            let running = match &state.phase {
                Phase::Running(folder) => Some(folder.clone()),
                _ => None,
            };
            drop(state);
            let status = match running {
                Some(folder) => {
                    FetchStatus::Running { bytes: folder.map_or(0, |folder| bytes_in(&folder, LEVELS_MAX)) }
                }
                // Each awaited fetch ends or is abandoned. Without any, the downloader does not take requests, or is
                // busy with abandoned fetches that do not end: that time is limited as well.
                None if self.queue.state.lock().awaited > 0 => FetchStatus::Queued,
                None => FetchStatus::Running { bytes: 0 },
            };
            if let Err(e) = watch(status) {
                // At the end of an epoch a running download may complete.
                self.abandon(e.kind() != ErrorKind::Closed);
                return Err(e);
            }
            state = self.state.lock();
        }
    }
}

/// File to fetch. If it is dropped without a response, the waiting thread gets an error.
#[derive(Debug)]
pub struct FetchTask {
    request: Arc<Request>,
    process: u32,
}

impl FetchTask {
    pub(super) fn new(request: Arc<Request>) -> Self {
        Self { request, process: std::process::id() }
    }

    /// Returns the number of the request, which is unique in its queue.
    pub fn number(&self) -> u64 {
        self.request.number
    }

    /// Returns the number of the file's stream.
    pub fn stream(&self) -> usize {
        self.request.stream
    }

    /// Returns the file's path relative to the stream's remote.
    pub fn key(&self) -> &str {
        &self.request.key
    }

    /// Sets the folder in which the file is being assembled, with no further files in it: its growth is progress.
    pub fn set_folder(&self, folder: PathBuf) {
        if let Phase::Running(into) = &mut self.request.state.lock().phase {
            *into = Some(folder);
        }
    }

    /// Responds to the waiting thread with the file, open at its beginning, or with an error. The first response
    /// counts.
    pub fn respond(&self, response: Result<File>) {
        self.request.end(response);
    }
}

impl Drop for FetchTask {
    fn drop(&mut self) {
        // A forked child has a copy, without the thread that may hold its lock.
        if self.process == std::process::id() {
            self.request.end(Err(Error::internal("a download ended without a response")));
        }
    }
}

/// Returns the size of all files in `folder`, and in `levels` of folders below it, because some downloaders assemble
/// files in a sub-folder. Links are not followed.
fn bytes_in(folder: &Path, levels: usize) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let bytes_of = |entry: std::fs::DirEntry| match entry.metadata().ok()? {
        meta if meta.is_file() => Some(meta.len()),
        meta if meta.is_dir() && levels > 0 => Some(bytes_in(&entry.path(), levels - 1)),
        _ => None,
    };
    entries.filter_map(|entry| bytes_of(entry.ok()?)).sum()
}
