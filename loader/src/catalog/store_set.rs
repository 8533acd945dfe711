//! Fetch threads of a catalog, one set for each pair of attempts and timeout.

use crate::clock::Clock;
use crate::error::Result;
use crate::stats::Stats;
use crate::store::{Destination, Remote, StoreConfig, Stores};
use crate::sync::{Arc, Mutex};
use std::time::Duration;

/// One set of fetch threads for each distinct pair of attempts and timeout, started when it is first needed. Usually
/// there is one.
#[derive(Default)]
pub(crate) struct StoreSet(Mutex<Vec<((u32, Duration), Stores)>>);

impl StoreSet {
    /// Opens `remote` with the fetch threads for `config`. All settings except attempts and timeout must be equal in
    /// all calls.
    ///
    /// # Errors
    ///
    /// As [`Stores::new`] and [`Stores::open`].
    pub(crate) fn open(&self, remote: &str, config: StoreConfig, stats: &Arc<Stats>, clock: &Clock) -> Result<Remote> {
        self.stores(config, stats, clock)?.open(remote)
    }

    /// Returns the folder `remote` for listings.
    ///
    /// # Errors
    ///
    /// As [`Stores::new`] and [`Stores::open_destination`].
    pub(crate) fn open_destination(
        &self,
        remote: &str,
        config: StoreConfig,
        stats: &Arc<Stats>,
        clock: &Clock,
    ) -> Result<Destination> {
        self.stores(config, stats, clock)?.open_destination(remote)
    }

    fn stores(&self, config: StoreConfig, stats: &Arc<Stats>, clock: &Clock) -> Result<Stores> {
        let key = (config.download_retry, config.download_timeout);
        let mut all = self.0.lock();
        let known = all.iter().find(|(known, _)| *known == key).map(|(_, stores)| stores.clone());
        if let Some(stores) = known {
            return Ok(stores);
        }
        let stores = Stores::new(config, stats, clock.clone())?;
        all.push((key, stores.clone()));
        Ok(stores)
    }
}
