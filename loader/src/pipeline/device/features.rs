//! Features of the device that a loader uses.

use super::direct_rows::SlotCopies;
use super::direct_storage::StorageReader;
use super::split::HostShare;
use crate::delivery::PictureDecoder;
use crate::sync::Arc;

/// Features of the device that a loader uses. Batches in host memory have none.
#[derive(Clone, Default)]
pub(crate) struct DeviceFeatures {
    /// Decodes pictures.
    pub(crate) pictures: Option<Arc<dyn PictureDecoder>>,
    /// Share of the pictures that decode threads decode although the device could.
    pub(crate) host_share: Option<Arc<HostShare>>,
    /// Reads rows from shards.
    pub(crate) storage: Option<Arc<StorageReader>>,
    /// Copies rows from read slots.
    pub(crate) slot_copies: Option<Arc<SlotCopies>>,
}
