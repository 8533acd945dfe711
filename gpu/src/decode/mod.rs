//! JPEGs decoded on the device: files in page-locked rows to the rows of a batch.
//!
//! ```text
//! batch slot --groups--> files --share--> nvJPEG on engines --+--> scratch --kernel--> rows of the batch
//!      |                            \---> nvJPEG on cores  --/     (lane)                 |
//!      +--rows that are done, other outputs: copies-------------------------------------+--> event --> a look --> out
//! ```
//!
//! What decodes has decoded a picture as the host does before it gets any ([`selftest`]). A batch goes through
//! [`DevicePictures::place`] and [`DevicePictures::end`] alone, on the loader's thread for such batches ([`submit`]). Its pictures
//! are decoded in groups that fit into scratch memory, as a rule one, by engines and cores at the same time. Refusals show when
//! the library is called, and pictures that were left out without a word when the device is done ([`undecoded`]); both go to the
//! host: the slot then goes back as it was, once the device is done with it, and the other pictures stay in their rows on
//! the device ([`Partial`]) until the batch comes again.
//!
//! Untested on hardware: the tests run over stand-ins for driver and library in host memory.

mod balance;
mod group_slot;
mod groups;
mod in_flight;
mod selftest;
mod submit;
mod undecoded;

use crate::context::{Event, Stream};
use crate::delivery::{DeviceBatch, Shared};
use crate::kernel::Kernel;
use crate::memory::{Block, Blocks};
use crate::nvjpeg::{Extent, Handle, Probe};
use crate::partial_batch::Partial;
use balance::{CORES_MIN, Share};
use forebay_loader::delivery::{DecodeOutcome, DeviceRows, EncodedBatch, InFlightBatch, PictureDecoder, RowPicture};
use forebay_loader::memory::BatchSlot;
use forebay_loader::sync::{Arc, AtomicBool, Mutex, Ordering};
use forebay_loader::{Error, ErrorKind, Result};
use group_slot::Lane;
use groups::{PIXEL_BYTES_MAX, cut};
use in_flight::{Held, Tally, Unended};
pub(crate) use selftest::Backends;
use selftest::Proven;
use submit::Passage;
use undecoded::LeftOut;

/// Groups under way: one that the device works on and one that the host prepares.
const LANES: usize = 2;

/// So many pictures that are all refused, one behind the other, say that none will be taken: asking costs more than decoding.
const EVERY_MIN: usize = 16;

/// Decodes pictures on a CUDA device.
pub(crate) struct DevicePictures {
    work: Mutex<Work>,
    shared: Arc<Shared>,
    kernel: Arc<Kernel>,
    /// Where the cores decode, rows are copied and the kernel runs.
    stream: Arc<Stream>,
    engines_stream: Arc<Stream>,
    /// Where it is read what was left out: of nothing else.
    looking: Arc<Stream>,
    /// Memory for that.
    left_out: Arc<Blocks>,
    /// Whether it was said that pictures are left out.
    has_left_out: AtomicBool,
    /// Whether it was said that pictures are too large.
    has_too_large: AtomicBool,
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
    /// Decoded pixels of one group: less than the usual where the device has no memory for that.
    pixel_bytes_max: usize,
    /// Pictures of whole batches that were all refused, since there were no engines and one was decoded.
    refused: usize,
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

    /// Takes in how many of the pictures that they were asked for they refused or left out: whether they have come to do that with
    /// all.
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
        let kernel = Arc::new(Kernel::load(context)?);
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
        let open = || shared.streams.open(context);
        let (stream, engines_stream, looking) = (open()?, open()?, open()?);
        let lane = |_| Lane::new(context, [&stream, &engines_stream], handle, cores.as_ref());
        let lanes = (0..LANES).map(lane).collect::<Result<_>>()?;
        Ok(Self {
            shared: shared.clone(),
            kernel,
            stream,
            engines_stream,
            looking,
            left_out: Arc::default(),
            has_left_out: AtomicBool::new(false),
            has_too_large: AtomicBool::new(false),
            description: format!("nvJPEG {major}.{minor} {with}"),
            is_open: AtomicBool::new(true),
            fallbacks: Mutex::new(fallbacks),
            work: Mutex::new(Work {
                lanes,
                turn: 0,
                engines: engines.map(|(_, engines)| engines),
                pixel_bytes_max: PIXEL_BYTES_MAX,
                refused: 0,
            }),
        })
    }

    /// Decodes no more for this reason; what it had is free for others.
    fn close(&self, work: &mut Work, reason: &str) {
        self.is_open.store(false, Ordering::Relaxed);
        // Each waits for what it has begun.
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

    /// Says that groups are smaller from now on.
    fn say_of_little_memory(&self, error: &Error) {
        let device = self.shared.context.number;
        self.fallbacks.lock().push(format!(
            "CUDA device {device} has little memory left for decoding, so fewer pictures are decoded at once from now on: {error}"
        ));
    }

    /// Says that the host decodes some.
    fn say_of_large_pictures(&self, error: &Error) {
        if !self.has_too_large.swap(true, Ordering::Relaxed) {
            let device = self.shared.context.number;
            self.fallbacks.lock().push(format!(
                "CUDA device {device} has no memory for a picture that is large, the host decodes those for which there is none: {error}"
            ));
        }
    }

    /// Decodes on the cores alone from now on, if there are any.
    fn give_up_engines(&self, work: &mut Work, reason: &str) -> Result<()> {
        // Both lanes' decoders end with all that they were given done.
        self.settle()?;
        work.engines = None;
        work.lanes.iter_mut().for_each(|lane| lane.engines = None);
        let number = self.shared.context.number;
        if work.decodes() {
            self.fallbacks.lock().push(format!(
                "the engines of CUDA device {number} that decode JPEGs took none of the last {EVERY_MIN} or more, its ordinary cores decode \
                 them from now on: {reason}"
            ));
        }
        Ok(())
    }
}

