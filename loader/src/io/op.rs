//! One read in flight, and the interpretation of its results. Every [`Reader`](super::Reader) gets the next call from
//! here and reports its result.

use super::file::ShardFile;
use super::reader::{Completion, Counters, ReadRequest};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{BLOCK_BYTES, ReadLease};
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Most results in a row without a byte: a device that returns EINTR or EAGAIN forever must not hang the loader.
const RETRIES_MAX: u32 = 1000;

/// Longest read in one call: the kernel's own bound is 2^31 - 4,096, and the length of a ring's entry has 32 bits.
const CALL_BYTES_MAX: usize = 1 << 30;

/// Read in progress.
#[derive(Debug)]
pub(super) struct ReadOp {
    file: Arc<ShardFile>,
    pub(super) lease: ReadLease,
    token: u64,
    /// Offset of the sample's first byte in the file.
    offset: u64,
    /// Offset of the slot's first byte in the file: `offset`, rounded down for O_DIRECT.
    from: u64,
    /// Bytes of the slot that are filled.
    filled: usize,
    /// The read goes past the page cache.
    pub(super) direct: bool,
    retries: u32,
}

#[derive(Debug)]
pub(super) enum Step {
    Done,
    /// Make the next call, [`ReadOp::next`].
    Continue,
    Failed(Error),
}

pub(super) struct NextCall<'a> {
    pub fd: BorrowedFd<'a>,
    /// Offset in the file.
    pub at: u64,
    pub into: &'a mut [u8],
    /// Piece of the pool that contains `into`.
    pub piece: Option<usize>,
}

impl ReadOp {
    /// Accepts a request, or returns its completion when the range is not within the file.
    pub(super) fn new(request: ReadRequest) -> std::result::Result<Self, Completion> {
        let ReadRequest { file, offset, into, token } = request;
        if offset.checked_add(into.len() as u64).is_none_or(|end| end > file.len()) {
            let error = Error::format("a sample is beyond the end of its shard")
                .with("path", file.path().display())
                .with("offset", offset)
                .with("sample_bytes", into.len())
                .with("file_bytes", file.len());
            return Err(Completion { token, result: Err(error) });
        }
        let mut op = Self { file, lease: into, token, offset, from: offset, filled: 0, direct: false, retries: 0 };
        op.lease.set_start(0);
        Ok(op)
    }

    /// Copies the bytes from the page cache if it has them all, and returns true if that completes the read.
    pub(super) fn try_cached(&mut self) -> bool {
        let len = self.lease.len();
        self.filled = self.file.copy_cached(self.offset, &mut [IoSliceMut::new(self.lease.bytes_mut())]);
        self.filled >= len
    }

    /// Prepares for the disk, because the page cache did not have everything.
    pub(super) fn begin(&mut self) {
        if self.filled > 0 || !self.file.is_direct() {
            // A partial read from the page cache is kept, and the rest is read through the page cache too.
            return;
        }
        self.direct = true;
        self.from = self.offset - self.offset % BLOCK_BYTES as u64;
        self.lease.set_start((self.offset - self.from) as usize);
    }

    /// Returns the bytes of the slot that the sample needs.
    fn needed(&self) -> usize {
        (self.offset - self.from) as usize + self.lease.len()
    }

    pub(super) fn next(&mut self) -> NextCall<'_> {
        let direct = if self.direct { self.file.direct() } else { None };
        let (fd, end) = match direct {
            // A tail beyond the end of the file is legal and results in a short read.
            Some(fd) => (fd, self.needed().next_multiple_of(BLOCK_BYTES)),
            None => (self.file.buffered(), self.needed()),
        };
        let end = end.min(self.filled + CALL_BYTES_MAX);
        let piece = self.lease.piece();
        let at = self.from + self.filled as u64;
        NextCall { fd, at, into: &mut self.lease.slot_mut()[self.filled..end], piece }
    }

    /// Interprets the result of the call from [`next`](Self::next).
    pub(super) fn step(&mut self, result: rustix::io::Result<usize>) -> Step {
        match result {
            Ok(0) => {
                let why = "a shard ends before its sample: it was cut short after it was opened";
                Step::Failed(self.describe(Error::format(why)))
            }
            Ok(read) => {
                self.retries = 0;
                self.filled += read;
                if self.filled >= self.needed() {
                    return Step::Done;
                }
                // A short read. O_DIRECT continues only from a block boundary.
                if !self.filled.is_multiple_of(BLOCK_BYTES) {
                    self.direct = false;
                }
                Step::Continue
            }
            Err(errno) => self.failed(errno),
        }
    }

    fn failed(&mut self, errno: Errno) -> Step {
        self.retries += 1;
        let (kind, text) = match errno {
            // Interrupted, or a queue full for the moment.
            Errno::INTR | Errno::AGAIN if self.retries <= RETRIES_MAX => return Step::Continue,
            // O_DIRECT needs a stricter alignment than announced, or the file system does not support it.
            Errno::INVAL | Errno::OPNOTSUPP if self.direct => {
                self.file.features().disable_direct();
                self.direct = false;
                return Step::Continue;
            }
            Errno::INTR | Errno::AGAIN => (ErrorKind::Io, "a read was interrupted too often"),
            Errno::IO => (ErrorKind::Io, "the disk cannot read a shard: check the kernel's log, then remove the file"),
            Errno::NOMEM | Errno::NOBUFS => (ErrorKind::Full, "the kernel has no memory for a read: lower `memory`"),
            Errno::STALE => (ErrorKind::Io, "a shard was replaced on the file server while it was open"),
            Errno::ACCESS | Errno::PERM => (ErrorKind::Permission, "the system denies reading a shard"),
            Errno::CANCELED => (ErrorKind::Closed, "a read was cancelled"),
            Errno::TIMEDOUT => (ErrorKind::Io, "the file server did not answer a read"),
            Errno::ISDIR => (ErrorKind::Format, "a shard is a folder"),
            // Each of these is a bug here: descriptor, address or length.
            Errno::BADF | Errno::FAULT | Errno::INVAL | Errno::OVERFLOW | Errno::SPIPE | Errno::NXIO => {
                (ErrorKind::Internal, "a read was passed to the kernel with wrong arguments")
            }
            _ => (ErrorKind::Io, "a shard cannot be read"),
        };
        Step::Failed(self.describe(Error::from_io(errno.into(), text).of_kind(kind)))
    }

    fn describe(&self, error: Error) -> Error {
        error
            .with("path", self.file.path().display())
            .with("offset", self.offset)
            .with("sample_bytes", self.lease.len())
    }

    /// Completes the read on the calling thread.
    pub(super) fn run(&mut self, counters: &Counters) -> Result<()> {
        loop {
            let next = self.next();
            let result = rustix::io::pread(next.fd, next.into, next.at);
            match self.step(result) {
                Step::Done => return Ok(()),
                Step::Continue => counters.continued.add(1),
                Step::Failed(e) => return Err(e),
            }
        }
    }

    pub(super) fn finish(self, result: Result<()>) -> Completion {
        Completion { token: self.token, result: result.map(|()| self.lease) }
    }
}

/// Returns the error of a `submit` without `room`.
pub(super) fn no_room(depth: usize) -> Error {
    Error::internal("more reads were submitted than may be in flight").with("depth", depth)
}
