//! cuFile, NVIDIA's GPUDirect Storage: reads from files to device memory without host memory between, loaded at run
//! time. The build needs nothing of it.
//!
//! ```text
//! safe      Driver, File: a file is deregistered before it is closed
//! result    the functions in use, with results
//! sys       the functions as bindgen generates them (by gpu/src/bin/bindings.rs)
//! library   search for the library's file
//! ```
//!
//! Reads are synchronous, on several threads. A read on a stream reports its length only after the batch was delivered,
//! too late for a second way to read it. A list of reads (cuFileBatchIO) is limited in length, must be polled, and is
//! not faster if each read is from a different file.
//!
//! Without the kernel's part (nvidia-fs, or PCI peer-to-peer DMA) cuFile runs in "compatibility mode": it reads into
//! host memory and copies from there, as the loader does anyway. Device memory is not registered with cuFile: samples
//! begin anywhere in a shard, and if offset and length in the file are not multiples of 4 KiB, cuFile reads into its
//! own device buffers and copies from there.

pub(crate) mod library;
mod result;
mod safe;
#[allow(missing_docs, non_camel_case_types, non_snake_case, unused, unreachable_pub, reason = "generated")]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block, reason = "generated")]
mod sys;

pub(crate) use safe::{Driver, File};
