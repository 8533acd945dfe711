use super::scripted::{At, BATCHES, Handle, LIMIT, Rig, begin_take, item, next, of_epoch, rest, take, take_for};
use super::{Ahead, MoveTurn, Step, TrainerPosition};
use crate::error::{Error, ErrorKind};
use crate::sync::{Arc, Mutex, spawn};

/// The message of a call that fails.
fn message<T>(result: crate::error::Result<T>) -> String {
    result.err().expect("an error").message().to_owned()
}

/// Position of the session before an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Idle,
    Fresh,
    Used,
    Over,
}

const ALL: [Before; 4] = [Before::Idle, Before::Fresh, Before::Used, Before::Over];

/// Moves a new session there, with its pass if there is one.
fn at(before: Before, devices: usize) -> (Rig, Option<Handle>) {
    let rig = Rig::new(devices);
    let pass = (before != Before::Idle).then(|| rig.begin());
    match (before, &pass) {
        (Before::Used, Some(pass)) => assert_eq!(next(pass).expect("a batch"), Some((0, 0))),
        (Before::Over, Some(pass)) => assert_eq!(rest(pass), of_epoch(0, 0)),
        _ => {}
    }
    (rig, pass)
}

#[test]
fn a_new_pass_ends_the_one_before_and_continues_only_an_epoch_without_a_batch() {
    for devices in [1, 2] {
        for (before, expected) in ALL.into_iter().zip([0, 0, 1, 1]) {
            let (rig, old) = at(before, devices);
            assert_eq!(rig.session.epoch(), expected, "{before:?}");
            let pass = rig.begin();
            assert_eq!(rig.session.epoch(), expected, "not used up");
            assert_eq!(rest(&pass), of_epoch(expected, 0), "{before:?}");
            if let Some(old) = old {
                assert!(old.is_abandoned());
                assert!(message(next(&old)).starts_with("a newer iterator"));
            }
        }
    }
}

#[test]
fn a_state_is_the_position_after_the_delivered_batches() {
    for (before, expected) in ALL.into_iter().zip([(0, 0), (0, 0), (0, 1), (1, 0)]) {
        let (rig, pass) = at(before, 2);
        assert_eq!(rig.state(), expected, "{before:?}");
        drop(pass);
        assert_eq!(rig.state(), expected, "{before:?}");
    }
}

#[test]
fn set_epoch_moves_a_pass_without_a_batch_and_names_the_next_epoch_else() {
    for (before, during) in ALL.into_iter().zip([(7, 0), (7, 0), (0, 1), (7, 0)]) {
        let (rig, pass) = at(before, 2);
        rig.set_epoch(7);
        assert_eq!((rig.session.epoch(), rig.state()), (7, during), "{before:?}");
        let batches = pass.as_ref().map(rest).unwrap_or_default();
        let expected = match before {
            Before::Fresh => of_epoch(7, 0),
            Before::Used => of_epoch(0, 1),
            Before::Idle | Before::Over => Vec::new(),
        };
        assert_eq!(batches, expected, "{before:?}");
        assert_eq!(rig.whole(), of_epoch(7 + u64::from(before == Before::Fresh), 0));
    }
}

#[test]
fn a_loaded_position_ends_the_pass_and_counts_until_a_batch_is_taken() {
    for before in ALL {
        let (rig, pass) = at(before, 2);
        rig.load(5, 2);
        assert!(pass.as_ref().is_none_or(|pass| message(next(pass)).starts_with("a newer iterator")));
        drop(pass);
        for _ in 0..2 {
            let fresh = rig.begin();
            assert_eq!((rig.session.epoch(), rig.state(), rig.session.first_sample()), (5, (5, 2), 2), "{before:?}");
            drop(fresh);
        }
        // Epochs that are named in between do not lose it.
        rig.set_epoch(6);
        assert_eq!((rig.state(), rig.session.first_sample()), ((6, 0), 0));
        rig.set_epoch(5);
        assert_eq!(rig.session.first_batch().expect("a number"), 2);
        assert_eq!(rig.whole(), of_epoch(5, 2));
        rig.set_epoch(5);
        assert_eq!(rig.whole(), of_epoch(5, 0), "a batch was taken since");
    }
}

#[test]
fn an_earlier_epoch_drops_a_loaded_position_and_a_later_one_is_no_mistake() {
    let rig = Rig::new(1);
    rig.load(5, 2);
    for (epoch, dropped) in [(4, Some((5, 2))), (5, None), (6, None)] {
        rig.set_epoch(epoch);
        assert_eq!(rig.session.dropped_position(), dropped);
    }
}

