//! Window of whole objects that are being read.

use super::roots::Objects;
use crate::{Error, ErrorKind, Result};
use crate::{FetchMemory, FetchRequest, FetchTicket, Peek, Version};
use forebay_core::sync::{Arc, Condvar, Mutex};
use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

/// Bytes of the first request for an object of unknown length. A smaller object needs no second one.
const PEEK_BYTES: usize = 1 << 20;

/// Bounds of the objects that a window has in flight or ready.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// Objects, at least 1.
    pub objects: usize,
    /// Bytes. A larger object is read alone.
    pub bytes: u64,
    /// Bytes of the largest object that is read.
    pub object_bytes: Option<u64>,
}

/// Object that was read.
#[derive(Debug)]
pub struct Read<M> {
    /// Number of its request, from 0.
    pub number: u64,
    /// Its bytes; none of an object that is larger than [`ReadLimits::object_bytes`].
    pub bytes: Result<Option<M>>,
    /// Version of the bytes, where the store has one.
    pub version: Option<Version>,
}

/// Objects that are being read ahead of their consumer.
pub struct Reads<M> {
    objects: Arc<Objects>,
    limits: ReadLimits,
    allocate: Box<dyn Fn(usize) -> Result<M> + Send>,
    slots: VecDeque<Slot<M>>,
    next_number: u64,
    signal: Arc<Signal>,
}

struct Slot<M> {
    number: u64,
    url: String,
    /// Bytes that count against the limit.
    bytes: u64,
    state: ReadState<M>,
}

enum ReadState<M> {
    /// The first bytes are requested.
    Peeking(Arc<Mutex<Option<Result<Peek>>>>),
    /// Its length is found, and there is no room for it yet.
    Waiting,
    Fetching(FetchTicket<M>),
    Done(Result<Option<M>>, Option<Version>),
}

/// Wakes the consumer when any object has arrived.
#[derive(Default)]
struct Signal {
    events: Mutex<u64>,
    changed: Condvar,
}

impl Signal {
    fn raise(&self) {
        *self.events.lock() += 1;
        self.changed.notify_all();
    }

    /// Waits until there are events after `seen`.
    fn wait(&self, seen: u64, limit: Duration) {
        let events = self.events.lock();
        if *events == seen {
            drop(self.changed.wait_timeout(events, limit));
        }
    }
}

impl<M: FetchMemory> Reads<M> {
    /// Creates a window without requests. The memory of each object comes from `allocate`.
    pub fn new(
        objects: Arc<Objects>,
        limits: ReadLimits,
        allocate: impl Fn(usize) -> Result<M> + Send + 'static,
    ) -> Self {
        let allocate = Box::new(allocate);
        Self { objects, limits, allocate, slots: VecDeque::new(), next_number: 0, signal: Arc::default() }
    }

    /// Returns true if one more object may be requested, of `len` bytes if that is known.
    pub fn has_room(&self, len: Option<u64>) -> bool {
        let held: u64 = self.slots.iter().map(|slot| slot.bytes).sum();
        let bytes = held.saturating_add(self.counted(len));
        self.slots.is_empty() || self.slots.len() < self.limits.objects && bytes <= self.limits.bytes
    }

    /// Returns the bytes of an object that count against the limit before it has arrived.
    fn counted(&self, len: Option<u64>) -> u64 {
        match len {
            None => PEEK_BYTES as u64,
            Some(len) if self.is_too_large(len) => 0,
            Some(len) => len,
        }
    }

    fn is_too_large(&self, len: u64) -> bool {
        self.limits.object_bytes.is_some_and(|max| len > max)
    }

    /// Returns the number of objects that were requested and not returned yet.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns true if no object is left to be returned.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Requests an object, of `len` bytes if that is known. Its failure is an outcome as well.
    pub fn push(&mut self, url: &str, len: Option<u64>) {
        self.request(url, len, None);
    }

    /// Requests an object as a list has it, of `len` bytes and with an entity tag. One that has changed fails at once,
    /// as `Stale`.
    pub fn push_listed(&mut self, url: &str, len: u64, tag: String) {
        self.request(url, Some(len), Some(tag));
    }

    fn request(&mut self, url: &str, len: Option<u64>, listed_tag: Option<String>) {
        let number = self.next_number;
        self.next_number += 1;
        let state = match len {
            Some(len) if self.is_too_large(len) => ReadState::Done(Ok(None), None),
            Some(len) => self.start_fetch(url, len, listed_tag),
            None => self.start_peek(url),
        };
        let bytes = self.counted(len);
        self.slots.push_back(Slot { number, url: url.to_owned(), bytes, state });
    }

