//! Server, fetch threads and clock of a test.

use forebay_loader::Result;
use forebay_loader::clock::Clock;
use forebay_loader::stats::Stats;
use forebay_loader::store::{FetchBuffer, FetchRequest, Remote, StoreConfig, Stores};
use forebay_loader::sync::Arc;
use forebay_tests::server::{ObjectServer, Options};

/// Set-up of a test. Waits between attempts take no time, because the clock is manual.
pub(crate) struct Rig {
    pub(crate) server: ObjectServer,
    pub(crate) stores: Stores,
    pub(crate) stats: Arc<Stats>,
    pub(crate) clock: Clock,
}

impl Rig {
    /// Creates a rig with parts of 100 bytes, two threads and three attempts.
    pub(crate) fn new() -> Self {
        Self::with(Options::default(), config())
    }

    pub(crate) fn with(options: Options, config: StoreConfig) -> Self {
        Self::of_store(options, |_| config)
    }

    /// Creates a rig with stores that have the settings that `config` returns for the server and its address.
    pub(crate) fn of_store(options: Options, config: impl FnOnce(&str) -> StoreConfig) -> Self {
        let server = ObjectServer::in_memory(options).expect("loopback");
        let (stats, clock) = (Arc::new(Stats::default()), Clock::manual());
        let stores = Stores::new(config(&server.url()), &stats, clock.clone()).expect("threads");
        Self { server, stores, stats, clock }
    }

    /// Returns the server's root through plain HTTP.
    pub(crate) fn remote(&self) -> Remote {
        self.stores.open(&self.server.url()).expect("valid")
    }

    /// Writes an object of `len` bytes and fetches it.
    pub(crate) fn put_and_fetch(&self, len: usize) -> Result<FetchBuffer> {
        let bytes = content(len);
        self.server.put("shard", bytes.clone()).expect("memory");
        let fetched = self.remote().fetch(FetchRequest::new("shard", len))?.wait()?;
        assert_eq!(*fetched, *bytes, "fetched bytes are the object's");
        Ok(fetched)
    }

    /// Returns a counter of the statistics.
    pub(crate) fn count(&self, name: &'static str) -> u64 {
        self.stats.counter(name).get()
    }
}

pub(crate) fn config() -> StoreConfig {
    StoreConfig {
        fetch_threads: 2,
        part_bytes: 100,
        parts_in_flight: 4,
        parts_in_flight_max: 1,
        download_retry: 3,
        ..StoreConfig::default()
    }
}

/// Returns bytes that differ at all offsets that a bug could swap.
pub(crate) fn content(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}
