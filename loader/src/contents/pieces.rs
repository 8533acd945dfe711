//! Ranges of objects in flight, in the order of the objects.
//!
//! The bytes in flight are those that a fast network carries in the time of one request, and a range is a part of them: a
//! server nearby needs few of them, so that they are in a cache of the CPU until they are used, which is half of the time of
//! a text. The shortest time of a request counts, which is the one with the least queueing.

use super::BLOCK_BYTES;
use super::blocks::Blocks;
use crate::format::Compression;
use crate::objects::Objects;
use crate::store::{FetchRequest, FetchTicket, Peek, Version};
use crate::sync::{Arc, AtomicBool, Ordering};
use crate::{Error, ErrorKind, Result};
use bytes::{Bytes, BytesMut};
use crossbeam::channel::{Receiver, RecvTimeoutError, bounded};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Bytes of an object's first request, after which its length is known. A smaller object needs no other one.
const FRONT_BYTES: usize = 1 << 20;

/// Bytes per second that must be in flight, by the time of a request: the rate of a fast network.
const RATE: u64 = 2 << 30;

/// Fewest bytes in flight, and the ranges that they have.
const WINDOW_MIN: u64 = 4 << 20;
const RANGES: u64 = 4;

/// Interval in which a wait notices that its consumer is gone.
const STOPPED_EVERY: Duration = Duration::from_millis(100);

/// Object that is requested.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Address.
    pub url: String,
    /// Compression of the whole object.
    pub compression: Option<Compression>,
    /// Offset of the first line or file in the content, which is unpacked.
    pub start: u64,
    /// Version that the object must have, as [`Event::Begin`](super::Event::Begin) has it; `None` for any.
    pub version: Option<String>,
}

impl Wanted {
    /// Returns the offset of the first byte that is needed. A compressed object is needed from its first one.
    fn first_byte(&self) -> u64 {
        if self.compression.is_some() { 0 } else { self.start }
    }
}

/// Pieces of objects. Those of the first object always proceed; those of later ones as far as the window has room.
pub(super) struct Pieces {
    objects: Arc<Objects>,
    requests: Receiver<Wanted>,
    is_stopped: Arc<AtomicBool>,
    blocks: Blocks,
    queue: VecDeque<Object>,
    /// The first object of the queue was returned.
    is_within: bool,
    window: Window,
}

/// Bytes that may be in flight or ready.
struct Window {
    most: u64,
    /// Shortest time of a first request.
    shortest: Option<Duration>,
}

impl Window {
    fn bytes(&self) -> u64 {
        let carried = self.shortest.map_or(0, |time| RATE as u128 * time.as_nanos() / 1_000_000_000);
        u64::try_from(carried).unwrap_or(u64::MAX).clamp(WINDOW_MIN.min(self.most), self.most)
    }

    /// Bytes of a range.
    fn range_bytes(&self) -> u64 {
        (self.bytes() / RANGES).clamp(FRONT_BYTES as u64, BLOCK_BYTES as u64)
    }

    fn record(&mut self, time: Duration) {
        self.shortest = Some(self.shortest.map_or(time, |shortest| shortest.min(time)));
    }
}

struct Object {
    wanted: Wanted,
    state: State,
}

enum State {
    Requested,
    /// The first bytes are in flight, and come with the time that they took.
    Peeking(Receiver<(Result<Peek>, Duration)>),
    Open(Open),
    Failed(Option<Error>),
}

struct Open {
    /// The first bytes, until they are returned.
    front: Option<Bytes>,
    len: u64,
    version: Option<Version>,
    /// Offset of the first byte that is not requested.
    next: u64,
    /// Ranges in their order, with their bytes.
    in_flight: VecDeque<(u64, FetchTicket<BytesMut>)>,
}

