//! Features that only a device has. Batches in host memory use none of them.
//!
//! * `decode`: the device decodes pictures. Decode threads leave them encoded in the batch slot (`encoded`), and a
//!   thread of its own submits such batches to the device and waits for them. `split` decides which pictures decode
//!   threads decode although the device could.
//! * `direct_rows`: rows that go to the device before their batch is filled, from the read slots that they were read
//!   to.
//! * `direct_storage`: rows that the device reads from their shards (GPUDirect Storage).
//! * `part`: the pictures and rows of these kinds in one batch.
//! * `features`: the features that a loader uses.

pub(crate) mod decode;
pub(crate) mod direct_rows;
pub(crate) mod direct_storage;
pub(crate) mod encoded;
pub(crate) mod features;
pub(crate) mod part;
pub(crate) mod split;
