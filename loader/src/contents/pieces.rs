//! Ranges of objects in flight, in the order of the objects.
//!
//! The bytes in flight are those that a fast network carries in the time of one request, and a range is a part of them:
//! a server nearby needs few of them, so that they are in a cache of the CPU until they are used, which is half of the
//! time of a text. The shortest time of a request counts, which is the one with the least queueing.

use super::BLOCK_BYTES;
use super::blocks::Blocks;
use super::packing::Packing;
use crate::format::Compression;
use crate::objects::Objects;
use crate::store::{Encoded, FetchRequest, FetchTicket, Peek, Version};
use crate::sync::{Arc, AtomicBool, Ordering};
use crate::versions;
use crate::{Error, ErrorKind, Result};
use bytes::{Bytes, BytesMut};
use crossbeam::channel::{Receiver, RecvTimeoutError, bounded};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Bytes of an object's first request, after which its length is known. A smaller object needs no second one.
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
    /// Bytes in a list, if it was listed.
    pub len: Option<u64>,
    /// Compression of the whole object.
    pub packing: Packing,
    /// Offset of the first line or file in the content, which is unpacked.
    pub start: u64,
    /// Version that the object must have, as [`Event::Begin`](super::Event::Begin) has it; `None` for any.
    pub version: Option<String>,
    /// Entity tag in a list, if it was listed. An object with a different tag of the same kind has changed.
    pub listed_tag: Option<String>,
}

/// Pieces of objects. Pieces of the first object always proceed; pieces of later ones as far as the window has room.
pub(super) struct Pieces {
    objects: Arc<Objects>,
    requests: Receiver<Wanted>,
    is_stopped: Arc<AtomicBool>,
    blocks: Blocks,
    queue: VecDeque<Object>,
    /// The first object of the queue was returned.
    is_within: bool,
    window: FlightWindow,
}

/// Bytes that may be in flight or ready.
pub(super) struct FlightWindow {
    most: u64,
    /// Bytes per second.
    rate: u64,
    /// Shortest time of a first request.
    shortest: Option<Duration>,
}

impl FlightWindow {
    /// At most `most` bytes.
    pub(super) fn new(most: u64) -> Self {
        Self::of_rate(most, RATE)
    }

    /// At most `most` bytes, and as many as `rate` bytes per second need.
    pub(super) fn of_rate(most: u64, rate: u64) -> Self {
        Self { most, rate, shortest: None }
    }

    fn bytes(&self) -> u64 {
        let carried = self.shortest.map_or(0, |time| u128::from(self.rate) * time.as_nanos() / 1_000_000_000);
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
    compression: Option<Compression>,
    has_ranges: bool,
    state: PieceState,
}

enum PieceState {
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
    /// Pieces of the objects that are received, as many as the window has room for, or one.
    pub(super) fn new(
        objects: Arc<Objects>,
        requests: Receiver<Wanted>,
        is_stopped: Arc<AtomicBool>,
        window: FlightWindow,
    ) -> Self {
        let (blocks, queue) = (Blocks::default(), VecDeque::new());
        Self { objects, requests, is_stopped, blocks, queue, is_within: false, window }
    }

    /// Memory of dropped pieces, for new ones.
    pub(super) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Moves to the next object, and drops the rest of the last one. Waits for a request; `None` once there are no
    /// more.
    pub(super) fn next_object(&mut self) -> Option<Wanted> {
        if std::mem::take(&mut self.is_within) {
            self.queue.pop_front();
        }
        if self.queue.is_empty() {
            let wanted = self.requests.recv().ok()?;
            self.queue.push_back(Object::new(wanted, &self.objects));
        }
        self.is_within = true;
        self.fill();
        self.queue.front().map(|object| object.wanted.clone())
    }

    /// Waits for the first bytes of the object, and returns its length, version and compression.
    ///
    /// # Errors
    ///
    /// The store's error; `Stale` if the object has a different version than the wanted one, or ends before the start.
    pub(super) fn open(&mut self) -> Result<(u64, Option<String>, Option<Compression>)> {
        let object = self.opened()?;
        let open = object.open()?;
        let (len, version) = (open.len, open.version.as_ref().map(Version::to_string));
        let tag = open.version.as_ref().and_then(Version::etag).map(str::to_owned);
        if let (Some(listed), Some(tag)) = (&object.wanted.listed_tag, tag)
            && versions::is_different(listed, &tag)
        {
            let why = "the object was replaced after it was listed";
            return Err(Error::new(ErrorKind::Stale, why).hinting("List the files again"));
        }
        let before = object.wanted.version.as_ref();
        if before.is_some_and(|before| version.as_ref() != Some(before)) || object.first_byte() > len {
            return Err(replaced());
        }
        Ok((len, version, object.compression))
    }

