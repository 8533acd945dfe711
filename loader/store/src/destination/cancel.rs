//! Cancellation of uploads.

use tokio::sync::watch;

/// Mark that ends the uploads of a destination, for threads and for tasks.
#[derive(Debug)]
pub(super) struct Cancel(watch::Sender<bool>);

impl Default for Cancel {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Cancel {
    pub(super) fn set(&self) {
        self.0.send_replace(true);
    }

    pub(super) fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is set.
    pub(super) async fn wait(&self) {
        // The sender is alive.
        let _ = self.0.subscribe().wait_for(|is_set| *is_set).await;
    }
}
