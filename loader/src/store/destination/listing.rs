//! Listings.

use super::calls::Calls;
use super::marks::PageMarks;
use super::target::{Entry, ListRequest, Page};
use crate::Result;
use std::fmt;
use tokio::sync::oneshot;

/// Objects of a destination, page by page. The next page is fetched while this one is in use.
pub struct Listing {
    calls: Calls,
    /// Request for the page that is in flight.
    request: ListRequest,
    page: std::vec::IntoIter<Entry>,
    next: Option<oneshot::Receiver<Result<Page>>>,
    marks: PageMarks,
}

impl Listing {
    pub(super) fn start(calls: Calls, request: ListRequest) -> Result<Self> {
        let next = Some(calls.start_page(request.clone())?);
        Ok(Self { calls, request, page: Vec::new().into_iter(), next, marks: PageMarks::default() })
    }

    /// Receives the page in flight, and requests the one after it.
    fn turn(&mut self, page: oneshot::Receiver<Result<Page>>) -> Result<()> {
        let page = self.calls.wait(page)?;
        if let Some(next) = page.next {
            let is_new = self.marks.check(&next);
            is_new.map_err(|failure| failure.error.with("destination", self.calls.name()))?;
            self.request.next = Some(next);
            self.next = Some(self.calls.start_page(self.request.clone())?);
        }
        self.page = page.entries.into_iter();
        Ok(())
    }

    /// Returns the rest of the current page, or the next page; `None` at the end.
    ///
    /// # Errors
    ///
    /// The failure of the store; the listing ends with it.
    pub fn next_page(&mut self) -> Result<Option<Vec<Entry>>> {
        if self.page.len() == 0 {
            let Some(page) = self.next.take() else { return Ok(None) };
            self.turn(page)?;
        }
        Ok(Some(std::mem::take(&mut self.page).collect()))
    }
}

impl Iterator for Listing {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
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
