//! Reorder queue: batches finish in any order and leave in plan order.
//!
//! [`ReorderQueue`] also limits the prefetch: a batch may begin when there are fewer than `ahead` batches between it
//! and the one that the consumer takes next. This bounds the number of batches in memory without ever waiting for the
//! consumer to drop a tensor.

use crate::sync::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::time::Duration;

/// The producer is woken when one `WAKE_AT`th of the items that may be in flight may begin. Waking it for every item
/// costs as much as small items themselves.
const WAKE_AT: u64 = 4;

/// Queue that delivers items in the order of their numbers, which start at 0.
#[derive(Debug)]
pub struct ReorderQueue<T> {
    state: Mutex<ReorderState<T>>,
    /// Notified when the consumer's next item is there.
    filled: Condvar,
    /// Notified when further items may begin.
    taken: Condvar,
    /// Items that may have begun and not been taken; at least 1.
    ahead: u64,
}

#[derive(Debug)]
struct ReorderState<T> {
    waiting: BTreeMap<u64, T>,
    /// Number of the consumer's next item.
    next: u64,
    /// Total number of items, once it is known.
    end: Option<u64>,
    /// The consumer must return with [`TakeOutcome::Pending`].
    interrupted: bool,
    stopped: bool,
    /// Threads that wait for an item, and for their turn. Waking costs a system call even if no thread waits.
    consumers: usize,
    producers: usize,
    /// Lowest turn that a producer waits for.
    turn_awaited: u64,
}

/// Result of taking an item.
#[derive(Debug, PartialEq, Eq)]
pub enum TakeOutcome<T> {
    /// The next item.
    Item(T),
    /// All items have been taken.
    End,
    /// The item is not there yet: take again.
    Pending,
    /// The run was stopped.
    Stopped,
}

impl<T> ReorderQueue<T> {
    /// An empty queue in which `ahead` items may be in flight.
    pub fn new(ahead: u64) -> Self {
        let state = ReorderState {
            waiting: BTreeMap::new(),
            next: 0,
            end: None,
            interrupted: false,
            stopped: false,
            consumers: 0,
            producers: 0,
            turn_awaited: 0,
        };
        Self { state: Mutex::new(state), filled: Condvar::new(), taken: Condvar::new(), ahead: ahead.max(1) }
    }

    /// Waits until item `number` may begin; returns false if the run was stopped.
    pub fn wait_turn(&self, number: u64) -> bool {
        let mut state = self.state.lock();
        while !state.stopped && number >= state.next + self.ahead {
            state.turn_awaited = if state.producers == 0 { number } else { state.turn_awaited.min(number) };
            state.producers += 1;
            state = self.taken.wait(state);
            state.producers -= 1;
        }
        !state.stopped
    }

    /// Adds item `number`.
    pub fn put(&self, number: u64, item: T) {
        let mut state = self.state.lock();
        if state.stopped {
            return;
        }
        let is_next = number == state.next;
        let old = state.waiting.insert(number, item);
        debug_assert!(old.is_none(), "item {number} was added twice");
        if is_next {
            self.wake_consumers(state);
        }
    }

    /// Releases the lock, then wakes consumers: one that wakes earlier would only wait for the lock.
    fn wake_consumers(&self, state: MutexGuard<'_, ReorderState<T>>) {
        let are_waiting = state.consumers > 0;
        drop(state);
        if are_waiting {
            self.filled.notify_all();
        }
    }

    /// Sets the total number of items.
    pub fn end(&self, count: u64) {
        let mut state = self.state.lock();
        state.end = Some(count);
        self.wake_consumers(state);
    }

    /// Makes the current call of [`take`](Self::take), or else the next one, return [`TakeOutcome::Pending`] unless it
    /// has an item.
    pub fn interrupt(&self) {
        let mut state = self.state.lock();
        state.interrupted = true;
        self.wake_consumers(state);
    }

