//! Fetches by a downloader that the program brings.
//!
//! A thread that needs a file calls [`Fetcher::fetch`](super::Fetcher::fetch) on one of [`FetchQueue::fetchers`], and
//! waits. The downloader takes [`FetchTask`]s from [`FetchQueue::next`], several in parallel, and responds to each with
//! an open file. The two sides share nothing else, so the engine's threads never need the downloader's locks: a thread
//! that waits for the interpreter's lock while it is joined would wait forever.
//!
//! * `queue`: the queue and its fetchers;
//! * `request`: one request and its phases, below the queue.

mod queue;
mod request;

pub use queue::{FetchCommand, FetchQueue};
pub use request::FetchTask;

#[cfg(test)]
mod models;
#[cfg(test)]
mod tests;
