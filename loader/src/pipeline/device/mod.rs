//! Features that only a device has: the implementation of [`Offload`](super::sample::offload::Offload).
//!
//! * `offload`: the device's part of an epoch, with the features that a loader uses.
//! * `part`: the device's part of a batch: pictures that are still encoded, and rows on the device.
//! * `decode`: the device decodes pictures. Decode threads leave them encoded in the batch slot, and a separate
//!   thread submits such batches to the device and waits for them. `split` decides which pictures decode threads
//!   decode although the device could.
//! * `direct_rows`: rows that go to the device before their batch is filled, from the read slots that they were read
//!   to.
//! * `direct_storage`: rows that the device reads from their shards (GPUDirect Storage).
//!
//! **Pictures.** A picture that the device will decode stays an encoded file in its row of the batch slot, which the
//! device already has access to; a file that is longer than its row is stored after the rows. Pictures that the device
//! rejects are decoded on the host, and decoded ones are kept. The order of samples does not depend on the device.
//! Decode threads take pictures from the device only with `share_decode`: the split depends on time, so the same
//! sample, epoch and seed no longer always has the same grey levels.
//!
//! **Direct rows** hold their shard until they are read, and a batch may have rows of more shards than `cache_limit`
//! has room for. Their bytes in the slot stay free, so that the host can write rows there that cannot go this way.
//! Copied rows release their read slot when the copy is complete, so a read slot can wait for the device, but never for
//! the consumer: such a batch starts in unused memory, or the host copies the rows.

mod decode;
pub(crate) mod direct_rows;
pub(crate) mod direct_storage;
pub(crate) mod offload;
mod part;
pub(crate) mod split;
