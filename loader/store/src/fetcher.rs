//! Interface for schemes that the engine does not support: the embedding program fetches whole files.

use super::source::PROGRESS_BYTES;
use super::ticket::Progress;
use crate::{Error, ErrorKind, Result};
use forebay_core::clock::Clock;
use forebay_core::error::Context as _;
use forebay_core::sync::Mutex;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::time::Duration;

/// Longest time without further [`PROGRESS_BYTES`]: a fetcher may have no limit.
const IDLE_MAX: Duration = Duration::from_secs(600);

/// Most bytes on disk during a fetch, in addition to twice the file: a fetcher may keep parts and the file assembled
/// from them, and a few more files.
const EXTRA_BYTES_MAX: u64 = 64 << 20;

/// Fetches files of one remote without the engine's transports, for example with a cloud's own library in a different
/// language. The files are checked, unpacked and published like all files.
pub trait Fetcher: fmt::Debug + Send + Sync {
    /// Fetches the whole file `key`, a path relative to the remote, including any retries. Returns it open at its
    /// beginning.
    ///
    /// `watch` is called several times a second with the status. Its error cancels the fetch and is returned.
    ///
    /// # Errors
    ///
    /// The error of the last attempt.
    fn fetch(&self, key: &str, watch: &dyn Fn(FetchStatus) -> Result<()>) -> Result<File>;
}

/// Status of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchStatus {
    /// It waits for earlier fetches, which make progress or fail within their own limits.
    Queued,
    /// It has begun.
    Running {
        /// Bytes that have arrived, as far as that is visible.
        bytes: u64,
    },
}

/// Expected length of a file.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    /// Exactly this many bytes.
    Exactly(u64),
    /// Unknown, at most this many bytes.
    AtMost(u64),
}

impl Length {
    fn max(self) -> u64 {
        match self {
            Self::Exactly(bytes) | Self::AtMost(bytes) => bytes,
        }
    }

    fn check(self, bytes: u64) -> Result<()> {
        let why = match self {
            Self::Exactly(expected) if bytes != expected => {
                format!("the object has {bytes} bytes, and {expected} were expected")
            }
            Self::AtMost(most) if bytes > most => format!("the object has {bytes} bytes, and {most} are allowed"),
            _ => return Ok(()),
        };
        Err(Error::new(ErrorKind::Checksum, why))
    }
}

/// Fetches `key`, a file of `length`. `watch` is called with the progress, and with true if there was some since the
/// last call.
///
/// # Errors
///
/// Errors of [`Fetcher::fetch`] and of `watch`; `Timeout` when no more bytes arrive, `Checksum` for a different length,
/// as soon as that is visible.
pub fn fetch_whole(
    fetcher: &dyn Fetcher,
    key: &str,
    length: Length,
    watch: impl Fn(Progress, bool) -> Result<()>,
) -> Result<Vec<u8>> {
    let fetch = WatchedFetch { length, clock: Clock::system(), last: Mutex::default(), watch };
    fetch.run(fetcher, key).context("key", || key)
}

/// Fetch with its time limit and its watcher.
struct WatchedFetch<W> {
    length: Length,
    clock: Clock,
    last: Mutex<LastProgress>,
    watch: W,
}

#[derive(Default)]
struct LastProgress {
    /// Bytes at the last check.
    bytes: u64,
    /// Bytes and time at the last change by at least [`PROGRESS_BYTES`].
    counted_bytes: u64,
    counted_at: Duration,
}

impl<W: Fn(Progress, bool) -> Result<()>> WatchedFetch<W> {
    fn run(&self, fetcher: &dyn Fetcher, key: &str) -> Result<Vec<u8>> {
        self.last.lock().counted_at = self.clock.now();
        let mut file = fetcher.fetch(key, &|status| self.check(status))?;
        let unreadable = |e| Error::from_io(e, "a downloaded file cannot be read");
        // The size first: an endless file is not read into memory.
        let bytes = file.metadata().map_err(unreadable)?.len();
        self.length.check(bytes)?;
        let mut whole = Vec::new();
        let reserved = usize::try_from(bytes).is_ok_and(|bytes| whole.try_reserve_exact(bytes).is_ok());
        if !reserved {
            return Err(Error::new(ErrorKind::Full, "there is no memory for a file of this size").with("bytes", bytes));
        }
        file.by_ref().take(bytes).read_to_end(&mut whole).map_err(unreadable)?;
        self.length.check(whole.len() as u64)?;
        Ok(whole)
    }

