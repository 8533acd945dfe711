//! Facts about a data set that need no fields.

use crate::catalog::{Catalog, KnownColumn};
use crate::config::LoaderConfig;
use crate::error::Result;
use crate::format::ShardFormat;
use crate::stats::Stats;
use crate::store::{Outside, Simulation};
use crate::sync::Arc;
use crate::topology::Topology;

/// A data set as a loader finds it.
#[derive(Clone, Debug)]
pub struct Description {
    /// Samples that the loader keeps, before any weights.
    pub samples: u64,
    /// Bytes of all samples, unpacked.
    pub bytes: u64,
    /// Columns, also those that only some samples have.
    pub columns: Vec<KnownColumn>,
    /// Samples may have other columns than these: those of tar files need not all have been read.
    pub may_have_more: bool,
}

impl Description {
    /// Opens the data set of `config`, whose fields do not count. `outside` has the remotes of other schemes than the engine's.
    ///
    /// # Errors
    ///
    /// `Config` for a column that has two encodings; the errors of the indexes, the cache directories and the stores.
    pub fn of(config: &LoaderConfig, outside: Option<Outside>) -> Result<Self> {
        config.validate()?;
        let stats = Arc::new(Stats::new(false));
        let catalog = Catalog::open(config, &stats, &Topology::detect()?, &Simulation::default(), outside)?;
        Ok(Self {
            samples: catalog.shape().num_samples(),
            bytes: catalog.raw_bytes(),
            columns: catalog.columns()?,
            may_have_more: catalog.layouts().iter().any(|layout| matches!(layout.format, ShardFormat::Tar { .. })),
        })
    }
}
