//! JPEGs decoded on the device: files in page-locked rows to the rows of a batch.
//!
//! ```text
//! batch slot --groups--> files --share--> nvJPEG on engines --+--> scratch --kernel--> rows of the batch
//!      |                            \---> nvJPEG on cores  --/     (lane)                 |
//!      +--rows that are done, other outputs: copies-------------------------------------+--> event --> slot goes back
//! ```
//!
//! What decodes has decoded a picture as the host does before it gets any ([`proof`]). A batch goes through
//! [`DevicePictures::place`] alone, on the loader's thread for such batches ([`passage`]). Its pictures
//! are decoded in groups that fit into scratch memory, as a rule one, by engines and cores at the same time. Refusals show when
//! the library is called, and what is refused goes to the host: the slot
//! then goes back as it was, once the device is done with it, and the pictures that were not refused stay in their rows on
//! the device ([`Partial`]) until the batch comes again.
//!
//! Untested on hardware: the tests run over stand-ins for driver and library in host memory.

mod groups;
mod lane;
mod passage;
mod proof;
mod share;

use crate::context::{Event, Stream};
use crate::kernel::Kernel;
use crate::memory::Block;
use crate::nvjpeg::{Extent, Handle, Probe, Refusal};
use crate::partial::Partial;
use crate::target::{DeviceBatch, Shared};
use forebay_loader::memory::BatchSlot;
use forebay_loader::sync::{Arc, AtomicBool, Mutex, Ordering};
use forebay_loader::target::{Decoded, EncodedBatch, PictureDecoder, Placed, RowPicture};
use forebay_loader::{Error, ErrorKind, Result};
use groups::groups;
use lane::Lane;
use passage::Passage;
pub(crate) use proof::Backends;
use proof::Proven;
use share::Share;

/// Groups under way: one that the device works on and one that the host prepares.
const LANES: usize = 2;

/// So many pictures that are all refused, a batch's or the engines' behind each other, say that none will be taken: asking
/// costs more than decoding.
const EVERY_MIN: usize = 16;

/// Decodes pictures on a CUDA device.
pub(crate) struct DevicePictures {
    // First: its lanes wait for what uses the rest.
    work: Mutex<Work>,
    shared: Arc<Shared>,
    kernel: Kernel,
    /// Where the cores decode, rows are copied and the kernel runs.
    stream: Stream,
    engines_stream: Stream,
    description: String,
    is_open: AtomicBool,
    fallbacks: Mutex<Vec<String>>,
}

/// Who decodes a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Engines,
    /// The device's ordinary cores, which are asked for whole pictures: the library has no batches of parts for them.
    Cores,
}

/// What one batch at a time uses.
struct Work {
    /// None once decoding was given up.
    lanes: Vec<Lane>,
    /// The lane whose turn it is.
    turn: usize,
    engines: Option<Engines>,
}

impl Work {
    /// Whether there is something that does.
    fn decodes(&self) -> bool {
        self.engines.is_some() || self.has_cores()
    }

    fn has_cores(&self) -> bool {
        self.lanes.iter().any(|lane| lane.cores.is_some())
    }

    /// What of a picture is decoded, by who does it.
    fn extents(&self) -> impl Fn(By) -> Extent + use<> {
        let of_engines = self.engines.as_ref().map_or(Extent::Whole, |engines| engines.extent);
        move |by| if by == By::Engines { of_engines } else { Extent::Whole }
    }

    /// The most that is decoded of a picture.
    fn extent_max(&self) -> Extent {
        if self.has_cores() { Extent::Whole } else { self.extents()(By::Engines) }
    }
}

/// The engines that do nothing else.
struct Engines {
    count: u32,
    extent: Extent,
    probe: Probe,
    share: Share,
    /// Pictures that were refused since one was decoded.
    refused: usize,
}

impl Engines {
    /// # Errors
    ///
    /// `Unsupported` where there are none; what the library says.
    fn new(handle: &Arc<Handle>) -> Result<Self> {
        let (count, cores) = handle.engines()?;
        if count == 0 {
            return Err(Error::new(ErrorKind::Unsupported, "there are none"));
        }
        let share = Share::new((count * cores.max(1)) as usize);
        Ok(Self { count, extent: handle.extent(), probe: Probe::new(handle)?, share, refused: 0 })
    }

