//! cuFile, NVIDIA's GPUDirect Storage: files to device memory without host memory between. Found when it is first needed:
//! nothing of it is there at build time.
//!
//! ```text
//! safe      Driver, File: a file is let go of before it is closed
//! result    the functions we call, with results
//! sys       the functions as bindgen writes them down (the generator: gpu/src/bin/bindings.rs)
//! library   which file it is
//! ```
//!
//! Reads are the synchronous ones, from several threads. A read on a stream says how much it has read only when the batch has
//! been handed out, too late to read it otherwise; and a list of reads (cuFileBatchIO) is limited in length, asks for its answers
//! again and again, and is no faster where each file is another one.
//!
//! Without the kernel's part (nvidia-fs, or PCI peer-to-peer DMA) cuFile reads into host memory and copies from there: its
//! "compatibility mode", which is what the loader does anyway. Device memory is not registered with cuFile: samples begin
//! anywhere in a shard, and where file offset and length are not multiples of 4 KiB cuFile reads into buffers of its own on the
//! device and copies from there in any case.

pub(crate) mod library;
mod result;
mod safe;
#[allow(missing_docs, non_camel_case_types, non_snake_case, unused, unreachable_pub, reason = "generated")]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block, reason = "generated")]
mod sys;

pub(crate) use safe::{Driver, File};
