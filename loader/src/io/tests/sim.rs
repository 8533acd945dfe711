//! Reader with scripted order and faults: one seed replays a run.
//!
//! It reads real files, one call at a time, inside `wait`, in an order drawn from the seed, and the script replaces the
//! results of calls. Time does not pass: a wait that nothing can end returns at once, as if its limit had passed.

use crate::error::Result;
use crate::io::op::{ReadOp, Step, no_room};
use crate::io::reader::{Completion, Counters, ReadRequest, Reader};
use crate::stats::Stats;
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Result of a call instead of its success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The call fails with this error number.
    Errno(i32),
    /// The call reads at most this many bytes.
    Short(usize),
    /// The call never returns, and neither do later ones of the same read.
    Stall,
}

/// Faults of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    /// Seed of the order of completion.
    pub(super) seed: u64,
    /// Faults by the number of the call, counted from 0 over all reads.
    pub(super) faults: BTreeMap<u64, Fault>,
}

/// Reader of simulated runs.
pub(super) struct SimReader {
    depth: usize,
    script: Script,
    /// State of the generator.
    draws: u64,
    /// Calls made so far.
    calls: u64,
    running: Vec<ReadOp>,
    stalled: Vec<ReadOp>,
    ready: VecDeque<Completion>,
    counters: Counters,
}

impl SimReader {
    /// Creates a reader with `depth` reads in flight that follows `script`.
    pub(super) fn new(depth: usize, script: Script, stats: &Stats) -> Self {
        Self {
            depth,
            draws: script.seed,
            script,
            calls: 0,
            running: Vec::new(),
            stalled: Vec::new(),
            ready: VecDeque::new(),
            counters: Counters::new(stats),
        }
    }

    /// Returns the number of calls so far.
    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    /// Draws a number below `below` (splitmix64).
    fn draw(&mut self, below: usize) -> usize {
        self.draws = self.draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.draws;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % below as u64) as usize
    }

    /// Makes one call of one read.
    fn turn(&mut self) {
        let at = self.draw(self.running.len());
        let fault = self.script.faults.get(&self.calls).copied();
        self.calls += 1;
        let op = &mut self.running[at];
        let next = op.next();
        let result = match fault {
            Some(Fault::Stall) => {
                let op = self.running.swap_remove(at);
                return self.stalled.push(op);
            }
            Some(Fault::Errno(number)) => Err(Errno::from_raw_os_error(number)),
            Some(Fault::Short(bytes)) => {
                let len = next.into.len().min(bytes);
                rustix::io::pread(next.fd, &mut next.into[..len], next.at)
            }
            None => rustix::io::pread(next.fd, next.into, next.at),
        };
        let result = match op.step(result) {
            Step::Continue => return self.counters.continued.add(1),
            Step::Done => Ok(()),
            Step::Failed(e) => Err(e),
        };
        let op = self.running.swap_remove(at);
        self.ready.push_back(op.finish(result));
    }
}

impl Reader for SimReader {
    fn room(&self) -> usize {
        self.depth - self.in_flight()
    }

    fn in_flight(&self) -> usize {
        self.running.len() + self.stalled.len() + self.ready.len()
    }

    fn ready(&self) -> usize {
        self.ready.len()
    }

    fn submit(&mut self, request: ReadRequest) -> Result<()> {
        if self.room() == 0 {
            return Err(no_room(self.depth));
        }
        match ReadOp::new(request) {
            Err(completion) => self.ready.push_back(completion),
            Ok(op) if op.lease.is_empty() => self.ready.push_back(op.finish(Ok(()))),
            Ok(mut op) => {
                op.begin();
                if op.direct {
                    self.counters.direct.add(1)
                } else {
                    self.counters.buffered.add(1)
                }
                self.running.push(op);
            }
        }
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<Completion>, _limit: Duration) -> Result<usize> {
        while self.ready.is_empty() && !self.running.is_empty() {
            self.turn();
        }
        let before = done.len();
        done.extend(self.ready.drain(..));
        Ok(done.len() - before)
    }

    fn name(&self) -> &'static str {
        "sim"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::io::{DirFeatures, ShardFile};
    use crate::memory::{ReadLease, ReadPool, ReadPoolConfig};
    use std::sync::Arc;

