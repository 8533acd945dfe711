//! The thread of a worker that fetches shards before their samples are read.

use super::reader::{Priority, SampleReader};
use crate::error::{Error, Result};
use crate::order::ShardId;
use crate::pipeline::Run;
use crate::sync::{Arc, Condvar, Mutex, Weak, spawn};
use std::collections::{HashMap, VecDeque};

/// Queue of announced shards, and the thread that fetches them. The thread starts with the first shard.
#[derive(Debug)]
pub(super) struct FetchAhead {
    shared: Arc<FetchAheadShared>,
    started: bool,
}

#[derive(Debug, Default)]
struct FetchAheadShared {
    state: Mutex<FetchAheadState>,
    changed: Condvar,
    run: Arc<Run>,
}

#[derive(Debug, Default)]
struct FetchAheadState {
    /// Shards to fetch. Bounded by the number of announced samples.
    queue: VecDeque<ShardId>,
    /// For each shard: its announced samples, and the position of the first of them in the epoch.
    announced: HashMap<ShardId, (usize, u64)>,
    /// True while the thread uses the reader to fetch a shard.
    busy: bool,
}

impl FetchAhead {
    pub(super) fn new() -> Self {
        Self { shared: Arc::default(), started: false }
    }

    pub(super) fn is_started(&self) -> bool {
        self.started
    }

    /// Announces a sample of `shard` at position `place` of the epoch. The shard is fetched if it is not resident.
    ///
    /// # Errors
    ///
    /// When the system refuses the thread.
    pub(super) fn announce(&mut self, reader: &Arc<SampleReader>, shard: ShardId, place: u64) -> Result<()> {
        let mut state = self.shared.state.lock();
        let announced = state.announced.entry(shard).or_insert((0, place));
        announced.0 += 1;
        if announced.0 > 1 || reader.was_resident(shard) {
            return Ok(());
        }
        state.queue.push_back(shard);
        drop(state);
        self.shared.changed.notify_one();
        if !self.started {
            self.started = true;
            // While the thread waits it does not keep the reader alive, so the reader's files are closed with its last
            // owner.
            let (shared, reader) = (self.shared.clone(), Arc::downgrade(reader));
            spawn("fb-ahead", move || shared.run.guard("fetch ahead", || fetch(&shared, &reader)))
                .map_err(|e| Error::from_io(e, "the system refuses a thread"))?;
        }
        Ok(())
    }

    /// Counts an announced sample of `shard` as read.
    pub(super) fn taken(&self, shard: ShardId) {
        let mut state = self.shared.state.lock();
        let Some(announced) = state.announced.get_mut(&shard) else { return };
        announced.0 -= 1;
        if announced.0 == 0 {
            state.announced.remove(&shard);
        }
    }

    /// Cancels the fetches and waits until the thread does not use the reader any more.
    ///
    /// After the last sample the caller may drop the reader and open a new one with different settings for the same
    /// files, while the thread is still busy with the last shard.
    pub(super) fn end(&self) {
        self.shared.run.stop();
        let mut state = self.shared.state.lock();
        while state.busy {
            state = self.shared.changed.wait(state);
        }
    }

    /// The error that ended the thread, if any.
    pub(super) fn failure(&self) -> Option<Error> {
        self.shared.run.failure()
    }
}

impl Drop for FetchAhead {
    fn drop(&mut self) {
        self.shared.run.stop();
        // The lock makes sure that a thread which has just checked the flag is waiting now, and so is woken.
        drop(self.shared.state.lock());
        self.shared.changed.notify_all();
    }
}

/// Body of the thread.
fn fetch(shared: &FetchAheadShared, reader: &Weak<SampleReader>) -> Result<()> {
    let next_use = |shard| shared.state.lock().announced.get(&shard).map(|(_, place)| *place);
    loop {
        let mut state = shared.state.lock();
        let shard = loop {
            if shared.run.is_stopped() {
                return Ok(());
            }
            match state.queue.pop_front() {
                // Its samples may have been read in the meantime.
                Some(shard) if state.announced.contains_key(&shard) => break shard,
                Some(_) => {}
                None => state = shared.changed.wait(state),
            }
        };
        state.busy = true;
        drop(state);
        let _busy = BusyGuard(shared);
        let Some(reader) = reader.upgrade() else { return Ok(()) };
        // If a different process fetches the shard, or there is no space yet, the consumer waits for it later.
        reader.make_resident(shard, Priority::Ahead(&next_use), &shared.run)?;
    }
}

/// Clears `busy` when dropped.
struct BusyGuard<'a>(&'a FetchAheadShared);

impl Drop for BusyGuard<'_> {
    fn drop(&mut self) {
        self.0.state.lock().busy = false;
        self.0.changed.notify_all();
    }
}
