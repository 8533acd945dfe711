//! Steps of a session: the cost of a batch above the engine.

use super::work::Work;
use forebay_loader::session::{Engine, Held, Next, SavedState, Session, Setup, Step, Take};
use forebay_loader::{Error, Result};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

pub(super) fn step() -> Result<Work> {
    const STEPS: u64 = 4_000;
    let engine = Arc::new(Counter { epoch: AtomicU64::new(0), batch: AtomicU64::new(0) });
    let setup = Setup { samples_per_step: 1, takes_ahead: false, skips: None };
    let session: Arc<Session<Counter>> = Arc::new(Session::new(vec![engine], setup));
    let busy = || Error::internal("a session of one thread waits");
    let pass = session.turn_within(LIMIT)?.ok_or_else(busy)?.begin()?;
    Ok(Box::new(move |_| {
        for _ in 0..STEPS {
            let Some(Take::Batch(taken)) = pass.take(false, LIMIT)? else { return Err(busy()) };
            if taken.wait(LIMIT)? != Step::Complete {
                return Err(busy());
            }
            black_box(taken.batch().number());
            taken.deliver();
        }
        // As a program that saves its position at times.
        black_box(session.state()?.0.sample());
        Ok(())
    }))
}

/// Engine with one endless epoch of batches that are ready at once.
struct Counter {
    epoch: AtomicU64,
    batch: AtomicU64,
}

/// Position of a [`Counter`].
struct Position {
    epoch: u64,
    sample: u64,
}

impl SavedState for Position {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn sample(&self) -> u64 {
        self.sample
    }

    fn at(self, epoch: u64, sample: u64) -> Self {
        Self { epoch, sample }
    }

    fn has_skipped_steps(&self) -> bool {
        false
    }
}

impl Engine for Counter {
    type Item = u64;
    type Started = ();
    type Saved = Position;

    fn start(&self) -> Result<()> {
        Ok(())
    }

    fn stop(&self, (): &()) {}

    fn next_within(&self, _: Duration) -> Result<Next<u64>> {
        Ok(Next::Batch(self.batch.fetch_add(1, Ordering::Relaxed)))
    }

    fn state(&self, before: Option<(u64, Held)>) -> Result<Position> {
        let delivered = self.batch.load(Ordering::Relaxed);
        let sample = before.map_or(delivered, |(number, _)| number);
        Ok(Position { epoch: self.epoch.load(Ordering::Relaxed), sample })
    }

    fn load(&self, state: &Position, _: bool) -> Result<()> {
        self.epoch.store(state.epoch, Ordering::Relaxed);
        self.batch.store(state.sample, Ordering::Relaxed);
        Ok(())
    }

    fn batches(&self) -> Result<u64> {
        Ok(u64::MAX)
    }

    fn batches_from(&self, sample: u64) -> Result<u64> {
        Ok(u64::MAX - sample)
    }

    fn skipped(&self) -> Result<u64> {
        Ok(0)
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}