    /// Waits for the next piece of the object; `None` at its end.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub(super) fn next_piece(&mut self) -> Result<Option<Bytes>> {
        check_needed(&self.is_stopped)?;
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
        if let PieceState::Peeking(receiver) = &object.state {
            let peek = wait(&self.is_stopped, |limit| match receiver.recv_timeout(limit) {
                Ok(peek) => Some(Ok(peek)),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Err(Error::internal("a first request has no outcome"))),
            })?;
            object.set_opened(peek, &mut self.window);
        }
        Ok(object)
    }

    /// Requests as much as the window has room for.
    fn fill(&mut self) {
        self.fill_next_to(0);
    }

    /// Requests as much as the window has room for. A piece that is not in the queue has `taken` bytes of the room.
    fn fill_next_to(&mut self, taken: u64) {
        while let Ok(wanted) = self.requests.try_recv() {
            self.queue.push_back(Object::new(wanted, &self.objects));
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
    fn new(wanted: Wanted, objects: &Objects) -> Self {
        // Its error becomes the error of the object, in its turn.
        let (compression, state) = match wanted.packing.compression(&wanted.url) {
            Ok(compression) => (compression, PieceState::Requested),
            Err(error) => (None, PieceState::Failed(Some(error))),
        };
        // The error of an address that cannot be opened is returned by its request.
        let has_ranges = objects.has_ranges(&wanted.url).unwrap_or(true);
        Self { wanted, compression, has_ranges, state }
    }

    /// Returns the offset of the first byte that is needed. A compressed object is needed from its first one.
    fn first_byte(&self) -> u64 {
        if self.compression.is_some() { 0 } else { self.wanted.start }
    }

    /// Bytes of the first request.
    fn front_bytes(&self) -> u64 {
        self.wanted.len.unwrap_or(u64::MAX).min(FRONT_BYTES as u64)
    }

    /// Bytes in flight or ready.
    fn held(&self) -> u64 {
        match &self.state {
            PieceState::Requested | PieceState::Failed(_) => 0,
            PieceState::Peeking(_) => self.front_bytes(),
            PieceState::Open(open) => {
                let front = open.front.as_ref().map_or(0, |front| front.len() as u64);
                front + open.in_flight.iter().map(|(bytes, _)| bytes).sum::<u64>()
            }
        }
    }

    /// Continues if the first bytes have arrived.
    fn advance(&mut self, window: &mut FlightWindow) {
        if let PieceState::Peeking(receiver) = &self.state
            && let Ok(peek) = receiver.try_recv()
        {
            self.set_opened(peek, window);
        }
    }

    fn set_opened(&mut self, (peek, time): (Result<Peek>, Duration), window: &mut FlightWindow) {
        if peek.is_ok() {
            window.record(time);
        }
        self.state = match peek {
            Err(error) => PieceState::Failed(Some(error)),
            Ok(Peek { front, len, version, encoding, .. }) => {
                match self.wanted.packing.compression_of_encoding(self.compression, encoding.as_deref()) {
                    Ok(compression) => self.compression = compression,
                    Err(error) => {
                        self.state = PieceState::Failed(Some(error));
                        return;
                    }
                }
                let first = self.first_byte();
                let next = first.max(front.len() as u64);
                let mut front = Bytes::from(front);
                let front = (first < front.len() as u64).then(|| front.split_off(first as usize));
                PieceState::Open(Open { front, len, version, next, in_flight: VecDeque::new() })
            }
        };
    }

    /// Bytes of the next request; `None` if there is none, or none before the first bytes have arrived.
    fn next_bytes(&self, window: &FlightWindow) -> Option<u64> {
        match &self.state {
            PieceState::Requested => Some(self.front_bytes()),
            // Without ranges, each request would receive all bytes before it again.
            PieceState::Open(open) if open.next < open.len && !self.has_ranges => Some(open.len - open.next),
            PieceState::Open(open) if open.next < open.len => Some((open.len - open.next).min(window.range_bytes())),
            PieceState::Open(_) | PieceState::Peeking(_) | PieceState::Failed(_) => None,
        }
    }

    /// Starts the next request, of `bytes` bytes.
    fn request(&mut self, objects: &Objects, blocks: &Blocks, bytes: u64) {
        let started = match &mut self.state {
            PieceState::Requested => {
                let (sender, receiver) = bounded(1);
                let start = Instant::now();
                let ended = move |peek| drop(sender.send((peek, start.elapsed())));
                objects
                    .peek_as_stored(&self.wanted.url, FRONT_BYTES, ended)
                    .map(|()| self.state = PieceState::Peeking(receiver))
            }
            PieceState::Open(open) => {
                let request = blocks.take(bytes).map(|memory| FetchRequest {
                    start: open.next,
                    object_len: Some(open.len),
                    version: open.version.clone(),
                    encoded: Encoded::AsStored,
                    ..FetchRequest::with_memory(String::new(), memory)
                });
                request.and_then(|request| objects.fetch(&self.wanted.url, request)).map(|ticket| {
                    open.next += bytes;
                    open.in_flight.push_back((bytes, ticket));
                })
            }
            PieceState::Peeking(_) | PieceState::Failed(_) => Ok(()),
        };
        if let Err(error) = started {
            self.state = PieceState::Failed(Some(error));
        }
    }

    /// Returns the object once its first bytes have arrived.
    fn open(&mut self) -> Result<&mut Open> {
        match &mut self.state {
            PieceState::Open(open) => Ok(open),
            PieceState::Failed(error) => {
                Err(error.take().unwrap_or_else(|| Error::internal("an object failed before")))
            }
            PieceState::Requested | PieceState::Peeking(_) => Err(Error::internal("an object that is not open")),
        }
    }
}

/// Waits for an outcome until the consumer is gone. `poll` waits for at most the time that it is given.
fn wait<T>(is_stopped: &AtomicBool, mut poll: impl FnMut(Duration) -> Option<Result<T>>) -> Result<T> {
    loop {
        check_needed(is_stopped)?;
        if let Some(outcome) = poll(STOPPED_EVERY) {
            return outcome;
        }
    }
}

/// Returns an error once the consumer is gone.
fn check_needed(is_stopped: &AtomicBool) -> Result<()> {
    if is_stopped.load(Ordering::Acquire) {
        return Err(Error::new(ErrorKind::Closed, "the contents are not needed any more"));
    }
    Ok(())
}

/// Error for an object that is not the one in which reading is to continue.
pub(super) fn replaced() -> Error {
    let why = "the object was replaced after the position in it was saved";
    Error::new(ErrorKind::Stale, why).hinting("Restore the object, or begin the epoch again")
}
