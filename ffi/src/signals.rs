//! Signals: the library's threads block them, so that they reach the program's own threads.
//!
//! SIGPIPE is one of them: a C program that does not ignore it would end when a store closes a connection.

use forebay_loader::sync::prepare_threads;
use std::mem::MaybeUninit;

/// Makes all threads that the engine starts from here on block all signals, except the signals of their own faults.
pub(crate) fn keep_from_threads() {
    prepare_threads(block_all);
}

fn block_all() {
    let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the address of a set of signals.
    unsafe { libc::sigfillset(signals.as_mut_ptr()) };
    for fault in [libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGSEGV, libc::SIGTRAP] {
        // SAFETY: initialised by sigfillset above.
        unsafe { libc::sigdelset(signals.as_mut_ptr(), fault) };
    }
    // SAFETY: the set is initialised, and the old mask is not wanted. Only this thread's mask changes.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, signals.as_ptr(), std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_loader::sync::spawn;

    /// Returns true if the calling thread blocks `signal`.
    fn is_blocked(signal: i32) -> bool {
        let mut mask = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: without a new set the call only writes the thread's mask.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr()) };
        // SAFETY: initialised by the call above.
        unsafe { libc::sigismember(mask.as_ptr(), signal) == 1 }
    }

    #[test]
    fn threads_of_the_engine_block_signals_and_their_maker_does_not() {
        keep_from_threads();
        let signals = [libc::SIGINT, libc::SIGPIPE, libc::SIGTERM, libc::SIGSEGV, libc::SIGBUS];
        let blocked = spawn("test", move || signals.map(is_blocked)).expect("a thread").join().expect("it ends");
        assert_eq!(blocked, [true, true, true, false, false]);
        assert_eq!(signals.map(is_blocked), [false; 5]);
    }
}
