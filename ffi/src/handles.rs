//! Loaders and batches by handle.
//!
//! In C a handle is a pointer, but its value is a number that is never reused. It is looked up in a table and never
//! dereferenced, so a freed or wrong handle is an error and not a crash. A call in progress keeps its loader alive when
//! another thread frees it.

use crate::status::{Answer, Failure};
use forebay_loader::sync::{Arc, Mutex};
use std::collections::BTreeMap;

/// Live objects of one kind.
pub(crate) struct Handles<T> {
    what: &'static str,
    /// The remainder by 16 of its handles, so that a batch's handle is never a loader's.
    kind: usize,
    table: Mutex<HandleTable<T>>,
}

struct HandleTable<T> {
    issued: usize,
    live: BTreeMap<usize, Arc<T>>,
}

impl<T> Handles<T> {
    /// Makes an empty table. `kind` is below 16 and differs between tables.
    pub(crate) const fn new(what: &'static str, kind: usize) -> Self {
        Self { what, kind, table: Mutex::new(HandleTable { issued: 0, live: BTreeMap::new() }) }
    }

    /// Returns a handle for `value`.
    pub(crate) fn insert<P>(&self, value: T) -> *mut P {
        let mut table = self.table.lock();
        table.issued += 1;
        let handle = table.issued * 16 + self.kind;
        table.live.insert(handle, Arc::new(value));
        std::ptr::without_provenance_mut(handle)
    }

    /// Returns the object of `handle`.
    pub(crate) fn get<P>(&self, handle: *const P) -> Answer<Arc<T>> {
        let found = self.table.lock().live.get(&handle.addr()).cloned();
        found.ok_or_else(|| match handle.is_null() {
            true => Failure::invalid(format!("the {} is NULL", self.what)),
            false => Failure::invalid(format!(
                "the handle is not a live {}: it was freed, or belongs to another kind of object",
                self.what
            )),
        })
    }

    /// Removes `handle`; returns false if it was not live.
    pub(crate) fn remove<P>(&self, handle: *const P) -> bool {
        let gone = self.table.lock().live.remove(&handle.addr());
        // Dropped after the lock is released, because ending a loader joins its threads.
        gone.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_handle_is_an_error_and_is_never_reused() {
        let (numbers, others) = (Handles::new("number", 1), Handles::<u8>::new("other", 2));
        let first: *mut u8 = numbers.insert(7u8);
        assert_eq!(*numbers.get(first).expect("alive"), 7);
        assert!(others.get(first).is_err());
        assert!(numbers.remove(first));
        assert!(!numbers.remove(first));
        assert_ne!(numbers.insert::<u8>(8), first);
        assert!(numbers.get(first).is_err());
        assert!(numbers.get(std::ptr::null::<u8>()).is_err());
    }
}
