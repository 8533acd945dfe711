//! nvJPEG, NVIDIA's JPEG decoder, loaded at run time. The build needs nothing of it.
//!
//! ```text
//! safe      Handle, BatchDecoder, HeaderProbe: handles that are freed on drop
//! result    the functions in use, by subject, with results
//! sys       the functions as bindgen generates them (by gpu/src/bin/bindings.rs)
//! library   search for the library's file
//! ```
//!
//! Only the batched interface is used. It fails for a whole batch if one picture is bad; the caller halves the batch
//! until the picture is alone.

pub(crate) mod library;
pub(crate) mod result;
mod safe;
#[allow(missing_docs, non_camel_case_types, non_snake_case, unused, unreachable_pub, reason = "generated")]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block, reason = "generated")]
mod sys;

pub(crate) use result::{ChromaUpsampling, NvJpegError};
pub(crate) use safe::{BatchDecoder, DecodeJob, Extent, Handle, HeaderProbe};
