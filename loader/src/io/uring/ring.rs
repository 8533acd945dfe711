//! The ring: every call to the kernel, and the arguments for its safety.

use super::super::op::NextCall;
use super::refusal::{setup_error, unknown_to_kernel};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Piece;
use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// `user_data` of the probe's empty operation.
const PING: u64 = u64::MAX;

/// Ring with its fixed buffers.
///
/// Invariants: `ring` is closed before `pieces` are released (fields drop in order), so a registered piece is mapped
/// for as long as it is registered. A call enters the ring only for a slot and a descriptor that the in-flight table
/// owns, and the table releases them only when `wait` has returned the call's result.
pub(super) struct Ring {
    ring: IoUring,
    /// Pieces to register, in the pool's order.
    pieces: Vec<Piece>,
    /// Number of registered pieces, which are the first ones.
    pub(super) registered: usize,
    /// A registration has failed, so no more are tried.
    has_failed: bool,
    enabled: bool,
}

impl Ring {
    /// Creates a ring of `entries`, disabled until its thread enables it.
    pub(super) fn new(entries: u32, pieces: Vec<Piece>) -> Result<Self> {
        let mut best = IoUring::builder();
        // One thread submits, and completions run when it waits (Linux 6.1), without interrupting decoder threads.
        best.setup_single_issuer().setup_defer_taskrun().setup_r_disabled();
        let mut plain = IoUring::builder();
        plain.setup_r_disabled();
        // The last one is for sandboxes that support no flags at all.
        for (builder, enabled) in [(best, false), (plain, false), (IoUring::builder(), true)] {
            match builder.build(entries) {
                // Waiting with a limit needs EXT_ARG (Linux 5.11), and losing completions needs a kernel before NODROP.
                Ok(ring) if ring.params().is_feature_ext_arg() && ring.params().is_feature_nodrop() => {
                    return Ok(Self { ring, pieces, registered: 0, has_failed: false, enabled });
                }
                Ok(_) => {}
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {}
                Err(e) => return Err(setup_error(e)),
            }
        }
        Err(unknown_to_kernel())
    }

    /// Binds the ring to the calling thread; further calls do nothing.
    pub(super) fn enable(&mut self) -> Result<()> {
        if self.enabled {
            return Ok(());
        }
        self.ring.submitter().register_enable_rings().map_err(setup_error)?;
        self.enabled = true;
        if !self.pieces.is_empty()
            && let Err(e) = self.ring.submitter().register_buffers_sparse(self.pieces.len() as u32)
        {
            log::debug!("no table of fixed buffers: {e}");
            self.has_failed = true;
        }
        Ok(())
    }

    /// Checks that the kernel supports the operations in use.
    pub(super) fn check_operations(&self) -> Result<()> {
        let mut probe = io_uring::Probe::new();
        self.ring.submitter().register_probe(&mut probe).map_err(setup_error)?;
        if probe.is_supported(opcode::Read::CODE) && probe.is_supported(opcode::ReadFixed::CODE) {
            Ok(())
        } else {
            Err(unknown_to_kernel())
        }
    }

    pub(super) fn ping(&mut self) -> Result<()> {
        self.enable()?;
        let entry = opcode::Nop::new().build().user_data(PING);
        // SAFETY: an empty operation refers to nothing.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| Error::internal("a new ring is full"))?;
        self.ring.submit_and_wait(1).map_err(setup_error)?;
        match self.ring.completion().next() {
            Some(done) if done.user_data() == PING && done.result() >= 0 => Ok(()),
            _ => Err(unknown_to_kernel()),
        }
    }

