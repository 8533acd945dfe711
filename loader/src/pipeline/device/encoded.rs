//! Pictures that decode threads leave encoded for the device's decoder.

use super::part::{DevicePart, EncodedRow};
use super::split::HostShare;
use crate::decode::{EncodedPicture, PictureTaker};
use crate::delivery::{PictureDecoder, RowPicture};
use crate::pipeline::sample::batch_builder::BatchBuilder;
use crate::pipeline::task::Task;
use crate::stats::{Counter, Stats};
use crate::sync::Arc;

/// Decides which pictures are left encoded. Each decode thread has its own.
pub(crate) struct PictureRouter {
    decoder: Arc<dyn PictureDecoder>,
    /// Share of the pictures that decode threads decode although the device could.
    share: Option<Arc<HostShare>>,
    /// True if the decoder takes pictures at the moment.
    is_open: bool,
    /// Counts pictures decoded on the host because of the share.
    shared: Arc<Counter>,
    /// Counts pictures that the decoder does not support, or that found no room.
    not_for_device: Arc<Counter>,
}

impl PictureRouter {
    /// Leaves pictures for `decoder`, except those of `share`.
    pub(crate) fn new(decoder: Arc<dyn PictureDecoder>, share: Option<Arc<HostShare>>, stats: &Stats) -> Self {
        Self {
            decoder,
            share,
            is_open: false,
            shared: stats.counter("pictures_shared"),
            not_for_device: stats.counter("pictures_not_for_device"),
        }
    }

    /// Updates whether the decoder takes pictures.
    pub(crate) fn refresh(&mut self) {
        self.is_open = self.decoder.is_open();
    }

    /// Returns a sink for the picture of each fixed output of a sample of `batch`. Empty if all are decoded on the
    /// host.
    pub(crate) fn sinks<'b>(&self, batch: &'b BatchBuilder, task: &Task) -> Vec<Option<EncodedSink<'b>>> {
        if !self.is_open {
            return Vec::new();
        }
        if self.share.as_ref().is_some_and(|share| share.contains(task.position)) {
            self.shared.add(batch.layout.has_pictures().filter(|has| *has).count() as u64);
            return Vec::new();
        }
        let sink = || EncodedSink { part: &batch.device, picture: None };
        batch.layout.has_pictures().map(|has| has.then(sink)).collect()
    }

    /// Adds the pictures in the `sinks` of row `row` to the batch's device part.
    pub(crate) fn finish(
        &self,
        (batch, row): (&BatchBuilder, usize),
        task: &Task,
        layout_number: usize,
        sinks: &[Option<EncodedSink<'_>>],
    ) {
        let decoded = sinks.iter().flatten().filter(|sink| sink.picture.is_none()).count();
        if decoded > 0 {
            self.not_for_device.add(decoded as u64);
        }
        for (output, sink) in sinks.iter().enumerate() {
            if let Some((picture, apart)) = sink.as_ref().and_then(|sink| sink.picture) {
                let at = apart.unwrap_or_else(|| batch.row_offset(output, row));
                let picture = RowPicture { output, row, at, picture };
                batch.device.add_encoded(EncodedRow { picture, task: *task, layout_number });
            }
        }
    }
}

/// Takes the encoded file of one picture into the batch slot.
pub(crate) struct EncodedSink<'a> {
    part: &'a DevicePart,
    /// The picture, if it was left encoded, and the offset of its file in the slot if that is not its row.
    picture: Option<(EncodedPicture, Option<usize>)>,
}

impl PictureTaker for EncodedSink<'_> {
    fn take(&mut self, picture: EncodedPicture, file: &[u8], row: &mut [u8]) -> bool {
        if let Some(place) = row.get_mut(..file.len()) {
            place.copy_from_slice(file);
            self.picture = Some((picture, None));
        } else if let Some(mut room) = self.part.take_room(file.len()) {
            room.copy_from_slice(file);
            self.picture = Some((picture, Some(room.offset())));
        }
        self.picture.is_some()
    }
}
