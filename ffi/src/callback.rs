//! Calls of the program's functions by the library.

use std::cell::Cell;

thread_local! {
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Returns true on a thread that is in a callback. It may hold locks of the engine.
pub(crate) fn is_running() -> bool {
    IS_RUNNING.get()
}

/// Runs `body`, which calls a callback.
pub(crate) fn run(body: impl FnOnce()) {
    IS_RUNNING.set(true);
    body();
    IS_RUNNING.set(false);
}
