//! The device's part of an epoch.

use super::decode::PictureStage;
use super::direct_rows::SlotCopies;
use super::direct_storage::{StorageReader, StorageRequest, StorageStage, THREADS};
use super::part::{DevicePart, EncodedRow};
use super::split::HostShare;
use crate::decode::EncodedPicture;
use crate::delivery::{DeviceRows, PictureDecoder, RowPicture};
use crate::error::Result;
use crate::memory::ReadLease;
use crate::pipeline::sample::batch_builder::{BatchBuilder, MakeExtension};
use crate::pipeline::sample::decode::DecodeStage;
use crate::pipeline::sample::miss::Miss;
use crate::pipeline::sample::offload::Offload;
use crate::pipeline::sample::read::ReadQueues;
use crate::pipeline::sample::stored_columns::StoredColumns;
use crate::pipeline::schedule::{SampleRow, StageSender, Task};
use crate::pipeline::shard::open_shard::OpenShard;
use crate::pipeline::threads::Threads;
use crate::stats::{Counter, Stats};
use crate::sync::Arc;
use crossbeam::channel::{Receiver, unbounded};

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

/// The device's part of an epoch.
pub(crate) struct DeviceOffload {
    features: DeviceFeatures,
    /// Queue of the picture stage.
    batches: StageSender<Arc<BatchBuilder>>,
    /// Queue of the storage stage.
    samples: StageSender<StorageRequest>,
    /// Counts pictures decoded on the host because of the share.
    shared: Arc<Counter>,
    /// Counts pictures that the decoder does not support, or that found no room.
    not_for_device: Arc<Counter>,
}

/// Queues of the threads that wait for the device.
pub(crate) struct DeviceQueues {
    batches: Receiver<Arc<BatchBuilder>>,
    samples: Receiver<StorageRequest>,
}

impl DeviceOffload {
    /// Uses these `features` in one epoch; `None` if there are none.
    pub(crate) fn new(features: DeviceFeatures, stats: &Stats) -> Option<(Arc<Self>, DeviceQueues)> {
        let DeviceFeatures { pictures, storage, slot_copies, .. } = &features;
        if pictures.is_none() && storage.is_none() && slot_copies.is_none() {
            return None;
        }
        storage.iter().for_each(|storage| storage.retry());
        slot_copies.iter().for_each(|copies| copies.retry());
        let ((batches, batch_queue), (samples, sample_queue)) = (unbounded(), unbounded());
        let offload = Self {
            features,
            batches: StageSender::new(batches),
            samples: StageSender::new(samples),
            shared: stats.counter("pictures_shared"),
            not_for_device: stats.counter("pictures_not_for_device"),
        };
        Some((Arc::new(offload), DeviceQueues { batches: batch_queue, samples: sample_queue }))
    }

    /// Returns the maker of the batches' parts.
    pub(crate) fn extension(&self) -> MakeExtension {
        Box::new(|| Box::new(DevicePart::default()))
    }

    /// Starts the threads that wait for the device, in addition to the threads of `decode`.
    ///
    /// # Errors
    ///
    /// Errors of the system when it rejects a thread.
    pub(crate) fn start(&self, queues: DeviceQueues, decode: &Arc<DecodeStage>, threads: &Threads) -> Result<()> {
        let DeviceQueues { batches, samples } = queues;
        let DeviceFeatures { pictures, host_share, storage, .. } = self.features.clone();
        if let Some(decoder) = pictures {
            let stage = PictureStage::new(decoder, host_share, decode);
            threads.start("fb-place", "place", true, move || stage.run(&batches))?;
        }
        if let Some(reader) = storage {
            let stage = StorageStage { reader, run: decode.run.clone(), stage: decode.stats.stage("read") };
            for i in 0..THREADS {
                let (stage, samples) = (stage.clone(), samples.clone());
                threads.start(&format!("fb-gds-{i}"), "storage", true, move || stage.run(&samples))?;
            }
        }
        Ok(())
    }
}

impl Offload for DeviceOffload {
    fn decodes_pictures(&self) -> bool {
        self.features.pictures.as_ref().is_some_and(|decoder| decoder.is_open())
    }

    fn takes_pictures_of(&self, task: &Task, pictures: usize) -> bool {
        let is_shared = self.features.host_share.as_ref().is_some_and(|share| share.contains(task.position));
        if is_shared {
            self.shared.add(pictures as u64);
        }
        !is_shared
    }

    fn take_picture(
        &self,
        SampleRow { batch, row, task, layout_number }: SampleRow<'_>,
        output: usize,
        picture: EncodedPicture,
        file: &[u8],
        place: &mut [u8],
    ) -> bool {
        let part = DevicePart::of(batch);
        let at = if let Some(place) = place.get_mut(..file.len()) {
            place.copy_from_slice(file);
            batch.row_offset(output, row)
        } else if let Some(mut room) = part.take_room(file.len()) {
            room.copy_from_slice(file);
            room.offset()
        } else {
            return false;
        };
        part.add_encoded(EncodedRow { picture: RowPicture { output, row, at, picture }, task: *task, layout_number });
        true
    }

    fn count_not_taken(&self, pictures: usize) {
        self.not_for_device.add(pictures as u64);
    }

    fn reads(&self, open: &OpenShard) -> bool {
        self.features.storage.as_ref().is_some_and(|storage| storage.columns(open).is_some())
    }

    fn read(&self, miss: Miss, queues: &ReadQueues) {
        let columns = self.features.storage.as_ref().and_then(|storage| storage.columns(&miss.open));
        let rows = columns.and_then(|columns| columns.rows(miss.offset, miss.bytes));
        match (columns.cloned(), rows) {
            (Some(columns), Some(rows)) => {
                self.samples.send(StorageRequest { miss, columns, rows, queues: queues.clone() });
            }
            // Fails only when the read thread has returned, which it does after a stop.
            _ => drop(queues.misses.send(miss)),
        }
    }

    fn begin_copy(&self, batch: &BatchBuilder, layout: usize, slot: &ReadLease) -> Option<Arc<StoredColumns>> {
        self.features.slot_copies.as_ref()?.begin(batch, layout, slot)
    }

    fn copy(&self, sample: SampleRow<'_>, slot: ReadLease) -> Result<()> {
        self.features.slot_copies.as_ref().map_or(Ok(()), |copies| copies.copy(sample, slot))
    }

    fn take_batch(&self, batch: &Arc<BatchBuilder>) -> bool {
        let has_encoded = DevicePart::of(batch).has_encoded();
        if has_encoded {
            self.batches.send(batch.clone());
        }
        has_encoded
    }

    fn take_rows(&self, batch: &BatchBuilder) -> Result<Option<Box<dyn DeviceRows>>> {
        DevicePart::of(batch).take_device_rows(batch.rows)
    }

    fn close(&self) {
        self.batches.close();
        self.samples.close();
    }
}
