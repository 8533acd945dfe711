//! Lengths in tokens of a data set, made before a loader needs them.

use super::filter::{Filters, TokenSource};
use crate::catalog::Catalog;
use crate::config::LoaderConfig;
use crate::error::{Error, Result};
use crate::order::TokenLengths;
use crate::stats::Stats;
use crate::store::{LibraryStores, Simulation};
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::topology::Topology;

/// Lengths in tokens of the samples of a data set. They are kept on local disk, where a loader finds them.
#[derive(Debug)]
pub struct LengthIndex {
    config: LoaderConfig,
    library: Option<LibraryStores>,
    stats: Arc<Stats>,
    /// Shards of the data set, once it is open.
    shards: AtomicU64,
}

impl LengthIndex {
    /// Makes an index of the lengths of the data set of `config`, with a Tokenize or Tokens field as the only one.
    /// `library` serves the remotes of schemes besides the engine's.
    ///
    /// # Errors
    ///
    /// `Config` for invalid arguments.
    pub fn new(config: LoaderConfig, library: Option<LibraryStores>) -> Result<Self> {
        config.validate()?;
        Ok(Self { config, library, stats: Arc::new(Stats::new(false)), shards: AtomicU64::new(0) })
    }

    /// Returns the lengths of each stream's kept samples: known ones, or the counts of one pass that are kept. A pass
    /// that was stopped continues.
    ///
    /// # Errors
    ///
    /// Errors of the indexes, the cache directories, the stores and the shards; `Config` for a field or a column
    /// without tokens; the error of the first sample that no tokens can be made of.
    pub fn make(&self) -> Result<Vec<Arc<TokenLengths>>> {
        self.make_in(&Simulation::default())
    }

    pub(super) fn make_in(&self, network: &Simulation) -> Result<Vec<Arc<TokenLengths>>> {
        let Self { config, stats, .. } = self;
        let Some([(_, field)]) = config.fields.as_deref() else {
            return Err(Error::config(
                "lengths in tokens are the lengths of one field: pass only a Tokenize or Tokens field",
            ));
        };
        let topology = Topology::detect()?;
        let mut catalog = Catalog::open(config, stats, &topology, network, self.library.clone())?;
        let shards = catalog.streams().iter().map(|stream| stream.index.shards.len() as u64).sum();
        // Relaxed: a figure for people.
        self.shards.store(shards, Ordering::Relaxed);
        let filters = Filters { config, stats, topology: &topology, network, library: self.library.clone() };
        filters.apply(&mut catalog)?;
        filters.token_lengths(&catalog, &TokenSource { field, lengths: None })
    }

    /// Returns the number of shards that have been read, and the number of shards of the data set, which is 0 until it
    /// is open. Shards with known lengths are not read.
    pub fn progress(&self) -> (u64, u64) {
        let read = self.stats.counter("filter_shards_read").get();
        (read, self.shards.load(Ordering::Relaxed))
    }
}
