//! A batch's way to the device: its pictures group by group, then the rows that are no pictures.

use super::groups::{Group, Item};
use super::lane::Timed;
use super::{DevicePictures, Engines, Work};
use crate::context::Stream;
use crate::driver::checked;
use crate::kernel::{Batch, Picture};
use crate::memory::Block;
use crate::nvjpeg::{Job, Refusal};
use crate::partial::Done;
use crate::rows::copy_rows;
use cudarc::driver::result::memcpy_htod_async;
use forebay_loader::memory::BatchSlot;
use forebay_loader::target::OutputPlace;
use forebay_loader::{Error, Result};

/// Pictures that a backend does not decode.
#[derive(Default)]
struct Refused {
    /// Their numbers.
    numbers: Vec<usize>,
    /// What the library said to the last of them.
    reason: Option<Refusal>,
}

/// One batch on its way.
pub(super) struct Passage<'a> {
    pub(super) pictures: &'a DevicePictures,
    pub(super) work: &'a mut Work,
    pub(super) slot: BatchSlot,
    pub(super) block: Block,
    pub(super) outputs: &'a [OutputPlace],
    /// Rows that are there, or will be in the streams' order.
    pub(super) done: Done,
}

impl Passage<'_> {
    /// Gives the device all of the batch's work; says which pictures are refused. Then rows that are no pictures wait for
    /// the batch to come again: it may have fewer of them.
    pub(super) fn run(&mut self, groups: &[Group], rows: &[usize]) -> Result<Vec<usize>> {
        let mut refused = Vec::new();
        for group in groups {
            self.group(group, &mut refused)?;
        }
        if refused.is_empty() {
            self.copy_rows(rows)?;
        }
        refused.sort_unstable();
        Ok(refused)
    }

    /// Decodes a group and has the kernel write its rows.
    fn group(&mut self, group: &Group, refused: &mut Vec<usize>) -> Result<()> {
        let Self { pictures, work, slot, block, outputs, done } = self;
        let Work { lanes, turn, engines } = &mut **work;
        *turn = (*turn + 1) % lanes.len();
        let lane = &mut lanes[*turn];
        let took = lane.rest()?;
        let scratch = lane.scratch(group.scratch_bytes())?;
        let filled: &[u8] =
            slot.bytes_mut().ok_or_else(|| Error::internal("a batch was placed before its rows were done"))?;
        let job = |item: &Item| {
            let file = &filled[item.picture.at..][..item.picture.picture.bytes];
            (item.number, Job { file, region: item.region(), out: scratch + item.at as u64, pitch: item.pitch() })
        };
        let (mut on_engine, mut on_core) = (Vec::new(), Vec::new());
        let quota = engines.as_mut().map_or(0, |engines| {
            engines.share.learn(took);
            if lane.cores.is_some() { engines.share.of(group.items.len()) } else { group.items.len() }
        });
        for item in &group.items {
            let (number, job) = job(item);
            let takes = |engines: &mut Engines| engines.probe.takes(job.file, job.region);
            let to_engine = on_engine.len() < quota && engines.as_mut().is_some_and(takes);
            if to_engine { &mut on_engine } else { &mut on_core }.push((number, job));
        }
        lane.begin();
        let stream = pictures.stream.handle;
        let mut gives_up_engines = None;
        if let Some(decoder) = &mut lane.engines {
            let by_engines = pictures.decode(decoder, &on_engine, &pictures.engines_stream)?;
            // What engines refuse the cores may take.
            let asked = on_engine.len();
            let is_refused = |job: &(usize, Job<'_>)| by_engines.numbers.contains(&job.0);
            on_core.extend(on_engine.extract_if(.., |job| is_refused(job)));
            if !by_engines.numbers.is_empty() {
                // Engines may have begun with it, and write to its place.
                decoder.done.hold_back(stream)?;
            }
            let is_too_much = |engines: &mut Engines| engines.are_useless(asked, by_engines.numbers.len());
            let are_useless = engines.as_mut().is_some_and(is_too_much);
            gives_up_engines = by_engines.reason.filter(|_| are_useless);
        }
        let by_cores = match &mut lane.cores {
            Some(decoder) => pictures.decode(decoder, &on_core, &pictures.stream)?.numbers,
            None => on_core.iter().map(|(number, _)| *number).collect(),
        };
        if let Some(engines) = &lane.engines {
            engines.done.hold_back(stream)?;
        }
        let is_taken = |item: &&Item| !by_cores.contains(&item.number);
        let taken: Vec<Item> = group.items.iter().filter(is_taken).copied().collect();
        refused.extend(&by_cores);
        let by_engines = |item: &Item| on_engine.iter().any(|(number, _)| *number == item.number);
        done.extend(taken.iter().map(|item| (item.key(), by_engines(item))));
        pictures.write_rows(&taken, scratch, scratch + group.pixel_bytes as u64, block, outputs)?;
        lane.end(stream)?;
        match gives_up_engines {
            Some(reason) => pictures.give_up_engines(work, reason),
            None => Ok(()),
        }
    }

    /// Copies what is not there yet.
    fn copy_rows(&mut self, rows: &[usize]) -> Result<()> {
        let Self { pictures: device, slot, block, outputs, done, .. } = self;
        let filled: &[u8] =
            slot.bytes_mut().ok_or_else(|| Error::internal("a batch was placed before its rows were done"))?;
        // SAFETY: the slot is held and not written until the batch's event has fired or the whole device has been waited for.
        unsafe { copy_rows(&device.shared.context, &device.stream, filled, block, outputs, rows, done) }
    }
}

