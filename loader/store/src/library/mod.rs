//! Stores that a library serves, for example a package of Python.
//!
//! ```text
//!  fetch threads                                   threads of the library
//!  Source, Target --LibraryFolder--> queue ------> LibraryQueue::next --> Exchange
//!        ^                                            head, bytes, entries, done, failed
//!        '------------ replies, few at a time --------------------'
//! ```
//!
//! The configuration of the stores has the [`LibraryStores`]. A remote of a scheme that the engine has no transport for
//! then opens as a folder of the library. It gets everything that the engine's schemes have: attempts, time limits,
//! resuming from the first missing byte, the comparison of sizes after a writer's last file. The library makes single
//! exchanges.
//!
//! * `queue`: the two ends of the queue; `shared`: the state between them;
//! * `request`: a request and the replies to it; `exchange`: its handle for the library;
//! * `folder`: a source and a target made of exchanges.
//!
//! Engine threads never call the library, and the library's threads never hold the engine's locks while they work: see
//! `downloader`, which is the same idea for whole files of a downloader that a program has replaced.

mod exchange;
mod folder;
mod queue;
mod request;
mod shared;
#[cfg(test)]
mod tests;

pub use exchange::Exchange;
pub(crate) use folder::LibraryFolder;
pub use queue::{LibraryQueue, LibraryStores};
