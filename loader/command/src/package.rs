//! Arguments of the commands that are a part of the Python package. Their names are the names of its keyword arguments.

use clap::Args;
use serde::Serialize;

/// Compare all files of a data set with its index, and repair a folder from its remote
///
/// Sizes, every hash that the index has, compressed files with raw ones, and tables of offsets are compared. With
/// --remote the folder is a cache of that remote: shards may be absent, and --repair replaces damaged ones. The exit
/// code is 0 if every file is intact at the end, and 1 if not.
#[derive(Args, Debug, Serialize)]
pub(crate) struct VerifyArgs {
    /// Folder or URL of the data set
    place: String,
    /// URL or folder that the shards of a folder come from: the folder is its cache
    #[arg(long)]
    remote: Option<String>,
    /// Replace damaged shards with the remote's
    #[arg(long, requires = "remote")]
    repair: bool,
    /// Fetch absent shards from the remote
    #[arg(long, requires = "remote")]
    complete: bool,
    /// Shards at a time [default: the CPUs of this process]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
}
