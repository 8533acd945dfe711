//! Detection of listings without an end.

use super::target::{ListedEntry, Page};
use crate::failure::Failure;
use crate::{Error, ErrorKind};
use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// Tokens and pages that are remembered, 8 bytes each: with 1000 objects to a page enough for 500 million objects.
const SEEN_MAX: usize = 1 << 20;

/// Most pages without an entry in sequence. S3 skips at least a thousand removed versions of objects for each.
const EMPTY_PAGES_MAX: u64 = 1000;

/// Pages of one listing. A store that repeats one, or sends ever more without an entry, would be listed forever.
///
/// Tokens and contents are remembered as hashes, so a repetition is found at once. Of more than [`SEEN_MAX`], one token
/// is kept and compared with the tokens after it, and is replaced after twice as many pages each time: any period is
/// found with the memory of one token.
#[derive(Debug, Default)]
pub(crate) struct PageMarks {
    hasher: RandomState,
    seen: HashSet<u64>,
    kept: String,
    pages: u64,
    /// Pages since the last entry.
    empty_pages: u64,
    /// Time of the last page with an entry, or of the first page.
    moved_at: Option<Duration>,
}

fn without_end(kind: ErrorKind, message: impl Into<String>) -> Failure {
    let advice = "check the endpoint, and whether a proxy caches or changes responses";
    Failure::permanent(Error::new(kind, message.into()).hinting(advice))
}

impl PageMarks {
    /// Takes note of a page that arrived at the time `now`, and returns the token of the next one. Pages without an
    /// entry are accepted for `idle_max`.
    pub(crate) fn turn(&mut self, page: &Page, now: Duration, idle_max: Duration) -> Result<Option<String>, Failure> {
        if let Some(next) = &page.next {
            self.check(next)?;
        }
        let objects = || page.entries.iter().filter(|entry| !entry.is_folder());
        if objects().next().is_some()
            && !self.is_new(objects().map(|ListedEntry { key, size, .. }| (key, size)).collect())
        {
            return Err(without_end(ErrorKind::Format, "the store repeats a page of a listing"));
        }
        let Some(next) = &page.next else { return Ok(None) };
        let since = now.saturating_sub(*self.moved_at.get_or_insert(now));
        if page.has_moved {
            (self.moved_at, self.empty_pages) = (Some(now), 0);
            return Ok(Some(next.clone()));
        }
        self.empty_pages += 1;
        if self.empty_pages >= EMPTY_PAGES_MAX || since >= idle_max {
            let pages = self.empty_pages;
            let message = format!(
                "a listing makes no progress: {pages} pages in {} s had no entry, and each names a next page",
                since.as_secs()
            );
            return Err(without_end(ErrorKind::Timeout, message));
        }
        Ok(Some(next.clone()))
    }

    /// Compares the token of the next page with the tokens of earlier ones, which it must not repeat.
    pub(crate) fn check(&mut self, next: &str) -> Result<(), Failure> {
        let is_kept = next == self.kept && self.pages > 0;
        if is_kept || !self.is_new(vec![(next, &0)]) {
            let message = "the store repeats the token of an earlier page of a listing, which would not end";
            return Err(without_end(ErrorKind::Format, message));
        }
        self.pages += 1;
        if self.pages.is_power_of_two() {
            next.clone_into(&mut self.kept);
        }
        Ok(())
    }

    /// Returns false for a content that was seen before.
    fn is_new<K: std::hash::Hash>(&mut self, content: Vec<(K, &u64)>) -> bool {
        let hash = self.hasher.hash_one(&content);
        let is_known = self.seen.contains(&hash);
        if self.seen.len() < SEEN_MAX {
            self.seen.insert(hash);
        }
        !is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_that_is_repeated_is_an_error_at_once() {
        for (first, period) in [(0, 1), (0, 2), (3, 5), (100, 17)] {
            let mut marks = PageMarks::default();
            let page_mark = |page: u32| if page < first { page } else { first + (page - first) % period };
            let failed = (0..1000).find(|page| marks.check(&page_mark(*page).to_string()).is_err());
            assert_eq!(failed, Some(first + period));
        }
    }

    #[test]
    fn a_mark_that_is_repeated_after_more_pages_than_are_remembered_is_an_error() {
        let mut marks = PageMarks { seen: (0..SEEN_MAX as u64).collect(), ..PageMarks::default() };
        let failed = (0..1000).find(|page| marks.check(&(page % 17).to_string()).is_err());
        assert!(failed.is_some_and(|page| page >= 17), "{failed:?}");
    }

    #[test]
    fn marks_that_differ_are_accepted() {
        let mut marks = PageMarks::default();
        (0..1000).for_each(|page| marks.check(&page.to_string()).expect("new"));
    }

    /// Returns a page of these keys, which names `next` as the next one.
    fn page(keys: &[&str], next: u64) -> Page {
        let entry = |key: &&str| ListedEntry { key: (*key).to_owned(), size: 7, etag: None, modified: None };
        let entries = keys.iter().map(entry).collect();
        Page { entries, markers: Vec::new(), next: Some(next.to_string()), has_moved: !keys.is_empty() }
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn pages_without_an_entry_end_after_a_time_or_a_number() {
        let turns = |seconds: u64, filled: u64| {
            let mut marks = PageMarks::default();
            let keys = |turn: u64| if turn.is_multiple_of(filled) { vec![turn.to_string()] } else { Vec::new() };
            (1..10_000).find_map(|turn| {
                let keys = keys(turn);
                let page = page(&keys.iter().map(|key| &**key).collect::<Vec<_>>(), turn);
                let failure = marks.turn(&page, Duration::from_secs(seconds * turn), MINUTE).err()?;
                Some((turn, failure.error.kind()))
            })
        };
        assert_eq!(turns(20, 20_000), Some((4, ErrorKind::Timeout)), "a minute after the first page");
        assert_eq!(turns(0, 20_000), Some((EMPTY_PAGES_MAX, ErrorKind::Timeout)));
        assert_eq!(turns(20, 3), None, "each minute has an entry");
        assert_eq!(turns(0, 3), None);
    }

    #[test]
    fn a_page_that_is_repeated_under_a_different_mark_is_an_error() {
        let mut marks = PageMarks::default();
        let mut turn = |keys: &[&str], next| marks.turn(&page(keys, next), Duration::ZERO, MINUTE);
        turn(&["a", "b"], 1).expect("new");
        turn(&["c", "folder/"], 2).expect("new");
        turn(&["folder/"], 3).expect("a folder may be on two pages");
        turn(&["folder/"], 4).expect("a folder may be on two pages");
        let failure = turn(&["a", "b"], 5).expect_err("repeated");
        assert!(failure.error.to_string().contains("repeats a page"), "{}", failure.error);
    }
}
