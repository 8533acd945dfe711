//! The formats against the reference's own files, and against files that lie.
//!
//! * `golden` — data sets recorded from the reference read to the same values, and our copies are the same bytes;
//! * `live` — the same over random data sets that an installed reference writes, and the reference reads ours (ignored
//!   unless asked for);
//! * `hostile` — thousands of damaged files, deterministic: errors, no panic, no hang, no memory beyond the input's size;
//! * `crash` — writers killed in the middle of a file;
//! * `copy` — what the first two share; `targets` — what the last shares with the fuzzers under `tests/fuzz`.

#![allow(clippy::unwrap_used, reason = "a suite fails by panicking")]

mod copy;
mod crash;
mod golden;
mod hostile;
mod live;
mod targets;
