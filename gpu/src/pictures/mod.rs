//! JPEGs decoded on the device: files in page-locked rows to the rows of a batch.
//!
//! ```text
//! batch slot --groups--> files --share--> nvJPEG on engines --+--> scratch --kernel--> rows of the batch
//!      |                            \---> nvJPEG on cores  --/     (lane)                 |
//!      +--rows that are done, other outputs: copies-------------------------------------+--> event --> slot goes back
//! ```
//!
//! A batch goes through [`DevicePictures::place`] alone, on the loader's thread for such batches. Its pictures are decoded
//! in groups that fit into scratch memory, as a rule one. Refusals show when the library is called, before anything
//! counts on the pixels: the slot then goes back as it was, once the device is done with it.
//!
//! Untested on hardware: the tests run over stand-ins for driver and library in host memory.

mod groups;
mod lane;
mod share;

use crate::context::{Context, Event, Stream};
use crate::driver::checked;
use crate::kernel::{Batch, Kernel, Picture};
use crate::memory::Block;
use crate::nvjpeg::library::Library;
use crate::nvjpeg::{Batched, Handle, Job, Probe};
use crate::target::{DeviceBatch, Shared};
use cudarc::driver::result::memcpy_htod_async;
use forebay_loader::memory::BatchSlot;
use forebay_loader::sync::{Arc, AtomicBool, Mutex, Ordering};
use forebay_loader::target::{EncodedBatch, OutputPlace, PictureDecoder, Placed, RowPicture};
use forebay_loader::{Error, ErrorKind, Result};
use groups::{Group, Item, groups};
use lane::Lane;
use share::Share;
use std::ops::Range;

/// Groups under way: one that the device works on and one that the host prepares.
const LANES: usize = 2;

/// A batch of so many pictures that are all refused says that none will be taken: asking costs more than decoding.
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

/// What one batch at a time uses.
struct Work {
    /// None once decoding was given up.
    lanes: Vec<Lane>,
    /// The lane whose turn it is.
    turn: usize,
    engines: Option<Engines>,
}

/// The engines that do nothing else.
struct Engines {
    probe: Probe,
    share: Share,
}

impl std::fmt::Debug for DevicePictures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DevicePictures").field("decoder", &self.description).finish_non_exhaustive()
    }
}

