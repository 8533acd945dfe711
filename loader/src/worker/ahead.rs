//! The one thread of a worker: fetches shards before their samples are asked for.

use super::reader::{SampleReader, Wanted};
use crate::error::{Error, Result};
use crate::order::ShardId;
use crate::pipeline::Run;
use crate::sync::{Arc, Condvar, Mutex, Weak, spawn};
use std::collections::{HashMap, VecDeque};

/// Shards that are wanted ahead, and the thread that fetches them. The thread starts with the first one.
#[derive(Debug)]
pub(super) struct Ahead {
    shared: Arc<Shared>,
    started: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    run: Arc<Run>,
}

#[derive(Debug, Default)]
struct State {
    /// Wanted and not begun. Bounded by the samples that are looked ahead.
    wanted: VecDeque<ShardId>,
    /// For each shard that samples ahead lie in: how many, and the place of the first in the epoch.
    announced: HashMap<ShardId, (usize, u64)>,
    /// Whether the thread has the reader, for a shard that it sees to.
    busy: bool,
}

impl Ahead {
    pub(super) fn new() -> Self {
        Self { shared: Arc::default(), started: false }
    }

    pub(super) fn is_started(&self) -> bool {
        self.started
    }

    /// A sample at `place` of the epoch lies in `shard`: fetches that if it is not here.
    ///
    /// # Errors
    ///
    /// When the system refuses the thread.
    pub(super) fn announce(&mut self, reader: &Arc<SampleReader>, shard: ShardId, place: u64) -> Result<()> {
        let mut state = self.shared.state.lock();
        let announced = state.announced.entry(shard).or_insert((0, place));
        announced.0 += 1;
        if announced.0 > 1 || reader.seems_here(shard) {
            return Ok(());
        }
        state.wanted.push_back(shard);
        drop(state);
        self.shared.changed.notify_one();
        if !self.started {
            self.started = true;
            // A thread that waits keeps no reader: what that holds on disk goes with its last owner, and not later.
            let (shared, reader) = (self.shared.clone(), Arc::downgrade(reader));
            spawn("fb-ahead", move || shared.run.guard("fetch ahead", || fetch(&shared, &reader)))
                .map_err(|e| Error::from_io(e, "the system refuses a thread"))?;
        }
        Ok(())
    }

    /// The first sample announced in `shard` is being read.
    pub(super) fn taken(&self, shard: ShardId) {
        let mut state = self.shared.state.lock();
        let Some(announced) = state.announced.get_mut(&shard) else { return };
        announced.0 -= 1;
        if announced.0 == 0 {
            state.announced.remove(&shard);
        }
    }

    /// Calls off what is being fetched and waits until the thread has let go of the reader.
    ///
    /// Whoever has read the last sample may drop the reader, and open another with other wishes for the same files, and
    /// the thread may still be about to return from the shard that this sample lay in.
    pub(super) fn end(&self) {
        self.shared.run.stop();
        let mut state = self.shared.state.lock();
        while state.busy {
            state = self.shared.changed.wait(state);
        }
    }

    /// What ended the thread, if something did.
    pub(super) fn failure(&self) -> Option<Error> {
        self.shared.run.failure()
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.shared.run.stop();
        // Taken and given back, so that a thread that has just looked at the flag waits by now and hears the call.
        drop(self.shared.state.lock());
        self.shared.changed.notify_all();
    }
}

/// The thread's body.
fn fetch(shared: &Shared, reader: &Weak<SampleReader>) -> Result<()> {
    let next_use = |shard| shared.state.lock().announced.get(&shard).map(|(_, place)| *place);
    loop {
        let mut state = shared.state.lock();
        let shard = loop {
            if shared.run.is_stopped() {
                return Ok(());
            }
            match state.wanted.pop_front() {
                // Its samples may have been read meanwhile.
                Some(shard) if state.announced.contains_key(&shard) => break shard,
                Some(_) => {}
                None => state = shared.changed.wait(state),
            }
        };
        state.busy = true;
        drop(state);
        let _idle = Idle(shared);
        let Some(reader) = reader.upgrade() else { return Ok(()) };
        // Where somebody else fetches it, or there is no room yet, the reader waits for it when it comes to that.
        reader.make_resident(shard, Wanted::Ahead(&next_use), &shared.run)?;
    }
}

/// Says that the thread has let go of the reader, whichever way it does.
struct Idle<'a>(&'a Shared);

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.state.lock().busy = false;
        self.0.changed.notify_all();
    }
}
