//! Pictures that are decoded on the device.
//!
//! A decode thread leaves the encoded file of such a picture at the place of its row, in memory that is registered with
//! the device; a file longer than its row goes to the spare room after the rows. The batch is then submitted to a
//! [`PictureDecoder`], with finished rows and rows that are files. If the decoder rejects pictures, the batch is
//! returned. The host decodes these pictures into their rows, and the batch is submitted again, together with the
//! pictures that the decoder has already decoded. So no picture is lost, the device decodes none twice, and a corrupt
//! picture causes the same error as on the host.
//!
//! The device may reject pictures as late as the end of its work. Until then the batch is in flight
//! ([`InFlightBatch`]). The next batch, if it is ready, is submitted before the loader
//! [waits](InFlightBatch::wait) for this one and delivers it.
//!
//! The loader sizes the spare room by the mean length of the samples. Of 6,000 photographs of 93 kB on average, one in
//! nine is longer than a row of 224 x 224 pixels as uint8 (150,528 bytes), and these have two fifths of all bytes. The
//! host decodes files that find no room.

use super::TensorMemory;
use crate::decode::{EncodedPicture, PictureForm};
use crate::error::Result;
use crate::memory::BatchSlot;
use crate::sync::Arc;
use std::any::Any;
use std::fmt::Debug;

/// Decoder of pictures on a device.
pub trait PictureDecoder: Send + Sync + Debug {
    /// Returns true while it takes pictures. Decode threads ask before each chunk of samples, and decode the chunk on
    /// the host if it is false.
    fn is_open(&self) -> bool;

    /// Returns a description for the statistics, such as "nvJPEG 12.4 with 8 engines".
    fn describe(&self) -> String;

    /// Returns the number of pictures from which a batch is worth submitting. With fewer, a single thread of the host
    /// does much of the work.
    fn pictures_min(&self) -> usize {
        0
    }

    /// Returns one sentence for each part of the decoder that was abandoned since the last call, with the reason.
    fn take_fallbacks(&self) -> Vec<String>;

    /// Submits a batch and decodes its pictures. May wait for the device: it is called on a separate thread.
    ///
    /// # Errors
    ///
    /// When the device has failed, or has no memory for the batch itself.
    fn submit(&self, batch: EncodedBatch<'_>) -> Result<DecodeOutcome>;
}

/// Batch in flight on a device. It holds the slot, and may be dropped on any thread if the batch is abandoned.
pub trait InFlightBatch: Send + Debug {
    /// Waits until the device has finished the batch. Called on the thread that has submitted it.
    ///
    /// # Errors
    ///
    /// When the device has failed.
    fn wait(self: Box<Self>) -> Result<DecodeOutcome>;
}

/// Batch with pictures that are still files.
#[derive(Debug)]
pub struct EncodedBatch<'a> {
    /// Slot in which each row of each output is finished or a file.
    pub slot: BatchSlot,
    /// Bytes of the batch on the device. The slot may have files after them.
    pub bytes: usize,
    /// Layout of the outputs, the same in the slot and on the device.
    pub outputs: &'a [OutputLayout],
    /// Rows that the batch keeps, ascending. The delivered batch has them without gaps.
    pub rows: &'a [usize],
    /// Pictures in kept rows, ordered by output and row.
    pub pictures: &'a [RowPicture],
    /// Rows that are on the device already: direct rows, and pictures of an earlier submission.
    pub on_device: Option<DeviceRows>,
}

/// Rows of a batch that are in device memory: direct rows, and decoded pictures of a batch whose rejected pictures the
/// host decodes. The type is private to the delivery. It uses nothing of the slot. It is submitted again with its
/// batch, or dropped on any thread if the batch is abandoned.
pub type DeviceRows = Box<dyn Any + Send>;

/// Place of the rows of one output, which are contiguous.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutputLayout {
    /// Offset of the first row.
    pub offset: usize,
    /// Bytes of each row.
    pub row_bytes: usize,
    /// Form of its decoded pictures, if it has pictures that may be files.
    pub form: Option<PictureForm>,
}

/// Picture that is still a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowPicture {
    /// Index of the output.
    pub output: usize,
    /// Row of the slot.
    pub row: usize,
    /// Offset of the file in the slot: the start of its row, or a place after all rows.
    pub at: usize,
    /// Length of the file, and the stage that makes its row.
    pub picture: EncodedPicture,
}

/// Outcome of submitting a batch or of waiting for it.
#[derive(Debug)]
pub enum DecodeOutcome {
    /// The device works on the batch, and may still reject pictures.
    InFlight(Box<dyn InFlightBatch>),
    /// The batch is in device memory, or will be in the order of [`TensorMemory::order_before`].
    Done {
        /// Memory of the batch.
        memory: Arc<dyn TensorMemory>,
        /// Pictures that hardware for JPEGs alone has decoded, rather than the device's cores.
        on_engines: usize,
    },
    /// The decoder has rejected some pictures. The host writes their rows before the batch is submitted again. Samples
    /// that are skipped meanwhile reduce the rows of the batch.
    Rejected {
        /// Slot of the batch, unchanged. The device does not use it any more.
        slot: BatchSlot,
        /// Indices of the rejected pictures.
        pictures: Vec<usize>,
        /// The other pictures and the direct rows, for the next submission.
        on_device: Option<DeviceRows>,
    },
}
