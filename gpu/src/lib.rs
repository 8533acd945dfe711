//! Batches on the GPU.
//!
//! ```text
//! driver     the CUDA driver library, loaded at run time, and its errors
//! context    a device's primary context, streams, events
//! register   page-locks the batch pool's mappings
//! memory     device memory, kept for reuse
//! target     CudaTarget: copy stream, batches, and the thread that gives host slots back
//! ```
//!
//! A filled slot is copied on the target's stream and belongs to the keeper thread until the copy's event has fired:
//! the copy is asynchronous, and a slot that returned earlier would be overwritten under it. Nothing blocks in `place`.
//!
//! Images are decoded before they get here. A decoder on the device would take encoded rows in `place` and write into
//! the same [`CudaTarget`] blocks; it must wait on the host for a block's last readers before a hardware decode, which
//! writes when it is called and not in the stream's order.

mod context;
mod driver;
mod memory;
mod register;
mod target;

pub use target::CudaTarget;
