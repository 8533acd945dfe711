//! Remote objects: ranges of them into memory that the caller owns.
//!
//! ```text
//!  callers (plain threads)                fetch threads: one runtime each
//!  Stores --open--> Remote
//!                     | fetch             parts queue     transfer: attempts, resuming, checks
//!                     |--- one Part per range --->  worker ---> Source (one exchange)
//!                     v                                |            file | http | s3
//!                FetchTicket <--- Job <--- filled -----+            wrap: throttle, count, fault
//! ```
//!
//! * [`Stores`] owns the threads; [`Remote`] is one folder of one scheme; [`FetchTicket`] is one object on its way into a
//!   [`FetchBuffer`]. Nothing here is async for the caller.
//! * `source` is the one trait behind the schemes: a single exchange, no second attempts. `transfer` stands above it
//!   and holds, once for all schemes, what must never go wrong: only missing bytes are asked for again, and only of the
//!   same version of the object; every answer's range is checked; each byte is written once.
//! * `http` is a client over hyper and rustls; `s3` adds signatures, credentials and listing; `file` is a folder.
//! * `thread`, `queue`: the runtimes, on tokio-uring where the kernel allows io_uring and on plain tokio elsewhere.
//! * `fetcher` is for schemes beyond these, whose files somebody outside of the engine fetches; `outside` is the queue
//!   between that somebody and the threads that want files.
//!
//! Bytes are not hashed here: who fetches knows the hash and checks it before anyone sees the bytes.

mod buffer;
mod config;
mod fetcher;
mod file;
mod http;
mod outside;
mod queue;
mod remote;
mod retry;
mod s3;
mod source;
mod stores;
mod thread;
mod ticket;
mod transfer;
mod url;
mod wrap;

pub use buffer::FetchBuffer;
pub use config::{StoreConfig, ThreadStart, Transport};
pub use fetcher::{Fetcher, Standing};
pub(crate) use fetcher::{Length, fetch_whole};
pub use outside::{FetchQueue, NextFetch, Wanted};
pub use remote::Remote;
pub use s3::S3Settings;
pub use source::{ObjectInfo, Version};
pub use stores::Stores;
pub use ticket::{FetchRequest, FetchTicket, Progress};
pub(crate) use url::{is_url, shown};
pub use wrap::{Counts, Faults};
