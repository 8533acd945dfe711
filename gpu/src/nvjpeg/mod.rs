//! nvJPEG, NVIDIA's JPEG decoder, found when it is first needed: nothing of it is there at build time.
//!
//! ```text
//! safe      Handle, Batched, Probe: they end when dropped
//! result    the functions we call, by noun, with results
//! sys       the functions as bindgen writes them down (the generator: gpu/src/bin/bindings.rs)
//! library   which file it is
//! ```
//!
//! Only the batched interface is used. It fails as a whole over one bad picture; who calls it halves the batch until the
//! picture is alone.

pub(crate) mod library;
pub(crate) mod result;
mod safe;
#[allow(missing_docs, non_camel_case_types, non_snake_case, unused, unreachable_pub, reason = "generated")]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block, reason = "generated")]
mod sys;

pub(crate) use result::{ChromaUpsampling, NvJpegError};
pub(crate) use safe::{BatchDecoder, DecodeJob, Extent, Handle, HeaderProbe};
