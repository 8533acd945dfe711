//! Facts about a data set that need no fields.

use crate::catalog::{Catalog, KnownColumn, Stream};
use crate::config::LoaderConfig;
use crate::error::Result;
use crate::format::hash::Hasher;
use crate::format::{HashAlgo, Shard};
use crate::stats::Stats;
use crate::store::{LibraryStores, Simulation, local_folder};
use crate::sync::Arc;
use crate::topology::Topology;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// A data set as a loader finds it.
#[derive(Clone, Debug)]
pub struct Description {
    /// Samples that the loader keeps, before any weights.
    pub samples: u64,
    /// Bytes of all samples, unpacked.
    pub bytes: u64,
    /// Columns, also those that only some samples have.
    pub columns: Vec<KnownColumn>,
    /// Samples may have columns besides these: the samples of tar files need not all have been read.
    pub may_have_more: bool,
    /// Text that differs for different samples, as far as the index, the versions of the files and files of this
    /// machine show that.
    pub digest: String,
}

impl Description {
    /// Opens the data set of `config`, without regard to its fields. `library` serves the remotes of schemes besides
    /// the engine's.
    ///
    /// # Errors
    ///
    /// `Config` for a column that has two encodings; the errors of the indexes, the cache directories and the stores.
    pub fn of(config: &LoaderConfig, library: Option<LibraryStores>) -> Result<Self> {
        config.validate()?;
        let stats = Arc::new(Stats::new(false));
        let catalog = Catalog::open(config, &stats, &Topology::detect()?, &Simulation::default(), library)?;
        Ok(Self {
            samples: catalog.shape().num_samples(),
            bytes: catalog.raw_bytes(),
            columns: catalog.columns()?,
            may_have_more: catalog.layouts().iter().any(|layout| layout.format.has_free_columns()),
            digest: digest(&catalog),
        })
    }
}

fn digest(catalog: &Catalog) -> String {
    let mut hasher = Hasher::new(HashAlgo::Xxh3_128);
    for stream in catalog.streams() {
        let version = stream.version.as_deref().unwrap_or_default();
        hasher.update(format!("{}\n{version}\n", stream.index_digest).as_bytes());
        // A file that was written again may have the size of the old one, and the index no hashes.
        for path in source_paths(stream) {
            let Ok(found) = std::fs::metadata(&path) else { continue };
            hasher.update(format!("{} {} {}\n", found.len(), found.mtime(), found.mtime_nsec()).as_bytes());
        }
    }
    hasher.finish_hex()
}

/// Returns the paths of the shards of `stream` in their source, if that is on this machine. Some may not exist: shards
/// that are made of parts of files.
fn source_paths(stream: &Stream) -> Vec<PathBuf> {
    let shards = &stream.index.shards;
    let Some(remote) = &stream.remote else {
        return (0..shards.len() as u32).flat_map(|shard| stream.dir.raw_paths(shard)).collect();
    };
    let Some(folder) = local_folder(remote.name()) else { return Vec::new() };
    shards.iter().flat_map(Shard::files).map(|file| folder.join(&*file.stored().basename)).collect()
}
