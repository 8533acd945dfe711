//! Device's part of a batch that is being filled: pictures that are still encoded, and rows that are already on the
//! device.

use crate::delivery::{Delivery, DeviceRows, DirectBatch, RowPicture};
use crate::error::Result;
use crate::memory::RowMut;
use crate::pipeline::sample::batch_builder::{BatchBuilder, BatchExtension};
use crate::pipeline::schedule::Task;
use crate::sync::{Arc, Mutex};

/// Picture with its encoded file in the slot, for the device's decoder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncodedRow {
    /// Position and form of the picture. Its output counts fixed outputs only.
    pub(crate) picture: RowPicture,
    pub(crate) task: Task,
    /// Layout of the sample's shard.
    pub(crate) layout_number: usize,
}

/// Pictures and rows of a batch that go to the device by a different way than its slot's rows.
#[derive(Debug, Default)]
pub(crate) struct DevicePart {
    /// Free memory after the slot's rows, for files that are longer than their rows.
    room: Mutex<Option<RowMut>>,
    encoded: Mutex<Vec<EncodedRow>>,
    direct: Mutex<DirectPart>,
}

/// Rows that are on the device before their batch is filled.
#[derive(Debug, Default)]
struct DirectPart {
    /// Memory of the batch on the device, allocated with the first such row.
    memory: Option<Arc<dyn DirectBatch>>,
    /// Fixed output and row of each.
    rows: Vec<(usize, usize)>,
}

impl BatchExtension for DevicePart {
    fn set_room(&self, room: Option<RowMut>) {
        *self.room.lock() = room;
    }

    fn reset(&self) {
        self.encoded.lock().clear();
        *self.direct.lock() = DirectPart::default();
        self.set_room(None);
    }
}

impl DevicePart {
    /// The part of `batch`.
    pub(crate) fn of(batch: &BatchBuilder) -> &Self {
        batch.extension().expect("each batch of a loader that uses device features has a part")
    }

    /// Takes room for a file of `bytes` bytes, if there is enough.
    pub(crate) fn take_room(&self, bytes: usize) -> Option<RowMut> {
        self.room.lock().as_mut().filter(|room| room.len() >= bytes).map(|room| room.split_front(bytes))
    }

    /// Adds a picture for the device's decoder.
    pub(crate) fn add_encoded(&self, row: EncodedRow) {
        self.encoded.lock().push(row);
    }

    /// True if there are pictures for the device's decoder.
    pub(crate) fn has_encoded(&self) -> bool {
        !self.encoded.lock().is_empty()
    }

    /// Takes the pictures for the device's decoder.
    pub(crate) fn take_encoded(&self) -> Vec<EncodedRow> {
        std::mem::take(&mut *self.encoded.lock())
    }

    /// Returns the batch's memory of `bytes` bytes on the device, which the first call allocates. `None` if the
    /// `delivery` takes no rows, or can only allocate by waiting and `may_wait` is false.
    ///
    /// # Errors
    ///
    /// Errors of the allocation.
    pub(crate) fn direct_memory(
        &self,
        delivery: &dyn Delivery,
        bytes: usize,
        may_wait: bool,
    ) -> Result<Option<Arc<dyn DirectBatch>>> {
        let Some(direct_rows) = delivery.direct_rows() else { return Ok(None) };
        // The thread that has the lock may be waiting for the device.
        let direct = if may_wait { Some(self.direct.lock()) } else { self.direct.try_lock() };
        let Some(mut direct) = direct else { return Ok(None) };
        if direct.memory.is_none() {
            direct.memory = direct_rows.allocate(bytes, may_wait)?;
        }
        Ok(direct.memory.clone())
    }

    /// The batch's memory on the device, if it was allocated.
    pub(crate) fn allocated(&self) -> Option<Arc<dyn DirectBatch>> {
        self.direct.lock().memory.clone()
    }

    /// Records rows (fixed output, row) that are on the device.
    pub(crate) fn add_direct_rows(&self, rows: impl Iterator<Item = (usize, usize)>) {
        self.direct.lock().rows.extend(rows);
    }

    /// Takes the rows of the batch that are on the device. The batch has `rows` rows.
    ///
    /// # Errors
    ///
    /// Errors of the device.
    pub(crate) fn take_device_rows(&self, rows: usize) -> Result<Option<Box<dyn DeviceRows>>> {
        let DirectPart { memory, rows: done } = std::mem::take(&mut *self.direct.lock());
        match memory {
            Some(memory) if !done.is_empty() => memory.finish(rows, &done).map(Some),
            _ => Ok(None),
        }
    }
}
