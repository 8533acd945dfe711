//! Batches on the GPU.
//!
//! ```text
//! device     from "cuda:0" to its target
//! target     CudaTarget: copy stream, batches, and the thread that gives host slots back
//! register   page-locks the batch pool's mappings
//! memory     device memory, kept for reuse
//! kernel     decoded pictures on the device to a batch: source and arguments, for a decoder on the device
//! context    a device's primary context, streams, events: handles that end when dropped
//! driver     the CUDA driver library, loaded at run time beneath cudarc's bindings, and its errors
//! ```
//!
//! A filled slot is copied on the target's stream and belongs to the keeper thread until the copy's event has fired:
//! the copy is asynchronous, and a slot that returned earlier would be overwritten under it. Nothing blocks in `place`.
//! For that reason cudarc's own slices and copies are not used: its copy from a slice keeps nothing, and returns before
//! the bytes of registered memory have been read.
//!
//! Images are decoded before they get here. A decoder on the device would take encoded rows in `place` and write into
//! the same [`CudaTarget`] blocks; it must wait on the host for a block's last readers before a hardware decode, which
//! writes when it is called and not in the stream's order.

mod context;
mod device;
mod driver;
pub mod kernel;
mod memory;
mod register;
mod target;

pub use device::target_for;
pub use target::CudaTarget;