impl Pieces {
    /// Pieces of the objects that are received, of which at most `window_max` bytes are in flight or ready, or one piece.
    pub(super) fn new(
        objects: Arc<Objects>,
        requests: Receiver<Wanted>,
        is_stopped: Arc<AtomicBool>,
        window_max: u64,
    ) -> Self {
        let (blocks, queue) = (Blocks::default(), VecDeque::new());
        let window = Window { most: window_max, shortest: None };
        Self { objects, requests, is_stopped, blocks, queue, is_within: false, window }
    }

    /// Moves to the next object, and drops the rest of the last one. Waits for a request; `None` once there are no more.
    pub(super) fn next_object(&mut self) -> Option<Wanted> {
        if std::mem::take(&mut self.is_within) {
            self.queue.pop_front();
        }
        if self.queue.is_empty() {
            self.queue.push_back(Object { wanted: self.requests.recv().ok()?, state: State::Requested });
        }
        self.is_within = true;
        self.fill();
        self.queue.front().map(|object| object.wanted.clone())
    }

    /// Waits for the first bytes of the object, and returns its length and version.
    ///
    /// # Errors
    ///
    /// That of the store; `Stale` if the object is of another version than the wanted one, or ends before the start.
    pub(super) fn open(&mut self) -> Result<(u64, Option<String>)> {
        let object = self.opened()?;
        let open = object.open()?;
        let (len, version) = (open.len, open.version.as_ref().map(Version::to_string));
        let wanted = &object.wanted;
        if wanted.version.as_ref().is_some_and(|before| version.as_ref() != Some(before)) || wanted.first_byte() > len {
            let why = "the object was replaced after the state was saved, which is within it";
            return Err(Error::new(ErrorKind::Stale, why));
        }
        Ok((len, version))
    }

    /// Waits for the next piece of the object; `None` at its end.
    ///
    /// # Errors
    ///
    /// That of the store.
    pub(super) fn next_piece(&mut self) -> Result<Option<Bytes>> {
        let open = self.opened()?.open()?;
        if let Some(front) = open.front.take() {
            return Ok(Some(front));
        }
        self.fill();
        let open = self.opened()?.open()?;
        let Some((bytes, ticket)) = open.in_flight.pop_front() else {
            let is_end = open.next == open.len;
            return if is_end { Ok(None) } else { Err(Error::internal("the next piece is not requested")) };
        };
        // It is still in flight.
        self.fill_next_to(bytes);
        let mut ticket = Some(ticket);
        let memory = wait(&self.is_stopped, |limit| match ticket.take()?.wait_timeout(limit) {
            Ok(outcome) => Some(outcome),
            Err(waiting) => {
                ticket = Some(waiting);
                None
            }
        })?;
        Ok(Some(self.blocks.share(memory)))
    }

    /// Waits for the first bytes of the object.
    fn opened(&mut self) -> Result<&mut Object> {
        let object = self.queue.front_mut().filter(|_| self.is_within);
        let object = object.ok_or_else(|| Error::internal("pieces of no object"))?;
        if let State::Peeking(receiver) = &object.state {
            let peek = wait(&self.is_stopped, |limit| match receiver.recv_timeout(limit) {
                Ok(peek) => Some(Ok(peek)),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Err(Error::internal("a first request has no outcome"))),
            })?;
            object.set_opened(peek, &mut self.window);
        }
        Ok(object)
    }

    /// Requests what the window has room for.
    fn fill(&mut self) {
        self.fill_next_to(0);
    }

    /// Requests what the window has room for, of which `taken` bytes are those of a piece that is not in the queue.
    fn fill_next_to(&mut self, taken: u64) {
        while let Ok(wanted) = self.requests.try_recv() {
            self.queue.push_back(Object { wanted, state: State::Requested });
        }
        let mut held = taken + self.queue.iter().map(Object::held).sum::<u64>();
        for (place, object) in self.queue.iter_mut().enumerate() {
            object.advance(&mut self.window);
            while let Some(bytes) = object.next_bytes(&self.window) {
                // Later objects may have taken all of the window, and the first one has to proceed.
                let must_proceed = place == 0 && taken == 0 && object.held() == 0;
                if !must_proceed && held + bytes > self.window.bytes() {
                    return;
                }
                object.request(&self.objects, &self.blocks, bytes);
                held += bytes;
            }
        }
    }
}

