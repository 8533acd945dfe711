//! One of the places where a group of pictures is on its way: scratch memory, decoders, events.
//!
//! A lane is used again when the host has seen its last group end. The engines need that: they write when they are
//! called, so no wait on the device holds them back from pixels that the kernel still reads. The library's own buffers need
//! it as well. With two lanes the host prepares a group while the device works on another.

use super::balance::{Part, Took};
use crate::context::{Context, Event, Stream};
use crate::kernel::{BLANK, Picture};
use crate::memory::Block;
use crate::nvjpeg::{Batched, Handle};
use cudarc::driver::sys::CUstream;
use forebay_loader::Result;
use forebay_loader::sync::Arc;

pub(super) struct Lane {
    context: Arc<Context>,
    /// Where all that the lane is given goes, by cores and by engines.
    streams: [Arc<Stream>; 2],
    /// Decoded pixels, then the kernel's list of pictures. [`BLANK`] at rest, unless a group has failed.
    scratch: Option<Block>,
    is_blank: bool,
    /// The list, while the device may still copy it.
    pub(super) list: Vec<Picture>,
    pub(super) engines: Option<Timed>,
    pub(super) cores: Option<Timed>,
    /// The kernel has read the pixels.
    done: Event,
    /// What the last group left to be waited for.
    left: Left,
}

/// What may still be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    /// A group whose end the event tells.
    Group,
    /// Work that no event names.
    Unnamed,
}

/// A decoder, and the time of its part of a group.
pub(super) struct Timed {
    pub(super) decoder: Batched,
    begun: Event,
    /// The part is decoded.
    pub(super) done: Event,
    /// How many pictures were decoded between the two; 0 if something else was as well.
    pictures: usize,
}

impl Timed {
    fn new(context: &Arc<Context>, of: &Arc<Handle>) -> Result<Self> {
        let decoder = Batched::new(of)?;
        Ok(Self { decoder, begun: Event::timed(context)?, done: Event::timed(context)?, pictures: 0 })
    }

    /// The part is what `stream` is given from now on.
    pub(super) fn begin(&mut self, stream: CUstream) -> Result<()> {
        self.begun.record(stream)
    }

    /// It ends with what `stream` has been given so far: `pictures`, and nothing else.
    pub(super) fn end(&mut self, stream: CUstream, pictures: usize) -> Result<()> {
        self.pictures = pictures;
        self.done.record(stream)
    }

    /// What the last part took, which is done.
    fn took(&self) -> Result<Option<Part>> {
        match self.pictures {
            0 => Ok(None),
            pictures => Ok(Some(Part { pictures, seconds: self.done.since(&self.begun)? })),
        }
    }
}

impl Lane {
    pub(super) fn new(
        context: &Arc<Context>,
        streams: [&Arc<Stream>; 2],
        engines: Option<&Arc<Handle>>,
        cores: Option<&Arc<Handle>>,
    ) -> Result<Self> {
        let timed = |handle: Option<&Arc<Handle>>| handle.map(|handle| Timed::new(context, handle)).transpose();
        Ok(Self {
            context: context.clone(),
            streams: streams.map(Arc::clone),
            scratch: None,
            is_blank: true,
            list: Vec::new(),
            engines: timed(engines)?,
            cores: timed(cores)?,
            done: Event::new(context)?,
            left: Left::Nothing,
        })
    }

    /// Waits on the host until nothing of the lane is in use, and says what the last group took.
    pub(super) fn rest(&mut self) -> Result<Took> {
        let took = match self.left {
            Left::Nothing => Took::default(),
            Left::Unnamed => {
                // Not the device: that would wait for the model's work, and end a capture of a graph.
                self.streams.iter().try_for_each(|stream| stream.wait())?;
                self.is_blank = false;
                Took::default()
            }
            Left::Group => {
                // After both decoders, in its stream's order.
                self.done.wait()?;
                let took = |timed: &Option<Timed>| timed.as_ref().map_or(Ok(None), Timed::took);
                Took { engines: took(&self.engines)?, cores: took(&self.cores)? }
            }
        };
        self.left = Left::Nothing;
        Ok(took)
    }

    /// Scratch memory of `bytes` bytes, for a lane at rest: its address. It is blank; memory that is new is made so on
    /// `stream`, and waited for.
    ///
    /// # Errors
    ///
    /// `Full` when there is none.
    pub(super) fn scratch(&mut self, bytes: usize, stream: &Stream) -> Result<u64> {
        let block = match self.scratch.take().filter(|block| block.len() >= bytes) {
            Some(block) => block,
            None => {
                self.is_blank = false;
                // With room for a group that is somewhat larger: memory that is new waits for the device. What was there is free
                // by now, for a device that has none to spare.
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

    /// From now on the lane is in use by work that no event names yet.
    pub(super) fn begin(&mut self) {
        self.left = Left::Unnamed;
    }

    /// The lane's work ends with what `stream` has been given so far.
    pub(super) fn end(&mut self, stream: CUstream) -> Result<()> {
        self.done.record(stream)?;
        self.left = Left::Group;
        Ok(())
    }
}

impl Drop for Lane {
    /// Decoders and memory outlive what they were given.
    fn drop(&mut self) {
        if self.context.is_ours()
            && let Err(error) = self.rest()
        {
            log::error!("a decoder's memory is given up, the device may still use it: {error}");
            std::mem::forget((
                self.engines.take(),
                self.cores.take(),
                self.scratch.take(),
                std::mem::take(&mut self.list),
            ));
        }
    }
}
