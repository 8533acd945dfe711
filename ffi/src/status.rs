//! Codes, the last error, and the guard.

use crate::{callback, main_thread};
use forebay_loader::{Error, ErrorKind};
use serde_json::{Map, Value, json};
use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Result of a call. Every status except OK, END and PENDING is an error with a message in `forebay_last_error`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForebayStatus {
    /// Done.
    Ok = 0,
    /// End of the epoch.
    End = 1,
    /// A null pointer, a handle that is not live, text that is not UTF-8, a number out of range, or a call from the log
    /// callback.
    Invalid = 2,
    /// An argument or a combination of arguments is wrong.
    Config = 3,
    /// A file, object or sample does not exist.
    NotFound = 4,
    /// The store or the file system refuses access.
    Permission = 5,
    /// The network failed.
    Network = 6,
    /// Too few bytes arrived within `fetch.timeout`, or nothing changed for `engine.stall_timeout`.
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
    /// A system call failed for a reason without a separate status.
    Io = 15,
    /// The loader is closed, no epoch is in progress, or this is a forked child.
    Closed = 16,
    /// A bug in the library: please report it.
    Internal = 17,
    /// No batch within the timeout of `forebay_loader_next_within`: call again.
    Pending = 18,
}

impl ForebayStatus {
    /// The status's name in lower case, as in `forebay_last_error_json`.
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::End => "end",
            Self::Invalid => "invalid",
            Self::Config => "config",
            Self::NotFound => "not_found",
            Self::Permission => "permission",
            Self::Network => "network",
            Self::Timeout => "timeout",
            Self::Checksum => "checksum",
            Self::Format => "format",
            Self::Decode => "decode",
            Self::Unsupported => "unsupported",
            Self::Full => "full",
            Self::State => "state",
            Self::Stale => "stale",
            Self::Io => "io",
            Self::Closed => "closed",
            Self::Internal => "internal",
            Self::Pending => "pending",
        }
    }
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

/// Error of a call.
#[derive(Debug)]
pub(crate) struct CallError {
    status: ForebayStatus,
    /// Sentence with the facts and the cause.
    message: String,
    /// Facts by name, innermost first.
    context: Vec<(&'static str, String)>,
}

impl CallError {
    /// Error for a wrong argument of the call.
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self { status: ForebayStatus::Invalid, message: message.into(), context: Vec::new() }
    }

    /// Adds a fact.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.message = format!("{} ({name} {value})", self.message);
        self.context.push((name, value.to_owned()));
        self
    }

    fn to_json(&self) -> String {
        let mut context = Map::new();
        for (name, value) in &self.context {
            // The innermost fact of a name is the most specific one.
            context.entry(*name).or_insert_with(|| Value::from(value.as_str()));
        }
        let Self { status, message, .. } = self;
        json!({"status": status.name(), "code": *status as u32, "message": message, "context": context}).to_string()
    }
}

impl From<Error> for CallError {
    fn from(error: Error) -> Self {
        let context = error.context().to_vec();
        Self { status: error.kind().into(), message: error.to_string(), context }
    }
}

/// Result of a function's body.
pub(crate) type CallResult<T = ForebayStatus> = Result<T, CallError>;

/// Last error of a thread, as C strings.
#[derive(Default)]
struct LastError {
    message: CString,
    json: CString,
}

thread_local! {
    static LAST: RefCell<LastError> = RefCell::default();
    static LAST_STATUS: Cell<ForebayStatus> = const { Cell::new(ForebayStatus::Ok) };
}

fn record(error: &CallError) {
    // A message may quote data that contains a NUL, which would end the text in C. In JSON a NUL is escaped.
    let message = CString::new(error.message.replace('\0', "\u{fffd}")).unwrap_or_default();
    let json = CString::new(error.to_json()).unwrap_or_default();
    LAST_STATUS.set(error.status);
    // While a thread ends, its last error is gone and no code can read it.
    let _ = LAST.try_with(|last| last.replace(LastError { message, json }));
}

/// Runs a function's body: errors become the status and the last error, and no panic unwinds into C.
pub(crate) fn guard(body: impl FnOnce() -> CallResult) -> ForebayStatus {
    main_thread::keep();
    let checked = || {
        if callback::is_running() {
            let message = "this call comes from the log callback, which must not call the library";
            return Err(CallError::argument(message));
        }
        body()
    };
    let error = match catch_unwind(AssertUnwindSafe(checked)) {
        Ok(Ok(status)) => return status,
        Ok(Err(error)) => error,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            Error::internal(format!("a bug in the library, please report it: {text}")).into()
        }
    };
    record(&error);
    error.status
}

/// Message of this thread's last failed call; "" before the first. Valid until this thread's next failure.
///
/// Threads: any; each has its own.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_last_error() -> *const c_char {
    // While a thread ends, the message is empty.
    LAST.try_with(|last| last.borrow().message.as_ptr()).unwrap_or(c"".as_ptr())
}

/// Status of this thread's last failed call; FOREBAY_STATUS_OK before the first.
///
/// Threads: any; each has its own.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_last_status() -> ForebayStatus {
    LAST_STATUS.get()
}

/// This thread's last failed call as JSON, "" before the first: `status`, its name in lower case such as "not_found";
/// `code`, its number; `message`; `context`, an object of texts with the facts that are known, such as `file`, `shard`,
/// `sample`, `column`, `stream`. Valid until this thread's next failure.
///
/// Threads: any; each has its own.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_last_error_json() -> *const c_char {
    LAST.try_with(|last| last.borrow().json.as_ptr()).unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::text_at;

    fn last() -> (String, Value) {
        // SAFETY: the last error is a C string of this thread.
        let message = unsafe { text_at(forebay_last_error(), "the message") }.expect("UTF-8").to_owned();
        // SAFETY: as above.
        let json = unsafe { text_at(forebay_last_error_json(), "the error") }.expect("UTF-8");
        (message, serde_json::from_str(json).expect("JSON"))
    }

    #[test]
    fn a_panic_becomes_a_code_and_a_message() {
        let status = guard(|| panic!("shard {}", 7));
        assert_eq!((status, forebay_last_status()), (ForebayStatus::Internal, ForebayStatus::Internal));
        assert_eq!(last().0, "a bug in the library, please report it: shard 7");
    }

    #[test]
    fn a_message_with_a_nul_is_complete() {
        guard(|| Err(CallError::argument("a\0b")));
        assert_eq!(
            last(),
            ("a\u{fffd}b".to_owned(), json!({"status": "invalid", "code": 2, "message": "a\0b", "context": {}}))
        );
    }

    #[test]
    fn the_innermost_fact_of_a_name_is_reported() {
        let error = || Error::format("bad").with("shard", "shard.00003.mds").with("sample", 17).with("shard", 3);
        assert_eq!(guard(|| Err(error().into())), ForebayStatus::Format);
        let (message, json) = last();
        assert_eq!(message, error().to_string());
        assert_eq!(json["context"], json!({"shard": "shard.00003.mds", "sample": "17"}));
    }
}
