//! Engine for tests: epochs of a few batches, which are named by epoch and number.

use super::{Engine, Held, MoveTurn, Next, PassHandle, SavedState, Session, Setup, Step, Take, Taken, TrainerPosition};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Batches of an epoch.
pub(super) const BATCHES: u64 = 3;

pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// Epoch and number of a batch.
pub(super) type Item = (u64, u64);

pub(super) type Handle = PassHandle<Scripted, Item>;

pub(super) type Batch = Taken<Scripted, Item>;

/// Position, of samples that are batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At(pub(super) u64, pub(super) u64);

impl SavedState for At {
    fn epoch(&self) -> u64 {
        self.0
    }

    fn sample(&self) -> u64 {
        self.1
    }

    fn at(self, epoch: u64, sample: u64) -> Self {
        Self(epoch, sample)
    }

    fn has_skipped_steps(&self) -> bool {
        false
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Running,
    /// Stopped before its end.
    Left,
    Ended,
}

#[derive(Debug)]
struct ScriptedState {
    epoch: u64,
    phase: Phase,
    /// Position at which the epoch was or will be started.
    first: u64,
    /// Batches that were returned since.
    delivered: u64,
    starts: u64,
    is_closed: bool,
    /// Batches are ready up to this number of the epoch.
    ready: u64,
}

type Watch = Box<dyn Fn() + Send + Sync>;

/// Engine with batches that are ready at once, unless a test holds them back.
pub(super) struct Scripted {
    state: Mutex<ScriptedState>,
    changed: Condvar,
    /// Called while the engine is asked for a batch, without a lock.
    pub(super) watch: Mutex<Option<Arc<Watch>>>,
    /// Error of the next call.
    pub(super) error: Mutex<Option<Error>>,
    /// Error of the next start.
    pub(super) start_error: Mutex<Option<Error>>,
}

impl Scripted {
    pub(super) fn new() -> Arc<Self> {
        let state = ScriptedState {
            epoch: 0,
            phase: Phase::Idle,
            first: 0,
            delivered: 0,
            starts: 0,
            is_closed: false,
            ready: u64::MAX,
        };
        let (watch, error, start_error) = (Mutex::new(None), Mutex::new(None), Mutex::new(None));
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new(), watch, error, start_error })
    }

    /// Makes the engine wait for batches from number `ready` on.
    pub(super) fn hold(&self, ready: u64) {
        self.state.lock().ready = ready;
        self.changed.notify_all();
    }

    /// True if threads make batches.
    pub(super) fn runs(&self) -> bool {
        self.state.lock().phase == Phase::Running
    }

    /// Epochs that were started.
    pub(super) fn starts(&self) -> u64 {
        self.state.lock().starts
    }

    pub(super) fn watch(&self, watch: impl Fn() + Send + Sync + 'static) {
        *self.watch.lock() = Some(Arc::new(Box::new(watch)));
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the engine's own words")
}

impl Engine for Scripted {
    type Item = Item;
    /// The number of the start.
    type Started = u64;
    type Saved = At;

    fn start(&self) -> Result<u64> {
        if let Some(error) = self.start_error.lock().take() {
            return Err(error);
        }
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(closed());
        }
        if matches!(state.phase, Phase::Running | Phase::Left) {
            state.epoch += 1;
        }
        if state.phase != Phase::Idle {
            state.first = 0;
        }
        (state.phase, state.delivered, state.starts) = (Phase::Running, 0, state.starts + 1);
        self.changed.notify_all();
        Ok(state.starts)
    }

    fn stop(&self, started: &u64) {
        let mut state = self.state.lock();
        if state.phase == Phase::Running && state.starts == *started {
            state.phase = Phase::Left;
            self.changed.notify_all();
        }
    }

    fn next_within(&self, limit: Duration) -> Result<Next<Item>> {
        let watch = self.watch.lock().clone();
        if let Some(watch) = watch {
            watch();
        }
        if let Some(error) = self.error.lock().take() {
            return Err(error);
        }
        let mut state = self.state.lock();
        let starts = state.starts;
        loop {
            if state.is_closed || state.starts != starts {
                return Err(closed());
            }
            match state.phase {
                Phase::Ended => return Ok(Next::End),
                Phase::Idle | Phase::Left => return Err(closed()),
                Phase::Running => {}
            }
            let number = state.first + state.delivered;
            if number >= BATCHES {
                (state.phase, state.epoch) = (Phase::Ended, state.epoch + 1);
                return Ok(Next::End);
            }
            if number < state.ready {
                state.delivered += 1;
                return Ok(Next::Batch((state.epoch, number)));
            }
            if limit.is_zero() {
                return Ok(Next::Pending);
            }
            state = self.changed.wait(state);
        }
    }

    fn state(&self, before: Option<(u64, Held)>) -> Result<At> {
        let state = self.state.lock();
        if state.is_closed {
            return Err(closed());
        }
        let (is_ended, delivered) = (state.phase == Phase::Ended, state.delivered);
        let now = match state.phase {
            Phase::Idle => At(state.epoch, state.first),
            Phase::Ended => At(state.epoch, 0),
            Phase::Running | Phase::Left => At(state.epoch, state.first + delivered),
        };
        let of_epoch = |number| At(state.epoch - u64::from(is_ended), state.first + number);
        Ok(match before {
            Some((number, Held::All)) if is_ended && number <= delivered => of_epoch(number),
            Some((number, held)) if number < delivered && !(is_ended && held == Held::InFlight) => match held {
                Held::All => of_epoch(number),
                Held::Failed if number + 1 < delivered || is_ended => {
                    return Err(Error::new(ErrorKind::State, "take it from the iterator first"));
                }
                Held::Failed | Held::InFlight => of_epoch(delivered - 1),
            },
            _ => now,
        })
    }

    fn load(&self, to: &At, _: bool) -> Result<()> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(closed());
        }
        (state.epoch, state.first, state.phase, state.delivered) = (to.0, to.1, Phase::Idle, 0);
        self.changed.notify_all();
        Ok(())
    }

    fn batches(&self) -> Result<u64> {
        Ok(BATCHES)
    }

    fn batches_from(&self, sample: u64) -> Result<u64> {
        Ok(BATCHES - sample)
    }

    fn skipped(&self) -> Result<u64> {
        Ok(0)
    }

    fn close(&self) -> Result<()> {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
        Ok(())
    }
}