    fn start_peek(&self, url: &str) -> ReadState<M> {
        let outcome = Arc::new(Mutex::new(None));
        let (to, signal) = (outcome.clone(), self.signal.clone());
        let started = self.objects.peek(url, PEEK_BYTES, move |peek| {
            *to.lock() = Some(peek);
            signal.raise();
        });
        match started {
            Ok(()) => ReadState::Peeking(outcome),
            Err(error) => ReadState::Done(Err(error), None),
        }
    }

    fn start_fetch(&self, url: &str, len: u64, listed_tag: Option<String>) -> ReadState<M> {
        let memory = self.memory(len);
        let ticket = memory.and_then(|memory| {
            let signal = self.signal.clone();
            let mut request = FetchRequest::with_memory(String::new(), memory);
            request.listed_tag = listed_tag;
            request.ended = Some(Arc::new(move || signal.raise()));
            self.objects.fetch(url, request)
        });
        ticket.map_or_else(|error| ReadState::Done(Err(error), None), ReadState::Fetching)
    }

    fn memory(&self, len: u64) -> Result<M> {
        let too_large = || Error::new(ErrorKind::Full, "there is no memory for this object").with("bytes", len);
        (self.allocate)(usize::try_from(len).map_err(|_| too_large())?)
    }

    /// Continues objects after their first bytes have arrived.
    fn advance(&mut self) {
        for at in 0..self.slots.len() {
            let ReadState::Peeking(outcome) = &self.slots[at].state else { continue };
            let Some(peek) = outcome.lock().take() else { continue };
            let (bytes, state) = match peek {
                Err(error) => (0, ReadState::Done(Err(error), None)),
                Ok(peek) if self.is_too_large(peek.len) => (0, ReadState::Done(Ok(None), peek.version)),
                Ok(peek) if peek.front.len() as u64 == peek.len => {
                    let memory = self.memory(peek.len).map(|mut memory| {
                        memory.bytes_mut().copy_from_slice(&peek.front);
                        memory
                    });
                    (peek.len, ReadState::Done(memory.map(Some), peek.version))
                }
                Ok(peek) => (peek.len, ReadState::Waiting),
            };
            (self.slots[at].bytes, self.slots[at].state) = (bytes, state);
        }
        self.start_waiting();
    }

    /// Starts to fetch objects with lengths that were found after their requests: the first object in any case, the
    /// rest as far as the limit has room for them.
    fn start_waiting(&mut self) {
        let is_waiting = |slot: &Slot<M>| matches!(slot.state, ReadState::Waiting);
        let mut held: u64 = self.slots.iter().filter(|slot| !is_waiting(slot)).map(|slot| slot.bytes).sum();
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            if is_waiting(slot) && (at == 0 || held.saturating_add(slot.bytes) <= self.limits.bytes) {
                held = held.saturating_add(slot.bytes);
                // One object, one version: its first bytes are fetched again with the rest.
                self.slots[at].state = self.start_fetch(&slot.url, slot.bytes, None);
            }
        }
    }

    /// Waits for the next object for at most `limit`: the first in the order of the requests, or with `any` the first
    /// that has arrived. `None` if there is none yet, or none is left.
    pub fn next(&mut self, any: bool, limit: Duration) -> Option<Read<M>> {
        let start = Instant::now();
        loop {
            let seen = *self.signal.events.lock();
            self.advance();
            let among = if any { self.slots.len() } else { self.slots.len().min(1) };
            let is_ready = |slot: &Slot<M>| match &slot.state {
                ReadState::Peeking(_) | ReadState::Waiting => false,
                ReadState::Fetching(ticket) => ticket.is_done(),
                ReadState::Done(..) => true,
            };
            if let Some(at) = self.slots.iter().take(among).position(is_ready) {
                let slot = self.slots.remove(at)?;
                let (bytes, version) = match slot.state {
                    ReadState::Fetching(ticket) => {
                        let version = ticket.version();
                        (ticket.wait().map(Some), version)
                    }
                    ReadState::Done(bytes, version) => (bytes, version),
                    ReadState::Peeking(_) | ReadState::Waiting => {
                        (Err(Error::internal("an object without its bytes is ready")), None)
                    }
                };
                return Some(Read { number: slot.number, bytes, version });
            }
            let remaining = limit.saturating_sub(start.elapsed());
            if self.slots.is_empty() || remaining.is_zero() {
                return None;
            }
            self.signal.wait(seen, remaining);
        }
    }
}

impl<M> fmt::Debug for Reads<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reads").field("in_flight", &self.slots.len()).finish_non_exhaustive()
    }
}
