//! Threads that share a session, in many orders.

use super::scripted::{BATCHES, Handle, Item, Rig, begin_take, item, next, of_epoch, take};
use crate::error::ErrorKind;
use crate::sync::{Arc, AtomicU64, JoinHandle, Ordering, model, spawn};

/// Starts a thread that delivers batches until the pass ends for it, and returns them.
fn deliver_all(pass: &Arc<Handle>) -> JoinHandle<Vec<Item>> {
    let pass = pass.clone();
    spawn("taker", move || std::iter::from_fn(|| next(&pass).ok().flatten()).collect()).expect("a thread")
}

fn sorted(batches: impl IntoIterator<Item = Vec<Item>>) -> Vec<Item> {
    let mut all: Vec<_> = batches.into_iter().flatten().collect();
    all.sort_unstable();
    all
}

#[test]
fn threads_that_share_a_pass_get_each_batch_once() {
    for devices in [1, 2] {
        model(move || {
            let rig = Rig::new(devices);
            let pass = Arc::new(rig.begin());
            let takers = [deliver_all(&pass), deliver_all(&pass)];
            let found = takers.map(|taker| taker.join().expect("no panic"));
            assert!(found.iter().all(|batches| batches.is_sorted()));
            assert_eq!(sorted(found), of_epoch(0, 0));
            assert_eq!(rig.state(), (1, 0));
        });
    }
}

#[test]
fn a_batch_of_a_failed_call_is_delivered_once() {
    model(|| {
        let rig = Rig::new(2);
        let pass = Arc::new(rig.begin());
        let takers = [deliver_all(&pass), deliver_all(&pass)];
        // An interrupt in a wait, after it, and after a delivery that did not arrive.
        let interrupted = begin_take(&pass, false).expect("no error");
        drop(interrupted);
        let failed = take(&pass).expect("no error");
        drop(failed);
        if let Some(undone) = take(&pass).expect("no error") {
            undone.deliver();
            undone.release();
        }
        let mut found = takers.map(|taker| taker.join().expect("no panic")).to_vec();
        // The last ones may have come back after the takers have seen the end.
        found.push(std::iter::from_fn(|| next(&pass).expect("no error")).collect());
        assert_eq!(sorted(found), of_epoch(0, 0));
    });
}

#[test]
fn a_state_is_between_the_deliveries_before_and_after_it() {
    for takes_ahead in [false, true] {
        model(move || {
            let rig = Rig::with(2, takes_ahead);
            let pass = Arc::new(rig.begin());
            let (session, begun, delivered) =
                (rig.session.clone(), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
            let (count_begun, count_delivered) = (begun.clone(), delivered.clone());
            let handler = spawn("handler", move || {
                for _ in 0..2 {
                    let least = count_delivered.load(Ordering::SeqCst);
                    let state = session.state().expect("a state").0;
                    let most = count_begun.load(Ordering::SeqCst);
                    let samples = state.0 * BATCHES + state.1;
                    assert!((least..=most).contains(&samples), "{least} <= {state:?} <= {most}");
                }
            });
            for number in 0..BATCHES {
                let taken = take(&pass).expect("no error").expect("a batch");
                assert_eq!(item(&taken), (0, number));
                if takes_ahead {
                    let _ahead = pass.take_ahead(1);
                }
                begun.fetch_add(1, Ordering::SeqCst);
                taken.deliver();
                delivered.fetch_add(1, Ordering::SeqCst);
            }
            assert!(take(&pass).expect("no error").is_none());
            handler.expect("a thread").join().expect("no panic");
        });
    }
}

#[test]
fn batches_taken_ahead_by_one_thread_are_delivered_once_by_all() {
    model(|| {
        let rig = Rig::with(2, true);
        let pass = Arc::new(rig.begin());
        let taker = deliver_all(&pass);
        for _ in 0..2 {
            let _ahead = pass.take_ahead(1);
        }
        let ours: Vec<_> = std::iter::from_fn(|| next(&pass).expect("no error")).collect();
        assert_eq!(sorted([ours, taker.join().expect("no panic")]), of_epoch(0, 0));
    });
}

#[test]
fn closing_a_pass_or_the_session_ends_a_call_that_waits() {
    for closes_session in [false, true] {
        model(move || {
            let rig = Rig::new(2);
            rig.engines[1].hold(1);
            let pass = Arc::new(rig.begin());
            let waiting = pass.clone();
            let waiter = spawn("waiter", move || {
                let first = next(&waiting);
                let second = next(&waiting).err().map(|error| error.kind());
                (first.ok().flatten(), second)
            });
            if closes_session {
                rig.session.close().expect("no error");
            } else {
                pass.close().expect("no error");
            }
            let (first, second) = waiter.expect("a thread").join().expect("no panic");
            assert!(first.is_none_or(|batch| batch == (0, 0)));
            assert_eq!(second, Some(ErrorKind::Closed));
            if !closes_session {
                // A pass that was closed before its first batch has used up nothing.
                let epoch = u64::from(first.is_some());
                let state = rig.state();
                assert!(state == (0, epoch), "{state:?}");
                rig.engines[1].hold(u64::MAX);
                let batches = rig.whole();
                assert!(batches == of_epoch(0, 0) && first.is_none() || batches == of_epoch(1, 0), "{batches:?}");
            }
        });
    }
}

#[test]
fn a_new_pass_or_a_load_ends_the_calls_of_the_pass_before() {
    for loads in [false, true] {
        model(move || {
            let rig = Rig::new(2);
            let pass = Arc::new(rig.begin());
            let taker = deliver_all(&pass);
            if loads {
                rig.load(4, 1);
            }
            let batches = rig.whole();
            let old = taker.join().expect("no panic");
            if loads {
                assert_eq!(batches, of_epoch(4, 1));
            } else {
                // The epoch continues if no batch of it was asked for.
                let epoch = batches[0].0;
                assert_eq!(batches, of_epoch(epoch, 0));
                assert!(epoch == 1 || old.is_empty());
            }
            assert_eq!(old, of_epoch(0, 0)[..old.len()]);
        });
    }
}

#[test]
fn a_named_epoch_moves_a_pass_before_its_first_batch_or_not_at_all() {
    model(|| {
        let rig = Rig::new(2);
        let pass = Arc::new(rig.begin());
        let taker = deliver_all(&pass);
        rig.set_epoch(5);
        let old = taker.join().expect("no panic");
        assert!(old == of_epoch(0, 0) || old == of_epoch(5, 0), "{old:?}");
        let following = if old[0].0 == 5 { 6 } else { 5 };
        assert_eq!(rig.whole(), of_epoch(following, 0));
    });
}

#[test]
fn a_dropped_pass_stops_the_engines_unless_a_later_one_runs() {
    model(|| {
        let rig = Rig::new(2);
        let pass = rig.begin();
        let taken = begin_take(&pass, false).expect("no error").expect("a batch");
        let dropping = spawn("dropping", move || drop((taken, pass)));
        assert_eq!(rig.whole(), of_epoch(1, 0));
        dropping.expect("a thread").join().expect("no panic");
    });
}