    /// Reads `len` bytes at `offset` of a file of 40,000 counted bytes. Returns the result and the number of calls.
    fn one(directory: &Arc<DirFeatures>, offset: u64, len: usize, faults: &[(u64, Fault)]) -> (Result<ReadLease>, u64) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), (0..40_000_u32).map(|i| (i % 253) as u8).collect::<Vec<_>>()).unwrap();
        let pool =
            ReadPool::new(&ReadPoolConfig { bytes: 1 << 20, populate: false, ..Default::default() }, None).unwrap();
        let script = Script { seed: 1, faults: faults.iter().copied().collect() };
        let mut reader = SimReader::new(4, script, &Stats::default());
        let file = Arc::new(ShardFile::open(file.path(), directory).unwrap());
        reader.submit(ReadRequest { file, offset, into: pool.lease(len).unwrap(), token: 9 }).unwrap();
        let mut done = Vec::new();
        reader.wait(&mut done, Duration::ZERO).unwrap();
        let completion = done.pop().unwrap();
        assert_eq!(completion.token, 9);
        (completion.result, reader.calls())
    }

    fn is_right(lease: &ReadLease, offset: u64) -> bool {
        lease.iter().enumerate().all(|(i, b)| *b == ((offset + i as u64) % 253) as u8)
    }

    #[test]
    fn a_short_read_is_continued() {
        for directory in [DirFeatures::new(), DirFeatures::buffered_only()] {
            // 4,096 keeps a direct read aligned, 1,000 does not.
            for short in [4096, 1000, 1] {
                let (result, calls) = one(&directory, 5_001, 20_000, &[(0, Fault::Short(short))]);
                assert!(is_right(&result.unwrap(), 5_001), "after {short}");
                assert_eq!(calls, 2);
            }
        }
    }

    #[test]
    fn an_interrupted_read_is_repeated_but_not_without_end() {
        let (result, calls) = one(&DirFeatures::new(), 7, 100, &[(0, Fault::Errno(libc::EINTR))]);
        assert!(is_right(&result.unwrap(), 7));
        assert_eq!(calls, 2);
        let endless: Vec<_> = (0..5000).map(|i| (i, Fault::Errno(libc::EAGAIN))).collect();
        let (result, calls) = one(&DirFeatures::new(), 7, 100, &endless);
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(calls, 1001);
    }

    #[test]
    fn einval_turns_o_direct_off_for_the_folder_and_the_read_succeeds() {
        let directory = DirFeatures::new();
        let (result, calls) = one(&directory, 5_001, 20_000, &[(0, Fault::Errno(libc::EINVAL))]);
        if calls == 1 {
            eprintln!("skipped: this folder has no O_DIRECT");
            return;
        }
        assert!(is_right(&result.unwrap(), 5_001));
        assert!(!directory.is_direct());
        let (result, _) = one(&directory, 0, 10, &[(0, Fault::Errno(libc::EINVAL))]);
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Internal, "without O_DIRECT it is a bug here");
    }

    #[test]
    fn every_error_number_has_its_kind_and_names_the_file() {
        for (number, kind) in [
            (libc::EIO, ErrorKind::Io),
            (libc::ENOMEM, ErrorKind::Full),
            (libc::ESTALE, ErrorKind::Io),
            (libc::EACCES, ErrorKind::Permission),
            (libc::EBADF, ErrorKind::Internal),
            (libc::EFAULT, ErrorKind::Internal),
            (libc::ECANCELED, ErrorKind::Closed),
            (libc::ETIMEDOUT, ErrorKind::Io),
            (libc::EISDIR, ErrorKind::Format),
            (libc::ENODEV, ErrorKind::Io),
        ] {
            let e = one(&DirFeatures::new(), 0, 100, &[(0, Fault::Errno(number))]).0.unwrap_err();
            assert_eq!(e.kind(), kind, "{number}");
            assert!(e.to_string().contains("path /"), "{e}");
        }
    }

    #[test]
    fn a_stalled_read_does_not_block_the_rest_and_returns_its_slot_in_the_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [1; 1000]).unwrap();
        let pool =
            ReadPool::new(&ReadPoolConfig { bytes: 1 << 20, populate: false, ..Default::default() }, None).unwrap();
        let script = Script { seed: 3, faults: BTreeMap::from([(0, Fault::Stall)]) };
        let mut reader = SimReader::new(4, script, &Stats::default());
        let file = Arc::new(ShardFile::open(file.path(), &DirFeatures::new()).unwrap());
        for token in 0..4 {
            let into = pool.lease(10).unwrap();
            reader.submit(ReadRequest { file: file.clone(), offset: token, into, token }).unwrap();
        }
        let mut done = Vec::new();
        while reader.wait(&mut done, Duration::MAX).unwrap() > 0 {}
        assert_eq!((done.len(), reader.in_flight()), (3, 1));
        drop((done, reader));
        assert!(pool.is_whole());
    }

    #[test]
    fn one_seed_replays_an_order() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [1; 1000]).unwrap();
        let order = |seed| {
            let config = ReadPoolConfig { bytes: 1 << 20, populate: false, ..Default::default() };
            let pool = ReadPool::new(&config, None).unwrap();
            let mut reader = SimReader::new(16, Script { seed, ..Default::default() }, &Stats::default());
            let file = Arc::new(ShardFile::open(file.path(), &DirFeatures::new()).unwrap());
            for token in 0..16 {
                let into = pool.lease(10).unwrap();
                reader.submit(ReadRequest { file: file.clone(), offset: token, into, token }).unwrap();
            }
            let mut done = Vec::new();
            while reader.wait(&mut done, Duration::MAX).unwrap() > 0 {}
            done.into_iter().map(|c| c.token).collect::<Vec<_>>()
        };
        assert_eq!(order(5), order(5));
        assert_ne!(order(5), order(6));
    }
}
