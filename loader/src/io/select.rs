//! Selection of a reader.

use super::pread::PreadReader;
use super::reader::{DEPTH_MAX, Engine, IoConfig, Reader};
use super::uring::UringReader;
use crate::error::{Error, Result};
use crate::memory::ReadPool;
use crate::stats::Stats;
use std::sync::Arc;

/// Creates the reader that `config` selects and this machine supports. `pool` is the pool of the leases, for
/// registration. A fallback and its reason become a note in `stats`.
///
/// # Errors
///
/// [`ErrorKind::Config`](crate::ErrorKind::Config) for a depth out of range;
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when io_uring was selected by name and is not available.
pub fn reader(config: &IoConfig, pool: &ReadPool, stats: &Arc<Stats>) -> Result<Box<dyn Reader>> {
    if config.depth == 0 || config.depth > DEPTH_MAX {
        return Err(Error::config(format!("the number of reads in flight must be 1 to {DEPTH_MAX}"))
            .with("depth", config.depth));
    }
    if config.engine != Engine::Pread {
        match UringReader::new(config, pool, stats) {
            Ok(reader) => return Ok(Box::new(reader)),
            Err(e) if config.engine == Engine::Uring => return Err(e),
            Err(e) => stats.note(format!("samples are read with pread: {e}")),
        }
    }
    Ok(Box::new(PreadReader::new(config, stats)))
}