/// A session and its engines.
pub(super) struct Rig {
    pub(super) session: Arc<Session<Scripted>>,
    pub(super) engines: Vec<Arc<Scripted>>,
}

impl Rig {
    pub(super) fn new(devices: usize) -> Self {
        Self::with(devices, false)
    }

    pub(super) fn with(devices: usize, takes_ahead: bool) -> Self {
        let engines: Vec<_> = (0..devices).map(|_| Scripted::new()).collect();
        let setup = Setup { samples_per_step: 1, takes_ahead, skips: None };
        Self { session: Arc::new(Session::new(engines.clone(), setup)), engines }
    }

    /// Waits for the turn to move the engines.
    pub(super) fn turn(&self) -> Result<MoveTurn<Scripted, Item>> {
        loop {
            if let Some(turn) = self.session.turn_within(LIMIT)? {
                return Ok(turn);
            }
        }
    }

    pub(super) fn begin(&self) -> Handle {
        self.turn().and_then(MoveTurn::begin).expect("a pass")
    }

    pub(super) fn set_epoch(&self, epoch: u64) {
        self.turn().and_then(|turn| turn.set_epoch(epoch)).expect("a number");
    }

    pub(super) fn follow_trainer(&self, epoch: u64, repeats: bool) {
        self.turn().and_then(|turn| turn.follow_trainer(epoch, repeats)).expect("a number");
    }

    /// The epoch and the sample of the state.
    pub(super) fn state(&self) -> Item {
        let At(epoch, sample) = self.session.state().expect("a state").0;
        (epoch, sample)
    }

    /// The epoch, and the batches, of a whole pass.
    pub(super) fn whole(&self) -> Vec<Item> {
        rest(&self.begin())
    }

    pub(super) fn load(&self, epoch: u64, sample: u64) {
        self.load_trainer(At(epoch, sample), TrainerPosition::default());
    }

    pub(super) fn load_trainer(&self, state: At, trainer: TrainerPosition) {
        self.turn().and_then(|turn| turn.load(&state, trainer, true)).expect("a position");
    }
}

/// Takes a batch, which is complete. `None`: the pass is over.
pub(super) fn take(pass: &Handle) -> Result<Option<Batch>> {
    take_for(pass, false)
}

/// Begins to take a batch. `None`: the pass is over.
pub(super) fn begin_take(pass: &Handle, shows: bool) -> Result<Option<Batch>> {
    loop {
        match pass.take(shows, LIMIT)? {
            Some(Take::Batch(taken)) => return Ok(Some(taken)),
            Some(Take::End { .. }) => return Ok(None),
            None => {}
        }
    }
}

/// Like [`take`], for a batch that is shown with `shows`.
pub(super) fn take_for(pass: &Handle, shows: bool) -> Result<Option<Batch>> {
    let Some(taken) = begin_take(pass, shows)? else { return Ok(None) };
    loop {
        match taken.wait(LIMIT)? {
            Step::Complete => return Ok(Some(taken)),
            Step::End { .. } => return Ok(None),
            Step::Pending => {}
        }
    }
}

/// The items of a batch, which are the same ones of each device.
pub(super) fn item(taken: &Batch) -> Item {
    taken.batch().with_items(|items| {
        assert!(items.iter().all(|item| *item == items[0]), "{items:?}");
        items[0]
    })
}

/// Takes and delivers the next batch.
pub(super) fn next(pass: &Handle) -> Result<Option<Item>> {
    Ok(take(pass)?.map(|taken| {
        taken.deliver();
        item(&taken)
    }))
}

/// The batches until the end.
pub(super) fn rest(pass: &Handle) -> Vec<Item> {
    std::iter::from_fn(|| next(pass).expect("a batch or the end")).collect()
}

/// The batches of `epoch` from number `first` on.
pub(super) fn of_epoch(epoch: u64, first: u64) -> Vec<Item> {
    (first..BATCHES).map(|number| (epoch, number)).collect()
}
