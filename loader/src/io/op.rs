//! One read on its way, and what its results mean. Every implementation of [`Reader`](super::Reader) asks here what to
//! read next and reports what came of it.

use super::{Completion, Counters, ReadRequest, ShardFile};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{BLOCK_BYTES, ReadLease, ReadPool};
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Results that bring no byte, in a row: a device that answers EINTR or EAGAIN for ever must not hang the loader.
const FRUITLESS_MAX: u32 = 1000;

/// The longest read in one call: the kernel's own bound is 2^31 - 4,096, and the length of a ring's entry has 32 bits.
const CALL_BYTES_MAX: usize = 1 << 30;

/// A read in progress.
#[derive(Debug)]
pub(super) struct Op {
    file: Arc<ShardFile>,
    lease: ReadLease,
    token: u64,
    /// Position in the file of the sample's first byte.
    offset: u64,
    /// Position in the file of the slot's first byte: `offset`, rounded down for O_DIRECT.
    from: u64,
    /// Bytes of the slot that hold data.
    filled: usize,
    direct: bool,
    fruitless: u32,
}

/// What a result calls for.
#[derive(Debug)]
pub(super) enum Step {
    /// All bytes are there.
    Done,
    /// Read on, from [`Op::next`].
    Again,
    /// No use.
    Failed(Error),
}

/// The next call to make.
pub(super) struct Next<'a> {
    pub fd: BorrowedFd<'a>,
    /// Position in the file.
    pub at: u64,
    pub into: &'a mut [u8],
    /// The pool's piece that `into` lies in.
    pub piece: Option<usize>,
}

impl Op {
    /// Accepts a request.
    ///
    /// # Errors
    ///
    /// The completion, when the range does not lie within the file.
    pub(super) fn new(request: ReadRequest) -> std::result::Result<Self, Completion> {
        let ReadRequest { file, offset, into, token } = request;
        if offset.checked_add(into.len() as u64).is_none_or(|end| end > file.len()) {
            let error = Error::format("a sample lies behind the end of its shard")
                .with("path", file.path().display())
                .with("offset", offset)
                .with("sample_bytes", into.len())
                .with("file_bytes", file.len());
            return Err(Completion { token, result: Err(error) });
        }
        let mut op = Self { file, lease: into, token, offset, from: offset, filled: 0, direct: false, fruitless: 0 };
        op.lease.set_start(0);
        Ok(op)
    }

    /// Copies the bytes out of the page cache if it has them all; true then, and the read is done.
    pub(super) fn try_cached(&mut self) -> bool {
        let len = self.lease.len();
        self.filled = self.file.copy_cached(self.offset, &mut [IoSliceMut::new(self.lease.bytes_mut())]);
        self.filled >= len
    }

    /// Prepares for the disk after the page cache did not have everything.
    pub(super) fn begin(&mut self) {
        if self.filled > 0 || !self.file.is_direct() {
            // What the page cache gave is kept: a part of the range is there, so the rest is close.
            return;
        }
        self.direct = true;
        self.from = self.offset - self.offset % BLOCK_BYTES as u64;
        self.lease.set_start((self.offset - self.from) as usize);
    }

    /// Bytes of the slot that the sample needs.
    fn needed(&self) -> usize {
        (self.offset - self.from) as usize + self.lease.len()
    }

