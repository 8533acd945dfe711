//! The seam for schemes that the engine does not speak: whoever embeds it fetches whole files.

use super::ticket::Progress;
use crate::error::Context as _;
use crate::sync::Mutex;
use crate::{Error, ErrorKind, Result};
use std::fmt;
use std::time::{Duration, Instant};

/// Longest time without another byte: a fetcher may have no limit of its own.
const IDLE_MAX: Duration = Duration::from_secs(600);

/// Fetches files of one remote in ways that the engine knows nothing of, such as a cloud's own library in another
/// language. What it fetches is checked, unpacked and published like everything else.
pub trait Fetcher: fmt::Debug + Send + Sync {
    /// Fetches all of the file `key`, a path relative to the remote, and waits for it; attempts after a failure are its
    /// own business.
    ///
    /// `watch` is told, several times a second, how many bytes have come as far as that can be seen. Its error calls the
    /// fetch off and is returned.
    ///
    /// # Errors
    ///
    /// What the last attempt failed with.
    fn fetch(&self, key: &str, watch: &dyn Fn(u64) -> Result<()>) -> Result<Vec<u8>>;
}

/// Fetches `key`, which should have `len` bytes where that is known; `watch` is told how far it is, and whether that is
/// farther than the last time.
///
/// # Errors
///
/// As [`Fetcher::fetch`]; `Timeout` when nothing comes any more, `Checksum` for another length, what `watch` returns.
pub(crate) fn fetch_whole(
    fetcher: &dyn Fetcher,
    key: &str,
    len: Option<u64>,
    watch: impl Fn(Progress, bool) -> Result<()>,
) -> Result<Vec<u8>> {
    let last = Mutex::new((0, Instant::now()));
    let look = |bytes: u64| {
        let mut last = last.lock();
        let moved = bytes != last.0;
        if moved {
            *last = (bytes, Instant::now());
        }
        let idle = last.1.elapsed();
        drop(last);
        if idle >= IDLE_MAX {
            return Err(Error::new(ErrorKind::Timeout, format!("no byte arrived for {} s", IDLE_MAX.as_secs())));
        }
        watch(Progress { bytes, len: len.unwrap_or(bytes), attempt: 1, idle }, moved)
    };
    let bytes = fetcher.fetch(key, &look).context("key", || key)?;
    match len {
        Some(len) if bytes.len() as u64 != len => {
            let why = format!("the object has {} bytes, and {len} were expected", bytes.len());
            Err(Error::new(ErrorKind::Checksum, why).with("key", key))
        }
        _ => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Shelf(&'static [u8]);

    impl Fetcher for Shelf {
        fn fetch(&self, key: &str, watch: &dyn Fn(u64) -> Result<()>) -> Result<Vec<u8>> {
            for bytes in [0, 1, 1] {
                watch(bytes)?;
            }
            match key {
                "book" => Ok(self.0.to_vec()),
                _ => Err(Error::new(ErrorKind::NotFound, "no such book")),
            }
        }
    }

    #[test]
    fn a_file_of_another_length_is_refused_by_name() {
        let fetch = |len| fetch_whole(&Shelf(b"four"), "book", len, |_, _| Ok(()));
        assert_eq!(fetch(Some(4)).expect("it fits"), b"four");
        assert_eq!(fetch(None).expect("any length"), b"four");
        let error = fetch(Some(5)).expect_err("too short");
        assert_eq!(error.kind(), ErrorKind::Checksum);
        assert!(error.to_string().contains("4 bytes, and 5 were expected (key book)"), "{error}");
    }

    #[test]
    fn what_watches_is_told_when_bytes_move_and_can_call_it_off() {
        let moves = Mutex::new(Vec::new());
        let told = |progress: Progress, moved| {
            moves.lock().push((progress.bytes, moved));
            Ok(())
        };
        fetch_whole(&Shelf(b"four"), "book", Some(4), told).expect("fetched");
        assert_eq!(*moves.lock(), [(0, false), (1, true), (1, false)]);
        let off = |_, _| Err(Error::new(ErrorKind::Closed, "over"));
        let error = fetch_whole(&Shelf(b"four"), "book", Some(4), off).expect_err("called off");
        assert_eq!(error.kind(), ErrorKind::Closed);
        let error = fetch_whole(&Shelf(b""), "tape", None, |_, _| Ok(())).expect_err("missing");
        assert_eq!(error.to_string(), "no such book (key tape)");
    }
}
