//! Errors of files, and of the library that decodes them.

use arrow_schema::ArrowError;
use forebay_core::error::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the result of `read`. A panic of the library is an error: the file is damaged in a way that it does not
/// expect.
pub(super) fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(damaged()))
}

pub(super) fn of_library(error: ArrowError) -> Error {
    damaged().caused_by(error)
}

pub(super) fn damaged() -> Error {
    Error::format("the file is damaged, or not in Arrow's format")
}
