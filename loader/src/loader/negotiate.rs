//! Choice of the delivery's optional features: decoding of pictures, GPUDirect Storage, copies of rows.

use super::Loader;
use crate::delivery::PictureDecoder;
use crate::pipeline::{COPIED_BYTES_MIN, DeviceFeatures, DirectColumns, ROW_BYTES_MIN, SlotCopies, StorageReader};
use crate::sync::Arc;

impl Loader {
    /// Asks the delivery for the features that are configured and that the data can use. Each feature that is
    /// configured but not used has a warning and a note in the statistics; the host then does the work.
    pub(super) fn negotiate(&self) -> DeviceFeatures {
        DeviceFeatures {
            pictures: self.pictures(),
            host_share: self.config.engine.share_decode.then(Default::default),
            storage: self.storage(),
            slot_copies: self.slot_copies(),
        }
    }

    fn pictures(&self) -> Option<Arc<dyn PictureDecoder>> {
        if !self.config.engine.device_decode {
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
                        "a batch has {per_batch} pictures; with fewer than {min} the device leaves half of the \
                         decoding to a single host thread: raise batch_size, or disable device_decode"
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
        if !self.config.engine.gpu_direct_storage {
            return None;
        }
        if self.fields[0].composition().is_some() {
            self.warn_and_note(
                "gpu_direct_storage has no effect: the samples of a Mosaic or CopyPaste are composed on the host",
            );
            return None;
        }
        let Some(columns) = DirectColumns::of_layouts(&self.fields, self.catalog.layouts(), ROW_BYTES_MIN) else {
            self.warn_and_note(
                "gpu_direct_storage has no effect: no output is the stored bytes of an array of fixed size of at least \
                 4 KiB in MDS shards",
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
        if self.fields[0].composition().is_some() {
            // Rows are composed in host memory.
            return None;
        }
        self.delivery.direct_rows()?;
        let columns = DirectColumns::of_layouts(&self.fields, self.catalog.layouts(), COPIED_BYTES_MIN)?;
        Some(Arc::new(SlotCopies::new(columns, self.delivery.clone(), self.stats.clone())))
    }

    fn warn_and_note(&self, sentence: impl Into<String>) {
        let sentence = sentence.into();
        log::warn!("{sentence}");
        self.stats.note(sentence);
    }
}
