//! State of the running process: the number of its forks decides which handles are valid.

use forebay_loader::sync::{AtomicU32, OnceLock, Ordering};
use std::sync::atomic::AtomicPtr;

/// Number of forks between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Runs first in a forked child.
extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Returns a number that differs between a process and its children. Every call of the library needs it, and the
/// process's id would be a system call.
fn generation() -> u32 {
    static IS_COUNTED: OnceLock<bool> = OnceLock::new();
    // SAFETY: `count_fork` only adds to an atomic, which is allowed in a forked child.
    let count = || unsafe { libc::pthread_atfork(None, None, Some(count_fork)) } == 0;
    if *IS_COUNTED.get_or_init(count) { FORKS.load(Ordering::Relaxed) } else { std::process::id() }
}

/// A value that belongs to the running process. A forked child gets a new one: locks in its copy of the parent's value
/// may be held by threads that do not exist in the child.
///
/// Invariant: `current` is null or comes from `Box::into_raw` and is never freed.
pub(crate) struct PerProcess<T: 'static> {
    current: AtomicPtr<Owned<T>>,
}

struct Owned<T> {
    generation: u32,
    value: T,
    /// The parent's value, so that checkers of leaks find it in use.
    _parent: *const Owned<T>,
}

impl<T: Sync> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self { current: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Returns this process's value, which the first call makes with `make`.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        let generation = generation();
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: by the type's invariant it is null or a value that is never freed.
        if let Some(owned) = unsafe { current.as_ref() }
            && owned.generation == generation
        {
            return &owned.value;
        }
        let new = Box::into_raw(Box::new(Owned { generation, value: make(), _parent: current }));
        match self.current.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: just made, and never freed from here on.
            Ok(_) => unsafe { &(*new).value },
            Err(other) => {
                // SAFETY: just made above, and not published because a different thread was faster.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: not null, since only a value replaces a value, and never freed.
                unsafe { &(*other).value }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_loader::sync::AtomicU32;

    #[test]
    fn a_process_makes_its_value_once() {
        let (value, made) = (PerProcess::new(), AtomicU32::new(0));
        let get = || *value.get_or_make(|| made.fetch_add(1, Ordering::Relaxed));
        assert_eq!((get(), get()), (0, 0));
        assert_eq!(made.into_inner(), 1);
    }
}
