//! Codes, the last error, and the guard.

use forebay_loader::{Error, ErrorKind};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Result of a call. Every status except OK and END has a message in `forebay_last_error`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForebayStatus {
    /// Done.
    Ok = 0,
    /// End of the epoch.
    End = 1,
    /// A null pointer, a handle that is not live, text that is not UTF-8, or a number out of range.
    Invalid = 2,
    /// An argument or a combination of arguments is wrong.
    Config = 3,
    /// A file, object or sample does not exist.
    NotFound = 4,
    /// The store or the file system refuses access.
    Permission = 5,
    /// The network failed.
    Network = 6,
    /// Too few bytes arrived within `download_timeout`, or nothing changed for `stall_timeout`.
    Timeout = 7,
    /// Bytes do not match their recorded size or hash.
    Checksum = 8,
    /// Bytes do not conform to their format.
    Format = 9,
    /// A sample cannot be decoded into the fields of the configuration.
    Decode = 10,
    /// A feature that this build or this machine does not have.
    Unsupported = 11,
    /// No room: disk, memory limit, locked-memory limit.
    Full = 12,
    /// A checkpoint does not belong to this data set and these arguments.
    State = 13,
    /// The remote index changed since the cache was filled.
    Stale = 14,
    /// A system call failed for another reason.
    Io = 15,
    /// The loader is closed, no epoch is in progress, or this is a forked child.
    Closed = 16,
    /// A bug in the library: please report it.
    Internal = 17,
}

impl From<ErrorKind> for ForebayStatus {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Config => Self::Config,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Permission => Self::Permission,
            ErrorKind::Network => Self::Network,
            ErrorKind::Timeout => Self::Timeout,
            ErrorKind::Checksum => Self::Checksum,
            ErrorKind::Format => Self::Format,
            ErrorKind::Decode => Self::Decode,
            ErrorKind::Unsupported => Self::Unsupported,
            ErrorKind::Full => Self::Full,
            ErrorKind::State => Self::State,
            ErrorKind::Stale => Self::Stale,
            ErrorKind::Io => Self::Io,
            ErrorKind::Closed => Self::Closed,
            _ => Self::Internal,
        }
    }
}

/// Failed call: its status and its message.
#[derive(Debug)]
pub(crate) struct Failure(ForebayStatus, String);

impl Failure {
    /// Failure for an invalid argument of the caller.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self(ForebayStatus::Invalid, message.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error.kind().into(), error.to_string())
    }
}

/// Result of a body in the guard.
pub(crate) type Answer<T = ForebayStatus> = Result<T, Failure>;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

fn remember(message: String) {
    // A message may quote data that contains a NUL, which would end the text in C.
    let message = CString::new(message.replace('\0', "\u{fffd}")).unwrap_or_default();
    // While a thread ends, its last error is gone and no code can read it.
    let _ = LAST.try_with(|last| last.replace(message));
}

/// Runs a function's body: failures become status and message, and no panic unwinds into C.
pub(crate) fn guard(body: impl FnOnce() -> Answer) -> ForebayStatus {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(status)) => status,
        Ok(Err(Failure(status, message))) => {
            remember(message);
            status
        }
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            remember(format!("a bug in the library, please report it: {text}"));
            ForebayStatus::Internal
        }
    }
}

/// Returns the text at `text`.
///
/// # Safety
///
/// `text` is null or ends in a NUL, and outlives the answer.
pub(crate) unsafe fn text_at<'a>(text: *const c_char, what: &str) -> Answer<&'a str> {
    if text.is_null() {
        return Err(Failure::invalid(format!("{what} is NULL")));
    }
    // SAFETY: not null, and by the contract above NUL-terminated and alive.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|e| Failure::invalid(format!("{what} is not UTF-8: {e}")))
}

/// Checked pointer for a result. It is checked before the result is made, so that no result is lost.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Checks the pointer `out`.
    ///
    /// # Safety
    ///
    /// `out` is null or may be written while the result lives.
    pub(crate) unsafe fn new(out: *mut T, what: &str) -> Answer<Self> {
        match out.is_null() {
            true => Err(Failure::invalid(format!("{what} is NULL: the result cannot be written"))),
            false => Ok(Self(out)),
        }
    }

    /// Writes the result.
    pub(crate) fn put(&self, value: T) {
        // SAFETY: not null and writable by the contract of `new`; the old value is plain data and needs no drop.
        unsafe { self.0.write(value) };
    }
}

/// Copies `text` to a string that `forebay_string_free` frees.
pub(crate) fn leak(text: String) -> Answer<*mut c_char> {
    let text = CString::new(text).map_err(|_| Failure::invalid("the text contains a NUL"))?;
    Ok(text.into_raw())
}

/// Message of this thread's last failed call; "" before the first. Valid until this thread's next failure.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_last_error() -> *const c_char {
    // While a thread ends, the message is empty.
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Frees a string that a `char **` of this interface received. NULL is fine.
///
/// # Safety
///
/// `string` is null or comes from this library and has not been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_string_free(string: *mut c_char) {
    if !string.is_null() {
        // SAFETY: by the contract above it comes from `leak`, and this is its one release.
        drop(unsafe { CString::from_raw(string) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_code_and_a_message() {
        let status = guard(|| panic!("shard {}", 7));
        assert_eq!(status, ForebayStatus::Internal);
        // SAFETY: the last error is a C string of this thread.
        let message = unsafe { text_at(forebay_last_error(), "the message") }.expect("UTF-8");
        assert_eq!(message, "a bug in the library, please report it: shard 7");
    }

    #[test]
    fn a_message_with_a_nul_is_complete() {
        guard(|| Err(Failure::invalid("a\0b")));
        // SAFETY: the last error is a C string of this thread.
        assert_eq!(unsafe { text_at(forebay_last_error(), "the message") }.expect("UTF-8"), "a\u{fffd}b");
    }
}
