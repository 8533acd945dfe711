//! Batches finish in any order and leave in plan order.
//!
//! [`Reorder`] is also where the pace is set: a batch may be begun when fewer than `ahead` batches lie between it and
//! the one the consumer takes next. So the number of batches in memory is bounded without ever waiting for the consumer
//! to drop a tensor.

use crate::sync::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::time::Duration;

/// The producer is woken when this part of the items that may be under way may be begun: with small items waking would cost
/// as much as they do.
const WAKE_AT: u64 = 4;

/// An ordered hand-over of items numbered from 0.
#[derive(Debug)]
pub(crate) struct Reorder<T> {
    state: Mutex<State<T>>,
    /// Something for the consumer.
    filled: Condvar,
    /// Something for the producer.
    taken: Condvar,
    /// Items that may be begun and not yet taken; at least 1.
    ahead: u64,
}

#[derive(Debug)]
struct State<T> {
    waiting: BTreeMap<u64, T>,
    /// The consumer's next item.
    next: u64,
    /// Items in all, once it is known.
    end: Option<u64>,
    /// The consumer is wanted for something else.
    called: bool,
    stopped: bool,
    /// Threads that wait for an item and for their turn. Waking costs a system call, whether somebody waits or not.
    consumers: usize,
    producers: usize,
    /// No turn before this is waited for.
    wanted: u64,
}

/// What the consumer gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken<T> {
    /// The next item.
    Item(T),
    /// There are no more.
    End,
    /// Nothing yet; call again.
    Pending,
    /// The run was stopped.
    Stopped,
}

impl<T> Reorder<T> {
    /// An empty hand-over in which `ahead` items may be under way.
    pub(crate) fn new(ahead: u64) -> Self {
        let state = State {
            waiting: BTreeMap::new(),
            next: 0,
            end: None,
            called: false,
            stopped: false,
            consumers: 0,
            producers: 0,
            wanted: 0,
        };
        Self { state: Mutex::new(state), filled: Condvar::new(), taken: Condvar::new(), ahead: ahead.max(1) }
    }

    /// Waits until item `number` may be begun; false if the run was stopped.
    pub(crate) fn wait_turn(&self, number: u64) -> bool {
        let mut state = self.state.lock();
        while !state.stopped && number >= state.next + self.ahead {
            state.wanted = if state.producers == 0 { number } else { state.wanted.min(number) };
            state.producers += 1;
            state = self.taken.wait(state);
            state.producers -= 1;
        }
        !state.stopped
    }

    /// Hands item `number` over.
    pub(crate) fn put(&self, number: u64, item: T) {
        let mut state = self.state.lock();
        if state.stopped {
            return;
        }
        let is_next = number == state.next;
        let old = state.waiting.insert(number, item);
        debug_assert!(old.is_none(), "item {number} came twice");
        if is_next {
            self.wake_consumers(state);
        }
    }

    /// Ends a change. Whoever is woken while the lock is held would only wait for that.
    fn wake_consumers(&self, state: MutexGuard<'_, State<T>>) {
        let are_waiting = state.consumers > 0;
        drop(state);
        if are_waiting {
            self.filled.notify_all();
        }
    }

    /// There are `count` items and no more.
    pub(crate) fn end(&self, count: u64) {
        let mut state = self.state.lock();
        state.end = Some(count);
        self.wake_consumers(state);
    }

    /// Has whoever waits in [`take`](Self::take), or else the next one, come back with [`Taken::Pending`] unless there is an
    /// item.
    pub(crate) fn call(&self) {
        let mut state = self.state.lock();
        state.called = true;
        self.wake_consumers(state);
    }

