//! Lists of files to be kept next to them, where [`ListedFiles`](super::listed_files::ListedFiles) finds them, and those of tables, where
//! [`TableFiles`](super::tables::TableFiles) does.

use super::files::has_list;
use super::open::{Opener, absolute, name_of};
use super::store_set::StoreSet;
use super::stream::IndexedStream;
use super::tables::TABLES_INDEX;
use crate::config::LoaderConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::format::INDEX_BASENAME;
use crate::format::index::INDEX_BYTES_MAX;
use crate::io::read_regular;
use crate::sources::files::FileSet;
use crate::stats::Stats;
use crate::store::{Outside, Simulation};
use crate::sync::Arc;
use crate::topology::Topology;
use std::path::Path;

/// List of the files of a data set that has no index.
#[derive(Debug)]
pub struct FileListing {
    /// Address of their folder, with secrets.
    pub root: String,
    /// Name of the list in that folder.
    pub basename: &'static str,
    /// The list.
    pub document: Vec<u8>,
    /// Number of samples.
    pub samples: u64,
}

impl FileListing {
    /// Lists the files of the only stream of `config`, whose `local` is an empty folder of this machine. A list that the files have
    /// already is not used. `outside` has the remotes of other schemes than the engine's.
    ///
    /// # Errors
    ///
    /// `NotFound` for a folder without files of a known kind; `Unsupported` for files that have another kind of index; errors of
    /// the store.
    pub fn of(config: &LoaderConfig, outside: Option<Outside>) -> Result<Self> {
        config.validate()?;
        let stats = Arc::new(Stats::new(false));
        let (topology, network, stores) = (Topology::detect()?, Simulation::default(), StoreSet::default());
        let opener = Opener {
            config,
            stats: &stats,
            topology: &topology,
            network: &network,
            outside,
            stores,
            is_verified: false,
        };
        let stream = config.streams.first().map(absolute);
        let stream = stream.ok_or_else(|| Error::config("a list is of the files of one stream"))?;
        let may_be_tables = stream.files.is_none() && stream.manifest.is_none();
        if may_be_tables && let Some((root, document, samples)) = opener.index_of_tables(&stream)? {
            return Ok(Self { root, basename: TABLES_INDEX, document, samples });
        }
        let opened = match opener.open_files_of(&stream)? {
            None => opener.open_files_in(&stream, &name_of(&stream))?,
            named => named,
        };
        let opened =
            opened.ok_or_else(|| Error::new(ErrorKind::NotFound, "the folder has no files that are samples"))?;
        let kept = opened.cache.dir.join(INDEX_BASENAME);
        if !has_list(&opened.cache.dir) {
            let message = "a list is made of files that are samples, such as pictures: tokens and records have their index in the \
                           files, and an index of tars is made by their names";
            return Err(Error::new(ErrorKind::Unsupported, message).with("remote", &opened.name));
        }
        Self::of_kept(&kept, opened)
    }

    fn of_kept(kept: &Path, opened: IndexedStream) -> Result<Self> {
        let bytes = read_regular(kept, INDEX_BYTES_MAX);
        let bytes = bytes.map_err(|e| Error::from_io(e, "the list cannot be read").with("file", kept.display()))?;
        let mut set = FileSet::parse(&bytes)?;
        // Another machine has other times, and the list itself changes that of its folder.
        set.folders.clear();
        let samples = opened.cache.shards.index().samples();
        let root = opened.address.unwrap_or(opened.name);
        Ok(Self { root, basename: INDEX_BASENAME, document: set.to_bytes()?, samples })
    }
}