    /// Takes in how many of the pictures that they were asked for they refused: whether they have come to refuse all.
    fn are_useless(&mut self, asked: usize, refused: usize) -> bool {
        self.refused = if refused < asked { 0 } else { self.refused + refused };
        self.refused >= EVERY_MIN
    }
}

impl std::fmt::Debug for DevicePictures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DevicePictures").field("decoder", &self.description).finish_non_exhaustive()
    }
}

impl DevicePictures {
    /// For what `backends` has.
    ///
    /// # Errors
    ///
    /// What the driver and the library say.
    pub(crate) fn open(shared: &Arc<Shared>, backends: Backends) -> Result<Self> {
        let context = &shared.context;
        let kernel = Kernel::load(context)?;
        let number = context.number;
        let mut fallbacks = Vec::new();
        let mut keep = |proven: Proven| {
            fallbacks.extend(proven.note);
            proven.handle
        };
        let Backends { engines, cores } = backends;
        let (engines, of_engines) = match engines.and_then(|proven| Engines::new(&proven.handle).map(|e| (proven, e))) {
            Ok((proven, engines)) => (Some((keep(proven), engines)), None),
            Err(error) => (None, Some(error)),
        };
        let (cores, of_cores) = cores.map_or_else(|error| (None, Some(error)), |proven| (Some(keep(proven)), None));
        fallbacks.extend(of_engines.map(|error| {
            format!("the engines of CUDA device {number} that decode JPEGs cannot be used, its ordinary cores do it: {error}")
        }));
        fallbacks.extend(of_cores.map(|error| {
            format!(
                "the ordinary cores of CUDA device {number} cannot be used for JPEGs, its engines decode them, and the host what \
                 these refuse: {error}"
            )
        }));
        let handle = engines.as_ref().map(|(handle, _)| handle);
        let Some(any) = handle.or(cores.as_ref()) else {
            return Err(Error::new(ErrorKind::Unsupported, "nothing of the device decodes JPEGs"));
        };
        let (major, minor) = any.version()?;
        let with = match (&engines, &cores) {
            (Some((_, engines)), Some(_)) => format!("with {} engines", engines.count),
            (Some((_, engines)), None) => format!("with {} engines alone", engines.count),
            (None, _) => "without engines".to_owned(),
        };
        let lanes = (0..LANES).map(|_| Lane::new(context, handle, cores.as_ref())).collect::<Result<_>>()?;
        Ok(Self {
            shared: shared.clone(),
            kernel,
            stream: Stream::new(context)?,
            engines_stream: Stream::new(context)?,
            description: format!("nvJPEG {major}.{minor} {with}"),
            is_open: AtomicBool::new(true),
            fallbacks: Mutex::new(fallbacks),
            work: Mutex::new(Work { lanes, turn: 0, engines: engines.map(|(_, engines)| engines) }),
        })
    }

    /// Decodes no more for this reason; what it had is free for others.
    fn close(&self, work: &mut Work, reason: &str) {
        self.is_open.store(false, Ordering::Relaxed);
        work.lanes.clear();
        let device = self.shared.context.number;
        self.fallbacks
            .lock()
            .push(format!("pictures are decoded on the host from now on, CUDA device {device} {reason}"));
    }

    /// The same where there is no memory left.
    fn close_without_memory(&self, work: &mut Work, error: &Error) {
        self.close(work, &format!("has no memory left for decoding: {error}"));
    }

    /// Decodes on the cores alone from now on, if there are any.
    fn give_up_engines(&self, work: &mut Work, reason: Refusal) -> Result<()> {
        // Both lanes' decoders end with all that they were given done.
        self.settle()?;
        work.engines = None;
        work.lanes.iter_mut().for_each(|lane| lane.engines = None);
        let number = self.shared.context.number;
        if work.decodes() {
            self.fallbacks.lock().push(format!(
                "the engines of CUDA device {number} that decode JPEGs refuse all of them, its ordinary cores do it from now on: {reason}"
            ));
        }
        Ok(())
    }
}

impl PictureDecoder for DevicePictures {
    fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    fn describe(&self) -> String {
        self.description.clone()
    }

