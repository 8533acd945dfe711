//! Batches on the GPU.
//!
//! ```text
//! device     from "cuda:0" to its target
//! target     CudaDelivery: copy stream and batches
//! keeper     threads that give back what the device has used
//! register   page-locks the pools' mappings
//! memory     device memory, kept for reuse
//! pictures   JPEGs decoded on the device: files in a batch's rows to the batch
//! kernel     decoded pictures on the device to a batch: source, arguments, launch
//! early      rows that go to the device before their batch, from read slots or files
//! storage    the files
//! partial    rows of a batch that are on the device before the others
//! rows       the others: copies from the slot
//! nvjpeg     the decoder's library, loaded at run time
//! cufile     GPUDirect Storage's library, likewise
//! context    a device's primary context, streams, events: handles that end when dropped
//! driver     the CUDA driver library, loaded at run time beneath cudarc's bindings, and its errors
//! ```
//!
//! A filled slot is copied on the target's stream and belongs to the keeper thread until the copy's event has fired:
//! the copy is asynchronous, and a slot that returned earlier would be overwritten under it. Nothing blocks in `place`.
//! For that reason cudarc's own slices and copies are not used: its copy from a slice keeps nothing, and returns before
//! the bytes of registered memory have been read.
//!
//! Images are decoded before they get here, unless the loader is asked to leave JPEGs to the device: then rows come as
//! files, to [`decode`]. nvJPEG's engines write when they are called and not in the stream's order, so what they write to
//! is waited for on the host. cuFile's reads have no stream at all, and the same goes for them.

mod batch;
mod context;
mod cufile;
mod decode;
mod delivery;
mod device;
mod direct_rows;
mod direct_storage;
mod driver;
pub mod kernel;
mod libraries;
mod memory;
mod nvjpeg;
mod partial_batch;
mod register;
mod release;
mod row_copy;
mod state;

pub use delivery::CudaDelivery;
pub use device::open_delivery;
pub use libraries::Libraries;
