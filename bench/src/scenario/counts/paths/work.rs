//! Type of the work of a path, and the seed of its inputs.

use forebay_loader::Result;

/// Work of a path. The argument is the number of the pass: 0 prepares memory and tables, 1 is counted.
pub(super) type Work = Box<dyn FnMut(u64) -> Result<()>>;

/// Seed of all inputs.
pub(super) const SEED: u64 = 7;