    fn check(&self, status: FetchStatus) -> Result<()> {
        let now = self.clock.now();
        let mut last = self.last.lock();
        let (bytes, moved) = match status {
            // The time limit starts with the fetch, and waiters for a queued one see progress.
            FetchStatus::Queued => (0, true),
            FetchStatus::Running { bytes } => (bytes, bytes != last.bytes),
        };
        last.bytes = bytes;
        // Any byte is news for the watcher. A few bytes at times are no progress, and do not restart the time limit.
        if status == FetchStatus::Queued || bytes.abs_diff(last.counted_bytes) >= PROGRESS_BYTES as u64 {
            (last.counted_bytes, last.counted_at) = (bytes, now);
        }
        let idle = now.saturating_sub(last.counted_at);
        drop(last);
        if idle >= IDLE_MAX {
            let why = format!("less than {PROGRESS_BYTES} bytes arrived in {} s", IDLE_MAX.as_secs());
            return Err(Error::new(ErrorKind::Timeout, why));
        }
        let bytes_max = self.length.max();
        if bytes > bytes_max.saturating_mul(2).saturating_add(EXTRA_BYTES_MAX) {
            let why = format!(
                "{bytes} bytes have arrived already, and {bytes_max} were expected: the download was cancelled"
            );
            return Err(Error::new(ErrorKind::Checksum, why));
        }
        let len = match self.length {
            Length::Exactly(len) => len,
            Length::AtMost(_) => bytes,
        };
        (self.watch)(Progress { bytes, len, attempt: 1, idle, is_paused: false }, moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    /// Calls `watch` with its statuses, then returns its file.
    #[derive(Debug)]
    struct Shelf(&'static [u8], Vec<(FetchStatus, Duration)>, Clock);

    impl Fetcher for Shelf {
        fn fetch(&self, key: &str, watch: &dyn Fn(FetchStatus) -> Result<()>) -> Result<File> {
            for (status, time) in &self.1 {
                self.2.advance(*time);
                watch(*status)?;
            }
            match key {
                "book" => {
                    let mut file = tempfile::tempfile().expect("a file");
                    file.write_all(self.0).and_then(|()| file.rewind()).expect("written");
                    Ok(file)
                }
                _ => Err(Error::new(ErrorKind::NotFound, "no such book")),
            }
        }
    }

    fn shelf(statuses: impl IntoIterator<Item = FetchStatus>) -> Shelf {
        timed(statuses.into_iter().map(|status| (status, 0)))
    }

    /// Statuses, each with the seconds since the previous one.
    fn timed(statuses: impl IntoIterator<Item = (FetchStatus, u64)>) -> Shelf {
        let statuses = statuses.into_iter().map(|(status, seconds)| (status, Duration::from_secs(seconds)));
        Shelf(b"four", statuses.collect(), Clock::manual())
    }

    fn running(bytes: u64) -> FetchStatus {
        FetchStatus::Running { bytes }
    }

    /// Fetches on the shelf's clock. Returns also, for each check, true if there was progress.
    fn watched(shelf: &Shelf, length: Length) -> (Result<Vec<u8>>, Vec<bool>) {
        let moves = Mutex::new(Vec::new());
        let watch = |_: Progress, moved| {
            moves.lock().push(moved);
            Ok(())
        };
        let fetch = WatchedFetch { length, clock: shelf.2.clone(), last: Mutex::default(), watch };
        let fetched = fetch.run(shelf, "book");
        drop(fetch);
        (fetched, std::mem::take(&mut *moves.lock()))
    }

    #[test]
    fn a_file_of_a_wrong_length_is_rejected_by_name() {
        let fetch = |length| fetch_whole(&shelf([]), "book", length, |_, _| Ok(()));
        assert_eq!(fetch(Length::Exactly(4)).expect("it fits"), b"four");
        assert_eq!(fetch(Length::AtMost(4)).expect("any length up to it"), b"four");
        let error = fetch(Length::Exactly(5)).expect_err("too short");
        assert_eq!(error.kind(), ErrorKind::Checksum);
        assert!(error.to_string().contains("4 bytes, and 5 were expected (key book)"), "{error}");
        let error = fetch(Length::Exactly(3)).expect_err("too long");
        assert!(error.to_string().contains("4 bytes, and 3 were expected (key book)"), "{error}");
        let error = fetch(Length::AtMost(3)).expect_err("too long");
        assert!(error.to_string().contains("4 bytes, and 3 are allowed (key book)"), "{error}");
    }

    #[test]
    fn a_watcher_sees_progress_and_can_cancel_the_fetch() {
        let shelf = shelf([running(0), running(1), running(1)]);
        assert_eq!(watched(&shelf, Length::Exactly(4)).1, [false, true, false]);
        let cancel = |_, _| Err(Error::new(ErrorKind::Closed, "over"));
        let error = fetch_whole(&shelf, "book", Length::Exactly(4), cancel).expect_err("cancelled");
        assert_eq!(error.kind(), ErrorKind::Closed);
        let error = fetch_whole(&shelf, "tape", Length::AtMost(9), |_, _| Ok(())).expect_err("missing");
        assert_eq!(error.to_string(), "no such book (key tape)");
    }

    #[test]
    fn the_time_limit_starts_with_the_fetch() {
        let long = IDLE_MAX.as_secs() - 1;
        let patient = timed([(FetchStatus::Queued, long), (FetchStatus::Queued, long), (running(0), long)]);
        let (fetched, moves) = watched(&patient, Length::Exactly(4));
        assert_eq!(fetched.expect("nothing was late"), b"four");
        assert_eq!(moves, [true, true, false], "waiters for the shard see a queued fetch as progress");
        let late = timed([(FetchStatus::Queued, long), (running(0), 1), (running(0), long)]);
        let error = watched(&late, Length::Exactly(4)).0.expect_err("idle");
        assert_eq!(error.kind(), ErrorKind::Timeout);
        let drip = timed((0..10).map(|bytes| (running(bytes), 100)));
        let error = watched(&drip, Length::Exactly(4)).0.expect_err("too slow");
        assert!(error.to_string().starts_with("less than 16384 bytes arrived in 600 s"), "{error}");
    }

    #[test]
    fn a_fetch_of_far_too_many_bytes_is_cancelled_while_it_runs() {
        let most = 2 * 4 + EXTRA_BYTES_MAX;
        assert!(watched(&shelf([running(most)]), Length::Exactly(4)).0.is_ok(), "parts may be stored next to the file");
        let (fetched, moves) = watched(&shelf([running(4), running(most + 1)]), Length::Exactly(4));
        let error = fetched.expect_err("too much");
        assert_eq!(error.kind(), ErrorKind::Checksum);
        assert!(error.to_string().contains(&format!("{} bytes have arrived already, and 4 were", most + 1)), "{error}");
        assert_eq!(moves, [true]);
    }
}