impl DevicePictures {
    /// Opens what `library` offers on the target's device.
    ///
    /// # Errors
    ///
    /// What the driver and the library say; a device without engines is none.
    pub(crate) fn open(shared: &Arc<Shared>, library: Library) -> Result<Self> {
        let (context, library) = (&shared.context, Arc::new(library));
        let kernel = Kernel::load(context)?;
        let cores = Handle::on_cores(&library, context)?;
        let (major, minor) = cores.version()?;
        let (engines, fallbacks, with) = match open_engines(&library, context) {
            Ok((handle, count, engines)) => (Some((handle, engines)), Vec::new(), format!("with {count} engines")),
            Err(error) => {
                let sentence = format!(
                    "the engines of CUDA device {} that decode JPEGs cannot be used, its ordinary cores do it: {error}",
                    context.number
                );
                (None, vec![sentence], "without engines".to_owned())
            }
        };
        let handle = engines.as_ref().map(|(handle, _)| handle);
        let lanes = (0..LANES).map(|_| Lane::new(context, handle, &cores)).collect::<Result<_>>()?;
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
}

/// The backend on engines, how many there are, and what is asked of them.
fn open_engines(library: &Arc<Library>, context: &Arc<Context>) -> Result<(Arc<Handle>, u32, Engines)> {
    let handle = Handle::on_engines(library, context)?;
    let (engines, cores) = handle.engines()?;
    if engines == 0 {
        return Err(Error::new(ErrorKind::Unsupported, "there are none"));
    }
    let share = Share::new((engines * cores.max(1)) as usize);
    let probe = Probe::new(&handle)?;
    Ok((handle, engines, Engines { probe, share }))
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
        let EncodedBatch { slot, bytes, outputs, rows, pictures } = batch;
        let refuse_all = |slot| Placed::Refused { slot, pictures: (0..pictures.len()).collect() };
        let mut work = self.work.lock();
        if work.lanes.is_empty() {
            return Ok(refuse_all(slot));
        }
        let groups = groups(pictures, rows)?;
        let copied = Arc::new(Event::new(&self.shared.context)?);
        let block = match self.shared.blocks.take(&self.shared.context, bytes, &self.stream) {
            Ok(block) => block,
            Err(error) if error.kind() == ErrorKind::Full => {
                self.close_without_memory(&mut work, &error);
                return Ok(refuse_all(slot));
            }
            Err(error) => return Err(error),
        };
        let mut passage = Passage { pictures: self, work: &mut work, slot, block, outputs, on_engines: 0 };
        match passage.run(&groups, rows, pictures) {
            Ok(refused) if refused.is_empty() => {
                let Passage { slot, block, on_engines, .. } = passage;
                let recorded = copied.record(self.stream.handle);
                let filled =
                    slot.freeze().map_err(|_| Error::internal("a batch was placed before its rows were done"))?;
                if let Err(error) = recorded {
                    self.shared.keep_unnamed(filled, block);
                    return Err(error);
                }
                self.shared.keep_slot(copied.clone(), filled);
                let memory = Arc::new(DeviceBatch::new(&self.shared, block, copied));
                Ok(Placed::Done { memory, on_engines })
            }
            Ok(refused) => {
                let Passage { slot, block, .. } = passage;
                let slot = self.give_up(slot, block)?;
                if refused.len() == pictures.len() && refused.len() >= EVERY_MIN {
                    self.close(&mut work, "refuses all pictures");
                }
                Ok(Placed::Refused { slot, pictures: refused })
            }
            Err(error) if error.kind() == ErrorKind::Full => {
                let Passage { slot, block, .. } = passage;
                let slot = self.give_up(slot, block)?;
                self.close_without_memory(&mut work, &error);
                Ok(refuse_all(slot))
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
    /// Gives a batch back that is not placed, when the device is done with it.
    fn give_up(&self, slot: BatchSlot, block: Block) -> Result<BatchSlot> {
        match self.wait_for_streams() {
            Ok(()) => {
                self.shared.blocks.give_back(block, Vec::new());
                Ok(slot)
            }
            Err(error) => {
                log::error!("a batch's memory is given up, the device may still use it: {error}");
                std::mem::forget((slot, block));
                Err(error)
            }
        }
    }

    /// Waits on the host for what both streams were given.
    fn wait_for_streams(&self) -> Result<()> {
        self.wait_for(&self.engines_stream)?;
        self.wait_for(&self.stream)
    }

    /// Waits on the host for what `stream` was given.
    fn wait_for(&self, stream: &Stream) -> Result<()> {
        let event = Event::new(&self.shared.context)?;
        event.record(stream.handle)?;
        event.wait()
    }
}

/// One batch on its way.
struct Passage<'a> {
    pictures: &'a DevicePictures,
    work: &'a mut Work,
    slot: BatchSlot,
    block: Block,
    outputs: &'a [OutputPlace],
    on_engines: usize,
}

impl Passage<'_> {
    /// Gives the device all of the batch's work; says which pictures are refused, after which the rest is worth nothing.
    fn run(&mut self, groups: &[Group], rows: &[usize], pictures: &[RowPicture]) -> Result<Vec<usize>> {
        let mut refused = Vec::new();
        for group in groups {
            self.group(group, &mut refused)?;
        }
        if refused.is_empty() {
            self.copy_rows(rows, pictures)?;
        }
        refused.sort_unstable();
        Ok(refused)
    }

    /// Decodes a group and has the kernel write its rows.
    fn group(&mut self, group: &Group, refused: &mut Vec<usize>) -> Result<()> {
        let Self { pictures, work, slot, block, outputs, on_engines } = self;
        let Work { lanes, turn, engines } = &mut **work;
        *turn = (*turn + 1) % lanes.len();
        let lane = &mut lanes[*turn];
        let first = lane.rest()?;
        let scratch = lane.scratch(group.scratch_bytes())?;
        let filled: &[u8] =
            slot.bytes_mut().ok_or_else(|| Error::internal("a batch was placed before its rows were done"))?;
        let job = |item: &Item| {
            let place = &outputs[item.picture.output];
            let start = place.offset + item.picture.row * place.row_bytes;
            let file = &filled[start..start + item.picture.picture.bytes];
            (item.number, Job { file, region: item.region(), out: scratch + item.at as u64, pitch: item.pitch() })
        };
        let (mut on_engine, mut on_core) = (Vec::new(), Vec::new());
        let quota = engines.as_mut().map_or(0, |engines| {
            engines.share.learn(first);
            engines.share.of(group.items.len())
        });
        for item in &group.items {
            let (number, job) = job(item);
            let takes = |engines: &mut Engines| engines.probe.takes(job.file, job.region);
            let to_engine = on_engine.len() < quota && engines.as_mut().is_some_and(takes);
            if to_engine { &mut on_engine } else { &mut on_core }.push((number, job));
        }
        lane.begin();
        let before = refused.len();
        if let Some(decoder) = &mut lane.engines {
            let stream = &pictures.engines_stream;
            pictures.decode(decoder, &on_engine, stream, refused)?;
            lane.engines_done.record(stream.handle)?;
            lane.engines_done.hold_back(pictures.stream.handle)?;
        }
        pictures.decode(&mut lane.cores, &on_core, &pictures.stream, refused)?;
        lane.cores_done.record(pictures.stream.handle)?;
        *on_engines += on_engine.len();
        if refused.len() == before {
            pictures.write_rows(group, scratch, block, outputs)?;
        }
        lane.end(pictures.stream.handle, !on_engine.is_empty() && !on_core.is_empty())
    }

    /// Copies what is not a picture's file: row after row of each output, as far as rows lie side by side in both places.
    fn copy_rows(&mut self, rows: &[usize], pictures: &[RowPicture]) -> Result<()> {
        let Self { pictures: device, slot, block, outputs, .. } = self;
        let filled: &[u8] =
            slot.bytes_mut().ok_or_else(|| Error::internal("a batch was placed before its rows were done"))?;
        for (number, place) in outputs.iter().enumerate() {
            let is_file = |row: usize| pictures.binary_search_by_key(&(number, row), |p| (p.output, p.row)).is_ok();
            for (from, to) in runs(rows, is_file) {
                let bytes = place.offset + from.start * place.row_bytes..place.offset + from.end * place.row_bytes;
                let source = filled.get(bytes).ok_or_else(|| Error::internal("an output lies behind its batch"))?;
                let target = block.address + (place.offset + to * place.row_bytes) as u64;
                device.copy(target, source)?;
            }
        }
        Ok(())
    }
}

impl DevicePictures {
    /// Starts decoding `jobs`; adds the numbers of those that are refused.
    fn decode(
        &self,
        decoder: &mut Batched,
        jobs: &[(usize, Job<'_>)],
        stream: &Stream,
        refused: &mut Vec<usize>,
    ) -> Result<()> {
        // Halves that are still to be decoded.
        let (mut left, mut is_halved) = (vec![jobs], false);
        while let Some(jobs) = left.pop().filter(|jobs| !jobs.is_empty()) {
            if is_halved {
                // The decoder works on another half, or on what it began of a batch that it then refused.
                self.wait_for(stream)?;
            }
            let only: Vec<Job<'_>> = jobs.iter().map(|(_, job)| *job).collect();
            // SAFETY: the decoder's lane is at rest, or what it was given has been waited for; the slot is held and not
            // written until an event or the whole device says that it has been read; the places are the lane's, and a part
            // of them each.
            let answer = unsafe { decoder.decode(&only, stream.handle) }?;
            let Err(refusal) = answer else { continue };
            if refusal.is_of_memory() || !refusal.is_of_a_picture() {
                return Err(Error::from(refusal).with("device", self.shared.context.number));
            }
            is_halved = true;
            match *jobs {
                [(number, _)] => refused.push(number),
                _ => {
                    let (front, back) = jobs.split_at(jobs.len() / 2);
                    left.extend([back, front]);
                }
            }
        }
        Ok(())
    }

    /// Has the kernel write the rows of a group that is being decoded into `scratch`.
    fn write_rows(&self, group: &Group, scratch: u64, block: &Block, outputs: &[OutputPlace]) -> Result<()> {
        let list = group.items.iter().map(|item| item.for_kernel(scratch)).collect::<Result<Vec<Picture>>>()?;
        let list_at = scratch + group.pixel_bytes as u64;
        // Ordinary memory: the driver takes it over before it answers.
        self.copy(list_at, Picture::bytes_of(&list))?;
        let mut before = 0;
        for items in group.by_output() {
            let place = &outputs[items[0].picture.output];
            let form = place.form.ok_or_else(|| Error::internal("a file in an output without pictures"))?;
            let batch = Batch::new(
                block.address + place.offset as u64,
                form.size,
                form.dtype,
                form.layout,
                form.scale,
                form.offset,
            )?;
            let at = list_at + (before * size_of::<Picture>()) as u64;
            // SAFETY: the list holds so many pictures whose pixels are scratch memory's, which nothing else touches before
            // the lane's event has fired; their rows lie in the block, which is this batch's.
            unsafe { self.kernel.launch(at, items.len(), &batch, &self.stream) }?;
            before += items.len();
        }
        Ok(())
    }

    /// Starts copying `source` to `target` on the stream.
    fn copy(&self, target: u64, source: &[u8]) -> Result<()> {
        self.shared.context.enter(|| {
            // SAFETY: registered memory is the slot's, which is held and not written until the batch's event has fired; of
            // other memory the driver keeps a copy. The place is the block's or the lane's, and long enough.
            let answer = unsafe { memcpy_htod_async(target, source, self.stream.handle) };
            checked(answer, "cuMemcpyHtoDAsync")
        })
    }
}

/// Runs of the kept `rows` that are not files: where they lie, and which row the first becomes.
fn runs(rows: &[usize], is_file: impl Fn(usize) -> bool) -> Vec<(Range<usize>, usize)> {
    let mut runs: Vec<(Range<usize>, usize)> = Vec::new();
    for (to, row) in rows.iter().copied().enumerate().filter(|(_, row)| !is_file(*row)) {
        match runs.last_mut() {
            Some((from, first)) if from.end == row && *first + from.len() == to => from.end += 1,
            _ => runs.push((row..row + 1, to)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn rows_are_copied_in_runs_round_files_and_gaps() {
        assert_eq!(runs(&[0, 1, 2, 3], |_| false), [(0..4, 0)]);
        assert_eq!(runs(&[0, 1, 3, 4], |_| false), [(0..2, 0), (3..5, 2)], "row 2 was given up");
        assert_eq!(runs(&[0, 1, 2, 3], |row| row == 1), [(0..1, 0), (2..4, 2)], "row 1 is a file");
        assert_eq!(runs(&[1, 2], |_| true), []);
    }
}
