//! Choice of the delivery's optional features: decoding of pictures, GPUDirect Storage, copies of rows.

use crate::catalog::Catalog;
use crate::config::LoaderConfig;
use crate::decode::FieldPlan;
use crate::delivery::{Delivery, PictureDecoder};
use crate::pipeline::{BatchLayout, COPIED_BYTES_MIN, DirectColumns, ROW_BYTES_MIN, SlotCopies, StorageReader};
use crate::stats::Stats;
use crate::sync::Arc;

/// Optional features that the delivery provides for this data. Without one of them the host does the work.
pub(super) struct Features {
    /// Decodes pictures on the device.
    pub(super) pictures: Option<Arc<dyn PictureDecoder>>,
    /// Reads rows from local disk into device memory.
    pub(super) storage: Option<Arc<StorageReader>>,
    /// Copies rows from read slots to the device.
    pub(super) slot_copies: Option<Arc<SlotCopies>>,
}

/// Input of the choice.
pub(super) struct Negotiation<'a> {
    pub(super) config: &'a LoaderConfig,
    pub(super) catalog: &'a Arc<Catalog>,
    pub(super) fields: &'a [Arc<FieldPlan>],
    pub(super) layout: &'a BatchLayout,
    pub(super) delivery: &'a Arc<dyn Delivery>,
    pub(super) stats: &'a Arc<Stats>,
}

impl Negotiation<'_> {
    /// Asks the delivery for the features that are configured and that the data can use. Each feature that is
    /// configured but not used has a warning and a note in the statistics.
    pub(super) fn run(&self) -> Features {
        Features { pictures: self.pictures(), storage: self.storage(), slot_copies: self.slot_copies() }
    }

    fn pictures(&self) -> Option<Arc<dyn PictureDecoder>> {
        if !self.config.device_decode {
            return None;
        }
        let per_row = self.layout.has_pictures().filter(|has| *has).count();
        if per_row == 0 {
            self.warn_and_note(
                "device_decode has no effect: no field decodes JPEGs with operations that end at a fixed size",
            );
            return None;
        }
        match self.delivery.picture_decoder() {
            Ok(pictures) => {
                self.stats.note(format!("pictures are decoded by {}", pictures.describe()));
                let (per_batch, min) = (per_row * self.config.batch_size as usize, pictures.pictures_min());
                if per_batch < min {
                    self.warn_and_note(format!(
                        "a batch has {per_batch} pictures; with fewer than {min} the device leaves half of the decoding to a \
                         single host thread: raise batch_size, or disable device_decode"
                    ));
                }
                Some(pictures)
            }
            Err(error) => {
                self.warn_and_note(format!("pictures are decoded on the host: {error}"));
                self.stats.counter("device_decode_fallbacks").add(1);
                None
            }
        }
    }

    fn storage(&self) -> Option<Arc<StorageReader>> {
        if !self.config.gpu_direct_storage {
            return None;
        }
        let Some(columns) = DirectColumns::of_layouts(self.fields, self.catalog.layouts(), ROW_BYTES_MIN) else {
            self.warn_and_note(
                "gpu_direct_storage has no effect: no output is the stored bytes of an array of fixed size of at least 4 KiB \
                 in MDS shards",
            );
            return None;
        };
        match self.delivery.direct_storage() {
            Ok(reader) => {
                self.stats.note(format!("rows of fixed size are read by {}", reader.describe()));
                let (delivery, catalog) = (self.delivery.clone(), self.catalog.clone());
                Some(Arc::new(StorageReader::new(reader, columns, delivery, catalog, self.stats.clone())))
            }
            Err(error) => {
                self.warn_and_note(format!("GPUDirect Storage is not used: {error}"));
                self.stats.counter("gpu_direct_storage_fallbacks").add(1);
                None
            }
        }
    }

    fn slot_copies(&self) -> Option<Arc<SlotCopies>> {
        self.delivery.direct_rows()?;
        let columns = DirectColumns::of_layouts(self.fields, self.catalog.layouts(), COPIED_BYTES_MIN)?;
        Some(Arc::new(SlotCopies::new(columns, self.delivery.clone(), self.stats.clone())))
    }

    fn warn_and_note(&self, sentence: impl Into<String>) {
        let sentence = sentence.into();
        log::warn!("{sentence}");
        self.stats.note(sentence);
    }
}