    /// Wakes everybody for good and drops what nobody will take.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
        self.filled.notify_all();
        self.taken.notify_all();
    }

    /// Takes the next item, waiting at most `limit`.
    pub(crate) fn take(&self, limit: Duration) -> Taken<T> {
        let mut state = self.state.lock();
        loop {
            let next = state.next;
            if let Some(item) = state.waiting.remove(&next) {
                state.next += 1;
                let turns = (state.next + self.ahead).saturating_sub(state.wanted);
                let is_worth = state.producers > 0 && turns >= (self.ahead / WAKE_AT).max(1);
                drop(state);
                if is_worth {
                    self.taken.notify_all();
                }
                return Taken::Item(item);
            }
            if state.end.is_some_and(|end| next >= end) {
                return Taken::End;
            }
            if state.stopped {
                return Taken::Stopped;
            }
            if std::mem::take(&mut state.called) {
                return Taken::Pending;
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
                return Taken::Pending;
            }
        }
    }

    /// Number of the item the consumer takes next.
    pub(crate) fn next(&self) -> u64 {
        self.state.lock().next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    #[test]
    fn items_leave_in_order_whatever_order_they_come_in() {
        let r = Reorder::new(3);
        r.put(2, 'c');
        r.put(0, 'a');
        assert_eq!(r.take(NOW), Taken::Item('a'));
        assert_eq!(r.take(NOW), Taken::Pending);
        r.put(1, 'b');
        r.end(3);
        assert_eq!((r.take(NOW), r.take(NOW), r.take(NOW)), (Taken::Item('b'), Taken::Item('c'), Taken::End));
    }

    #[test]
    fn a_call_brings_the_consumer_back_once_and_items_go_first() {
        let r = Reorder::new(2);
        r.call();
        r.put(0, 'a');
        assert_eq!(r.take(Duration::MAX), Taken::Item('a'));
        assert_eq!(r.take(Duration::MAX), Taken::Pending);
        r.put(1, 'b');
        assert_eq!(r.take(Duration::MAX), Taken::Item('b'));
    }
}

#[cfg(test)]
mod models {
    use super::*;
    use crate::sync::{Arc, AtomicU64, Ordering, model, spawn};

    const FOR_EVER: Duration = Duration::from_secs(3600);

    #[test]
    fn only_so_many_items_are_begun_ahead_of_the_consumer_and_all_leave_in_order() {
        const ITEMS: u64 = 6;
        const AHEAD: u64 = 2;
        model(|| {
            let (r, begun) = (Arc::new(Reorder::new(AHEAD)), Arc::new(AtomicU64::new(0)));
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
                assert_eq!(r.take(FOR_EVER), Taken::Item(number));
            }
            assert_eq!(r.take(FOR_EVER), Taken::End);
            producers.into_iter().for_each(|producer| producer.join().unwrap());
        });
    }

    #[test]
    fn a_producer_that_is_woken_for_several_turns_misses_none() {
        const ITEMS: u64 = 20;
        model(|| {
            let r = Arc::new(Reorder::new(8));
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
                assert_eq!(r.take(FOR_EVER), Taken::Item(number));
            }
            assert_eq!(r.take(FOR_EVER), Taken::End);
            producer.join().unwrap();
        });
    }

    #[test]
    fn the_end_wakes_a_consumer_that_waits_for_more() {
        model(|| {
            let r = Arc::new(Reorder::new(1));
            let other = r.clone();
            let producer = spawn("producer", move || {
                other.put(0, 'a');
                other.end(1);
            });
            assert_eq!((r.take(FOR_EVER), r.take(FOR_EVER)), (Taken::Item('a'), Taken::End));
            producer.unwrap().join().unwrap();
        });
    }

    #[test]
    fn a_stop_wakes_producer_and_consumer() {
        model(|| {
            let r = Arc::new(Reorder::<()>::new(1));
            let (a, b) = (r.clone(), r.clone());
            let producer = spawn("producer", move || a.wait_turn(9)).unwrap();
            let consumer = spawn("consumer", move || b.take(FOR_EVER)).unwrap();
            r.stop();
            assert!(!producer.join().unwrap());
            assert_eq!(consumer.join().unwrap(), Taken::Stopped);
        });
    }
}
