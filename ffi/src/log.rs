//! Functions `forebay_log_*`: the engine's log lines.

use crate::callback;
use crate::process::PerProcess;
use crate::status::{CallError, ForebayStatus, guard};
use ::log::{Level, LevelFilter, Log, Metadata, Record};
use forebay_loader::sync::{Mutex, OnceLock};
use forebay_loader::{Error, ErrorKind};
use std::ffi::{CString, c_char, c_void};

/// Importance of a log line.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForebayLogLevel {
    /// Something failed.
    Error = 1,
    /// Something is probably wrong or slow.
    Warn = 2,
    /// Decisions that are made once.
    Info = 3,
    /// Details for working on the library.
    Debug = 4,
}

/// Function that receives log lines: `context` as passed to `forebay_log_set`, level, and message, which is valid
/// during the call.
pub type ForebayLogCallback =
    Option<unsafe extern "C" fn(context: *mut c_void, level: ForebayLogLevel, message: *const c_char)>;

/// Receiver of log lines.
struct Receiver {
    callback: unsafe extern "C" fn(*mut c_void, ForebayLogLevel, *const c_char),
    /// Address of the caller's data.
    context: usize,
}

/// The lock is held during a call of the callback, so that calls are in sequence, and none is in progress when
/// `forebay_log_set` returns.
static RECEIVER: PerProcess<Mutex<Option<Receiver>>> = PerProcess::new();

fn receiver() -> &'static Mutex<Option<Receiver>> {
    RECEIVER.get_or_make(Mutex::default)
}

struct Forwarder;

impl Log for Forwarder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("forebay")
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) || callback::is_running() {
            return;
        }
        let level = match record.level() {
            Level::Error => ForebayLogLevel::Error,
            Level::Warn => ForebayLogLevel::Warn,
            Level::Info => ForebayLogLevel::Info,
            Level::Debug | Level::Trace => ForebayLogLevel::Debug,
        };
        let message = CString::new(record.args().to_string().replace('\0', "\u{fffd}")).unwrap_or_default();
        if let Some(Receiver { callback, context }) = &*receiver().lock() {
            let context = std::ptr::with_exposed_provenance_mut(*context);
            // SAFETY: the function and its context are valid by the contract of `forebay_log_set`.
            callback::run(|| unsafe { callback(context, level, message.as_ptr()) });
        }
    }

    fn flush(&self) {}
}

/// Passes log lines up to `level`, a ForebayLogLevel, to `callback`; NULL ends that. When the call returns, the
/// callback before it is not running and is not called again. A forked child has no callback until it sets one.
///
/// The callback runs on the thread that logs, which is often a thread of the library, one call at a time. It must
/// return soon, must not throw or `longjmp`, and must not wait for a thread that is in a call of this library.
/// Functions of this library that it calls fail with FOREBAY_STATUS_INVALID.
///
/// Threads: any.
///
/// # Safety
///
/// `callback` is null, or it and `context` are valid until the next callback is set, on all threads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_log_set(
    level: u32,
    callback: ForebayLogCallback,
    context: *mut c_void,
) -> ForebayStatus {
    guard(|| {
        let level = match level {
            1 => LevelFilter::Error,
            2 => LevelFilter::Warn,
            3 => LevelFilter::Info,
            4 => LevelFilter::Debug,
            _ => return Err(CallError::argument(format!("{level} is not a log level: pass 1 to 4"))),
        };
        static INSTALLED: OnceLock<bool> = OnceLock::new();
        if !INSTALLED.get_or_init(|| ::log::set_logger(&Forwarder).is_ok()) {
            let message = "the program that this library is linked into receives the log lines already";
            return Err(Error::new(ErrorKind::Unsupported, message).into());
        }
        let mut receiver = receiver().lock();
        *receiver = callback.map(|callback| Receiver { callback, context: context.expose_provenance() });
        ::log::set_max_level(if receiver.is_some() { level } else { LevelFilter::Off });
        Ok(ForebayStatus::Ok)
    })
}
