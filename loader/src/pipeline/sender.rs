//! Sending half of a stage's queue.

use crate::sync::Mutex;
use crossbeam::channel::Sender;

/// Sends work to a stage until the run stops. Closing it ends the stage's queue, so that its threads return.
#[derive(Debug)]
pub(crate) struct StageSender<T>(Mutex<Option<Sender<T>>>);

impl<T> StageSender<T> {
    /// Wraps the sending half of a channel. There must be no other one.
    pub(crate) fn new(sender: Sender<T>) -> Self {
        Self(Mutex::new(Some(sender)))
    }

    /// Sends `work`, or drops it after the run has stopped.
    pub(crate) fn send(&self, work: T) {
        if let Some(sender) = &*self.0.lock() {
            // Fails only when the receiving threads have returned, which they do after a stop.
            let _ = sender.send(work);
        }
    }

    /// Ends the queue.
    pub(crate) fn close(&self) {
        self.0.lock().take();
    }
}
