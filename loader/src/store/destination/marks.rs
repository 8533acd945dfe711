//! Detection of listings without an end.

use crate::store::failure::Failure;
use crate::{Error, ErrorKind};

/// Places of the pages of one listing. A store that repeats one would be listed forever.
///
/// One place is kept and compared with those after it, and is replaced after twice as many pages each time, so any period
/// is found with the memory of one place.
#[derive(Debug, Default)]
pub(crate) struct PageMarks {
    kept: String,
    pages: u64,
}

impl PageMarks {
    /// Compares the place of the next page with an earlier one, which it must not repeat.
    pub(crate) fn check(&mut self, next: &str) -> Result<(), Failure> {
        if next == self.kept && self.pages > 0 {
            let message = "the store repeats the place of an earlier page of a listing, which would not end: check the \
                           endpoint, and whether a proxy caches responses";
            return Err(Failure::permanent(Error::new(ErrorKind::Format, message)));
        }
        self.pages += 1;
        if self.pages.is_power_of_two() {
            next.clone_into(&mut self.kept);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_repeated_after_any_number_of_pages_is_an_error() {
        for (first, period) in [(0, 1), (0, 2), (3, 5), (100, 17)] {
            let mut marks = PageMarks::default();
            let place = |page: u32| if page < first { page } else { first + (page - first) % period };
            let failed = (0..1000).find(|page| marks.check(&place(*page).to_string()).is_err());
            assert!(failed.is_some_and(|page| page >= first + period), "{first} {period}: {failed:?}");
        }
    }

    #[test]
    fn places_that_differ_are_accepted() {
        let mut marks = PageMarks::default();
        (0..1000).for_each(|page| marks.check(&page.to_string()).expect("new"));
    }
}
