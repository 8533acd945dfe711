//! Batches on CUDA devices.
//!
//! ```text
//! open            opens the delivery for a name such as "cuda:0"
//! delivery        CudaDelivery: copies filled batches on its own stream
//! direct_rows     rows that are written to the device before their batch is filled
//! direct_storage  rows that cuFile reads from files
//! decode          JPEG decoding on the device
//! kernel          from decoded pictures to the rows of a batch: source, arguments, launch
//! batch           batch in device memory
//! partial_batch   batch with some rows on the device
//! row_copy        copies of the remaining rows from the batch slot
//! device          one device, shared by the files above: streams, memory pool, release thread
//! release         threads that wait for the device and then release memory
//! memory          blocks of device memory, kept for reuse
//! register        registration of the host pools' memory
//! context         primary context, streams, events
//! nvjpeg, cufile  the libraries, loaded at run time
//! driver          the CUDA driver library, loaded at run time for cudarc's bindings, and its errors
//! libraries       search for these libraries
//! ```
//!
//! A filled slot is copied on the delivery's stream and is held by the release thread until the event of the copy has
//! fired: the copy is asynchronous, and a slot that was released earlier would be overwritten meanwhile. `deliver`
//! never blocks. This is why cudarc's own slices and copies are not used: its copy from a slice does not keep the slice
//! alive, and it returns before the bytes of registered memory have been read.
//!
//! Pictures are decoded on the host unless the loader is configured to decode JPEGs on the device. Then rows hold
//! files, and [`decode`] makes pixels of them. nvJPEG's engines write when they are called and not in the order of the
//! stream, so the host must wait until the memory to which they write is idle. The same holds for cuFile's reads, which
//! use no stream.

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
mod open;
mod partial_batch;
mod register;
mod release;
mod row_copy;

pub use context::device_count;
pub use delivery::CudaDelivery;
pub use libraries::Libraries;
pub use open::open_delivery;
