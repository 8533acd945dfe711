//! Remotes around remotes, for tests and the bench: slower ones, counted ones, broken ones.
//!
//! Each wraps the trait that every scheme implements, below the attempts and the checks, so that what it counts is
//! exchanges and what it breaks is mended by the same code that mends a network.

mod around;
mod count;
mod fault;
mod throttle;

pub(crate) use around::Around;
use around::Exchange;

pub(crate) use count::Count;
pub use count::Counts;
pub(crate) use fault::Fault;
pub use fault::Faults;
pub(crate) use throttle::Throttle;