impl Drop for DevicePictures {
    /// Whoever drops it does not wait for ever for a device that has stopped answering.
    fn drop(&mut self) {
        let lanes = std::mem::take(&mut self.work.get_mut().lanes);
        if !self.shared.context.is_ours() {
            return std::mem::forget(lanes);
        }
        // In this order: the lanes wait for what uses the rest.
        self.shared.end((lanes, self.kernel.clone(), self.left_out.clone()));
    }
}

impl PictureDecoder for DevicePictures {
    fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    fn describe(&self) -> String {
        self.description.clone()
    }

    fn pictures_min(&self) -> usize {
        if self.work.lock().engines.is_some() { 0 } else { CORES_MIN }
    }

    fn take_fallbacks(&self) -> Vec<String> {
        std::mem::take(&mut *self.fallbacks.lock())
    }

    fn submit(&self, batch: EncodedBatch<'_>) -> Result<DecodeOutcome> {
        let EncodedBatch { slot, bytes, outputs, rows, pictures, on_device } = batch;
        // Rows that were read there stay.
        let refuse_all = |slot, before: Option<Partial>| {
            let on_device = before.map(|before| Box::new(before.without(pictures)) as DeviceRows);
            DecodeOutcome::Rejected { slot, pictures: (0..pictures.len()).collect(), on_device }
        };
        let mut work = self.work.lock();
        let before = on_device.and_then(|rows| rows.downcast::<Partial>().ok()).map(|before| *before);
        let is_new = |picture: &RowPicture| before.as_ref().is_none_or(|before| !before.has(picture));
        let groups = cut(pictures, rows, is_new, work.extent_max(), work.pixel_bytes_max)?;
        if work.lanes.is_empty() && !groups.is_empty() {
            return Ok(refuse_all(slot, before));
        }
        let (context, stream) = (&self.shared.context, &self.stream);
        let ended = Arc::new(Event::new(context)?);
        let left_out = match LeftOut::take(&self.shared, &self.left_out, pictures.len(), stream) {
            Ok(left_out) => left_out,
            Err(error) if error.kind() == ErrorKind::Full => {
                self.close_without_memory(&mut work, &error);
                return Ok(refuse_all(slot, before));
            }
            Err(error) => return Err(error),
        };
        let (block, done) = match before {
            Some(before) => before.take_up(rows, outputs, stream)?,
            None => match self.shared.blocks.take(context, bytes, stream) {
                Ok(block) => (block, Default::default()),
                Err(error) if error.kind() == ErrorKind::Full => {
                    self.close_without_memory(&mut work, &error);
                    return Ok(refuse_all(slot, None));
                }
                Err(error) => return Err(error),
            },
        };
        let had_engines = work.engines.is_some();
        let tally = Tally::default();
        let mut passage = Passage { pictures: self, work: &mut work, slot, block, left_out, outputs, tally, done };
        let outcome = passage.run(groups, rows);
        let outcome = outcome.and_then(|refused| match refused.is_empty() {
            true => ended.record(stream.handle).map(|()| refused),
            false => Ok(refused),
        });
        let Passage { slot, block, left_out, tally, done, .. } = passage;
        let held = Held { slot, block, left_out };
        let pictures: Vec<_> = pictures.iter().map(|picture| (picture.output, picture.row)).collect();
        let (shared, rows) = (self.shared.clone(), rows.to_vec());
        let mut batch = Unended { shared, held: None, ended, rows, done, pictures, tally, had_engines };
        match outcome {
            Ok(refused) if refused.is_empty() => {
                batch.held = Some(held);
                Ok(DecodeOutcome::InFlight(Box::new(batch)))
            }
            Ok(refused) => {
                let Held { slot, block, left_out } = self.rest(held)?;
                let left_out = self.read(left_out)?;
                self.refuse(&mut work, batch, (slot, block), (refused, left_out))
            }
            Err(error) if error.kind() == ErrorKind::Full => {
                let Held { slot, block, left_out } = self.rest(held)?;
                self.read(left_out)?;
                self.close_without_memory(&mut work, &error);
                let Unended { rows, done, .. } = &mut batch;
                Ok(refuse_all(slot, Some(Partial::new(&self.shared, block, rows, std::mem::take(done)))))
            }
            Err(error) => {
                let Held { slot, block, .. } = held;
                if let Ok(filled) = slot.freeze() {
                    self.shared.keep_unnamed(filled, block);
                }
                Err(error)
            }
        }
    }