#[test]
fn seek_begins_within_the_epoch() {
    let (rig, _pass) = at(Before::Used, 2);
    rig.turn().and_then(|turn| turn.seek(2)).expect("a batch");
    assert_eq!((rig.session.epoch(), rig.whole()), (1, of_epoch(1, 2)));
}

#[test]
fn a_batch_that_was_not_delivered_is_the_next_one_and_a_state_leaves_it_out() {
    for devices in [1, 2] {
        for takes_ahead in [false, true] {
            let rig = Rig::with(devices, takes_ahead);
            let pass = rig.begin();
            for number in 0..BATCHES {
                for _ in 0..2 {
                    let taken = take(&pass).expect("no error").expect("a batch");
                    assert_eq!((item(&taken), rig.state()), ((0, number), (0, number)), "in flight");
                    taken.release();
                    assert_eq!(rig.state(), (0, number), "released");
                }
                let taken = take(&pass).expect("no error").expect("a batch");
                taken.deliver();
                assert_eq!(rig.state(), (0, number + 1));
                taken.release();
                assert_eq!(rig.state(), (0, number), "the delivery did not arrive");
                drop(take(&pass).expect("no error").expect("a batch"));
                assert_eq!(rig.state(), (0, number), "dropped");
                assert_eq!(next(&pass).expect("no error"), Some((0, number)));
            }
            assert_eq!(next(&pass).expect("no error"), None);
            assert_eq!(rig.state(), (1, 0));
        }
    }
}

#[test]
fn a_batch_that_failed_does_not_count_after_its_pass_is_gone() {
    for closes in [false, true] {
        let (rig, pass) = at(Before::Used, 2);
        let pass = pass.expect("a pass");
        drop(take(&pass).expect("no error"));
        if closes {
            pass.close().expect("no error");
            assert!(message(next(&pass)).starts_with("this iterator was closed"));
        }
        drop(pass);
        assert!(rig.engines.iter().all(|engine| !engine.runs()), "its threads have ended");
        assert_eq!((rig.state(), rig.session.epoch()), ((0, 1), 1));
        rig.set_epoch(4);
        assert_eq!(rig.state(), (4, 0), "a named epoch counts instead");
    }
}

#[test]
fn an_error_of_one_engine_loses_no_batch_of_the_second() {
    for failing in [0, 1] {
        let rig = Rig::new(2);
        let pass = rig.begin();
        *rig.engines[failing].error.lock() = Some(Error::decode("a bad sample"));
        assert_eq!(message(next(&pass)), "a bad sample");
        assert_eq!(rig.state(), (0, 0));
        assert_eq!(rest(&pass), of_epoch(0, 0));
    }
}

#[test]
fn a_start_that_fails_in_one_engine_is_repeated_in_all() {
    for failing in [0, 1] {
        let (rig, pass) = at(Before::Over, 2);
        drop(pass);
        *rig.engines[failing].start_error.lock() = Some(Error::new(ErrorKind::Full, "no memory"));
        assert_eq!(message(rig.turn().and_then(MoveTurn::begin)), "no memory");
        assert_eq!((rig.session.epoch(), rig.whole()), (1, of_epoch(1, 0)));
    }
}

#[test]
fn a_pass_that_is_closed_without_a_batch_uses_up_no_epoch() {
    for named in [None, Some(3)] {
        let rig = Rig::new(2);
        rig.load(3, 1);
        named.into_iter().for_each(|epoch| rig.set_epoch(epoch));
        let pass = rig.begin();
        pass.close().expect("no error");
        pass.close().expect("again");
        assert!(rig.engines.iter().all(|engine| !engine.runs()));
        assert_eq!((rig.session.epoch(), rig.state(), rig.session.first_sample()), (3, (3, 1), 1));
        assert_eq!(rig.whole(), of_epoch(3, 1));
    }
}

#[test]
fn a_dropped_pass_stops_its_epoch_and_no_later_one() {
    let (rig, first) = at(Before::Used, 2);
    let second = rig.begin();
    assert_eq!(next(&second).expect("no error"), Some((1, 0)));
    let first = first.expect("a pass");
    first.close().expect("no error");
    drop(first);
    assert_eq!(rest(&second), of_epoch(1, 1));
    let third = rig.begin();
    drop(third);
    assert!(rig.engines.iter().all(|engine| engine.runs()), "an epoch without a batch is for the next pass");
}

