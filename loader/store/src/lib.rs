//! Objects in folders, on web servers and in clouds: fetched in ranges into memory that the caller owns, uploaded,
//! listed and removed.
//!
//! ```text
//!  callers (plain threads)                fetch threads: one runtime each
//!  Stores --open--> Remote
//!                     | fetch             parts queue     transfer: attempts, resuming, checks
//!                     |--- one Part per range --->  worker ---> Source (one exchange)
//!                     v                                |            file | http
//!                FetchTicket <--- Job <--- filled -----+
//! ```
//!
//! * [`Stores`] opens remotes; [`Remote`] is one folder of one scheme; [`FetchTicket`] is one object in flight into a
//!   [`FetchBuffer`]. Nothing here is async for the caller.
//! * `source` is the trait of the schemes: single exchanges, without retries. `transfer` above it retries for all
//!   schemes: only missing bytes are requested again, and only of the same version of the object; the range of every
//!   response is checked; each byte is written once.
//! * `http` is a client over hyper and rustls; `s3`, `gcs`, `azure`, `hf`, `oci` and `dbfs` add addresses, signatures
//!   and credentials; `credentials` has the common parts; `file` is a folder.
//! * `destination` is the opposite direction: [`Destination`] uploads, lists and removes objects over the same threads,
//!   with the same addresses, signatures and credentials.
//! * `threads`, `context`, `queue`: the runtimes, on tokio-uring where the kernel allows io_uring and on plain tokio
//!   elsewhere; `flight`: how many parts a thread has in flight; `trials`: whether more would be a gain; `hedge`: when
//!   a part is requested a second time.
//! * `library`: schemes with transports of a library, such as a package of Python.
//! * `fetcher` is the interface for whole files that a downloader of the embedding program fetches instead of the
//!   engine; `downloader` is the queue between the two.
//!
//! * [`objects`]: all of this by the URL of an object, for programs without a data set.
//!
//! Bytes are not hashed here: the caller has the hash and compares it before the bytes are used.
//!
//! ```
//! use forebay_core::clock::Clock;
//! use forebay_core::stats::Stats;
//! use forebay_store::{FetchRequest, StoreConfig, Stores};
//! use std::sync::Arc;
//!
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("shard.00000.mds"), b"some bytes")?;
//!
//! let stores = Stores::new(StoreConfig::default(), &Arc::new(Stats::default()), Clock::system())?;
//! let remote = stores.open(folder.path().to_str().expect("UTF-8"))?; // or "https://...", "s3://bucket/prefix"
//! let ticket = remote.fetch(FetchRequest::new("shard.00000.mds", 10))?;
//! assert_eq!(&*ticket.wait()?, b"some bytes");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod azure;
mod buffer;
mod config;
mod context;
mod credentials;
mod dbfs;
mod destination;
mod downloader;
mod failure;
mod fetcher;
mod file;
mod flight;
mod gcs;
mod hedge;
mod hf;
mod http;
mod key;
mod library;
pub mod objects;
mod oci;
mod queue;
mod remote;
mod retry;
mod s3;
mod source;
mod stores;
mod threads;
mod ticket;
mod transfer;
mod trials;
mod url;

#[cfg(test)]
mod tests;

pub use address::{is_url, redact, redact_in};
pub use azure::AzureSettings;
pub use buffer::FetchMemory;
/// Memory that an upload sends.
pub use bytes::Bytes as UploadBuffer;
/// Usual memory of a fetch.
pub use bytes::BytesMut as FetchBuffer;
pub use config::{Simulation, StoreConfig, ThreadStart, Transport};
pub use dbfs::DbfsSettings;
pub use destination::{Destination, Expected, ListedEntry, Listing, Upload, UploadTicket};
pub use downloader::{FetchCommand, FetchQueue, FetchTask};
pub use fetcher::{FetchStatus, Fetcher, Length, fetch_whole};
pub use forebay_core::{Error, ErrorKind, Result};
pub use gcs::GcsSettings;
pub use hf::HfSettings;
pub use http::{Proxies, Tls};
pub(crate) use key::KeyForm;
pub use library::{Exchange, LibraryQueue, LibraryStores};
pub use oci::OciSettings;
pub use remote::Remote;
pub use s3::S3Settings;
pub use source::{Encoded, Version};
pub use stores::Stores;
pub use ticket::{FetchRequest, FetchTicket, Progress};
pub use transfer::Peek;
pub(crate) use url::{RemoteLocation, split_object};
pub use url::{local_folder, needs_library};