    /// Registers the next piece if it is populated. A failure is returned as a note, and not tried again.
    pub(super) fn register_next(&mut self) -> std::result::Result<(), String> {
        let Some(piece) = self.pieces.get(self.registered).filter(|p| !self.has_failed && p.is_populated()) else {
            return Ok(());
        };
        let buffer = libc::iovec { iov_base: piece.ptr().as_ptr().cast(), iov_len: piece.len() };
        // SAFETY: the piece is mapped while `self` lives, and the ring is closed before, by the type's invariant.
        let result = unsafe { self.ring.submitter().register_buffers_update(self.registered as u32, &[buffer], None) };
        match result {
            Ok(()) => {
                self.registered += 1;
                Ok(())
            }
            Err(e) => {
                self.has_failed = true;
                let text = match e.raw_os_error() {
                    Some(libc::ENOMEM | libc::EPERM) => {
                        "read slots are not registered with io_uring: raise RLIMIT_MEMLOCK (ulimit -l) to the size of \
                         `memory`"
                    }
                    // EFAULT, EOPNOTSUPP: pages that cannot be pinned; EINVAL: a kernel before 5.13.
                    _ => "read slots are not registered with io_uring",
                };
                Err(format!("{text} ({e}); reads cost 1 to 3 % more CPU"))
            }
        }
    }

    /// Puts a read into the ring; false if the ring is full.
    ///
    /// # Safety
    ///
    /// The slot of `next.into` and the file must stay alive and otherwise unused until `wait` has returned a result for
    /// `index`.
    pub(super) unsafe fn push(&mut self, index: u32, next: NextCall<'_>) -> bool {
        let fd = types::Fd(next.fd.as_raw_fd());
        // No call is longer than 1 GiB (`ReadOp::next`).
        let (ptr, len) = (next.into.as_mut_ptr(), next.into.len() as u32);
        let entry = match next.piece.filter(|piece| *piece < self.registered) {
            Some(piece) => opcode::ReadFixed::new(fd, ptr, len, piece as u16).offset(next.at).build(),
            None => opcode::Read::new(fd, ptr, len).offset(next.at).build(),
        };
        // SAFETY: the memory and the descriptor stay valid until the result is there, by this function's contract.
        unsafe { self.ring.submission().push(&entry.user_data(u64::from(index))) }.is_ok()
    }

    /// Submits the calls to the kernel, waits for a result until `until` (`None`: not at all), and appends all results.
    pub(super) fn wait(
        &mut self,
        until: Option<Instant>,
        results: &mut Vec<(u32, rustix::io::Result<usize>)>,
    ) -> Result<()> {
        let before = results.len();
        loop {
            self.reap(results);
            let want = usize::from(results.len() == before && until.is_some());
            let limit = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
            let time = types::Timespec::from(limit);
            // Without a wait the limit is zero, which still runs the kernel's deferred work (DEFER_TASKRUN).
            let args = types::SubmitArgs::new().timespec(&time);
            let entered = self.ring.submitter().submit_with_args(1, &args);
            self.reap(results);
            match entered {
                Ok(_) => {}
                Err(e) => match e.raw_os_error() {
                    // ETIME: the limit has passed.
                    Some(libc::ETIME) => return Ok(()),
                    // EINTR: a signal. EAGAIN, EBUSY: the kernel has no room until results are taken.
                    Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => {}
                    // EEXIST: the calling thread is not the first one that used the ring.
                    Some(libc::EEXIST) => {
                        return Err(Error::internal("a reader was used on two threads").caused_by(e));
                    }
                    _ => return Err(Error::new(ErrorKind::Io, "io_uring fails").caused_by(e)),
                },
            }
            if want == 0 || results.len() > before || until.is_none_or(|until| Instant::now() >= until) {
                return Ok(());
            }
        }
    }

    /// Takes results out of the ring. This is the only function that interprets the sign of a result.
    fn reap(&mut self, results: &mut Vec<(u32, rustix::io::Result<usize>)>) {
        for done in self.ring.completion() {
            let result = match done.result() {
                read if read >= 0 => Ok(read as usize),
                errno => Err(Errno::from_raw_os_error(errno.saturating_neg())),
            };
            results.push((done.user_data() as u32, result));
        }
    }
}
