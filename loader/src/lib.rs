//! The engine of forebay: shards in object storage to training batches.
//!
//! ```text
//!                       order::EpochPlan  (pure: this rank's samples; and per shard, when this node uses it)
//!                              |
//!                          schedule  -- next use of every shard --------------+
//!            predownload ahead |                                              v
//! SHARD PLANE   large, sequential, rare                            cache: resident table, eviction
//!   fetch --> unpack --> publish --------------- link into place --------->   |
//!                                                                             | shard resident
//! SAMPLE PLANE  small, random, always                                         v
//!   read -----------> decode -----------> collate ------------> place ------> Loader::next
//! ```
//!
//! The samples of one shuffle block are spread over far more bytes than fit into memory. So there are two planes. The
//! **shard plane** (`pipeline::shard`, [`store`], `cache`) claims a shard, fetches it in ranged parts, unpacks it,
//! checks its hash and links it into the local folder. The **sample plane** (`pipeline::sample`, [`io`], [`decode`])
//! reads a sample, decodes it into its row of a batch slot, and delivers the batch when its last row is complete.
//! Between them, residency parks chunks of samples with shards that are not on disk. A parked chunk holds its rows in
//! a batch and nothing else, so neither plane holds a resource that the second one waits for. CONTRIBUTING.md has the
//! four rules that every change must keep.
//!
//! **Start here:** [`Loader`] runs all of this in the training process. It is made from a [`LoaderConfig`] and delivers
//! a [`batch::Batch`] at a time:
//!
//! ```
//! use forebay_loader::config::{LoaderConfig, StreamConfig};
//! use forebay_loader::format::writer::{LocalDir, Options, Writer};
//! use forebay_loader::format::{Encoding, Layout, Value};
//! use forebay_loader::{Loader, Next};
//!
//! // A data set of 8 samples with one column.
//! let folder = tempfile::tempdir()?;
//! let layout = Layout::mds([("number".to_owned(), Encoding::Int)])?;
//! let sink = LocalDir::create(folder.path(), true)?;
//! let mut writer = Writer::new(layout, Box::new(sink), Options::default())?;
//! for number in 0..8 {
//!     writer.write(&[Value::Int(number)])?;
//! }
//! writer.finish()?;
//!
//! // One epoch of it.
//! let stream = StreamConfig { local: Some(folder.path().into()), ..StreamConfig::default() };
//! let config = LoaderConfig { streams: vec![stream], batch_size: 4, shuffle: true, ..LoaderConfig::default() };
//! let loader = Loader::new(config)?;
//! loader.start_epoch()?;
//! let mut rows = 0;
//! while let Next::Batch(batch) = loader.next()? {
//!     rows += batch.rows;
//! }
//! assert_eq!(rows, 8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Then, from the interface down:
//!
//! * [`config`], [`loader`], [`batch`], [`dlpack`], [`state`], [`stats`], [`error`]: the interface that the Python and
//!   C packages wrap.
//! * [`delivery`]: the interface of a device. The GPU crate implements it; the engine does not depend on CUDA, Python
//!   or C.
//! * [`order`]: the order of samples, [`mod@format`]: shard formats, [`decode`]: samples to tensors. These are pure:
//!   they take values and return values. Time, files and the network come in through [`clock`], `io` and [`store`].
//! * `pipeline`: the stages of an epoch, `cache`: shards on local disk, [`memory`]: pools, [`topology`]: CPUs and NUMA
//!   nodes, [`sync`]: locks and threads.
//! * Some of these names are crates below the loader, or modules of them, which compile and can be used by themselves:
//!   [`order`] is [`forebay_order`], [`store`] is [`forebay_store`], [`objects`] a module of it, and [`clock`],
//!   [`error`], [`session`], [`stats`], [`sync`], [`topology`] and [`versions`] belong to [`forebay_core`].
//!   [`decode`] offers the modules of [`forebay_picture`].
//! * [`worker`]: a small engine for processes that a different program starts, such as a DataLoader's workers. It reads
//!   on the calling thread and fetches shards ahead with one thread.
//! * [`indexing`]: indexes after the samples of a shard, which let a crop skip the rest of a picture.
//! * [`objects`]: objects of stores as they are, by their URLs; [`output`]: remote folders as destinations of a writer.
//! * [`contents`]: lines of texts and files of tars, in sequence, without an index.
//! * [`sources`]: data sets without an `index.json`, such as lists of tars; [`TarSet`] makes one for them.
//! * `subsets`: the samples of a stream that a loader keeps.
//! * [`monitor`]: the figures of a process's loaders, for `forebay top`, Prometheus and OpenTelemetry.
//! * [`verify`]: comparison of a data set's files with its index, and their repair.
//! * [`conversion`]: the batches of a loader as MDS.

pub mod batch;
mod cache;
mod catalog;
pub mod config;
pub mod contents;
pub mod conversion;
pub mod decode;
pub mod delivery;
pub mod dlpack;
pub mod indexing;
pub mod io;
pub mod loader;
pub mod memory;
pub mod monitor;
pub mod output;
mod pipeline;
pub mod sources;
pub mod state;
mod subsets;
pub mod verify;
pub mod worker;

pub use cache::FileCache;
pub use catalog::{FileListing, KnownColumn, TarSet, cache_root};
pub use config::LoaderConfig;
pub use error::{Error, ErrorKind, Result};
pub use forebay_core::{clock, error, session, stats, sync, topology, versions};
pub use forebay_format as format;
pub use forebay_order as order;
pub use forebay_store as store;
pub use forebay_store::objects;
pub use loader::{Loader, Next};
