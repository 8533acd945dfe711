//! Handle of the program's main thread.

use forebay_loader::sync::OnceLock;
use std::cell::Cell;
use std::thread::Thread;

thread_local! {
    static IS_KNOWN: Cell<bool> = const { Cell::new(false) };
}

/// Keeps the handle that the standard library makes of the calling thread, if that is the main one.
///
/// The library waits in the calling thread, which needs a handle. Every thread frees its own at its end, but the main
/// one, which ends with the process: there the last pointer leads into the middle of the handle, and checkers of leaks
/// count it as possibly lost.
pub(crate) fn keep() {
    static MAIN: OnceLock<Thread> = OnceLock::new();
    // SAFETY: the call has no conditions.
    let is_main = || unsafe { libc::gettid() }.cast_unsigned() == std::process::id();
    if !IS_KNOWN.replace(true) && is_main() {
        MAIN.get_or_init(std::thread::current);
    }
}