    /// The call to make now.
    pub(super) fn next(&mut self) -> Next<'_> {
        let direct = if self.direct { self.file.direct() } else { None };
        let (fd, end) = match direct {
            // A tail that ends behind the file is legal and comes back short.
            Some(fd) => (fd, self.needed().next_multiple_of(BLOCK_BYTES)),
            None => (self.file.buffered(), self.needed()),
        };
        let end = end.min(self.filled + CALL_BYTES_MAX);
        let piece = self.lease.piece();
        let at = self.from + self.filled as u64;
        Next { fd, at, into: &mut self.lease.slot_mut()[self.filled..end], piece }
    }

    /// Takes the result of the call that [`next`](Self::next) described.
    pub(super) fn step(&mut self, result: rustix::io::Result<usize>) -> Step {
        match result {
            Ok(0) => Step::Failed(self.error(
                ErrorKind::Format,
                "a shard ends before its sample: it was cut short after it was opened",
                None,
            )),
            Ok(read) => {
                self.fruitless = 0;
                self.filled += read;
                if self.filled >= self.needed() {
                    return Step::Done;
                }
                // Short. O_DIRECT goes on only from a block boundary.
                if !self.filled.is_multiple_of(BLOCK_BYTES) {
                    self.direct = false;
                }
                Step::Again
            }
            Err(errno) => self.refused(errno),
        }
    }

    /// Every error number that a read can bring.
    fn refused(&mut self, errno: Errno) -> Step {
        self.fruitless += 1;
        let (kind, text) = match errno {
            // Interrupted, or a queue full for the moment.
            Errno::INTR | Errno::AGAIN if self.fruitless <= FRUITLESS_MAX => return Step::Again,
            // O_DIRECT refused: by a stricter alignment than announced, or by the file system.
            Errno::INVAL | Errno::OPNOTSUPP if self.direct => {
                self.file.directory().refuse_direct();
                self.direct = false;
                return Step::Again;
            }
            Errno::INTR | Errno::AGAIN => (ErrorKind::Io, "a read was interrupted again and again"),
            Errno::IO => (ErrorKind::Io, "the disk cannot read a shard: check the kernel's log, then remove the file"),
            Errno::NOMEM | Errno::NOBUFS => (ErrorKind::Full, "the kernel has no memory for a read: lower `memory`"),
            Errno::STALE => (ErrorKind::Io, "a shard was replaced on the file server while it was open"),
            Errno::ACCESS | Errno::PERM => (ErrorKind::Permission, "reading a shard is refused"),
            Errno::CANCELED => (ErrorKind::Closed, "a read was cancelled"),
            Errno::TIMEDOUT => (ErrorKind::Io, "the file server did not answer a read"),
            Errno::ISDIR => (ErrorKind::Format, "a shard is a folder"),
            // Each of these is a mistake of ours: descriptor, address or length.
            Errno::BADF | Errno::FAULT | Errno::INVAL | Errno::OVERFLOW | Errno::SPIPE | Errno::NXIO => {
                (ErrorKind::Internal, "a read was put to the kernel wrongly")
            }
            _ => (ErrorKind::Io, "a shard cannot be read"),
        };
        Step::Failed(self.error(kind, text, Some(errno)))
    }

    fn error(&self, kind: ErrorKind, text: &str, errno: Option<Errno>) -> Error {
        let error = Error::new(kind, text)
            .with("path", self.file.path().display())
            .with("offset", self.offset)
            .with("sample_bytes", self.lease.len());
        match errno {
            Some(errno) => error.caused_by(std::io::Error::from(errno)),
            None => error,
        }
    }

    /// Reads to the end on the calling thread.
    pub(super) fn run(&mut self, counters: &Counters) -> Result<()> {
        loop {
            let next = self.next();
            let result = rustix::io::pread(next.fd, next.into, next.at);
            match self.step(result) {
                Step::Done => return Ok(()),
                Step::Again => counters.again.add(1),
                Step::Failed(e) => return Err(e),
            }
        }
    }

    pub(super) fn is_direct(&self) -> bool {
        self.direct
    }

    /// Whether the slot is one of `pool`'s, so that its piece is a piece of that pool.
    pub(super) fn is_from(&self, pool: &ReadPool) -> bool {
        self.lease.is_from(pool)
    }

    /// Whether there is nothing to read.
    pub(super) fn is_empty(&self) -> bool {
        self.lease.is_empty()
    }

    /// The completion of a read that is done.
    pub(super) fn finish(self, result: Result<()>) -> Completion {
        Completion { token: self.token, result: result.map(|()| self.lease) }
    }
}

/// What `submit` says when the caller has not looked at `room`.
pub(super) fn no_room(depth: usize) -> Error {
    Error::internal("more reads were submitted than may be in flight").with("depth", depth)
}
