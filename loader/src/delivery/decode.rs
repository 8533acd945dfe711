//! Pictures that are decoded where the batch goes.
//!
//! Decode threads leave a picture's file in the place of its row, which lies in memory that the device knows; one that is
//! longer than its row goes to room behind the rows. Then the batch is handed to a [`PictureDecoder`] as it is: rows that
//! are done and rows that are files. What the decoder refuses comes back, is decoded on the host into its row, and the batch
//! is handed over again, with what the decoder has made of the other pictures meanwhile. So no picture is
//! lost, none that the device has decoded is decoded again, and a bad one that it refuses is the same error as on the host.
//!
//! What a device has made of a batch may show only when it is done with it. Such a batch is [`DecodeOutcome::InFlight`]; the next one is
//! placed beside it if it is there, and then it is asked for ([`end`](PictureDecoder::end)) before it is handed out.
//!
//! The loader measures the room by the length of the data's samples. Of 6,000 photographs of 93 kB on average, one in nine is
//! longer than a row of 224 x 224 pixels as uint8 (150,528 bytes), and those have two fifths of all bytes. What finds no
//! room is decoded on the host.

use super::TensorMemory;
use crate::decode::{EncodedPicture, PictureForm};
use crate::error::{Error, Result};
use crate::memory::BatchSlot;
use crate::sync::Arc;
use std::any::Any;
use std::fmt::Debug;

/// Decodes pictures on the way to a device.
pub trait PictureDecoder: Send + Sync + Debug {
    /// Whether it takes pictures at the moment. Decode threads ask before each chunk of samples; where it does not, they
    /// decode as if there were no decoder.
    fn is_open(&self) -> bool;

    /// What it is, for the statistics: "nvJPEG 12.4 with 8 engines".
    fn describe(&self) -> String;

    /// How many pictures a batch should have at least: of fewer the device leaves much of the work to a single thread of the host.
    fn pictures_min(&self) -> usize {
        0
    }

    /// What has been given up since this was last asked, and why: a sentence each.
    fn take_fallbacks(&self) -> Vec<String>;

    /// Takes a batch to the device and decodes its pictures there. May wait for the device: it is called on a thread that
    /// has nothing else to do.
    ///
    /// # Errors
    ///
    /// When the device has failed, or has no memory for the batch itself.
    fn submit(&self, batch: EncodedBatch<'_>) -> Result<DecodeOutcome>;

    /// Waits for a batch that was under way and says what became of it. Called on the same thread.
    ///
    /// # Errors
    ///
    /// When the device has failed.
    fn wait(&self, _batch: InFlightBatch) -> Result<DecodeOutcome> {
        Err(Error::internal("a decoder whose batches are never under way was asked for one"))
    }
}

/// A batch with pictures that are still files.
#[derive(Debug)]
pub struct EncodedBatch<'a> {
    /// Filled: each row of each output is there, or is a file.
    pub slot: BatchSlot,
    /// Bytes of the batch at its target; what the slot has behind them are files.
    pub bytes: usize,
    /// Where outputs lie, in the slot and at the target.
    pub outputs: &'a [OutputLayout],
    /// The rows that the batch keeps, ascending: they come to lie one behind another.
    pub rows: &'a [usize],
    /// The pictures, ordered by output and row; only rows that are kept.
    pub pictures: &'a [RowPicture],
    /// What the target has of it already: pictures, if the decoder refused others before, and rows that were read there.
    pub on_device: Option<DeviceRows>,
}

/// What the target has of a batch already: rows that its [`DirectStorage`](super::DirectStorage) has read, and pictures of which
/// its decoder refused others. Its own business. It holds nothing of the slot, and goes back to the target with the batch, or is
/// dropped with it, on any thread.
pub type DeviceRows = Box<dyn Any + Send>;

/// A batch that the device works on. The decoder's own business. It holds the slot, and may be dropped on any thread: then nobody
/// wants the batch any more.
pub type InFlightBatch = Box<dyn Any + Send>;

/// Where one output's rows lie, one behind another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutputLayout {
    /// Bytes before the first.
    pub offset: usize,
    /// Bytes of each.
    pub row_bytes: usize,
    /// What its pictures come out as, if it has pictures that may be files.
    pub form: Option<PictureForm>,
}

/// A picture that is still a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowPicture {
    /// Which of the outputs.
    pub output: usize,
    /// Which row of the slot.
    pub row: usize,
    /// Bytes of the slot before the file, which stands at the start of its row, or behind all rows.
    pub at: usize,
    /// The file's length, and what to make of it.
    pub picture: EncodedPicture,
}

/// What became of a batch.
#[derive(Debug)]
pub enum DecodeOutcome {
    /// The device works on it, and can still leave pictures out.
    InFlight(InFlightBatch),
    /// It is there, or on its way.
    Done {
        /// The batch at its target.
        memory: Arc<dyn TensorMemory>,
        /// How many of its pictures a decoder made for nothing else decodes, rather than the device's ordinary cores.
        on_engines: usize,
    },
    /// The decoder does not take some of the pictures. Their rows are written by the host before the batch comes again,
    /// unless their samples are given up: then it keeps fewer rows.
    Rejected {
        /// The batch as it was; the device is done with it.
        slot: BatchSlot,
        /// Which of the pictures, by their place in the list.
        pictures: Vec<usize>,
        /// What the target has of the others, for when the batch comes again. Rows that were read there stay in it.
        on_device: Option<DeviceRows>,
    },
}
