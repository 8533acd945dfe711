//! Figures of a command over many objects, and its exit code.

use crate::addresses::Address;
use crate::text::{bytes, counted};
use crate::{Exit, Session};
use forebay_loader::{Error, Result};

/// Objects of a command so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Objects that it has done its work for.
    pub(crate) done: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Addresses that were found.
    pub(crate) found: u64,
    /// Objects and addresses that failed.
    pub(crate) failed: u64,
}

impl Tally {
    /// Does the work of a command for each of the addresses that `texts` expand to. A failure does not stop the rest.
    pub(crate) fn of_addresses(
        texts: &[String],
        session: &Session,
        mut work: impl FnMut(&Address, &mut Self) -> Result<()>,
    ) -> Self {
        let mut tally = Self::default();
        for text in texts {
            let done = Address::all(text).map(|addresses| {
                for address in addresses.iter().take_while(|_| !session.output.is_closed()) {
                    work(address, &mut tally).unwrap_or_else(|error| tally.fail(session, &error));
                }
            });
            done.unwrap_or_else(|error| tally.fail(session, &error));
        }
        tally
    }

    /// Counts an object.
    pub(crate) fn count(&mut self, bytes: u64) {
        self.done += 1;
        self.bytes += bytes;
    }

    /// Counts an address without an error, which may be an empty folder.
    pub(crate) fn found(&mut self) {
        self.found += 1;
    }

    /// Counts a failure, and prints it.
    pub(crate) fn fail(&mut self, session: &Session, error: &Error) {
        self.failed += 1;
        session.output.fail(error);
    }

    /// Number of the objects, and their size.
    pub(crate) fn total(&self) -> (String, String) {
        (counted(self.done, "object"), bytes(self.bytes))
    }

    /// Exit code: a failure is one of the data, unless nothing succeeded.
    pub(crate) fn exit(&self) -> Exit {
        match (self.failed, self.done + self.found) {
            (0, _) => Exit::Success,
            (_, 0) => Exit::Failure,
            _ => Exit::Found,
        }
    }
}
