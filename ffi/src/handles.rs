//! Objects by handle.
//!
//! In C a handle is a pointer, but its value is a number that is never reused. It is looked up in a table and never
//! dereferenced, so a freed or wrong handle is an error and not a crash. A call in progress keeps its object alive when
//! a second thread frees it. A forked child has a new table: the parent's handles are errors there.

use crate::process::PerProcess;
use crate::status::{CallError, CallResult};
use forebay_loader::sync::{Arc, AtomicUsize, Mutex, Ordering};
use forebay_loader::{Error, ErrorKind};
use std::collections::BTreeMap;

/// Kinds of handles. The number of a handle divided by 16 leaves its kind, so a batch's handle is never a loader's.
#[derive(Clone, Copy)]
pub(crate) enum HandleKind {
    Loader = 1,
    Batch = 2,
    Reader = 3,
    Sample = 4,
    Writer = 5,
}

impl HandleKind {
    fn noun(self) -> &'static str {
        match self {
            Self::Loader => "loader",
            Self::Batch => "batch",
            Self::Reader => "reader",
            Self::Sample => "sample",
            Self::Writer => "writer",
        }
    }
}

/// Live objects of one kind.
pub(crate) struct Handles<T: 'static> {
    kind: HandleKind,
    /// Handles made so far, by this process and those before it.
    issued: AtomicUsize,
    table: PerProcess<HandleTable<T>>,
}

struct HandleTable<T> {
    /// Handles that were made before this process was forked.
    inherited: usize,
    live: Mutex<BTreeMap<usize, Arc<T>>>,
}

impl<T: Send + Sync> Handles<T> {
    /// Makes an empty table.
    pub(crate) const fn new(kind: HandleKind) -> Self {
        Self { kind, issued: AtomicUsize::new(0), table: PerProcess::new() }
    }

    fn table(&self) -> &HandleTable<T> {
        let inherited = || self.issued.load(Ordering::Relaxed);
        self.table.get_or_make(|| HandleTable { inherited: inherited(), live: Mutex::default() })
    }

    /// Returns a handle for `value`.
    pub(crate) fn insert<P>(&self, value: T) -> *mut P {
        let table = self.table();
        let handle = (self.issued.fetch_add(1, Ordering::Relaxed) + 1) * 16 + self.kind as usize;
        table.live.lock().insert(handle, Arc::new(value));
        std::ptr::without_provenance_mut(handle)
    }

    /// Returns the object of `handle`.
    pub(crate) fn get<P>(&self, handle: *const P) -> CallResult<Arc<T>> {
        let table = self.table();
        let found = table.live.lock().get(&handle.addr()).cloned();
        found.ok_or_else(|| self.missing(handle.addr(), table.inherited))
    }

    /// Returns the error for a handle without an object.
    fn missing(&self, handle: usize, inherited: usize) -> CallError {
        let noun = self.kind.noun();
        if handle == 0 {
            return CallError::argument(format!("the {noun} is NULL"));
        }
        if handle % 16 == self.kind as usize && (1..=inherited).contains(&(handle / 16)) {
            let message = format!("the {noun} belongs to the process that made it: make one in each forked child");
            return Error::new(ErrorKind::Closed, message).into();
        }
        let message =
            format!("the handle is not a live {noun}: it was freed, or belongs to a different kind of object");
        CallError::argument(message)
    }

    /// Removes `handle` and returns its object. The caller drops it without a lock, because ending a loader joins its
    /// threads.
    pub(crate) fn remove<P>(&self, handle: *const P) -> Option<Arc<T>> {
        self.table().live.lock().remove(&handle.addr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_handle_is_an_error_and_is_never_reused() {
        let (numbers, others) = (Handles::new(HandleKind::Loader), Handles::<u8>::new(HandleKind::Batch));
        let first: *mut u8 = numbers.insert(7u8);
        assert_eq!(*numbers.get(first).expect("alive"), 7);
        assert!(others.get(first).is_err());
        assert_eq!(numbers.remove(first).as_deref(), Some(&7));
        assert_eq!(numbers.remove(first), None);
        assert_ne!(numbers.insert::<u8>(8), first);
        assert!(numbers.get(first).is_err());
        assert!(numbers.get(std::ptr::null::<u8>()).is_err());
    }
}
