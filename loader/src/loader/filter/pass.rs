//! Pass over the shards of a stream without known answers, several at once.

use super::answer::Answer;
use super::kept::KeptAnswers;
use crate::cache::{Turn, WaitPolicy, show_progress, take_turn};
use crate::catalog::name_of_shard;
use crate::clock::Clock;
use crate::error::{Context, Error, Result};
use crate::format::Shard;
use crate::pipeline::Run;
use crate::stats::Counter;
use crate::sync::{AtomicUsize, Ordering, in_threads};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Time after which a thread shows its progress again: the processes that wait read the new records then.
const SHOWN_EVERY: Duration = Duration::from_millis(500);

/// Parts of a pass after which the log has its progress.
const REPORTS: usize = 10;

/// Pass over the shards of a stream.
pub(super) struct Pass<'a> {
    /// Name of the stream.
    pub(super) name: &'a str,
    /// The question in a message.
    pub(super) question: &'a str,
    /// All shards of the stream.
    pub(super) shards: &'a [Shard],
    /// Numbers of the shards with samples that the remaining conditions keep.
    pub(super) needed: &'a [u32],
    pub(super) answer: &'a dyn Answer,
    pub(super) kept: &'a KeptAnswers,
    /// Stopped by the first error.
    pub(super) run: &'a Run,
    /// Threads that may work.
    pub(super) threads: usize,
    pub(super) clock: Clock,
    /// Time without progress after which a wait for a different process ends.
    pub(super) stall_timeout: Duration,
    /// Shards that were read.
    pub(super) read: &'a Counter,
}

impl Pass<'_> {
    /// Reads the shards that are needed. One process of a machine reads, and the rest wait for it.
    ///
    /// # Errors
    ///
    /// Errors of the shards, and of the wait.
    pub(super) fn run(&self) -> Result<()> {
        if self.missing().is_empty() {
            return Ok(());
        }
        let Some(folder) = self.kept.folder() else { return self.read_missing() };
        // A folder that cannot be made has no lock.
        let _ = std::fs::create_dir_all(folder);
        let awaited = || format!("the columns of {}, which a different process reads of {}", self.question, self.name);
        let made = || {
            self.kept.read_again();
            Ok(self.missing().is_empty().then_some(()))
        };
        let never = || false;
        match take_turn(folder, &self.clock, WaitPolicy::new(&never, self.stall_timeout), &awaited, made)? {
            Turn::Made(()) => Ok(()),
            Turn::Own(_lock) => {
                self.kept.write_alone();
                self.read_missing()
            }
            Turn::Unlocked => self.read_missing(),
        }
    }

    fn missing(&self) -> Vec<u32> {
        self.needed.iter().copied().filter(|shard| !self.kept.has(*shard)).collect()
    }

    fn read_missing(&self) -> Result<()> {
        let missing = self.missing();
        log::info!("{} reads {} shards of {}", self.question, missing.len(), self.name);
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let read = || -> Result<()> {
            while !self.run.is_stopped() {
                // Relaxed: each number is taken once, and nothing else depends on it.
                let Some(shard) = missing.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                self.read(*shard).inspect_err(|_| self.run.stop())?;
                self.report(done.fetch_add(1, Ordering::Relaxed) + 1, missing.len());
            }
            Ok(())
        };
        let threads = self.threads.clamp(1, missing.len());
        let panicked = |_| Err(Error::internal("reading the columns of a question panicked"));
        // All of them, so that the first error comes from a shard and not from the stop.
        let ended = in_threads(threads, read).into_iter().map(|ended| ended.unwrap_or_else(panicked));
        let is_echo = |e: &Error| e.kind() == crate::error::ErrorKind::Closed;
        let mut failed: Vec<Error> = ended.filter_map(Result::err).collect();
        failed.sort_by_key(is_echo);
        failed.into_iter().next().map_or(Ok(()), Err)
    }

    fn read(&self, number: u32) -> Result<()> {
        let shard = &self.shards[number as usize];
        let shown = Cell::new(None);
        let progress = || {
            if shown.get().is_none_or(|at: Instant| at.elapsed() >= SHOWN_EVERY) {
                self.show();
                shown.set(Some(Instant::now()));
            }
        };
        let bits = self.answer.of_shard(number, &progress).context("shard", || name_of_shard(shard))?;
        self.read.add(1);
        self.kept.add(number, bits)?;
        self.show();
        Ok(())
    }

    /// Shows processes that wait that this one makes progress, in steps smaller than a shard.
    fn show(&self) {
        if let Some(folder) = self.kept.folder() {
            show_progress(folder);
        }
    }

    fn report(&self, done: usize, all: usize) {
        let part = |done: usize| done * REPORTS / all;
        if part(done) > part(done - 1) {
            log::info!("{} has read {done} of {all} shards of {}", self.question, self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::Bits;
    use super::*;
    use crate::format::{Digests, FileInfo, Layout};
    use crate::stats::Stats;
    use std::path::PathBuf;
    use std::time::SystemTime;

    /// Answer that looks at its folder while it reads.
    struct Watched {
        folder: PathBuf,
    }

    impl Answer for Watched {
        fn of_shard(&self, _: u32, progress: &dyn Fn()) -> Result<Bits> {
            let folder = std::fs::File::open(&self.folder).expect("folder");
            folder.set_modified(SystemTime::UNIX_EPOCH).expect("set");
            progress();
            assert_ne!(folder.metadata().and_then(|found| found.modified()).expect("time"), SystemTime::UNIX_EPOCH);
            let mut bits = Bits::new(1);
            bits.push(true);
            Ok(bits)
        }
    }

    #[test]
    fn a_pass_shows_its_progress_within_a_shard() {
        let folder = tempfile::tempdir().expect("folder");
        let folder = folder.path().to_owned();
        let raw_data = FileInfo { basename: "0.mds".into(), bytes: 1, hashes: Digests::default() };
        let shards = [Shard::new(Layout::mds([]).expect("layout").into(), 1, raw_data)];
        let kept = KeptAnswers::open(Some(folder.clone()), &[1]).expect("room");
        let answer = Watched { folder: folder.clone() };
        let pass = Pass {
            name: "set",
            question: "a filter",
            shards: &shards,
            needed: &[0],
            answer: &answer,
            kept: &kept,
            run: &Run::new(),
            threads: 1,
            clock: Clock::system(),
            stall_timeout: Duration::from_secs(60),
            read: &Stats::default().counter("filter_shards_read"),
        };
        pass.run().expect("read");
        assert!(kept.has(0));
    }
}
