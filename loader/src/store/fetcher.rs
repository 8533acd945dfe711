//! The seam for schemes that the engine does not speak: whoever embeds it fetches whole files.

use super::ticket::Progress;
use crate::clock::Clock;
use crate::error::Context as _;
use crate::sync::Mutex;
use crate::{Error, ErrorKind, Result};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::time::Duration;

/// Longest time without another byte: a fetcher may have no limit of its own.
const IDLE_MAX: Duration = Duration::from_secs(600);

/// What may lie on disk during a fetch beside twice the file: a fetcher may keep parts and what it puts together from
/// them, and a little of its own.
const BESIDE_MAX: u64 = 64 << 20;

/// Fetches files of one remote in ways that the engine knows nothing of, such as a cloud's own library in another
/// language. What it fetches is checked, unpacked and published like everything else.
pub trait Fetcher: fmt::Debug + Send + Sync {
    /// Fetches all of the file `key`, a path relative to the remote, and waits for it; attempts after a failure are its
    /// own business. The answer is open at the file's beginning.
    ///
    /// `watch` is told, several times a second, where the fetch stands. Its error calls the fetch off and is returned.
    ///
    /// # Errors
    ///
    /// What the last attempt failed with.
    fn fetch(&self, key: &str, watch: &dyn Fn(Standing) -> Result<()>) -> Result<File>;
}

/// Where a fetch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It waits for others, which get on or fail within their own limits.
    Queued,
    /// It has begun.
    Running {
        /// Bytes that have come, as far as that can be seen.
        bytes: u64,
    },
}

/// What a file should be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Length {
    /// It has so many bytes.
    Bytes(u64),
    /// It is not known; more bytes than these are refused.
    AtMost(u64),
}

impl Length {
    fn most(self) -> u64 {
        match self {
            Self::Bytes(bytes) | Self::AtMost(bytes) => bytes,
        }
    }

    fn check(self, bytes: u64) -> Result<()> {
        let why = match self {
            Self::Bytes(expected) if bytes != expected => {
                format!("the object has {bytes} bytes, and {expected} were expected")
            }
            Self::AtMost(most) if bytes > most => format!("the object has {bytes} bytes, and {most} are allowed"),
            _ => return Ok(()),
        };
        Err(Error::new(ErrorKind::Checksum, why))
    }
}

/// Fetches `key`, a file of `length`; `watch` is told how far it is, and whether it gets on.
///
/// # Errors
///
/// As [`Fetcher::fetch`]; `Timeout` when nothing comes any more, `Checksum` for another length, as soon as that can be
/// seen; what `watch` returns.
pub(crate) fn fetch_whole(
    fetcher: &dyn Fetcher,
    key: &str,
    length: Length,
    watch: impl Fn(Progress, bool) -> Result<()>,
) -> Result<Vec<u8>> {
    let watched = Watched { length, clock: Clock::system(), last: Mutex::default(), watch };
    watched.fetch(fetcher, key).context("key", || key)
}

/// A fetch and who watches it.
struct Watched<W> {
    length: Length,
    clock: Clock,
    /// Bytes when they last changed, and when that was.
    last: Mutex<(u64, Duration)>,
    watch: W,
}

impl<W: Fn(Progress, bool) -> Result<()>> Watched<W> {
    fn fetch(&self, fetcher: &dyn Fetcher, key: &str) -> Result<Vec<u8>> {
        *self.last.lock() = (0, self.clock.now());
        let mut file = fetcher.fetch(key, &|standing| self.look(standing))?;
        let unreadable = |e| Error::from_io(e, "what was downloaded cannot be read");
        // Looked at first: a file without end is not read into memory.
        let bytes = file.metadata().map_err(unreadable)?.len();
        self.length.check(bytes)?;
        let mut whole = Vec::with_capacity(bytes as usize);
        file.by_ref().take(bytes).read_to_end(&mut whole).map_err(unreadable)?;
        self.length.check(whole.len() as u64)?;
        Ok(whole)
    }