    fn take_fallbacks(&self) -> Vec<String> {
        std::mem::take(&mut *self.fallbacks.lock())
    }

    fn place(&self, batch: EncodedBatch<'_>) -> Result<Placed> {
        let EncodedBatch { slot, bytes, outputs, rows, pictures, decoded } = batch;
        // Rows that were read there stay.
        let refuse_all = |slot, before: Option<Partial>| {
            let decoded = before.map(|before| Box::new(before.without(pictures)) as Decoded);
            Placed::Refused { slot, pictures: (0..pictures.len()).collect(), decoded }
        };
        let mut work = self.work.lock();
        let before = decoded.and_then(|decoded| decoded.downcast::<Partial>().ok()).map(|before| *before);
        let is_new = |picture: &RowPicture| before.as_ref().is_none_or(|before| !before.has(picture));
        let groups = groups(pictures, rows, is_new, work.extent_max())?;
        if work.lanes.is_empty() && !groups.is_empty() {
            return Ok(refuse_all(slot, before));
        }
        let copied = Arc::new(Event::new(&self.shared.context)?);
        let (block, done) = match before {
            Some(before) => before.take_up(rows, outputs, &self.stream)?,
            None => match self.shared.blocks.take(&self.shared.context, bytes, &self.stream) {
                Ok(block) => (block, Default::default()),
                Err(error) if error.kind() == ErrorKind::Full => {
                    self.close_without_memory(&mut work, &error);
                    return Ok(refuse_all(slot, None));
                }
                Err(error) => return Err(error),
            },
        };
        let had_engines = work.engines.is_some();
        let mut passage = Passage { pictures: self, work: &mut work, slot, block, outputs, done };
        match passage.run(&groups, rows) {
            Ok(refused) if refused.is_empty() => {
                let Passage { slot, block, done, .. } = passage;
                let recorded = copied.record(self.stream.handle);
                let filled =
                    slot.freeze().map_err(|_| Error::internal("a batch was placed before its rows were done"))?;
                if let Err(error) = recorded {
                    self.shared.keep_unnamed(filled, block);
                    return Err(error);
                }
                self.shared.keep_slot(copied.clone(), filled);
                let memory = Arc::new(DeviceBatch::new(&self.shared, block, copied));
                let on_engines = pictures.iter().filter(|p| done.get(&(p.output, p.row)) == Some(&true)).count();
                Ok(Placed::Done { memory, on_engines })
            }
            Ok(refused) => {
                let Passage { slot, block, done, .. } = passage;
                let (slot, block) = self.rest(slot, block)?;
                let partial = Partial::new(&self.shared, block, rows, done);
                // The cores may take what engines refuse that are given up just now.
                let are_all = !had_engines && refused.len() == pictures.len() && refused.len() >= EVERY_MIN;
                if !work.decodes() || are_all {
                    self.close(&mut work, "refuses all pictures");
                }
                Ok(Placed::Refused { slot, pictures: refused, decoded: Some(Box::new(partial)) })
            }
            Err(error) if error.kind() == ErrorKind::Full => {
                let Passage { slot, block, done, .. } = passage;
                let (slot, block) = self.rest(slot, block)?;
                self.close_without_memory(&mut work, &error);
                Ok(refuse_all(slot, Some(Partial::new(&self.shared, block, rows, done))))
            }
            Err(error) => {
                let Passage { slot, block, .. } = passage;
                if let Ok(filled) = slot.freeze() {
                    self.shared.keep_unnamed(filled, block);
                }
                Err(error)
            }
        }
    }
}

impl DevicePictures {
    /// Waits on the host for all that batches have given to the device. Not for the device: that would wait for the model's work, and
    /// end a capture of a graph.
    fn settle(&self) -> Result<()> {
        self.stream.wait()?;
        self.engines_stream.wait()
    }

    /// Waits until the device is done with a batch that is not placed yet.
    fn rest(&self, slot: BatchSlot, block: Block) -> Result<(BatchSlot, Block)> {
        match self.settle() {
            Ok(()) => Ok((slot, block)),
            Err(error) => {
                log::error!("a batch's memory is given up, the device may still use it: {error}");
                std::mem::forget((slot, block));
                Err(error)
            }
        }
    }
}
