//! A proxy that disturbs the traffic between a loader and an object server.
//!
//! ```text
//!  loader --(TLS)--> ChaosProxy --> any HTTP server
//!                       |
//!                    Schedule: seed, part of an object, number of its request --> Fault
//! ```
//!
//! * `schedule` chooses the faults. They follow from the seed, the part of the object and the number of requests for it
//!   so far, and not from the order in which threads ask. A part has a bounded number of faults, so a client with
//!   enough attempts always succeeds.
//! * `message` reads heads of requests and responses, and changes the latter.
//! * `proxy` forwards requests and applies the faults, down to resets of the connection. Its clients use HTTP or HTTPS.
//!
//! **Time.** A response that stalls ends when the client closes the connection. Until then the proxy advances the
//! client's [manual clock](forebay_loader::clock::Clock::manual), so that a timeout of a minute takes milliseconds.
//!
//! **Index.** `index.json` is not covered by a hash, so its bytes are never changed, only cut, delayed and refused.

mod message;
mod proxy;
mod schedule;

pub use proxy::{ChaosProxy, Fired, Protocol};
pub use schedule::{Fault, Pause, RequestPart, Schedule};
