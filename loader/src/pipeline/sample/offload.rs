//! Work on samples and batches that a device takes over. Batches in host memory have none.

use super::batch_builder::BatchBuilder;
use super::miss::Miss;
use super::read::ReadQueues;
use super::stored_columns::StoredColumns;
use crate::decode::EncodedPicture;
use crate::delivery::DeviceRows;
use crate::error::Result;
use crate::memory::ReadLease;
use crate::pipeline::schedule::{SampleRow, Task};
use crate::pipeline::shard::open_shard::OpenShard;
use crate::sync::Arc;

/// Work that a device takes over, in one epoch.
pub(crate) trait Offload: Send + Sync {
    /// Returns true while the device decodes pictures. Asked before each chunk and each sample that a different thread
    /// has read.
    fn decodes_pictures(&self) -> bool;

    /// Returns true if pictures of `task`, which has this number of them, may stay encoded.
    fn takes_pictures_of(&self, task: &Task, pictures: usize) -> bool;

    /// Keeps the `file` of a picture in `place`, the memory of its row in fixed output number `output`, or elsewhere in
    /// the batch. Returns false if the host must decode it.
    fn take_picture(
        &self,
        sample: SampleRow<'_>,
        output: usize,
        picture: EncodedPicture,
        file: &[u8],
        place: &mut [u8],
    ) -> bool;

    /// Counts pictures of a decoded sample that the device does not support, or that found no room.
    fn count_not_taken(&self, pictures: usize);

    /// Returns true if the device reads rows of the samples of `open` itself.
    fn reads(&self, open: &OpenShard) -> bool;

    /// Lets the device read rows of a sample. The sample then returns through one of the queues: its rest, or all of
    /// it.
    fn read(&self, miss: Miss, queues: &ReadQueues);

    /// Returns the columns that the device will copy from `slot`, which has a sample of layout number `layout`; `None`
    /// if the host copies them.
    fn begin_copy(&self, batch: &BatchBuilder, layout: usize, slot: &ReadLease) -> Option<Arc<StoredColumns>>;

    /// Lets the device copy these columns, after the rest of the sample was decoded.
    ///
    /// # Errors
    ///
    /// Errors of the device.
    fn copy(&self, sample: SampleRow<'_>, slot: ReadLease) -> Result<()>;

    /// Takes a filled batch with pictures that the device decodes, and delivers it. Returns false for all remaining
    /// batches.
    fn take_batch(&self, batch: &Arc<BatchBuilder>) -> bool;

    /// Takes the rows of a filled batch that are on the device.
    ///
    /// # Errors
    ///
    /// Errors of the device.
    fn take_rows(&self, batch: &BatchBuilder) -> Result<Option<Box<dyn DeviceRows>>>;

    /// Ends the device's queues, after a stop.
    fn close(&self);
}