    /// Ends all waits, now and later, and drops the items.
    pub fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
        self.filled.notify_all();
        self.taken.notify_all();
    }

    /// Takes the next item, waiting at most `limit`.
    pub fn take(&self, limit: Duration) -> TakeOutcome<T> {
        let mut state = self.state.lock();
        loop {
            let next = state.next;
            if let Some(item) = state.waiting.remove(&next) {
                state.next += 1;
                let turns = (state.next + self.ahead).saturating_sub(state.turn_awaited);
                let wakes_producers = state.producers > 0 && turns >= (self.ahead / WAKE_AT).max(1);
                drop(state);
                if wakes_producers {
                    self.taken.notify_all();
                }
                return TakeOutcome::Item(item);
            }
            if state.end.is_some_and(|end| next >= end) {
                return TakeOutcome::End;
            }
            if state.stopped {
                return TakeOutcome::Stopped;
            }
            if std::mem::take(&mut state.interrupted) {
                return TakeOutcome::Pending;
            }
            state.consumers += 1;
            let (guard, timed_out) = self.filled.wait_timeout(state, limit);
            state = guard;
            state.consumers -= 1;
            if timed_out
                && !state.waiting.contains_key(&state.next)
                && !state.stopped
                && state.end.is_none_or(|end| state.next < end)
            {
                return TakeOutcome::Pending;
            }
        }
    }

    /// Number of the item the consumer takes next.
    pub fn next(&self) -> u64 {
        self.state.lock().next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    #[test]
    fn items_leave_in_order_whatever_the_order_of_their_arrival() {
        let r = ReorderQueue::new(3);
        r.put(2, 'c');
        r.put(0, 'a');
        assert_eq!(r.take(NOW), TakeOutcome::Item('a'));
        assert_eq!(r.take(NOW), TakeOutcome::Pending);
        r.put(1, 'b');
        r.end(3);
        assert_eq!(
            (r.take(NOW), r.take(NOW), r.take(NOW)),
            (TakeOutcome::Item('b'), TakeOutcome::Item('c'), TakeOutcome::End)
        );
    }

    #[test]
    fn an_interrupt_ends_one_wait_and_items_go_first() {
        let r = ReorderQueue::new(2);
        r.interrupt();
        r.put(0, 'a');
        assert_eq!(r.take(Duration::MAX), TakeOutcome::Item('a'));
        assert_eq!(r.take(Duration::MAX), TakeOutcome::Pending);
        r.put(1, 'b');
        assert_eq!(r.take(Duration::MAX), TakeOutcome::Item('b'));
    }
}

#[cfg(test)]
mod models {
    use super::*;
    use crate::sync::{Arc, AtomicU64, Ordering, model, spawn};

    const UNBOUNDED: Duration = Duration::from_secs(3600);

    #[test]
    fn items_that_begin_ahead_of_the_consumer_are_limited_and_all_leave_in_order() {
        const ITEMS: u64 = 6;
        const AHEAD: u64 = 2;
        model(|| {
            let (r, begun) = (Arc::new(ReorderQueue::new(AHEAD)), Arc::new(AtomicU64::new(0)));
            let producers = [0, 1].map(|first| {
                let (r, begun) = (r.clone(), begun.clone());
                let body = move || {
                    for number in (first..ITEMS).step_by(2) {
                        assert!(r.wait_turn(number));
                        begun.fetch_max(number, Ordering::SeqCst);
                        r.put(number, number);
                    }
                };
                spawn("producer", body).unwrap()
            });
            r.end(ITEMS);
            for number in 0..ITEMS {
                // Before this take, the consumer's next item is `number`.
                assert!(begun.load(Ordering::SeqCst) < number + AHEAD);
                assert_eq!(r.take(UNBOUNDED), TakeOutcome::Item(number));
            }
            assert_eq!(r.take(UNBOUNDED), TakeOutcome::End);
            producers.into_iter().for_each(|producer| producer.join().unwrap());
        });
    }

    #[test]
    fn a_producer_that_is_woken_for_several_turns_misses_none() {
        const ITEMS: u64 = 20;
        model(|| {
            let r = Arc::new(ReorderQueue::new(8));
            let other = r.clone();
            let body = move || {
                for number in 0..ITEMS {
                    assert!(other.wait_turn(number));
                    other.put(number, number);
                }
                other.end(ITEMS);
            };
            let producer = spawn("producer", body).unwrap();
            for number in 0..ITEMS {
                assert_eq!(r.take(UNBOUNDED), TakeOutcome::Item(number));
            }
            assert_eq!(r.take(UNBOUNDED), TakeOutcome::End);
            producer.join().unwrap();
        });
    }

    #[test]
    fn the_end_wakes_a_consumer_that_waits_for_more() {
        model(|| {
            let r = Arc::new(ReorderQueue::new(1));
            let other = r.clone();
            let producer = spawn("producer", move || {
                other.put(0, 'a');
                other.end(1);
            });
            assert_eq!((r.take(UNBOUNDED), r.take(UNBOUNDED)), (TakeOutcome::Item('a'), TakeOutcome::End));
            producer.unwrap().join().unwrap();
        });
    }

    #[test]
    fn a_stop_wakes_producer_and_consumer() {
        model(|| {
            let r = Arc::new(ReorderQueue::<()>::new(1));
            let (a, b) = (r.clone(), r.clone());
            let producer = spawn("producer", move || a.wait_turn(9)).unwrap();
            let consumer = spawn("consumer", move || b.take(UNBOUNDED)).unwrap();
            r.stop();
            assert!(!producer.join().unwrap());
            assert_eq!(consumer.join().unwrap(), TakeOutcome::Stopped);
        });
    }
}
