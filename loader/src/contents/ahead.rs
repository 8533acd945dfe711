//! Thread that reads ahead of its consumer.

use super::content::Content;
use super::pieces::{FlightWindow, Pieces, Wanted};
use crate::objects::Objects;
use crate::store::redact;
use crate::sync::{self, Arc, AtomicBool, Ordering};
use crate::{Error, ErrorKind, Result};
use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use std::fmt;
use std::time::Duration;

/// Events between the thread and its consumer. Each may hold a piece.
const EVENTS_MAX: usize = 2;

/// Objects that are requested and not begun.
const REQUESTS_MAX: usize = 1024;

/// Part of the content of an object.
#[derive(Debug)]
pub enum Event<T> {
    /// The object is open, and has this version, if its store has versions.
    Begin(Option<String>),
    /// Lines or files.
    Item(T),
    /// All items of the object were returned.
    End,
}

/// Contents of objects, in the order of their requests. Dropping it ends the thread.
pub struct Ahead<T> {
    requests: Sender<Wanted>,
    events: Receiver<Result<Event<T>>>,
    is_stopped: Arc<AtomicBool>,
    has_failed: AtomicBool,
}

/// Division of an object's content into items: its content, the offset in it of the first item, the bytes of the
/// content if they are known, and the consumer of the items.
pub(super) type Divide<T> = fn(Content<'_>, u64, Option<u64>, &ItemSender<T>) -> Result<()>;

/// Sender of items to the consumer.
pub(super) struct ItemSender<T>(Sender<Result<Event<T>>>);

impl<T> ItemSender<T> {
    pub(super) fn item(&self, item: T) -> Result<()> {
        self.event(Event::Item(item))
    }

    fn event(&self, event: Event<T>) -> Result<()> {
        self.0.send(Ok(event)).map_err(|_| Error::new(ErrorKind::Closed, "the consumer is gone"))
    }
}

impl<T: Send + 'static> Ahead<T> {
    /// Starts the thread. The window bounds the bytes of objects that are in flight or ready; `window_bytes` is the
    /// bound of [`ContentLimits`](super::ContentLimits).
    ///
    /// # Errors
    ///
    /// When the system refuses a thread.
    pub(super) fn start(
        objects: Arc<Objects>,
        window: FlightWindow,
        window_bytes: Option<u64>,
        divide: Divide<T>,
    ) -> Result<Self> {
        let (requests, received) = bounded(REQUESTS_MAX);
        let (sender, events) = bounded(EVENTS_MAX);
        let is_stopped = Arc::new(AtomicBool::new(false));
        let mut pieces = Pieces::new(objects, received, is_stopped.clone(), window);
        let run = move || {
            let out = ItemSender(sender);
            while let Some(wanted) = pieces.next_object() {
                if let Err(error) = divide_object(&mut pieces, &wanted, window_bytes, divide, &out) {
                    // Errors of stores name the object already.
                    let is_named = error.context().iter().any(|(name, _)| *name == "key");
                    let error = if is_named { error } else { error.with("object", redact(&wanted.url)) };
                    // If the consumer is gone, nothing receives the error.
                    drop(out.0.send(Err(error)));
                    return;
                }
            }
        };
        sync::spawn("forebay-ahead", run).map_err(|e| Error::from_io(e, "the system cannot start a thread"))?;
        Ok(Self { requests, events, is_stopped, has_failed: AtomicBool::new(false) })
    }

    /// Requests an object. After an error there is no further outcome.
    ///
    /// # Errors
    ///
    /// `Full` if 1,024 objects are requested and not begun.
    pub fn push(&self, wanted: Wanted) -> Result<()> {
        match self.requests.try_send(wanted) {
            Err(TrySendError::Full(_)) => {
                Err(Error::new(ErrorKind::Full, format!("more than {REQUESTS_MAX} objects are requested ahead")))
            }
            // The thread has ended with an error, which `next` returns.
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
        }
    }

    /// Waits at most `limit` for the next event of the requested objects; `None` if there is none yet.
    ///
    /// # Errors
    ///
    /// The first error of an object, in the order of the requests. It ends all requests.
    pub fn next(&self, limit: Duration) -> Result<Option<Event<T>>> {
        match self.events.recv_timeout(limit) {
            Ok(event) => {
                self.has_failed.fetch_or(event.is_err(), Ordering::Relaxed);
                event.map(Some)
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) if self.has_failed.load(Ordering::Relaxed) => {
                Err(Error::new(ErrorKind::Closed, "the contents ended with an error before"))
            }
            Err(RecvTimeoutError::Disconnected) => Err(Error::internal("the thread of the contents has panicked")),
        }
    }
}

fn divide_object<T>(
    pieces: &mut Pieces,
    wanted: &Wanted,
    window_bytes: Option<u64>,
    divide: Divide<T>,
    out: &ItemSender<T>,
) -> Result<()> {
    let (bytes, version, compression) = pieces.open()?;
    // An empty object is not unpacked: programs that end early leave such files.
    let compression = compression.filter(|_| bytes > 0);
    out.event(Event::Begin(version))?;
    let bytes = compression.is_none().then_some(bytes);
    divide(Content::of(pieces, compression, window_bytes, wanted.start)?, wanted.start, bytes, out)?;
    out.event(Event::End)
}

impl<T> Drop for Ahead<T> {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Release);
    }
}

impl<T> fmt::Debug for Ahead<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ahead").field("ready", &self.events.len()).finish_non_exhaustive()
    }
}
