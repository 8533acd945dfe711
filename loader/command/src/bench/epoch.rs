//! Epoch of a loader in a loop that does nothing else.

use crate::STOPPED_EVERY;
use crate::output::Output;
use forebay_loader::{Loader, Next, Result};
use std::time::Instant;

/// Result of an epoch, or a part of it.
pub(super) struct Epoch {
    pub(super) samples: u64,
    pub(super) seconds: f64,
    pub(super) first_batch_s: f64,
    /// The loader's figures at the end.
    pub(super) figures: serde_json::Value,
}

impl Epoch {
    /// Loads at most `samples`, and for at most `seconds` unless they are 0.
    pub(super) fn load(loader: &Loader, samples: Option<u64>, seconds: f64, output: &Output) -> Result<Self> {
        let most = samples.unwrap_or(u64::MAX).min(loader.epoch_samples()?);
        let limit = if seconds == 0.0 { f64::INFINITY } else { seconds };
        let bar = output.progress(most, "samples");
        let began = Instant::now();
        let (mut samples, mut first_batch_s) = (0, 0.0);
        loader.start_epoch()?;
        while samples < most && began.elapsed().as_secs_f64() < limit && !output.is_stopped() {
            match loader.next_within(STOPPED_EVERY)? {
                Next::Batch(batch) => {
                    if samples == 0 {
                        first_batch_s = began.elapsed().as_secs_f64();
                    }
                    samples += batch.rows as u64;
                    bar.set_position(samples);
                }
                Next::Pending => {}
                Next::End => break,
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        bar.finish_and_clear();
        Ok(Self { samples, seconds, first_batch_s, figures: loader.stats()?.json() })
    }
}
