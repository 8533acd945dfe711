//! Bodies: pieces of a file or of memory, as fast as the client reads them or as the script allows.

use super::objects::Content;
use super::state::ServerState;
use bytes::{Bytes, BytesMut};
use forebay_loader::sync::{Arc, Ordering};
use hyper::body::{Frame, SizeHint};
use std::future::Future;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Bytes per piece: large enough that the cost per piece vanishes, small enough to stay in the CPU's cache.
const PIECE_BYTES: u64 = 256 << 10;

/// Bytes per piece at least, where the rate is limited: such bodies take turns, as on a line that they share.
const PIECE_BYTES_MIN: u64 = 4 << 10;

/// Pieces of a second.
const PIECES_PER_S: u64 = 100;

/// Faults of a body. Offsets are relative to its first byte.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Twist {
    pub(super) cut_at: Option<u64>,
    pub(super) stall_at: Option<u64>,
    /// The body stalls again after every byte.
    pub(super) drips: bool,
    /// Offset in the object.
    pub(super) flip_at: Option<u64>,
    /// The length is not announced.
    pub(super) chunked: bool,
    /// Bytes announced beyond those that are sent.
    pub(super) excess: u64,
}

/// Range of an object, or a short text, that is being sent.
pub(super) struct ObjectBody {
    state: Arc<ServerState>,
    content: Content,
    at: u64,
    end: u64,
    sent: u64,
    twist: Twist,
    buffer: BytesMut,
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Piece that waits for the throttle.
    next: Option<Bytes>,
    /// True once the bytes before the cut were flushed.
    flushed: bool,
}

impl ObjectBody {
    pub(super) fn range(state: &Arc<ServerState>, content: Content, range: std::ops::Range<u64>, twist: Twist) -> Self {
        Self {
            state: state.clone(),
            content,
            at: range.start,
            end: range.end,
            sent: 0,
            twist,
            buffer: BytesMut::new(),
            waiting: None,
            next: None,
            flushed: false,
        }
    }

    pub(super) fn text(state: &Arc<ServerState>, text: impl Into<Bytes>) -> Self {
        let text = text.into();
        let len = text.len() as u64;
        Self::range(state, Content::Memory(text), 0..len, Twist::default())
    }

    fn read_piece(&mut self) -> io::Result<Bytes> {
        let turn = self.state.options.bytes_per_s.map_or(PIECE_BYTES, |rate| rate / PIECES_PER_S);
        let mut len = (self.end - self.at).min(turn.clamp(PIECE_BYTES_MIN, PIECE_BYTES));
        for limit in [self.twist.cut_at, self.twist.stall_at].into_iter().flatten() {
            len = len.min(limit.saturating_sub(self.sent).max(1));
        }
        let mut piece = match &self.content {
            Content::Memory(bytes) => bytes.slice(self.at as usize..(self.at + len) as usize),
            Content::File(file) => {
                self.buffer.resize(len as usize, 0);
                file.read_exact_at(&mut self.buffer, self.at)?;
                self.buffer.split().freeze()
            }
        };
        if let Some(flip) = self.twist.flip_at.filter(|flip| (self.at..self.at + len).contains(flip)) {
            let mut bytes = piece.to_vec();
            bytes[(flip - self.at) as usize] ^= 0x40;
            piece = bytes.into();
        }
        self.at += len;
        Ok(piece)
    }
}

impl hyper::body::Body for ObjectBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        loop {
            if let Some(waiting) = &mut this.waiting {
                ready!(waiting.as_mut().poll(cx));
                this.waiting = None;
            }
            if let Some(piece) = this.next.take() {
                this.sent += piece.len() as u64;
                this.state.bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            let ends_early = this.at == this.end && this.twist.excess > 0;
            if ends_early || this.twist.cut_at.is_some_and(|cut| this.sent >= cut) {
                if !std::mem::replace(&mut this.flushed, true) {
                    // The server flushes its buffer when a body is pending, and drops it when a body fails.
                    this.waiting = Some(Box::pin(tokio::task::yield_now()));
                    continue;
                }
                return Poll::Ready(Some(Err(io::Error::other("cut by the script"))));
            }
            if this.twist.stall_at.is_some_and(|stall| this.sent >= stall) {
                this.twist.stall_at = this.twist.drips.then_some(this.sent + 1);
                this.waiting = Some(stall(this.state.clone()));
                continue;
            }
            if this.at == this.end {
                return Poll::Ready(None);
            }
            let piece = this.read_piece()?;
            let wait = this.state.throttle.lock().wait(piece.len() as u64);
            this.next = Some(piece);
            if !wait.is_zero() {
                this.waiting = Some(Box::pin(tokio::time::sleep(wait)));
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        if self.twist.chunked {
            return SizeHint::default();
        }
        SizeHint::with_exact(self.end - self.at + self.next.as_ref().map_or(0, |n| n.len() as u64) + self.twist.excess)
    }
}

/// Waits until the test releases the stalled bodies.
fn stall(state: Arc<ServerState>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let released = state.release.notified();
        tokio::pin!(released);
        // Registered before it is counted, so that a release that follows the count is not missed.
        released.as_mut().enable();
        *state.stalls.lock() += 1;
        state.stalled.notify_all();
        released.await;
    })
}
