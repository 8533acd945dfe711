//! The formats against the reference's own files, and against damaged files.
//!
//! * `golden` — data sets recorded from the reference are read to the same values, and our copies are the same bytes;
//! * `live` — the same with random data sets from an installed reference, which also reads ours (ignored by default);
//! * `hostile` — thousands of damaged files, deterministic: errors, no panic, no hang, no memory beyond the input's
//!   size;
//! * `crash` — writers killed in the middle of a file;
//! * `copy` — helpers of the first two; `targets` — functions that `hostile` shares with the fuzzers under
//!   `tests/fuzz`.

#![allow(clippy::unwrap_used, reason = "a suite fails by panicking")]

mod copy;
mod crash;
mod golden;
mod hostile;
mod live;
mod targets;
