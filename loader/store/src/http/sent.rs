//! Bodies of requests.

use bytes::Bytes;
use forebay_core::sync::{Arc, AtomicU64, Ordering};
use hyper::body::{Body, Frame, SizeHint};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Most bytes that are passed to the connection at once: a body that is passed on slowly shows its progress.
const FRAME_BYTES: usize = 64 << 10;

/// Body of a request: pieces of memory, which are sent without a copy.
#[derive(Debug, Default)]
pub(crate) struct SentBody {
    pieces: VecDeque<Bytes>,
    /// Bytes of the pieces.
    bytes: u64,
    taken: Taken,
}

/// Bytes of a request's body that the connection has taken. It may still have some of them in its buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken {
    taken: Arc<AtomicU64>,
    total: u64,
}

impl Taken {
    /// Returns true for a request without a body.
    pub(super) fn is_of_nothing(&self) -> bool {
        self.total == 0
    }

    pub(super) fn is_all(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.total
    }
}

impl SentBody {
    /// Creates a body of `pieces`, which counts in `taken` the bytes that are passed to the connection.
    pub(super) fn new(pieces: &[Bytes], taken: &Arc<AtomicU64>) -> Self {
        let pieces: VecDeque<_> = pieces.iter().filter(|piece| !piece.is_empty()).cloned().collect();
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self { pieces, bytes, taken: Taken { taken: taken.clone(), total: bytes } }
    }

    pub(super) fn taken(&self) -> Taken {
        self.taken.clone()
    }
}

impl From<Bytes> for SentBody {
    fn from(piece: Bytes) -> Self {
        Self::new(&[piece], &Arc::default())
    }
}

impl Body for SentBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(piece) = self.pieces.front_mut() else { return Poll::Ready(None) };
        let frame = piece.split_to(piece.len().min(FRAME_BYTES));
        if piece.is_empty() {
            self.pieces.pop_front();
        }
        self.bytes -= frame.len() as u64;
        self.taken.taken.fetch_add(frame.len() as u64, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(frame))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes)
    }
}