impl Object {
    /// Bytes in flight or ready.
    fn held(&self) -> u64 {
        match &self.state {
            State::Requested | State::Failed(_) => 0,
            State::Peeking(_) => FRONT_BYTES as u64,
            State::Open(open) => {
                let front = open.front.as_ref().map_or(0, |front| front.len() as u64);
                front + open.in_flight.iter().map(|(bytes, _)| bytes).sum::<u64>()
            }
        }
    }

    /// Continues if the first bytes have arrived.
    fn advance(&mut self, window: &mut Window) {
        if let State::Peeking(receiver) = &self.state
            && let Ok(peek) = receiver.try_recv()
        {
            self.set_opened(peek, window);
        }
    }

    fn set_opened(&mut self, (peek, time): (Result<Peek>, Duration), window: &mut Window) {
        window.record(time);
        self.state = match peek {
            Err(error) => State::Failed(Some(error)),
            Ok(Peek { front, len, version }) => {
                let first = self.wanted.first_byte();
                let next = first.max(front.len() as u64);
                let mut front = Bytes::from(front);
                let front = (first < front.len() as u64).then(|| front.split_off(first as usize));
                State::Open(Open { front, len, version, next, in_flight: VecDeque::new() })
            }
        };
    }

    /// Bytes of the next request; `None` if there is none, or none before the first bytes have arrived.
    fn next_bytes(&self, window: &Window) -> Option<u64> {
        match &self.state {
            State::Requested => Some(FRONT_BYTES as u64),
            State::Open(open) if open.next < open.len => Some((open.len - open.next).min(window.range_bytes())),
            State::Open(_) | State::Peeking(_) | State::Failed(_) => None,
        }
    }

    /// Starts the next request, of `bytes` bytes.
    fn request(&mut self, objects: &Objects, blocks: &Blocks, bytes: u64) {
        let started = match &mut self.state {
            State::Requested => {
                let (sender, receiver) = bounded(1);
                let start = Instant::now();
                let ended = move |peek| drop(sender.send((peek, start.elapsed())));
                objects.peek(&self.wanted.url, FRONT_BYTES, ended).map(|()| self.state = State::Peeking(receiver))
            }
            State::Open(open) => {
                let mut request = FetchRequest::with_memory(String::new(), blocks.take(bytes as usize));
                request.start = open.next;
                request.object_len = Some(open.len);
                request.version = open.version.clone();
                objects.fetch(&self.wanted.url, request).map(|ticket| {
                    open.next += bytes;
                    open.in_flight.push_back((bytes, ticket));
                })
            }
            State::Peeking(_) | State::Failed(_) => Ok(()),
        };
        if let Err(error) = started {
            self.state = State::Failed(Some(error));
        }
    }

    /// Returns the object once its first bytes have arrived.
    fn open(&mut self) -> Result<&mut Open> {
        match &mut self.state {
            State::Open(open) => Ok(open),
            State::Failed(error) => Err(error.take().unwrap_or_else(|| Error::internal("an object failed before"))),
            State::Requested | State::Peeking(_) => Err(Error::internal("an object that is not open")),
        }
    }
}

/// Waits for an outcome until the consumer is gone. `poll` waits for at most the time that it is given.
fn wait<T>(is_stopped: &AtomicBool, mut poll: impl FnMut(Duration) -> Option<Result<T>>) -> Result<T> {
    loop {
        if let Some(outcome) = poll(STOPPED_EVERY) {
            return outcome;
        }
        if is_stopped.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "the contents are not needed any more"));
        }
    }
}
