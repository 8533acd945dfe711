//! Calls that a session needs from the engine of a device.

use crate::error::Result;
use std::time::Duration;

/// Answer of an engine that is asked for its next batch.
#[derive(Debug, PartialEq)]
pub enum Next<T> {
    /// The next batch in plan order.
    Batch(T),
    /// The epoch is over; the next start begins the epoch after it.
    End,
    /// No batch yet: call again. The caller can check for signals in between.
    Pending,
}

/// Batches that the caller has not passed on, from one of them on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The batch is in flight. Later ones may have been passed on.
    InFlight,
    /// The batch has failed, and is passed on later.
    Failed,
    /// The batch and all later ones are passed on later.
    All,
}

/// Position that an engine saves.
pub trait SavedState: Sized + Send {
    /// The epoch.
    fn epoch(&self) -> u64;

    /// The number of its samples that were delivered, on all ranks.
    fn sample(&self) -> u64;

    /// The same state at a different position.
    #[must_use]
    fn at(self, epoch: u64, sample: u64) -> Self;

    /// True if the run leaves out steps.
    fn has_skipped_steps(&self) -> bool;
}

/// Loader of one device. Calls of `next_within`, `start` and `load` come one at a time.
pub trait Engine: Send + Sync {
    /// A batch.
    type Item: Send;
    /// An epoch that was started.
    type Started: Send;
    /// The position.
    type Saved: SavedState;

    /// Ends the current epoch, and starts the next one or the loaded position.
    ///
    /// # Errors
    ///
    /// The engine's errors, here and below.
    fn start(&self) -> Result<Self::Started>;

    /// Stops the threads of an epoch, if no later one was started. A call of `next_within` returns an error.
    fn stop(&self, started: &Self::Started);

    /// Returns the next batch of the epoch that was started, after about `limit` at the latest.
    fn next_within(&self, limit: Duration) -> Result<Next<Self::Item>>;

    /// Returns the position: after all batches that were returned, or before one of them, counted from the start.
    fn state(&self, before: Option<(u64, Held)>) -> Result<Self::Saved>;

    /// Ends the current epoch and moves to a position.
    fn load(&self, state: &Self::Saved, strict: bool) -> Result<()>;

    /// Batches of a whole epoch.
    fn batches(&self) -> Result<u64>;

    /// Batches of an epoch that is resumed at a sample.
    fn batches_from(&self, sample: u64) -> Result<u64>;

    /// Samples that were left out since the engine was made.
    fn skipped(&self) -> Result<u64>;

    /// Ends the engine. A call of `next_within` returns an error.
    fn close(&self) -> Result<()>;
}