#[test]
fn a_batch_that_was_shown_stays_for_the_next_passes() {
    let rig = Rig::new(2);
    rig.load(2, 1);
    for _ in 0..2 {
        let pass = rig.begin();
        let taken = take_for(&pass, true).expect("no error").expect("a batch");
        assert_eq!(item(&taken), (2, 1));
        taken.show();
        drop((taken, pass));
        assert_eq!((rig.session.epoch(), rig.session.first_sample(), rig.state()), (2, 1, (2, 1)));
    }
    drop(rig.begin());
    assert_eq!(rig.engines[0].starts(), 1);
    assert_eq!(rig.whole(), of_epoch(2, 1));
    let pass = rig.begin();
    take_for(&pass, true).expect("no error").expect("a batch").show();
    rig.set_epoch(7);
    assert_eq!(rest(&pass), of_epoch(7, 0), "the pass has moved along");
}

#[test]
fn a_batch_that_cannot_be_shown_is_taken_again() {
    let rig = Rig::new(2);
    let pass = rig.begin();
    drop(take_for(&pass, true).expect("no error").expect("a batch"));
    pass.close().expect("no error");
    assert_eq!((rig.session.epoch(), rig.state()), (0, (0, 0)));
    assert_eq!(rig.whole(), of_epoch(0, 0));
}

#[test]
fn a_loaded_end_of_an_epoch_has_nothing_to_show_and_no_batch() {
    let rig = Rig::new(2);
    for shows in [true, false] {
        rig.load(2, BATCHES);
        let pass = rig.begin();
        assert!(take_for(&pass, shows).expect("no error").is_none());
        drop(pass);
        assert_eq!((rig.session.epoch(), rig.state()), (3, (3, 0)));
    }
}

#[test]
fn the_end_of_an_epoch_without_a_batch_is_reported_once() {
    let rig = Rig::new(1);
    rig.load(0, BATCHES);
    let ends = |pass: &Handle| {
        let taken = begin_take(pass, false).expect("no error")?;
        Some(taken.wait(LIMIT).expect("no error"))
    };
    assert_eq!(ends(&rig.begin()), Some(Step::End { is_empty: false }), "it was resumed at its end");
    let pass = rig.begin();
    for _ in 0..BATCHES {
        take(&pass).expect("no error").expect("a batch").leave_out();
    }
    assert_eq!(rig.state(), (1, BATCHES), "they count, and were not delivered");
    assert_eq!(ends(&pass), Some(Step::End { is_empty: true }));
    assert_eq!(ends(&pass), None);
}

#[test]
fn batches_that_are_taken_ahead_have_a_bound_and_do_not_count() {
    for devices in [1, 2] {
        let rig = Rig::with(devices, true);
        let pass = rig.begin();
        assert_eq!(next(&pass).expect("no error"), Some((0, 0)));
        let Ahead::Batch(batch) = pass.take_ahead(0) else { panic!("a batch") };
        assert_eq!((batch.number(), batch.with_items(|items| items.len())), (1, devices));
        // The program replaces the items, such as by batches that it maps.
        batch.with_items(|items| items.fill((9, 9)));
        assert!(matches!(pass.take_ahead(0), Ahead::Full));
        assert!(matches!(pass.take_ahead(1), Ahead::Batch(_)));
        assert!(matches!(pass.take_ahead(2), Ahead::Ended));
        assert!(matches!(pass.take_ahead(2), Ahead::Ended));
        assert_eq!(rig.state(), (0, 1));
        assert_eq!(next(&pass).expect("no error"), Some((9, 9)));
        assert_eq!(rig.state(), (0, 2));
        assert_eq!(next(&pass).expect("no error"), Some((0, 2)));
        assert_eq!(rig.state(), (0, BATCHES), "the end counts with the call that finds it");
        assert_eq!(next(&pass).expect("no error"), None);
        assert_eq!(rig.state(), (1, 0));
    }
}

#[test]
fn a_batch_ahead_that_one_engine_lacks_is_completed_later() {
    let rig = Rig::with(2, true);
    rig.engines[1].hold(1);
    let pass = rig.begin();
    assert_eq!(next(&pass).expect("no error"), Some((0, 0)));
    assert!(matches!(pass.take_ahead(3), Ahead::NotReady));
    *rig.engines[1].error.lock() = Some(Error::decode("a bad sample"));
    assert!(matches!(pass.take_ahead(3), Ahead::NotReady), "an error is left to its call");
    rig.engines[1].hold(u64::MAX);
    assert_eq!(rig.state(), (0, 1));
    assert_eq!(rest(&pass), of_epoch(0, 1));
}

