//! Slot for one group of pictures in flight: scratch memory, nvJPEG decoders, events.
//!
//! A slot is reused only after the host has waited for its last group. The engines need this, because they write when
//! they are called, so no wait on the device could keep them from pixels that the kernel still reads; nvJPEG's own
//! buffers need it as well. With two slots the host prepares a group while the device works on the previous one.

use super::balance::{GroupTimes, PartTime};
use crate::context::{Context, Event, Stream};
use crate::kernel::{BLANK, Picture};
use crate::memory::Block;
use crate::nvjpeg::{BatchDecoder, Handle};
use cudarc::driver::sys::CUstream;
use forebay_loader::Result;
use forebay_loader::sync::Arc;

/// Scratch memory, decoders and events for one group of pictures.
pub(super) struct GroupSlot {
    context: Arc<Context>,
    /// Streams on which the slot's work is queued, of the cores and of the engines.
    streams: [Arc<Stream>; 2],
    /// Decoded pixels, then the kernel's list of pictures. All [`BLANK`] while the slot is idle, except after a failed
    /// group.
    scratch: Option<Block>,
    is_blank: bool,
    /// Host copy of the list, kept while the device may still read it.
    pub(super) list: Vec<Picture>,
    pub(super) engines: Option<TimedDecoder>,
    pub(super) cores: Option<TimedDecoder>,
    /// Fires when the kernel has read the pixels.
    done: Event,
    pending: PendingWork,
}

/// Work of the last group that the host has not waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingWork {
    None,
    /// A group that has ended when `done` has fired.
    Group,
    /// Work with no event recorded after it.
    Unrecorded,
}

/// nvJPEG decoder with events that measure its part of a group.
pub(super) struct TimedDecoder {
    pub(super) decoder: BatchDecoder,
    started: Event,
    /// Fires when the part is decoded.
    pub(super) done: Event,
    /// Pictures decoded between the two events; 0 if the time between them is no measure.
    pictures: usize,
}

impl TimedDecoder {
    fn new(context: &Arc<Context>, handle: &Arc<Handle>) -> Result<Self> {
        let decoder = BatchDecoder::new(handle)?;
        Ok(Self { decoder, started: Event::timed(context)?, done: Event::timed(context)?, pictures: 0 })
    }

    /// Marks the start of the part in the order of `stream`.
    pub(super) fn begin(&mut self, stream: CUstream) -> Result<()> {
        self.started.record(stream)
    }

    /// Marks the end of the part. `pictures` is 0 if the time is not to be measured.
    pub(super) fn end(&mut self, stream: CUstream, pictures: usize) -> Result<()> {
        self.pictures = pictures;
        self.done.record(stream)
    }

    /// Returns the time of the last part, which must have ended.
    fn time(&self) -> Result<Option<PartTime>> {
        match self.pictures {
            0 => Ok(None),
            pictures => Ok(Some(PartTime { pictures, seconds: self.done.seconds_since(&self.started)? })),
        }
    }
}

impl GroupSlot {
    /// Creates a slot with a decoder for each backend that is given.
    pub(super) fn new(
        context: &Arc<Context>,
        streams: [&Arc<Stream>; 2],
        engines: Option<&Arc<Handle>>,
        cores: Option<&Arc<Handle>>,
    ) -> Result<Self> {
        let timed = |handle: Option<&Arc<Handle>>| handle.map(|handle| TimedDecoder::new(context, handle)).transpose();
        Ok(Self {
            context: context.clone(),
            streams: streams.map(Arc::clone),
            scratch: None,
            is_blank: true,
            list: Vec::new(),
            engines: timed(engines)?,
            cores: timed(cores)?,
            done: Event::new(context)?,
            pending: PendingWork::None,
        })
    }

    /// Waits on the host until the slot is idle. Returns the times of its last group.
    pub(super) fn wait_idle(&mut self) -> Result<GroupTimes> {
        let times = match self.pending {
            PendingWork::None => GroupTimes::default(),
            PendingWork::Unrecorded => {
                // A wait for the device would include the model's work and end the capture of a graph.
                self.streams.iter().try_for_each(|stream| stream.wait())?;
                self.is_blank = false;
                GroupTimes::default()
            }
            PendingWork::Group => {
                // The event comes after both decoders in the order of its stream.
                self.done.wait()?;
                let time = |timed: &Option<TimedDecoder>| timed.as_ref().map_or(Ok(None), TimedDecoder::time);
                GroupTimes { engines: time(&self.engines)?, cores: time(&self.cores)? }
            }
        };
        self.pending = PendingWork::None;
        Ok(times)
    }

    /// Returns the address of at least `bytes` bytes of blank scratch memory. The slot must be idle. New memory is
    /// filled on `stream`, with a wait for it.
    ///
    /// # Errors
    ///
    /// `Full` when the device has no memory.
    pub(super) fn scratch(&mut self, bytes: usize, stream: &Stream) -> Result<u64> {
        let block = match self.scratch.take().filter(|block| block.len() >= bytes) {
            Some(block) => block,
            None => {
                self.is_blank = false;
                // An allocation waits for the device, so it has room for a slightly larger group. The old block was
                // freed above, in case the device has no memory for both.
                Block::alloc(&self.context, bytes + bytes / 4).or_else(|_| Block::alloc(&self.context, bytes))?
            }
        };
        let block = self.scratch.insert(block);
        if !self.is_blank {
            block.fill(BLANK, stream)?;
            self.is_blank = true;
        }
        Ok(block.address)
    }

    /// Marks the slot as in use by work with no event recorded after it.
    pub(super) fn begin(&mut self) {
        self.pending = PendingWork::Unrecorded;
    }

    /// Records the end of the slot's work on `stream`.
    pub(super) fn end(&mut self, stream: CUstream) -> Result<()> {
        self.done.record(stream)?;
        self.pending = PendingWork::Group;
        Ok(())
    }
}

impl Drop for GroupSlot {
    /// Waits for the slot's work, since the device uses the decoders and the memory until then.
    fn drop(&mut self) {
        if self.context.is_own_process()
            && let Err(error) = self.wait_idle()
        {
            log::error!("memory of a picture decoder is lost, since the device may still use it: {error}");
            std::mem::forget((
                self.engines.take(),
                self.cores.take(),
                self.scratch.take(),
                std::mem::take(&mut self.list),
            ));
        }
    }
}
