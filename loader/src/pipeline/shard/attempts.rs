//! Bytes of the attempts to fetch a file whose samples are damaged.
//!
//! A proxy or a replica damages bytes in another way each time, or not at all. Bytes that are equal in all attempts are
//! damaged where they are stored: the shard is kept, and reading a damaged sample is an error of that sample.

use crate::error::{Error, Result};
use crate::format::HashAlgo;
use std::cell::RefCell;

/// Attempts to fetch a file.
pub(super) struct Attempts<T>(RefCell<Seen<T>>);

struct Seen<T> {
    made: usize,
    /// Digests of the bytes with damaged samples.
    digests: Vec<String>,
    /// Result of the last attempt with damaged samples.
    damaged: Option<T>,
}

/// Result of the attempts, and the error of its first sample that is damaged where it is stored.
pub(super) type KeptAttempt<T> = (T, Option<Error>);

impl<T> Attempts<T> {
    pub(super) fn new() -> Self {
        Self(RefCell::new(Seen { made: 0, digests: Vec::new(), damaged: None }))
    }

    /// Begins an attempt, and drops what the one before has made: there is memory for one.
    pub(super) fn begin(&self) {
        self.0.borrow_mut().damaged = None;
    }

    /// Counts an attempt that returned bytes, which have the right hash if it is known.
    pub(super) fn arrived(&self) {
        self.0.borrow_mut().made += 1;
    }

    /// Notes that the bytes that arrived last, with the digest `digest`, have damaged samples. `made` was made of them.
    pub(super) fn damaged(&self, digest: String, made: T) {
        let mut seen = self.0.borrow_mut();
        seen.digests.push(digest);
        seen.damaged = Some(made);
    }

    /// Returns true if one attempt returned bytes, with damaged samples: there is nothing to compare them with.
    pub(super) fn is_single_damage(&self) -> bool {
        let seen = self.0.borrow();
        seen.made == 1 && seen.digests.len() == 1
    }

    /// Returns the `result` of the last attempt, or the shard that is damaged where it is stored.
    ///
    /// # Errors
    ///
    /// The error of `result`, unless all attempts returned the same bytes.
    pub(super) fn kept(self, result: Result<T>) -> Result<KeptAttempt<T>> {
        let Seen { made, digests, damaged } = self.0.into_inner();
        let are_equal = digests.len() == made && digests.windows(2).all(|pair| pair[0] == pair[1]);
        match (result, damaged) {
            (Ok(result), _) => Ok((result, None)),
            (Err(error), Some(damaged)) if are_equal => Ok((damaged, Some(error))),
            (Err(error), _) => Err(error),
        }
    }
}

/// Returns the digest of `parts`.
pub(super) fn digest_of<'b>(parts: impl IntoIterator<Item = &'b [u8]>) -> String {
    parts.into_iter().map(|part| HashAlgo::Xxh3_128.hex(part)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(attempts: &[Option<&str>], result: Result<u32>) -> Result<KeptAttempt<u32>> {
        let seen = Attempts::new();
        for damaged in attempts {
            seen.begin();
            seen.arrived();
            if let Some(bytes) = damaged {
                seen.damaged(digest_of([bytes.as_bytes()]), 7);
            }
        }
        seen.kept(result)
    }

    #[test]
    fn equal_damage_in_all_attempts_is_kept_and_any_other_is_an_error() {
        let damage = || Err(Error::format("damaged"));
        let (file, error) = kept(&[Some("a"), Some("a")], damage()).unwrap();
        assert_eq!((file, error.unwrap().message()), (7, "damaged"));
        for others in [&[Some("a"), Some("b")][..], &[None, Some("a")], &[Some("a"), None], &[None]] {
            assert!(kept(others, damage()).is_err(), "{others:?}");
        }
        let (file, error) = kept(&[Some("a"), None], Ok(1)).unwrap();
        assert!(file == 1 && error.is_none(), "the last attempt got good bytes");
    }

    #[test]
    fn a_digest_is_of_all_parts_and_their_bounds() {
        let [one, other] = [["ab", "c"], ["a", "bc"]].map(|parts| digest_of(parts.map(str::as_bytes)));
        assert_ne!(one, other);
        assert_ne!(one, digest_of(["ab".as_bytes()]));
    }
}
