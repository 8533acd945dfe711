//! Pictures that are decoded on the device.
//!
//! A decode thread leaves the encoded file of such a picture at the offset of its row, in memory that is registered
//! with the device; a file longer than its row goes to the spare room after the rows. The batch, with finished rows and
//! rows that are files, is then submitted to a [`PictureDecoder`] and is in flight ([`InFlightBatch`]). The next batch,
//! if it is ready, is submitted before the loader [waits](InFlightBatch::wait) for this one.
//!
//! The device may leave pictures undecoded ([`BatchOnDevice`]). The host decodes them into their rows of the slot,
//! which are copied to the batch on the device when it is delivered. So no picture is lost, none is decoded twice, and
//! a corrupt picture causes the same error as on the host.
//!
//! The loader sizes the spare room by the mean length of the samples. Of 6,000 photographs of 93 kB on average, one in
//! nine is longer than a row of 224 x 224 pixels as uint8 (150,528 bytes), and these have two fifths of all bytes. The
//! host decodes files that find no room.

use super::{DeviceRows, OutputLayout};
use crate::decode::EncodedPicture;
use crate::error::Result;
use crate::memory::BatchSlot;
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

    /// Submits a batch. May wait for the device: it is called on a separate thread.
    ///
    /// # Errors
    ///
    /// Failure of the device.
    fn submit(&self, batch: EncodedBatch<'_>) -> Result<Box<dyn InFlightBatch>>;
}

/// Batch in flight on a device. It holds the slot, and may be dropped on any thread if the batch is abandoned.
pub trait InFlightBatch: Send + Debug {
    /// Waits until the device has finished the batch. Called on the thread that has submitted it.
    ///
    /// # Errors
    ///
    /// Failure of the device.
    fn wait(self: Box<Self>) -> Result<BatchOnDevice>;
}

/// Batch that the device has finished, except for pictures that it left undecoded.
#[derive(Debug)]
pub struct BatchOnDevice {
    /// Slot of the batch, unchanged. The device does not use it any more.
    pub slot: BatchSlot,
    /// Rows of the batch on the device; `None` if the device had no memory for it.
    pub rows: Option<Box<dyn DeviceRows>>,
    /// Indices of the undecoded pictures, ascending.
    pub undecoded: Vec<usize>,
    /// Indices of the pictures that hardware for JPEGs alone has decoded, rather than the device's cores.
    pub on_engines: Vec<usize>,
}

/// A batch that was finished when it was submitted.
impl InFlightBatch for BatchOnDevice {
    fn wait(self: Box<Self>) -> Result<Self> {
        Ok(*self)
    }
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
    /// Rows that are on the device already: the batch's direct rows.
    pub on_device: Option<Box<dyn DeviceRows>>,
}

/// Picture that is still a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowPicture {
    /// Index of the output.
    pub output: usize,
    /// Row of the slot.
    pub row: usize,
    /// Offset of the file in the slot: the start of its row, or an offset after all rows.
    pub at: usize,
    /// Length of the file, and the stage that makes its row.
    pub picture: EncodedPicture,
}