    fn wait(&self, batch: InFlightBatch) -> Result<DecodeOutcome> {
        let not_ours = || Error::internal("a batch under way is not this decoder's");
        let mut batch = *batch.downcast::<Unended>().map_err(|_| not_ours())?;
        // What it holds stays with it for as long as the device may use it.
        batch.ended.wait()?;
        let Held { slot, block, left_out } = batch.held.take().ok_or_else(not_ours)?;
        let left_out = self.read(left_out)?;
        let mut work = self.work.lock();
        if !left_out.is_empty() {
            return self.refuse(&mut work, batch, (slot, block), (Vec::new(), left_out));
        }
        self.judge_engines(&mut work, &batch.tally, 0)?;
        work.refused = 0;
        let on_engines = batch.pictures.iter().filter(|at| batch.done.get(at) == Some(&true)).count();
        let memory = Arc::new(DeviceBatch::new(&self.shared, block, batch.ended.clone()));
        Ok(DecodeOutcome::Done { memory, on_engines })
    }
}

impl DevicePictures {
    /// Which pictures of a batch were left out that the device is done with.
    fn read(&self, left_out: LeftOut) -> Result<Vec<usize>> {
        let left_out = left_out.read(&self.looking)?;
        if !left_out.is_empty() && !self.has_left_out.swap(true, Ordering::Relaxed) {
            let number = self.shared.context.number;
            self.fallbacks.lock().push(format!(
                "CUDA device {number} leaves pictures out that it has taken for decoding: these are found and decoded on the host"
            ));
        }
        Ok(left_out)
    }

    /// A batch that the device is done with goes back with its memory, since pictures were refused or left out. Gives up what refuses all.
    fn refuse(
        &self,
        work: &mut Work,
        mut batch: Unended,
        (slot, block): (BatchSlot, Block),
        (mut pictures, left_out): (Vec<usize>, Vec<usize>),
    ) -> Result<DecodeOutcome> {
        let removed = left_out.iter().map(|number| batch.done.remove(&batch.pictures[*number]));
        let by_engines = removed.filter(|by_engines| *by_engines == Some(true)).count();
        pictures.extend(left_out);
        pictures.sort_unstable();
        let Unended { rows, done, .. } = &mut batch;
        let partial = Partial::new(&self.shared, block, rows, std::mem::take(done));
        self.judge_engines(work, &batch.tally, by_engines)?;
        // The cores may take what engines refuse that are given up just now.
        let are_all = !batch.had_engines && pictures.len() == batch.pictures.len();
        work.refused = if are_all { work.refused + pictures.len() - batch.tally.without_memory } else { 0 };
        // Another batch may have closed it meanwhile.
        if !work.lanes.is_empty() && (!work.decodes() || work.refused >= EVERY_MIN) {
            self.close(work, &format!("took none of the last {EVERY_MIN} or more"));
        }
        Ok(DecodeOutcome::Rejected { slot, pictures, on_device: Some(Box::new(partial)) })
    }

    /// Gives the engines up if they have come to refuse all pictures or to leave them out, as so many of a batch's.
    fn judge_engines(&self, work: &mut Work, tally: &Tally, left_out: usize) -> Result<()> {
        let Tally { asked, refused, reason, .. } = *tally;
        let are_useless = |engines: &mut Engines| asked > 0 && engines.are_useless(asked, refused + left_out);
        if !work.engines.as_mut().is_some_and(are_useless) {
            return Ok(());
        }
        match reason {
            Some(reason) => self.give_up_engines(work, &reason.to_string()),
            None => self.give_up_engines(work, "the engines left them out without an error"),
        }
    }

    /// Waits on the host for all that batches have given to the device. Not for the device: that would wait for the model's work, and
    /// end a capture of a graph.
    fn settle(&self) -> Result<()> {
        self.stream.wait()?;
        self.engines_stream.wait()
    }

    /// Waits until the device is done with a batch that is not placed yet.
    fn rest(&self, held: Held) -> Result<Held> {
        match self.settle() {
            Ok(()) => Ok(held),
            Err(error) => {
                log::error!("a batch's memory is given up, the device may still use it: {error}");
                std::mem::forget(held);
                Err(error)
            }
        }
    }
}
