//! Listings of a destination, page by page.

use super::calls::Calls;
use super::marks::PageMarks;
use super::target::{ListRequest, ListedEntry, Page};
use crate::Result;
use crate::failure::Failure;
use forebay_core::error::Context as _;
use std::fmt;
use tokio::sync::oneshot;

/// Objects of a destination, page by page. The next page is fetched while this one is in use.
pub struct Listing {
    calls: Calls,
    /// Request for the page that is in flight.
    request: ListRequest,
    page: std::vec::IntoIter<ListedEntry>,
    next: Option<oneshot::Receiver<Result<Page>>>,
    /// Number of the page that is in flight, from 1.
    number: u64,
    marks: PageMarks,
    /// Includes the empty objects that mark folders.
    has_markers: bool,
}

impl Listing {
    pub(super) fn start(calls: Calls, request: ListRequest) -> Result<Self> {
        let next = Some(calls.start_page(request.clone())?);
        Ok(Self {
            calls,
            request,
            page: Vec::new().into_iter(),
            next,
            number: 1,
            marks: PageMarks::default(),
            has_markers: false,
        })
    }

    /// Includes the empty objects by which some tools mark a folder: their keys end with a slash.
    #[must_use]
    pub fn with_markers(self) -> Self {
        Self { has_markers: true, ..self }
    }

    /// Receives the page in flight, and requests the one after it.
    fn turn(&mut self, page: oneshot::Receiver<Result<Page>>) -> Result<()> {
        let page = self.calls.wait(page).context("page", || self.number)?;
        let (now, idle_max) = (self.calls.queues().context.clock.now(), self.calls.config().stall_timeout);
        let next = self.marks.turn(&page, now, idle_max);
        let error = |failure: Failure| failure.error.with("page", self.number).with("destination", self.calls.name());
        if let Some(next) = next.map_err(error)? {
            self.request.next = Some(next);
            self.next = Some(self.calls.start_page(self.request.clone())?);
            self.number += 1;
        }
        let mut entries = page.entries;
        if self.has_markers && !page.markers.is_empty() {
            entries.extend(page.markers);
            entries.sort_by(|a, b| a.key.cmp(&b.key));
        }
        self.page = entries.into_iter();
        Ok(())
    }

    /// Returns the rest of the current page, or the next page that has an entry; `None` at the end.
    ///
    /// # Errors
    ///
    /// The failure of the store; the listing ends with it.
    pub fn next_page(&mut self) -> Result<Option<Vec<ListedEntry>>> {
        while self.page.len() == 0 {
            let Some(page) = self.next.take() else { return Ok(None) };
            self.turn(page)?;
        }
        Ok(Some(std::mem::take(&mut self.page).collect()))
    }
}

impl Iterator for Listing {
    type Item = Result<ListedEntry>;

    fn next(&mut self) -> Option<Result<ListedEntry>> {
        loop {
            if let Some(entry) = self.page.next() {
                return Some(Ok(entry));
            }
            let page = self.next.take()?;
            if let Err(error) = self.turn(page) {
                return Some(Err(error));
            }
        }
    }
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listing").field("request", &self.request).finish_non_exhaustive()
    }
}
