//! Requests of a catalog in parallel.

use crate::error::{Error, Result};
use crate::sync::{self, Mutex};

/// Files that are read at the same time: enough to hide a store's latency.
const AT_ONCE: usize = 16;

/// Calls `work` for each of `items` in several threads, and returns the results in their order.
///
/// # Errors
///
/// The error of the first item that has one. After a failure no thread begins a further item.
pub(super) fn in_parallel<I: Sync, T: Send>(items: &[I], work: impl Fn(&I) -> Result<T> + Sync) -> Result<Vec<T>> {
    in_threads(AT_ONCE, items, work)
}

/// As [`in_parallel`], in up to `threads` threads.
pub(super) fn in_threads<I: Sync, T: Send>(
    threads: usize,
    items: &[I],
    work: impl Fn(&I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = Mutex::new(items.iter().enumerate());
    let work_on_items = || {
        let mut done = Vec::new();
        loop {
            // The lock is free again while the item is worked on.
            let taken = next.lock().next();
            let Some((number, item)) = taken else { return done };
            let result = work(item).inspect_err(|_| next.lock().by_ref().for_each(drop));
            done.push((number, result));
        }
    };
    let all = sync::in_threads(threads.min(items.len()), work_on_items).into_iter();
    let all = all.map(|done| done.map_err(|_| Error::internal("a request panicked")));
    let mut all: Vec<(usize, Result<T>)> = all.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    // Items are begun in their order, so those before the first that failed have results.
    all.sort_unstable_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_the_items() {
        let items: Vec<usize> = (0..1000).collect();
        assert_eq!(in_parallel(&items, |item| Ok(item * 2)).unwrap()[999], 1998);
        assert!(in_parallel(&[], |_: &usize| Ok(())).unwrap().is_empty());
    }

    #[test]
    fn the_error_is_the_first_failing_item_s() {
        let items: Vec<usize> = (0..100).collect();
        let failing = |item: &usize| if item % 10 == 7 { Err(Error::config(item.to_string())) } else { Ok(()) };
        assert_eq!(in_threads(4, &items, failing).unwrap_err().to_string(), "7");
        let e = in_threads(4, &items, |_| -> Result<()> { panic!("on purpose") }).unwrap_err();
        assert_eq!(e.kind(), crate::error::ErrorKind::Internal);
    }
}