#[test]
fn a_handler_may_use_the_session_in_any_way_while_a_call_waits() {
    // Between the short calls of a wait, and while an engine works, where only the state may be asked for.
    let rig = Rig::new(2);
    let (states, session) = (Arc::new(Mutex::new(Vec::new())), Arc::downgrade(&rig.session));
    let seen = states.clone();
    let ask = move || {
        let session = session.upgrade().expect("a session");
        seen.lock().push(session.state().expect("a state").0);
        assert_eq!(session.epoch(), 1);
    };
    rig.engines.iter().for_each(|engine| engine.watch(ask.clone()));
    let pass = rig.begin();
    for number in 0..BATCHES {
        next(&pass).expect("no error");
        let asked = std::mem::take(&mut *states.lock());
        assert_eq!(asked, [At(0, number); 2]);
    }
    drop(pass);
    rig.engines.iter().for_each(|engine| *engine.watch.lock() = None);
    // A handler that takes batches itself, loads, and closes, between two short calls.
    let pass = rig.begin();
    let taken = begin_take(&pass, false).expect("no error").expect("a batch");
    assert_eq!(next(&pass).expect("no error"), Some((1, 1)), "the handler's batch is the one after");
    assert_eq!(taken.wait(LIMIT).expect("no error"), Step::Complete);
    assert_eq!(item(&taken), (1, 0));
    rig.load(5, 0);
    taken.deliver();
    assert_eq!(rig.whole(), of_epoch(5, 0));
    rig.session.close().expect("no error");
    assert_eq!(message(rig.turn().and_then(MoveTurn::begin)), "this loader was closed: make a new one");
}

#[test]
fn an_engine_that_is_stopped_under_a_call_does_not_speak_for_itself() {
    for how in ["pass", "session", "engine"] {
        let rig = Rig::new(1);
        rig.engines[0].hold(0);
        let pass = Arc::new(rig.begin());
        let waiting = pass.clone();
        let caller = spawn("caller", move || message(next(&waiting))).expect("a thread");
        let expected = match how {
            "pass" => {
                pass.close().expect("no error");
                "this iterator was closed"
            }
            "session" => {
                rig.session.close().expect("no error");
                "this loader was closed"
            }
            _ => {
                super::Engine::stop(&*rig.engines[0], &1);
                "the epoch of this iterator was ended"
            }
        };
        assert!(caller.join().expect("no panic").starts_with(expected), "{how}");
    }
}

#[test]
fn a_trainer_that_iterates_a_loader_again_has_it_in_the_state() {
    let position = |epoch, is_over| Some(TrainerPosition { epoch: Some(epoch), is_over });
    let rig = Rig::new(1);
    let trainer = |rig: &Rig| rig.session.state().expect("a state").1;
    rig.follow_trainer(0, false);
    assert_eq!((rig.whole(), trainer(&rig)), (of_epoch(0, 0), position(0, true)));
    // The second pass in the trainer's epoch 0.
    let pass = rig.begin();
    assert_eq!(next(&pass).expect("no error"), Some((1, 0)));
    let (state, saved) = rig.session.state().expect("a state");
    assert_eq!(saved, position(0, false));
    drop(pass);
    rig.load_trainer(state, saved.expect("a record"));
    assert_eq!(rig.session.rest_of_trainer_epoch(0).expect("a number"), Some(0));
    rig.follow_trainer(0, false);
    assert_eq!(rig.whole(), of_epoch(1, 1), "resumed in the trainer's epoch of the state");
    rig.load_trainer(state, saved.expect("a record"));
    rig.follow_trainer(1, false);
    assert_eq!(rig.whole(), of_epoch(1, 0), "and only there");
}

#[test]
fn a_trainer_that_repeats_an_epoch_gets_the_first_one_each_time() {
    let rig = Rig::new(1);
    for epoch in 0..3 {
        rig.follow_trainer(epoch, true);
        assert_eq!(rig.whole(), of_epoch(0, 0));
    }
}

#[test]
fn an_epoch_of_the_trainer_that_is_over_has_no_batch() {
    let rig = Rig::new(1);
    let over = TrainerPosition { epoch: Some(0), is_over: true };
    rig.load_trainer(At(1, 0), over);
    rig.follow_trainer(0, false);
    assert_eq!(rig.whole(), []);
    rig.follow_trainer(1, false);
    assert_eq!(rig.whole(), of_epoch(1, 0));
    rig.session.end_trainer_epoch();
    assert_eq!(rig.whole(), []);
    assert_eq!(rig.whole(), of_epoch(2, 0));
}
