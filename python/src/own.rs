//! Values that belong to the process that made them.

use crate::enter;
use forebay_loader::error::{Error, ErrorKind, Result};

/// Message about a value that was opened by a different process.
pub(crate) const OPENED_ELSEWHERE: &str = "this belongs to the process that opened it: open it again after a fork";

/// Value with the threads and locks of the process that made it. A forked child has a copy without the threads,
/// and perhaps with a lock that is held forever, so there it is neither used nor dropped.
///
/// The drop releases the interpreter's lock, unless `DETACHES` is false.
pub(crate) struct Own<T: Send, const DETACHES: bool = true> {
    /// None only during the drop.
    value: Option<T>,
    pid: u32,
    /// Message of the error in a different process.
    elsewhere: &'static str,
}

impl<T: Send, const DETACHES: bool> Own<T, DETACHES> {
    /// Makes a value of this process. In a different one, `elsewhere` is the message about it.
    pub(crate) fn new(value: T, elsewhere: &'static str) -> Self {
        Self { value: Some(value), pid: std::process::id(), elsewhere }
    }

    /// Returns the value.
    ///
    /// # Errors
    ///
    /// `Closed` in a different process.
    pub(crate) fn get(&self) -> Result<&T> {
        let value = self.value.as_ref().filter(|_| self.pid == std::process::id());
        value.ok_or_else(|| Error::new(ErrorKind::Closed, self.elsewhere))
    }
}

impl<T: Send, const DETACHES: bool> Drop for Own<T, DETACHES> {
    fn drop(&mut self) {
        let Some(value) = self.value.take() else { return };
        if self.pid == std::process::id() {
            if DETACHES {
                enter::drop_detached(value);
            }
        } else {
            // To join its threads would block forever.
            std::mem::forget(value);
        }
    }
}