    fn look(&self, standing: Standing) -> Result<()> {
        let now = self.clock.now();
        let mut last = self.last.lock();
        let (bytes, moved) = match standing {
            // Time counts from the beginning of the fetch; whoever waits for it hears that it is not forgotten.
            Standing::Queued => (0, true),
            Standing::Running { bytes } => (bytes, bytes != last.0),
        };
        if moved {
            *last = (bytes, now);
        }
        let idle = now.saturating_sub(last.1);
        drop(last);
        if idle >= IDLE_MAX {
            return Err(Error::new(ErrorKind::Timeout, format!("no byte arrived for {} s", IDLE_MAX.as_secs())));
        }
        let most = self.length.most();
        if bytes > most.saturating_mul(2).saturating_add(BESIDE_MAX) {
            let why = format!("{bytes} bytes have come already, and {most} were expected: the download was called off");
            return Err(Error::new(ErrorKind::Checksum, why));
        }
        let len = match self.length {
            Length::Bytes(len) => len,
            Length::AtMost(_) => bytes,
        };
        (self.watch)(Progress { bytes, len, attempt: 1, idle }, moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    /// Tells `watch` what it is made of, then delivers.
    #[derive(Debug)]
    struct Shelf(&'static [u8], Vec<(Standing, Duration)>, Clock);

    impl Fetcher for Shelf {
        fn fetch(&self, key: &str, watch: &dyn Fn(Standing) -> Result<()>) -> Result<File> {
            for (standing, time) in &self.1 {
                self.2.advance(*time);
                watch(*standing)?;
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

    fn shelf(standings: impl IntoIterator<Item = Standing>) -> Shelf {
        after(standings.into_iter().map(|standing| (standing, 0)))
    }

    /// Standings, each so many seconds after the one before it.
    fn after(standings: impl IntoIterator<Item = (Standing, u64)>) -> Shelf {
        let timed = standings.into_iter().map(|(standing, seconds)| (standing, Duration::from_secs(seconds)));
        Shelf(b"four", timed.collect(), Clock::manual())
    }

    fn running(bytes: u64) -> Standing {
        Standing::Running { bytes }
    }

    /// Fetches on the shelf's clock; returns whether each look found that the fetch gets on, too.
    fn watched(shelf: &Shelf, length: Length) -> (Result<Vec<u8>>, Vec<bool>) {
        let moves = Mutex::new(Vec::new());
        let watch = |_: Progress, moved| {
            moves.lock().push(moved);
            Ok(())
        };
        let watched = Watched { length, clock: shelf.2.clone(), last: Mutex::default(), watch };
        let fetched = watched.fetch(shelf, "book");
        drop(watched);
        (fetched, moves.into_inner())
    }

    #[test]
    fn a_file_of_another_length_is_refused_by_name() {
        let fetch = |length| fetch_whole(&shelf([]), "book", length, |_, _| Ok(()));
        assert_eq!(fetch(Length::Bytes(4)).expect("it fits"), b"four");
        assert_eq!(fetch(Length::AtMost(4)).expect("any length up to it"), b"four");
        let error = fetch(Length::Bytes(5)).expect_err("too short");
        assert_eq!(error.kind(), ErrorKind::Checksum);
        assert!(error.to_string().contains("4 bytes, and 5 were expected (key book)"), "{error}");
        let error = fetch(Length::Bytes(3)).expect_err("too long");
        assert!(error.to_string().contains("4 bytes, and 3 were expected (key book)"), "{error}");
        let error = fetch(Length::AtMost(3)).expect_err("too long");
        assert!(error.to_string().contains("4 bytes, and 3 are allowed (key book)"), "{error}");
    }

    #[test]
    fn what_watches_is_told_when_bytes_move_and_can_call_it_off() {
        let shelf = shelf([running(0), running(1), running(1)]);
        assert_eq!(watched(&shelf, Length::Bytes(4)).1, [false, true, false]);
        let off = |_, _| Err(Error::new(ErrorKind::Closed, "over"));
        let error = fetch_whole(&shelf, "book", Length::Bytes(4), off).expect_err("called off");
        assert_eq!(error.kind(), ErrorKind::Closed);
        let error = fetch_whole(&shelf, "tape", Length::AtMost(9), |_, _| Ok(())).expect_err("missing");
        assert_eq!(error.to_string(), "no such book (key tape)");
    }

    #[test]
    fn the_time_limit_counts_from_the_beginning_of_the_fetch() {
        let long = IDLE_MAX.as_secs() - 1;
        let patient = after([(Standing::Queued, long), (Standing::Queued, long), (running(0), long)]);
        let (fetched, moves) = watched(&patient, Length::Bytes(4));
        assert_eq!(fetched.expect("nothing was late"), b"four");
        assert_eq!(moves, [true, true, false], "whoever waits for the shard hears of a fetch that waits its turn");
        let late = after([(Standing::Queued, long), (running(0), 1), (running(0), long)]);
        let error = watched(&late, Length::Bytes(4)).0.expect_err("idle");
        assert_eq!(error.kind(), ErrorKind::Timeout);
    }

    #[test]
    fn a_fetch_that_brings_far_too_much_is_called_off_while_it_runs() {
        let most = 2 * 4 + BESIDE_MAX;
        assert!(watched(&shelf([running(most)]), Length::Bytes(4)).0.is_ok(), "parts may lie beside the file");
        let (fetched, moves) = watched(&shelf([running(4), running(most + 1)]), Length::Bytes(4));
        let error = fetched.expect_err("too much");
        assert_eq!(error.kind(), ErrorKind::Checksum);
        assert!(error.to_string().contains(&format!("{} bytes have come already, and 4 were", most + 1)), "{error}");
        assert_eq!(moves, [true]);
    }
}
