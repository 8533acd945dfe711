//! Requests in parallel.

use crate::error::{Error, Result};
use crate::sync::{Mutex, scope};

/// Files that are read at the same time: enough to hide a store's latency.
const AT_ONCE: usize = 16;

/// Calls `work` for each of `items` in several threads, and returns the results in their order.
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
    let done: Vec<Mutex<Option<T>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let each = &|| -> Result<()> {
        loop {
            let Some((number, item)) = next.lock().next() else { return Ok(()) };
            // After a failure the others stop at their next item.
            let result = work(item).inspect_err(|_| next.lock().by_ref().for_each(drop))?;
            *done[number].lock() = Some(result);
        }
    };
    scope(|scope| {
        let threads: Vec<_> = (0..threads.min(items.len())).map(|_| scope.spawn(each)).collect();
        let panicked = |_| Err(Error::internal("a request panicked"));
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(panicked))
    })?;
    done.into_iter().map(|item| item.lock().take().ok_or_else(|| Error::internal("no result"))).collect()
}
