//! One of the places where a group of pictures is on its way: scratch memory, decoders, events.
//!
//! A lane is used again when the host has seen its last group end. The engines need that: they write when they are
//! called, so no wait on the device holds them back from pixels that the kernel still reads. The library's own buffers need
//! it as well. With two lanes the host prepares a group while the device works on another.

use super::share::First;
use crate::context::{Context, Event};
use crate::memory::Block;
use crate::nvjpeg::{Batched, Handle};
use forebay_loader::Result;
use forebay_loader::sync::Arc;

pub(super) struct Lane {
    context: Arc<Context>,
    /// Decoded pixels, then the kernel's list of pictures; as large as the largest group so far.
    scratch: Option<Block>,
    pub(super) engines: Option<Batched>,
    pub(super) cores: Batched,
    /// The engines' pictures are decoded.
    pub(super) engines_done: Event,
    /// The cores' pictures are decoded.
    pub(super) cores_done: Event,
    /// The kernel has read the pixels.
    done: Event,
    /// What the last group left to be waited for.
    left: Left,
}

/// What may still be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    /// A group whose end the event tells; whether both kinds of decoders had work.
    Group {
        is_shared: bool,
    },
    /// Work that no event names.
    Unnamed,
}

impl Lane {
    pub(super) fn new(context: &Arc<Context>, engines: Option<&Arc<Handle>>, cores: &Arc<Handle>) -> Result<Self> {
        Ok(Self {
            context: context.clone(),
            scratch: None,
            engines: engines.map(Batched::new).transpose()?,
            cores: Batched::new(cores)?,
            engines_done: Event::new(context)?,
            cores_done: Event::new(context)?,
            done: Event::new(context)?,
            left: Left::Nothing,
        })
    }

    /// Waits on the host until nothing of the lane is in use, and says which decoders ended first with the last group.
    pub(super) fn rest(&mut self) -> Result<First> {
        let first = match self.left {
            Left::Nothing => First::Unknown,
            Left::Unnamed => {
                self.context.synchronize()?;
                First::Unknown
            }
            Left::Group { is_shared } => {
                let first = if is_shared { self.first()? } else { First::Unknown };
                self.done.wait()?;
                first
            }
        };
        self.left = Left::Nothing;
        Ok(first)
    }

    /// Which decoders end first with the group that is under way; waits for the engines.
    fn first(&self) -> Result<First> {
        match (self.engines_done.has_fired()?, self.cores_done.has_fired()?) {
            (true, true) => Ok(First::Unknown),
            (true, false) => Ok(First::Engines),
            (false, true) => Ok(First::Cores),
            (false, false) => {
                self.engines_done.wait()?;
                Ok(if self.cores_done.has_fired()? { First::Cores } else { First::Engines })
            }
        }
    }

    /// Scratch memory of `bytes` bytes, for a lane at rest: its address.
    ///
    /// # Errors
    ///
    /// `Full` when there is none.
    pub(super) fn scratch(&mut self, bytes: usize) -> Result<u64> {
        let fitting = self.scratch.take().filter(|block| block.len() >= bytes);
        let block = match fitting {
            Some(block) => block,
            None => Block::alloc(&self.context, bytes)?,
        };
        Ok(self.scratch.insert(block).address)
    }

    /// From now on the lane is in use by work that no event names yet.
    pub(super) fn begin(&mut self) {
        self.left = Left::Unnamed;
    }

    /// The lane's work ends with what `stream` has been given so far.
    pub(super) fn end(&mut self, stream: cudarc::driver::sys::CUstream, is_shared: bool) -> Result<()> {
        self.done.record(stream)?;
        self.left = Left::Group { is_shared };
        Ok(())
    }
}

impl Drop for Lane {
    /// Decoders and memory outlive what they were given.
    fn drop(&mut self) {
        if self.context.is_ours()
            && let Err(error) = self.rest()
        {
            log::warn!("the device may still use what a decoder gives up: {error}");
        }
    }
}
