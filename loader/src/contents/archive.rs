//! Archive that is read forward.

use super::content::Content;
use crate::format::{ReadAt, ended};
use crate::{Error, Result};
use bytes::{Buf as _, Bytes};
use std::cell::RefCell;
use std::collections::VecDeque;

/// Bytes after the position that are received before the length of an archive is asked for. An archive of unknown
/// length that ends within them has a known one; its padding, which is compared with zero, does.
const LOOK_AHEAD_BYTES: u64 = 72 << 10;

/// Content that is read from front to back, as a file that is read at offsets which do not go back.
pub(super) struct ForwardArchive<'a>(RefCell<ForwardContent<'a>>);

struct ForwardContent<'a> {
    content: Content<'a>,
    /// Pieces from the position on, without empty ones.
    pieces: VecDeque<Bytes>,
    at: u64,
    /// Offset of the end of the pieces.
    end: u64,
    /// Bytes of the whole content, if they are known.
    len: Option<u64>,
    /// Failure for the next read.
    failure: Option<Error>,
}

impl<'a> ForwardArchive<'a> {
    /// Content from `at` on, of `len` bytes in all if that is known.
    pub(super) fn new(content: Content<'a>, at: u64, len: Option<u64>) -> Self {
        Self(RefCell::new(ForwardContent { content, pieces: VecDeque::new(), at, end: at, len, failure: None }))
    }

    /// Moves to `offset`, or to the end.
    pub(super) fn move_to(&self, offset: u64) -> Result<()> {
        self.0.borrow_mut().move_to(offset)
    }

    /// Returns the offset of the end of the received bytes.
    pub(super) fn end(&self) -> u64 {
        self.0.borrow().end
    }

    /// Takes the bytes at the position that one piece has, at most `most`; none at the end.
    pub(super) fn take(&self, most: u64) -> Result<Bytes> {
        let inner = &mut *self.0.borrow_mut();
        inner.receive(inner.at + 1)?;
        let Some(piece) = inner.pieces.front_mut() else { return Ok(Bytes::new()) };
        let taken = piece.split_to(piece.len().min(usize::try_from(most).unwrap_or(usize::MAX)));
        if piece.is_empty() {
            inner.pieces.pop_front();
        }
        inner.at += taken.len() as u64;
        Ok(taken)
    }
}

impl ForwardContent<'_> {
    /// Receives pieces up to `end`, or to the end of the content.
    fn receive(&mut self, end: u64) -> Result<()> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        while self.end < end && self.len.is_none_or(|len| self.end < len) {
            match self.content.next()? {
                Some(piece) if piece.is_empty() => {}
                Some(piece) => {
                    self.end += piece.len() as u64;
                    self.pieces.push_back(piece);
                }
                None => self.len = Some(self.end),
            }
        }
        Ok(())
    }

    fn move_to(&mut self, offset: u64) -> Result<()> {
        if offset < self.at {
            return Err(Error::internal("an archive is read backwards"));
        }
        while self.at < offset {
            self.receive(self.at + 1)?;
            let Some(piece) = self.pieces.front_mut() else { return Ok(()) };
            let skipped = (piece.len() as u64).min(offset - self.at);
            piece.advance(skipped as usize);
            if piece.is_empty() {
                self.pieces.pop_front();
            }
            self.at += skipped;
        }
        Ok(())
    }
}

impl ReadAt for ForwardArchive<'_> {
    fn bytes(&self) -> u64 {
        let inner = &mut *self.0.borrow_mut();
        if inner.len.is_none() {
            inner.failure = inner.receive(inner.at + LOOK_AHEAD_BYTES).err();
        }
        inner.len.unwrap_or(u64::MAX)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        let inner = &mut *self.0.borrow_mut();
        inner.move_to(offset)?;
        inner.receive(offset.saturating_add(into.len() as u64))?;
        let mut filled = 0;
        for piece in &inner.pieces {
            let len = piece.len().min(into.len() - filled);
            into[filled..][..len].copy_from_slice(&piece[..len]);
            filled += len;
        }
        if inner.at < offset || filled < into.len() {
            return Err(ended(inner.end));
        }
        Ok(())
    }
}
