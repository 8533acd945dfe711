//! The view into a running job: figures of the loaders of a process, for `forebay top`, Prometheus and OpenTelemetry.
//!
//! ```text
//! Loader --watch--> registry: the loaders of this process    (watch, registry)
//!                       |
//!                   one thread: HTTP/1 on a Unix socket, and on a port of each `engine.metrics`   (server)
//!                       |  GET /stats    JSON        <--- forebay top                             (client)
//!                       |  GET /metrics  Prometheus  <--- its server
//!                       `- POST v1/metrics ---------> a collector of OpenTelemetry                (otlp)
//! ```
//!
//! The thread runs while a loader of the process is open. It sleeps until a program asks, so a job that is not looked
//! at does no work for it. The socket is in a folder that only its user may open. A forked child has no server until it
//! makes a loader.

mod address;
mod client;
mod exchange;
mod otlp;
mod registry;
mod server;
mod watch;

pub use address::{Metrics, socket_folder, socket_of};
pub use client::{Job, Target, running};
pub(crate) use registry::Watched;
pub(crate) use watch::{Watch, watch};