impl DevicePictures {
    /// Starts decoding `jobs`; says which are refused, and what the library last said.
    fn decode(&self, timed: &mut Timed, jobs: &[(usize, Job<'_>)], stream: &Stream) -> Result<Refused> {
        timed.begin(stream.handle)?;
        let mut refused = Refused::default();
        // Halves that are still to be decoded.
        let (mut left, mut is_halved) = (vec![jobs], false);
        while let Some(jobs) = left.pop().filter(|jobs| !jobs.is_empty()) {
            if is_halved {
                // The decoder works on another half, or on what it began of a batch that it then refused.
                self.shared.context.synchronize()?;
            }
            let only: Vec<Job<'_>> = jobs.iter().map(|(_, job)| *job).collect();
            // SAFETY: the decoder's lane is at rest, or what it was given has been waited for; the slot is held and not
            // written until an event or the whole device says that it has been read; the places are the lane's, and a part
            // of them each.
            let answer = unsafe { timed.decoder.decode(&only, stream.handle) }?;
            let Err(refusal) = answer else { continue };
            if refusal.is_of_memory() {
                return Err(Error::from(refusal).with("device", self.shared.context.number));
            }
            is_halved = true;
            match *jobs {
                [(number, _)] => {
                    refused.numbers.push(number);
                    refused.reason = Some(refusal);
                }
                _ => {
                    let (front, back) = jobs.split_at(jobs.len() / 2);
                    left.extend([back, front]);
                }
            }
        }
        // Halves say nothing of what pictures take.
        timed.end(stream.handle, if is_halved { 0 } else { jobs.len() })?;
        Ok(refused)
    }

    /// Has the kernel write the rows of `items`, ordered by output, which are being decoded into `scratch`; its list of them
    /// goes to `list_at`.
    fn write_rows(
        &self,
        items: &[Item],
        scratch: u64,
        list_at: u64,
        block: &Block,
        outputs: &[OutputPlace],
    ) -> Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        let list = items.iter().map(|item| item.for_kernel(scratch)).collect::<Result<Vec<Picture>>>()?;
        // Ordinary memory: the driver takes it over before it answers.
        self.copy(list_at, Picture::bytes_of(&list))?;
        let mut before = 0;
        for items in items.chunk_by(|a, b| a.picture.output == b.picture.output) {
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
